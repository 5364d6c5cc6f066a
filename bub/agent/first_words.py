"""The first words of a model that was just chosen, so that a person sees that it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import trio
from msgspec.structs import replace

from bub.agent.models.chat import stream_chat
from bub.agent.models.endpoint import Endpoint
from bub.agent.models.faults import silent
from bub.agent.models.request import ChatRequest
from bub.errors import ModelError
from bub.pipeline.plan.providers import LOCAL
from bub.streaming import AsyncStreamEvents

__all__ = ["CallModel", "hear", "hear_local"]

CallModel: TypeAlias = Callable[[Mapping[str, Any], str], Awaitable[AsyncStreamEvents | None]]
"""What asks the plugin that brings a model itself, with a request and the id of a session."""

PATIENCE = 10.0
"""Seconds that a provider has for the beginning of an answer."""

_LOCAL_PATIENCE = 60.0
"""Seconds for the model on this machine, which has to be loaded first."""

_GREETING = "Say hello in one short sentence."
_MOST_SHOWN = 200
"""How much of the answer is shown, in characters."""

_LOCAL_TOKENS = 40


async def hear(client: Any, endpoint: Endpoint) -> str:
    """Return the beginning of a provider's answer, in one line. Raises `ModelError`."""
    patient = replace(endpoint, timeout=PATIENCE, retries=0)
    ask = partial(stream_chat, client, patient, ChatRequest.of_prompt(_GREETING))
    words = await _listen(ask, PATIENCE)
    if words is None:
        raise silent(patient)
    return words


async def hear_local(call_model: CallModel, model: str) -> str:
    """Return the beginning of the answer of the model on this machine, in one line. Raises `ModelError`."""

    async def ask() -> AsyncStreamEvents:
        message = {"role": "user", "content": _GREETING}
        events = await call_model({"model": model, "messages": [message], "max_tokens": _LOCAL_TOKENS}, "")
        if events is None:
            raise ModelError(f"no plugin answers as `{model}`", kind="config", provider=LOCAL)
        return events

    words = await _listen(ask, _LOCAL_PATIENCE)
    if words is None:
        raise ModelError(f"`{model}` said nothing for {_LOCAL_PATIENCE:.0f} seconds", kind="timeout", provider=LOCAL)
    return words


async def _listen(ask: Callable[[], Awaitable[AsyncStreamEvents]], seconds: float) -> str | None:
    """Return the beginning of an answer; None if there is none in time."""
    words, has_begun = "", False
    with trio.move_on_after(seconds) as patience:
        events = await ask()
        try:
            async for event in events:
                has_begun = True  # a model that thinks has its words later
                if event.kind == "text":
                    words += str(event.data["delta"])
                if len(words) > _MOST_SHOWN:
                    break
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await events.aclose()
    if patience.cancelled_caught and not has_begun:
        return None
    line = " ".join(words.split()) or "…"
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
