"""The witness: gets every failure of a rehearsed turn, and stands in for the model that the agent asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from bub.hookspecs import hookimpl
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.testing.proving.answers import ANSWER
from bub.testing.rehearsal import Witness

_HARMLESS = "fs.list"
"""The tool that is called if it is offered: it reads what is in the workspace."""


class ModelWitness(Witness):
    """A model that calls one tool, if one is offered that wants no arguments, and then answers."""

    @hookimpl
    async def call_model(self, request: dict[str, Any]) -> AsyncStreamEvents:
        """Answer in place of every model."""
        has_called = any(message.get("role") == "tool" for message in request["messages"])
        tool = None if has_called else _tool_among(request["tools"])
        return AsyncStreamEvents(_events(tool))


async def _events(tool: str | None) -> AsyncIterator[StreamEvent]:
    if tool is not None:
        yield StreamEvent("tool_call", {"id": "1", "name": tool, "arguments": {}, "raw": "{}"})
    else:
        for piece in ANSWER:
            yield StreamEvent.text(piece)
    yield StreamEvent("final", {"finish_reason": "tool_calls" if tool is not None else "stop"})


def _tool_among(offered: Sequence[Mapping[str, Any]]) -> str | None:
    wanting_nothing = [str(tool["name"]) for tool in offered if not tool["parameters"].get("required")]
    return _HARMLESS if _HARMLESS in wanting_nothing else next(iter(wanting_nothing), None)
