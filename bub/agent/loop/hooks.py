"""The hook points that the loop itself fires, of those that its turn has."""

from __future__ import annotations

from typing import Any

from bub.agent.loop.amendments import amend_request, copy_request
from bub.agent.loop.answer import ModelAnswer
from bub.agent.task import Task


class LoopHooks:
    """Fires for one turn."""

    def __init__(self, task: Task) -> None:
        self._task = task

    async def fire(self, point: str, **payload: Any) -> Any:
        """Return what a hook point answers; None if this turn does not have it."""
        fire = self._task.fire
        if fire is None or point not in fire:
            return None
        return await fire(point, session_id=self._task.session_id, **payload)

    async def amend(self, system: str, request: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Return the request as the plugins want it, and the text to finish with instead of asking (A19)."""
        amended, finish = await amend_request(request, self.fire)
        if self._task.prefixes is not None and finish is None:
            own = request["messages"]
            self._task.prefixes.watch(self._task.session_id, system, own, amended["messages"])
        return amended, finish

    async def observe(self, answer: ModelAnswer, error: Exception | None = None) -> None:
        """Report an answer, or why there is none, once (BEHAVIOURS A22)."""
        if not answer.is_observed:
            answer.is_observed = True
            await self.fire("after_llm_call", request=copy_request(answer.request), response=answer.as_response(error))

    async def ask_to_go_on(self, step: int) -> str | None:
        """Return what the model is asked after the results of a step, if a plugin wants it to go on."""
        said = await self.fire("continue_prompt", step=step)
        return str(said) if said else None
