"""Tools for the session's own tape: what it holds, what was said, and starting over."""

from __future__ import annotations

from typing import Annotated, Any

from bub.agent.marks.session import SessionMarks
from bub.errors import TapeError
from bub.tape import Tape, TapeEntry
from bub.tape.entry import REPEATED, words_of
from bub.tape.spill import read_spilled
from bub.tools import Tool, ToolContext, ToolError, tool

_LONGEST_HIT = 400
_MOST_HITS = 100


def tape_tools() -> list[Tool]:
    """The tools that read and steer the session's tape."""
    return [info, search, anchors, handoff, reset, spill_read]


@tool(name="tape.info", read_only=True, reaches=None)
async def info(*, context: ToolContext) -> dict[str, Any]:
    """How long this session's tape is, what it was last handed off with, and why calls may ask about it."""
    tape = _tape(context)
    summary, held = await tape.summary(), SessionMarks(tape)
    await held.recall()
    return {
        "name": summary.name,
        "entries": summary.entries,
        "anchors": summary.anchors,
        "last_anchor": summary.last_anchor,
        "entries_since_last_anchor": summary.since_last_anchor,
        **({"holds": str(held.now)} if held.now else {}),
    }


@tool(name="tape.search", read_only=True, reaches=None)
async def search(
    query: Annotated[str, "text to look for, in capitals or not; empty for all"] = "",
    kinds: Annotated[list[str] | None, "only entries of these kinds, such as message or tool_result"] = None,
    start: Annotated[str, "only from this date on, such as 2026-11-22"] = "",
    end: Annotated[str, "only up to this date"] = "",
    limit: Annotated[int, "how many at most"] = 20,
    *,
    context: ToolContext,
) -> str:
    """Look for something that was said or done earlier in this session, also before the last handoff; newest first."""
    tape = _tape(context)
    wanted = tape.query().query(query).kinds(*(kinds or ()))
    try:
        if start or end:
            wanted = wanted.between_dates(start or "0001-01-01", end or "9999-12-31")
        found = await tape.search(wanted.limit(min(max(limit, 0), _MOST_HITS)))
    except TapeError as error:
        raise ToolError(str(error), help=error.help, kind="invalid_input") from error
    return "\n".join(_hit(entry) for entry in found if not entry.meta.get(REPEATED)) or "nothing was found"


@tool(name="tape.anchors", read_only=True, reaches=None)
async def anchors(limit: Annotated[int, "how many at most"] = 20, *, context: ToolContext) -> str:
    """The anchors of this session, the newest last: the points where the conversation started over."""
    found = await _tape(context).anchors(most=min(max(limit, 0), _MOST_HITS))
    return "\n".join(map(_hit, found)) or "there are none"


@tool(name="tape.handoff", reaches=None)
async def handoff(
    name: Annotated[str, "a short name for what comes next"],
    summary: Annotated[str, "all that must be remembered of the conversation so far"] = "",
    *,
    context: ToolContext,
) -> str:
    """Start the conversation over from here, with only a summary of what came before.

    Use it when the conversation has become long, or when a new subject begins.
    """
    if not name.strip():
        raise ToolError("the anchor needs a name", help="say what the next part is about", kind="invalid_input")
    state = {"summary": summary} if summary else {}
    if context.turn is not None:
        context.turn.hand_off(name, state)
    else:
        await _tape(context).handoff(name, state)
    return f"the conversation starts over at `{name}`"


@tool(name="tape.reset", for_people=True, reaches=None)
async def reset(archive: Annotated[bool, "keep a copy of what is forgotten"] = True, *, context: ToolContext) -> str:
    """Forget this session's conversation; a copy is kept unless `archive=false`."""
    tape = _tape(context)
    held = SessionMarks(tape)
    if not context.may_approve:
        await held.recall()
    kept = await tape.reset(context.archive if archive else None)
    said = "the conversation is forgotten"
    if kept is not None:
        said += f"; a copy is in {kept}"
    if not held.now:
        return said
    await SessionMarks(tape).add(held.now)
    return f"{said}. Bub still asks before calls that reach outside: only a person who may allow calls can end that"


@tool(name="spill.read", read_only=True, reaches=None)
async def spill_read(
    handle: Annotated[str, "the handle in the shortened result"],
    part: Annotated[int, "which part, from 1 on"] = 1,
    *,
    context: ToolContext,
) -> str:
    """Read a part of a tool's result that was too long for the conversation."""
    try:
        return await read_spilled(_tape(context), handle, part)
    except TapeError as error:
        raise ToolError(str(error), help=error.help, kind="invalid_input") from error


def _tape(context: ToolContext) -> Tape:
    if context.tape is None:
        raise ToolError("this session has no tape", help="Bub keeps nothing of it")
    return context.tape


def _hit(entry: TapeEntry) -> str:
    words = " ".join(words_of(entry.payload).split())
    words = words if len(words) <= _LONGEST_HIT else f"{words[:_LONGEST_HIT]}…"
    return f"{entry.id} {entry.date[:19]} {entry.kind}: {words}"
