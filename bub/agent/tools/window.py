"""Commands about how full the model's window is: what a request consists of, and summing up at once."""

from __future__ import annotations

from typing import Annotated

from bub.agent.costs.budget import Budget
from bub.agent.costs.ledger import Ledger
from bub.agent.journal import Journal
from bub.agent.loop.aside import Aside
from bub.agent.loop.context import Context
from bub.agent.loop.hooks import LoopHooks
from bub.agent.task import Task
from bub.agent.window.compaction import Compaction
from bub.plugins.view import ProfileView
from bub.tape.settings import session_settings
from bub.tools import Tool, ToolContext, ToolError, tool

ASKED = "compact"
"""The anchor of a summary that a person asked for."""


def window_tools(framework: ProfileView) -> list[Tool]:
    """The commands about the window of the session's model."""
    return [show.bind(framework), compact.bind(framework)]


@tool(name="context", bound=True, for_people=True, read_only=True, reaches=None)
async def show(framework: ProfileView, /, *, context: ToolContext) -> str:
    """Show what the next request to the model consists of, in tokens, and how much fits."""
    window, _ = await _look(framework, context)
    known, total = await window.find_window(), window.tokens
    rows = [*((what, tokens) for what, tokens in window.parts() if tokens), ("in all", total)]
    width = max(len(what) for what, _ in rows)
    lines = [f"{what:<{width}}  {tokens:>9,}" for what, tokens in rows]
    if known is None:
        return "\n".join([*lines, "", f"nobody knows how large the window of {window.model or 'the model'} is"])
    full = f"{total * 100 // known.tokens} % full; from {known.threshold:,} tokens on, Bub sums up"
    return "\n".join([*lines, "", f"the window of {window.model} has {known.tokens:,} tokens, {known.source}", full])


@tool(name="compact", bound=True, for_people=True, read_only=True, reaches=None)
async def compact(
    framework: ProfileView,
    /,
    hint: Annotated[str, "what has to be kept above all"] = "",
    *,
    context: ToolContext,
) -> str:
    """Sum up the conversation so far, all but its last messages, to make room for what comes."""
    window, budget = await _look(framework, context)
    if budget.is_used_up:
        raise ToolError("no tokens are left for a summary", help="`budget.tokens_per_day` of the profile says how many")
    await window.find_window()
    made = await window.make_room(ASKED, hint=hint, is_asked=True)
    if made is None:
        return f"there is nothing to sum up yet: a request has {window.tokens:,} tokens"
    return f"{made} (for the summary {budget.tokens:,})" if budget.tokens else str(made)


async def _look(framework: ProfileView, context: ToolContext) -> tuple[Compaction, Budget]:
    """What the session's next request would be without a message, and the budget that a summary is taken off."""
    if context.tape is None:
        raise ToolError("this session has no tape, so nothing is kept of it")
    task = Task("", context.session_id, dict(context.state), context.message, fire=context.fire)
    conversation = Context(task, context.tape, Journal(context.tape, framework.mask.value))
    await conversation.recall()
    budget = Budget(framework.budget)
    ledger = Ledger(framework, budget)
    await ledger.read_day()
    window = Compaction(framework, context.tape, conversation, Aside(framework, task, LoopHooks(task), ledger))
    box = framework.tools.for_model()
    tools = [box.tools[name] for name in box.usable()]
    system = framework.get_system_prompt("", task.state)
    await window.begin(system, tools, await session_settings(context.tape))
    return window, budget
