"""The call that runs, and how its tool can ask the person something meanwhile, in the name of its server."""

from __future__ import annotations

from contextvars import ContextVar

import msgspec

from bub.agent.calls.consent import Consent
from bub.approval import Answer
from bub.asking import Form
from bub.log import log_warning
from bub.tools import Tool


class RunningCall(msgspec.Struct, frozen=True):
    """A call while its tool runs. What a person answers here allows no call."""

    consent: Consent
    tool: Tool
    call_id: str
    session_id: str

    async def fill(self, form: Form) -> Answer:
        """Put a form to the person of the turn. Without `content` in the answer it is declined: `words` say why."""
        answer = await self.consent.fill(form, self.tool, self.call_id, self.session_id)
        if answer.content is None and answer.words:
            await self.decline(form.asker, answer.words)
        return answer

    async def decline(self, asker: str, why: str) -> None:
        """Say in the turn and in the log that nobody answers what somebody asks."""
        log_warning("tool.question_declined", tool=self.tool.name, asker=asker, why=why)
        await self.consent.notify(f"{asker} has a question, but Bub asks nobody: {why}")


current_call: ContextVar[RunningCall | None] = ContextVar("bub_call", default=None)
"""The call that a task runs for; set while its tool runs."""
