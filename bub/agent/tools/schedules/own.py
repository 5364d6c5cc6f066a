"""The tools `schedule.add`, `schedule.list` and `schedule.remove`: messages of the agent to itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from bub.channels.commands import command_line, prefix_of
from bub.errors import BubError
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.schedules.session import SessionSchedules, current_schedules
from bub.pipeline.plan.limits import DEFAULT_LIMITS
from bub.pipeline.plan.schedules.moments import find_zone, moments_after
from bub.plugins.view import ProfileView
from bub.tools import Tool, ToolError, tool


def schedule_tools(framework: ProfileView) -> list[Tool]:
    """The tools for schedules of a session; a person is asked before one is made (`ASKED`)."""
    return [add.bind(framework), list_them, remove]


@tool(name="schedule.add", bound=True, reaches=None)
async def add(
    framework: ProfileView,
    /,
    cron: Annotated[str, "Minute, hour, day of month, month, day of week, such as `0 8 * * 1-5`."],
    message: Annotated[str, "The message that you get then. Put all into it that you need to know."],
    timezone: Annotated[str, "The person's time zone, such as `Europe/Berlin`."] = "UTC",
    once: Annotated[bool, "Whether it ends after it has fired once, as a reminder does."] = False,
) -> str:
    """Send yourself a message at later times. You get it in this chat, and your answer goes to this chat."""
    schedules = _schedules()
    if command_line(message, prefix_of(framework.settings)) is not None:
        raise ToolError("a command is for people", help="say in words what is to be done", kind="invalid_input")
    most = framework.budget.get("schedules", DEFAULT_LIMITS["schedules"])
    try:
        made = await schedules.add(" ".join(cron.split()), timezone, message, once=once, most=most)
    except BubError as error:
        raise ToolError(str(error), help=error.help, kind="invalid_input") from error
    return f"schedule {made.name} is made; it fires next at {_next_of(made)}"


@tool(name="schedule.list", reaches=None)
async def list_them() -> str:
    """List the schedules that you have made in this chat."""
    found = await _schedules().list()
    lines = [f"{one.name}: {one.cron} {one.timezone}, next at {_next_of(one)}: {one.message}" for one in found]
    return "\n".join(lines) or "there are none"


@tool(name="schedule.remove", reaches=None)
async def remove(name: Annotated[str, "Which one, such as `7`."]) -> str:
    """Remove a schedule that you have made in this chat."""
    if not await _schedules().remove(name):
        raise ToolError(f"there is no schedule {name} in this chat", help="list them", kind="unknown")
    return f"schedule {name} is removed"


def _schedules() -> SessionSchedules:
    schedules = current_schedules.get()
    if schedules is None:
        raise ToolError("nothing fires schedules here", help="only a chat that a gateway serves can have schedules")
    return schedules


def _next_of(schedule: OwnSchedule) -> str:
    now = datetime.now(UTC).timestamp()
    moment = next(moments_after(schedule.cron, schedule.timezone, now), None)
    if moment is None:
        return "no time"
    return datetime.fromtimestamp(moment, find_zone(schedule.timezone)).strftime("%Y-%m-%d %H:%M %Z")
