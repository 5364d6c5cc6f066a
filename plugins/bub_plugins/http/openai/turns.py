"""The turn that answers a request: one that leaves nothing behind, or one of a session, through the inbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, NoReturn
from uuid import uuid4

import trio

from bub.channels import CannotAskError, ChannelMessage, Surface
from bub.log import log_exception, log_info
from bub.streaming import StreamEvent
from bub_plugins.http.asking import DRAFT
from bub_plugins.http.clients import Client, chat_of_client
from bub_plugins.http.door import CHANNEL, Door
from bub_plugins.http.openai.asked import Asked
from bub_plugins.http.openai.errors import LIMIT, SERVER, ApiError, explain_failure
from bub_plugins.http.openai.outcome import Outcome, outcome_of
from bub_plugins.http.settings import may_ask

MOST_TURNS = 16
"""How many requests of one client may be under way at once."""

Tell = Callable[[str], None]
"""Gets each piece of the answer as it may be shown."""

_LOOK_AGAIN = 5.0
"""How often, in seconds, it is asked whether a message that waits may still be answered."""

_DENIED, _ERROR, _NOTE = "denied", "error", "note"
_TEMPORARY = "temp/"


class Room:
    """How many requests of each client are under way."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()

    @contextmanager
    def taken(self, client: Client) -> Iterator[None]:
        """Have one more under way inside. Raises `ApiError` (429) if that is too many."""
        if self._count[client.id] >= MOST_TURNS:
            problem = f"{MOST_TURNS} requests of this token are under way, and more are not answered at once."
            raise ApiError(429, problem, type=LIMIT, code="rate_limit_exceeded", retry_after=1)
        self._count[client.id] += 1
        try:
            yield
        finally:
            self._count[client.id] -= 1
            if not self._count[client.id]:
                del self._count[client.id]


async def answer(door: Door, client: Client, asked: Asked, request_id: str, trace: str, tell: Tell) -> Outcome:
    """Answer a request, which is known by an id; `tell` gets the text as it comes. Raises `ApiError`.

    A cancellation ends a turn without a session; one of a session goes on, since it is kept.
    """
    name = asked.session
    chat = chat_of_client(client, name or request_id)
    address = ChannelMessage(
        CHANNEL,
        chat,
        session_id=f"{'' if name else _TEMPORARY}{CHANNEL}:{chat}",
        sender_id=client.id,
        message_id=request_id,
        trace=trace,
        profile=asked.model,
    )
    message = asked.message(address)
    return await (_answer_in_session(door, asked, message, tell) if name else _answer_alone(door, asked, message, tell))


async def _answer_in_session(door: Door, asked: Asked, message: ChannelMessage, tell: Tell) -> Outcome:
    end = StreamEvent("final")
    kept = _with_request(message, asked)
    async with door.askers.asking(kept) as asker:
        while True:
            came: list[StreamEvent] = []
            with trio.move_on_after(_LOOK_AGAIN):
                came = await asker.events()
            for event in came:
                if event.kind == "final":
                    end = event
                elif event.kind == "text":
                    tell(str(event.data.get("delta", "")))
            if not came and asker.is_answered:
                break
            if not came:
                _check_allowed(door, message)
        asker.is_told = True
        replies = asker.replies
    failures = [reply.content for reply in replies if reply.kind == _ERROR]
    if failures:
        raise ApiError(500, failures[0], type=SERVER, code="internal_error", is_kept=True)
    if not end.data and not any(reply.content for reply in replies):
        _check_allowed(door, message)
        problem = (
            "Nobody answered this message here: a plugin dropped it, or another gateway has the calls of its tools."
        )
        raise ApiError(500, problem, type=SERVER, code="not_answered", is_kept=True)
    denied = any(reply.kind == _DENIED for reply in replies)
    return outcome_of(_text_of(replies, message), end, is_denied=denied)


def _check_allowed(door: Door, message: ChannelMessage) -> None:
    """Raise `ApiError` (403) if who asked may not any more: what nobody admits is set aside, and never answered."""
    if not may_ask(door.settings, message.chat_id, message.profile):
        problem = "This token may not ask any more: the settings of Bub have changed."
        raise ApiError(403, problem, code="not_allowed")


async def _answer_alone(door: Door, asked: Asked, message: ChannelMessage, tell: Tell) -> Outcome:
    end, replies, began = StreamEvent("final"), list[ChannelMessage](), perf_counter()

    def hear(event: StreamEvent, heard: Any) -> None:
        nonlocal end
        if event.kind == "final":
            end = event
        elif event.kind == "text":
            tell(str(event.data.get("delta", "")))

    async def take(reply: Any) -> bool:
        own = ChannelMessage.of(reply)
        if (own.channel, own.chat_id) != (message.channel, message.chat_id):
            return False  # nobody keeps it, so no other channel gets it
        replies.append(own)
        return True

    outcome = "cancelled"
    turn = door.framework.begin(
        message,
        on_event=hear,
        ask=_deny,
        dispatch=take,
        surface=Surface.CHANNEL,
        profile=asked.model,
        request=asked.request,
    )
    try:
        await turn.arrive()
        if not turn.is_over:
            await turn.hold()
        result = await turn.answer()
        outcome = str(result.ended_by or "ok").partition(":")[0]
    except Exception as error:  # noqa: BLE001 (the client learns that it failed, and the log why)
        outcome = "failed"
        raise note_failure(door, message.session_id, error) from None
    finally:
        seconds = perf_counter() - began
        door.framework.counts.turn(asked.model, outcome, turn.trace, seconds)
        log_info("turn.ended", session=message.session_id, outcome=outcome, seconds=round(seconds, 3))
        await turn.close()
    return outcome_of(_text_of(replies, message), end, is_denied=outcome == _DENIED)


def note_failure(door: Door, session: str, error: Exception) -> ApiError:
    """Note that a turn failed, and return what the client may know of it."""
    error_id = uuid4().hex[:8]
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    door.framework.counts.failure("turn")
    log_exception("turn.failed", error, id=error_id, session=session)
    return explain_failure(error, error_id)


async def _deny(question: Any) -> NoReturn:
    raise CannotAskError("nobody is asked for a request without a session, since it cannot wait for them")


def _with_request(message: ChannelMessage, asked: Asked) -> ChannelMessage:
    return replace(message, request=asked.request.as_dict(), draft=DRAFT)


def _text_of(replies: Sequence[ChannelMessage], asked: ChannelMessage) -> str:
    own = [one for one in replies if (one.channel, one.chat_id) == (asked.channel, asked.chat_id)]
    return "\n\n".join(one.content for one in own if one.kind != _NOTE and one.content)
