"""The short sentence that somebody reads whose turn failed, or whose answer was cut.

The log has the rest, of a failure under an id (T30).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import trio

from bub.channels.message import ERROR, NOTE, ChannelMessage
from bub.errors import BubError, ModelError, NoAnswerError
from bub.streaming import StreamEvent

_SENTENCES = {
    "config": "The model is not set up correctly.",
    "refused_key": "The model is not set up correctly.",
    "unreachable": "The model cannot be reached at the moment.",
    "rate_limited": "The model has too much to do at the moment. Try again in a while.",
    "server": "The model has trouble at the moment. Try again in a while.",
    "timeout": "The model took too long to answer.",
    "cut_stream": "The model's answer was cut off.",
    "context_overflow": "This conversation has become too long for the model.",
}

INTERRUPTED = "Bub was interrupted several times while it answered this, and does not try again."
_NO_MODEL = "There is no model that could answer."
_TOO_LONG = "It took too long."
_OTHERWISE = "Something went wrong while answering."

_ENDS = {
    "length": "The answer is cut: it has reached the longest length that it may have.",
    "content_filter": "The answer is cut: the content filter of the provider stopped it.",
    "limit": "The answer ends early: its turn has reached a limit.",
}


def note_end(message: ChannelMessage, replies: Sequence[ChannelMessage], end: StreamEvent) -> list[ChannelMessage]:
    """The note below the `replies` to a message, if the answer, whose last event is `end`, is not whole; else none.

    It also says if the conversation was summed up for the answer. There is none if nothing of the answer goes to the
    chat, such as if a gate denied it.
    """
    answers = [reply for reply in replies if (reply.channel, reply.chat_id) == (message.channel, message.chat_id)]
    compaction = str(end.data.get("compaction") or "")
    summed_up = f"{compaction[0].upper()}{compaction[1:]}." if compaction else ""
    said = "\n".join(filter(None, (summed_up, _ENDS.get(str(end.data.get("finish_reason"))))))
    if not said or not answers or answers[-1].kind != "normal":
        return []
    return [replace(answers[-1], content=said, kind=NOTE, context={}, media=(), once="", draft="")]


def apology(message: ChannelMessage, error: BaseException | str, error_id: str, *, in_full: bool) -> ChannelMessage:
    """The one reply to a message whose turn failed with `error`.

    What the error says stays in the log, since it may tell strangers about this machine; who sits at it reads it
    `in_full`.
    """
    return replace(
        ChannelMessage(message.channel, message.chat_id, session_id=message.session_id, kind=ERROR),
        content=f"{_in_full(error) if in_full else _sentence(error)} (error {error_id})",
        answers=message.message_id,
    )


def _sentence(error: BaseException | str) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, ModelError):
        return _SENTENCES.get(error.kind, _OTHERWISE)
    if isinstance(error, NoAnswerError):
        return _NO_MODEL
    return _TOO_LONG if isinstance(error, trio.TooSlowError) else _OTHERWISE


def _in_full(error: BaseException | str) -> str:
    said = str(error).strip() or type(error).__name__
    help_ = error.help if isinstance(error, BubError) else None
    return f"{said} ({help_})" if help_ else said
