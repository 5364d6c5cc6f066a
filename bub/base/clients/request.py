"""What a program brings with its message if it asks Bub as it would ask a model.

No message can say this of itself: whoever begins the turn says it, in the call, or a channel with the message that it
made. So no body of a request, however it is passed on, brings tools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

NO_TOOL_CHOICE = "none"
"""The `tool_choice` with which the model is offered no tool of the program."""


class ClientTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the program runs itself: the model calls it, and the call ends the turn.

    `parameters` is the JSON Schema of its arguments.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = {}


class ClientResult(msgspec.Struct, frozen=True):
    """What came of a call that an earlier turn has handed back to the program, by the id of the call."""

    call_id: str
    content: str


class ClientRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a program brings beside the words of its message.

    If it is not `is_kept`, nothing of the turn is put on a tape, and no session is remembered; `earlier` are then the
    messages in front of the prompt, in the form of OpenAI's chat without system messages. `results` answer the calls at
    the end of `earlier`, or those that ended the last turn of the session; they take the place of the prompt, whose
    text is then `text_of_results`.

    `tools` are offered beside those of the profile. `tool_choice` is "auto", "required", "none" or the name of one of
    them; with `one_at_a_time` the model may call only one of them in an answer. `max_tokens`, `temperature` and
    `reasoning` count for each request to the model; None leaves them to the settings.
    """

    is_kept: bool = True
    earlier: Sequence[Mapping[str, Any]] = ()
    results: Sequence[ClientResult] = ()
    tools: Sequence[ClientTool] = ()
    tool_choice: str | None = None
    one_at_a_time: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning: str | None = None

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> ClientRequest | None:
        """Read what a channel has put into a message with `as_dict`; None if it has put nothing there."""
        return msgspec.convert(kept, cls) if kept else None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON knows it, for a message that is kept."""
        said: dict[str, Any] = msgspec.to_builtins(self)
        return said


def text_of_results(results: Sequence[ClientResult]) -> str:
    """Return results as one text, for the stages that judge what comes in."""
    return "\n\n".join(f"[result of the call {one.call_id}]\n{one.content}" for one in results)
