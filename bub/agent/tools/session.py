"""Tools around the conversation itself: help, skills, the model, sub-agents, and leaving."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from msgspec import Meta

from bub.agent.models.endpoint import resolve_endpoint
from bub.base.diagnostics import did_you_mean
from bub.hookspecs import PERSONALITY_POINT
from bub.pipeline.plan.providers import LOCAL, quirks_of, read_reasoning, split_model
from bub.plugins.shipped import DESCRIBE
from bub.plugins.view import ProfileView
from bub.tape.conversations import Conversation, conversations
from bub.tape.settings import PERSONALITY, session_settings, set_session_setting
from bub.tape.transcript import moment
from bub.tools import Tool, ToolContext, ToolError, tool

_FIRST_WORDS = 60
"""How many letters are shown of what a session began with."""


def session_tools(
    framework: ProfileView, read_skill: Callable[[str], str], stop_session: Callable[[str], Awaitable[None]]
) -> list[Tool]:
    """The tools that need the framework: `read_skill` gives a skill's text, or the list of them without
    a name; `stop_session` ends what a session runs."""
    return [
        show_help.bind(framework),
        describe.bind(framework),
        skill.bind(read_skill),
        model.bind(framework),
        reasoning.bind(framework),
        personality.bind(framework),
        sessions.bind(framework),
        subagent,
        leave.bind(stop_session),
    ]


@tool(name="help", bound=True, for_people=True, read_only=True, reaches=None)
def show_help(framework: ProfileView, /, name: Annotated[str, "a tool to describe"] = "") -> str:
    """List the commands, or tell how one of them is used."""
    box = framework.tools
    if name:
        found = box.find(name)
        return f"{found.usage}\n\n{found.description}"
    width = max((len(usable) for usable in box.usable()), default=0)
    lines = [f"{usable:<{width}}  {box.tools[usable].summary}" for usable in box.usable()]
    return "\n".join(lines)


@tool(name=DESCRIBE, bound=True, read_only=True, reaches=None)
def describe(framework: ProfileView, /, names: Annotated[list[str], "the tools, as they are offered"]) -> str:
    """Tell what tools do and which arguments they take. Ask for all that you are about to use at once."""
    box = framework.tools.for_model()
    spelt = {name.replace(".", "_"): name for name in box.usable()}
    found = [box.find(spelt.get(name.replace(".", "_"), name)) for name in names]
    return "\n\n".join(
        f"# {one.name}\n{one.description}\n{json.dumps(one.parameters, ensure_ascii=False)}" for one in found
    )


@tool(name="skill", bound=True, read_only=True, reaches=None)
def skill(read_skill: Callable[[str], str], /, name: Annotated[str, "the name of the skill"] = "") -> str:
    """Read a skill: instructions for a kind of task. Read the one that fits before you begin."""
    return read_skill(name)


@tool(name="model", bound=True, for_people=True, reaches=None)
async def model(
    framework: ProfileView,
    /,
    name: Annotated[str, "such as openai:gpt-5; `default` for that of the settings"] = "",
    *,
    context: ToolContext,
) -> str:
    """Show which model answers in this session, or choose another for it."""
    configured = str(framework.settings.get("model") or "none is chosen")
    if context.tape is None:
        raise ToolError("this session has no tape that could keep a choice")
    if not name:
        chosen = (await session_settings(context.tape)).get("model")
        now = f"{chosen} (the settings say: {configured})" if chosen else configured
        offered = await framework.get_model_options(context.session_id)
        others = [name for name in offered if name not in (chosen, configured)]
        return f"{now}\nothers to choose from: {', '.join(others)}" if others else now
    if name == "default":
        await set_session_setting(context.tape, "model", None)
        return f"the model is that of the settings again: {configured}"
    if not name.startswith(f"{LOCAL}:"):
        resolve_endpoint(framework.settings, name)  # says what is wrong with it
    await set_session_setting(context.tape, "model", name)
    return f"the model of this session is {name} from now on"


@tool(name="reasoning", bound=True, for_people=True, reaches=None)
async def reasoning(
    framework: ProfileView,
    /,
    level: Annotated[str, "off, low, medium, high or a number of tokens; `default` for that of the settings"] = "",
    *,
    context: ToolContext,
) -> str:
    """Show how much the model thinks before it answers in this session, or choose it."""
    configured = framework.settings.get("reasoning")
    usual = "left to the provider" if configured is None else str(configured)
    if context.tape is None:
        raise ToolError("this session has no tape that could keep a choice")
    settings = await session_settings(context.tape)
    if not level:
        chosen = settings.get("reasoning")
        return usual if chosen is None else f"{chosen} (the settings say: {usual})"
    if level == "default":
        await set_session_setting(context.tape, "reasoning", None)
        return f"the model thinks as much as the settings say again: {usual}"
    try:
        wanted = read_reasoning(level)
    except ValueError as error:
        raise ToolError(f"`{level}` is no level of thinking", help=f"write {error}", kind="invalid_input") from None
    await set_session_setting(context.tape, "reasoning", wanted)
    name = str(settings.get("model") or framework.settings.get("model") or LOCAL)
    return f"the reasoning of this session is {wanted} from now on{_tell_problem(name, wanted)}"


@tool(name="personality", bound=True, for_people=True, read_only=True, reaches=None)
async def personality(
    framework: ProfileView,
    /,
    name: Annotated[str, "the profile that answers from the next message on"] = "",
    *,
    context: ToolContext,
) -> str:
    """Show which personalities there are, or choose another for this session."""
    fire, known, current = context.fire, framework.profiles, framework.profile
    if fire is None or PERSONALITY_POINT not in fire:
        advice = f"`{PERSONALITY_POINT}: {{kind: modifying}}` under `hooks:` lets sessions choose among the profiles"
        raise ToolError("there are no personalities in this pipeline", help=advice)
    if not name:
        return "\n".join(f"{'*' if one == current else ' '} {one}" for one in known)
    _expect_personality(name, known)
    if context.tape is None:
        raise ToolError("this session has no tape that could keep a choice")
    if name == current:
        return f"{name} is the personality of this session already"
    payload = {"session_id": context.session_id, "previous": current, "personality": name}
    chosen = str((await fire(PERSONALITY_POINT, **payload)).get("personality") or name)
    _expect_personality(chosen, known)
    is_routed = chosen == framework.profile_of(context.message)  # what it would be without a choice
    await set_session_setting(context.tape, PERSONALITY, None if is_routed else chosen)
    return f"{chosen} is the personality of this session from the next message on"


@tool(name="sessions", bound=True, for_people=True, read_only=True, reads="private")
async def sessions(
    framework: ProfileView,
    /,
    most: Annotated[int, "how many at most", Meta(ge=1, le=200)] = 20,
    *,
    context: ToolContext,
) -> str:
    """List the conversations of this workspace: when, how many turns, how each began, and how to continue it."""
    if not context.from_person:
        raise ToolError("only a person at the machine may read other sessions", kind="denied")
    store = framework.get_tape_store()
    found = await conversations(store, framework.workspace, most=most) if store is not None else []
    if not found:
        return "there are none yet"
    rows = [f"{one.session:<{max(len(one.session) for one in found)}}  {_in_short(one)}" for one in found]
    return "\n".join([*rows, "", "`bub chat --resume` continues the last one, `bub chat --session-id NAME` any other."])


@tool(name="subagent", reaches=None)
async def subagent(
    prompt: Annotated[str, "the task, with all that has to be known for it"],
    session: Annotated[
        str, "temp: it knows nothing else; inherit: it knows this conversation; or the name of one to continue"
    ] = "temp",
    tools: Annotated[list[str] | None, "the tools it may use; left out, all that you may"] = None,
    *,
    context: ToolContext,
) -> str:
    """Let another agent do a task by itself, and get its answer."""
    if context.turn is None:
        raise ToolError("a sub-agent works for an agent", help="send the prompt as a message instead")
    if not prompt.strip():
        raise ToolError("the prompt is empty", kind="invalid_input")
    return await context.turn.delegate(prompt, session=session, tools=tools)


@tool(name="quit", bound=True, for_people=True, read_only=True, reaches=None)
async def leave(stop_session: Callable[[str], Awaitable[None]], /, *, context: ToolContext) -> str:
    """End what this session has running."""
    await stop_session(context.session_id)
    return "Session tasks stopped."


def _tell_problem(model: str, wanted: str | int | None) -> str:
    """What to tell of a model that cannot think as it is wanted to; "" of one that can."""
    provider, name = split_model(model)
    problem = quirks_of(provider).thinking_of(name).find_problem(wanted) if wanted and provider != LOCAL else None
    return f", but `{model}` {problem}" if problem else ""


def _in_short(one: Conversation) -> str:
    turns = f"{one.turns} turn{'s' if one.turns > 1 else ''}"
    words = " ".join(one.first_words.split())
    cut = "…" if len(words) > _FIRST_WORDS else ""
    return f"{moment(one.last_date)[:16]} · {turns} · {words[:_FIRST_WORDS]}{cut}"


def _expect_personality(name: str, known: Sequence[str]) -> None:
    if name not in known:
        advice = did_you_mean(name, known) or f"there are {', '.join(known)}"
        raise ToolError(f"there is no personality `{name}`", help=advice, kind="unknown")
