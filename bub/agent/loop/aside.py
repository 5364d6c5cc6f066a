"""Asking the model beside the conversation: the person does not see the answer, but it is on the bill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import trio

from bub.agent import late
from bub.agent.costs.ledger import Ledger
from bub.agent.loop.amendments import amend_request, as_asked, new_request
from bub.agent.loop.answer import ModelAnswer
from bub.agent.loop.hooks import LoopHooks
from bub.agent.task import Task
from bub.errors import BubError
from bub.hooks.kinds.stream import close_stream
from bub.plugins.view import ProfileView
from bub.streaming import AsyncStreamEvents


class Aside:
    """Asks for one turn; plugins see these requests as they see the others, and may change them."""

    def __init__(self, framework: ProfileView, task: Task, hooks: LoopHooks, ledger: Ledger) -> None:
        self._framework = framework
        self._task = task
        self._hooks = hooks
        self._ledger = ledger
        self.silence: float | None = None
        """After how many seconds without a word the model is given up."""

    async def ask(self, messages: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any], step: int) -> ModelAnswer:
        """Return the whole answer of the model that the session has `chosen`. Raises BubError if there is none."""
        request = new_request(chosen, [dict(message) for message in messages], step)
        request, finish = await amend_request(request, self._hooks.fire)
        if finish is not None:
            raise BubError("a plugin answered in place of the model")
        answer = ModelAnswer(request)
        try:
            await self._hear(answer)
        except trio.Cancelled:
            answer.end("cancelled")
            raise
        except Exception as error:
            self._note(answer, "failed")
            answer.end("failed", error)
            await self._hooks.observe(answer, error)
            raise
        self._note(answer, "ok")
        answer.end("ok")
        await self._ledger.spend(answer.usage, request["messages"], answer.text)
        await self._hooks.observe(answer)
        return answer

    async def _hear(self, answer: ModelAnswer) -> None:
        request = answer.request
        asking = late.Asking(self._framework, request["model"], as_asked(request), self._task.session_id, self.silence)
        while not isinstance(came := await asking.go_on(), AsyncStreamEvents):
            pass  # the pause is waited for with the next call
        request["model"], answer.activity = asking.model, asking.activity
        assert answer.activity is not None
        answer.activity.data["purpose"] = "summary"
        try:
            async for event in came:
                answer.keep(event, ())
        finally:
            await close_stream(came)

    def _note(self, answer: ModelAnswer, outcome: str) -> None:
        self._ledger.note(answer.request["model"], answer.usage, outcome, perf_counter() - answer.asked_at)
