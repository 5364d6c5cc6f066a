"""The agent that a turn's state has as `_runtime_agent`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from bub_reference.streaming import AsyncStreamEvents, StreamEvent
from bub_reference.turn import TurnState

if TYPE_CHECKING:
    from bub_reference.framework import BubFramework


class Agent:
    """Answers prompts with Bub's own turn."""

    def __init__(self, framework: BubFramework) -> None:
        self.framework = framework

    async def run_stream(
        self, *, session_id: str, prompt: str | list[dict[str, Any]], state: TurnState, **_: Any
    ) -> AsyncStreamEvents:
        """The answer to a prompt, in a session beside the one whose turn asks: that one waits for this."""
        message = {"content": prompt, "session_id": f"{session_id}/agent", "channel": "agent", "chat_id": session_id}
        result = await self.framework.process_inbound(message)

        async def tell() -> AsyncIterator[StreamEvent]:
            yield StreamEvent("text", {"delta": result.model_output})
            yield StreamEvent("final", {"text": result.model_output, "ok": True})

        return AsyncStreamEvents(tell())
