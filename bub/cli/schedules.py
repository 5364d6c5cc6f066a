"""`bub schedules`: when the schedules of a file and those of the agent fire, and what became of them."""

from __future__ import annotations

import os
import time
from datetime import datetime
from typing import Annotated, Any

import typer
from msgspec import structs

from bub.base.diagnostics import did_you_mean
from bub.base.layout import Line, Span, columns
from bub.cli.inboxes import Inbox, open_inbox
from bub.cli.options import options_of
from bub.cli.output import show, show_json
from bub.cli.prompts import require_person
from bub.cli.reading import read_plan
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.inbox.schedules.firing import Followed
from bub.inbox.schedules.message import firing_of, message_of
from bub.inbox.schedules.own import OwnSchedule
from bub.pipeline.plan.schedules.moments import MomentsError, find_zone, moments_after
from bub.pipeline.plan.schedules.schedule import KEY, Schedule, schedules_of
from bub.pipeline.source.interpolate import read_environment, resolve

app = typer.Typer(rich_markup_mode=None, add_completion=False, invoke_without_command=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Which one, as `bub schedules` lists it.")]


@app.callback()
def schedules(
    ctx: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Show the schedules of the profile and those that the agent has made: when they fire next, and fired last.

    Bub imports no plugin and fires nothing. The times are those of each schedule's time zone.
    """
    if ctx.invoked_subcommand is not None:
        return
    with open_inbox(options_of(ctx)) as inbox:
        found, errors = _find_schedules(ctx, inbox)
        followed = {one.name: one for one in inbox.alone(inbox.schedules.followed_so_far)}
    told = [_describe(one, followed.get(one.name)) for one in found]
    if as_json:
        show_json({"version": 1, "errors": errors, "schedules": told}, indent=2, ensure_ascii=False)
    elif told:
        show(_list_schedules(told))
    else:
        print("there are no schedules")


@app.command("run")
def run_schedule(ctx: typer.Context, name: _Name) -> None:
    """Let a schedule fire now, beside its own times. A gateway that runs answers within seconds, else the next one."""
    require_person()
    with open_inbox(options_of(ctx), make=True) as inbox:
        schedule = _choose(_find_schedules(ctx, inbox)[0], name)
        inbox.fire_now(message_of(schedule), firing_of(schedule, time.time()))
    print(printable(f"{schedule.name} fires in {schedule.session}"))


@app.command("remove")
def remove_schedule(ctx: typer.Context, name: _Name) -> None:
    """Remove a schedule that the agent has made; a gateway that runs forgets it within seconds."""
    with open_inbox(options_of(ctx)) as inbox:
        found, _ = _find_schedules(ctx, inbox)
        if not isinstance(_choose(found, name), OwnSchedule):
            raise UsageError(f"the file says `{name}`", help=f"take it out there, or say `enabled: false` in `{KEY}`")
        inbox.alone(lambda: inbox.schedules.remove(name))
    print(f"{name} is removed")


def _find_schedules(ctx: typer.Context, inbox: Inbox) -> tuple[list[Schedule], int]:
    """Return the schedules of the profile, then those of the agent; and how many errors the file has."""
    plan, errors = read_plan(options_of(ctx))
    said = plan.root.get(KEY)
    written: tuple[Schedule, ...] = ()
    if said is not None:
        document = plan.document
        environment, _ = read_environment(document.base, os.environ)
        written = schedules_of(resolve(said, environment, base=document.base, folders=document.folders)[0])
    return [*written, *inbox.alone(inbox.schedules.own)], errors


def _choose(found: list[Schedule], name: str) -> Schedule:
    known = {one.name: one for one in found}
    if name not in known:
        hint = did_you_mean(name, known) or (f"these are: {', '.join(known)}" if known else "there are none")
        raise UsageError(f"there is no schedule `{name}`", help=hint)
    return known[name]


def _describe(schedule: Schedule, followed: Followed | None) -> dict[str, Any]:
    said = {key: value for key, value in structs.asdict(schedule).items() if key not in ("sender_id", "session_id")}
    try:
        coming = next(moments_after(schedule.cron, schedule.timezone, time.time()), None)
    except MomentsError:
        coming = None
    last = followed.last if followed is not None else None
    return {
        **said,
        "own": isinstance(schedule, OwnSchedule),
        "next": _date(coming, schedule),
        "last": _date(last, schedule),
        "missed": followed.missed if followed is not None else 0,
    }


def _date(moment: float | None, schedule: Schedule) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, find_zone(schedule.timezone)).isoformat(timespec="minutes")


def _list_schedules(told: list[dict[str, Any]]) -> list[Line]:
    head = [Span(title, "faint") for title in ("name", "cron", "time zone", "session", "next", "last", "missed", "by")]
    rows = [
        [
            Span(printable(one["name"]), "strong"),
            *(Span(printable(one[key])) for key in ("cron", "timezone", "session")),
            *(Span(one[key] or "-") for key in ("next", "last")),
            Span(str(one["missed"])),
            Span("the agent" if one["own"] else "the file"),
        ]
        for one in told
    ]
    return columns([head, *rows])
