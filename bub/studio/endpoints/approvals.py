"""Questions that wait for a yes or a no, and the operator's answers to them."""

from __future__ import annotations

from typing import Any

from bub.inbox.questions import AskedQuestion
from bub.studio.requests import Asked
from bub.studio.studio import Studio
from bub.studio.views.loaded import NotThereError


async def list_approvals(studio: Studio, asked: Asked) -> dict[str, Any]:
    """List the questions that nobody has answered yet, with the very arguments that a yes would be for."""
    found = []
    for begin, desk in studio.desks.items():
        found += [_describe(f"{begin}{question.id}", question) for question in await desk.questions()]
    return {"open": sorted(found, key=lambda one: one["at"])}


async def answer(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Take an answer of who has the token, who is the operator; the words say what became of it."""
    name, is_yes = asked.name("id"), asked.flag("yes")
    for begin, desk in sorted(studio.desks.items(), reverse=True):  # the longest beginning first, and "" last
        if name.startswith(begin):
            taken = await desk.answer(name.removeprefix(begin), is_yes)
            studio.pulse.look_again()
            return {"words": taken.words, "counts": taken.counts, "over": taken.is_over}
    raise NotThereError(f"there is no question {name}")


def _describe(name: str, question: AskedQuestion) -> dict[str, Any]:
    approval = question.approval
    what = f"while `{approval.tool}` runs" if approval.asker else f"the agent wants to call `{approval.tool}`"
    return {
        "id": name,
        "tool": approval.tool,
        "text": what,
        "arguments": question.asked,
        "session": approval.session_id,
        "profile": approval.profile,
        "channel": question.channel,
        "chat": question.chat_id,
        "at": question.at,
        "until": approval.until,
        "why": approval.why,
        "again": approval.again,
        "approvers": approval.approvers,
        "asker": approval.asker,
        "form": None,
    }
