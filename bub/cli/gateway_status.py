"""`bub gateway status`: who runs, who has what, and what waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import trio
import typer
from msgspec import structs

from bub.base.layout import Line, Span, columns, line
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import store_address
from bub.cli.inboxes import open_local_inbox
from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.cli.output import show, show_json
from bub.cli.terminal import printable
from bub.inbox.shared.opening import overview_of
from bub.inbox.shared.overview import Overview
from bub.inbox.shared.share import CHANNELS, TURNS

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_MISSING = {TURNS: "no gateway answers messages", CHANNELS: "no gateway runs channels"}


def show_status(ctx: typer.Context, *, as_json: bool) -> None:
    """Print how all gateways of a shared store are, or that there is none."""
    framework = open_framework(options_of(ctx))
    address = store_address(framework.settings)
    if address is None:
        _show_alone(ctx, as_json=as_json)
        return
    overview = trio.run(overview_of, address, framework.workspace)
    if as_json:
        show_json(_as_json(address, overview), indent=2, ensure_ascii=False)
    else:
        show(describe_overview(address.shown, overview))


def describe_overview(store: str, overview: Overview) -> list[Line]:
    """Return the lines for a person who asks how all gateways of a store are."""
    head = f"{store}, agent {overview.agent}, {_count(overview.partitions, 'partition')}"
    if not overview.partitions:
        return [line(printable(f"{store}, agent {overview.agent}: no gateway has ever used it"))]
    rows = [[Span(title, "faint") for title in ("worker", "roles", "version", "partitions", "channels", "turns", "")]]
    rows += [
        [
            Span(printable(one.name), "strong"),
            Span(", ".join(one.roles)),
            Span(printable(one.version) or "-"),
            Span(_list_partitions(overview.partitions_of(one.name))),
            Span(printable(", ".join(overview.channels_of(one.name))) or "-"),
            Span(str(one.turns)),
            Span("draining" if one.is_draining else "", "warn"),
        ]
        for one in overview.workers
    ]
    table = columns(rows) if overview.workers else [line("no gateway runs", "bad")]
    return [
        line(printable(head)),
        line(""),
        *table,
        line(""),
        *_describe_waiting(overview),
        *_describe_faults(overview),
    ]


def _describe_waiting(overview: Overview) -> list[Line]:
    waits = "waits" if overview.messages == 1 else "wait"
    since = f", the oldest for {_duration(overview.oldest)}" if overview.oldest is not None else ""
    replies = f"{_count(overview.replies, 'reply', 'replies')} {'waits' if overview.replies == 1 else 'wait'}"
    lines = [
        line(f"{_count(overview.messages, 'message')} {waits} for an answer{since}"),
        line(f"{replies} for delivery"),
    ]
    if overview.dead:
        was = "was" if overview.dead == 1 else "were"
        lines.append(line(f"{overview.dead} {was} set aside (`bub inbox list`)", "warn"))
    return lines


def _describe_faults(overview: Overview) -> list[Line]:
    faults = [_MISSING[role] for role in overview.missing_roles] if overview.workers else []
    known = {worker.name for worker in overview.workers}
    silent = sorted(set(overview.holders.values()) - known)
    faults += [f"{one} has not reported for the length of a lease, and loses what it has" for one in silent]
    if overview.free:
        belongs = "belongs" if len(overview.free) == 1 else "belong"
        noun = "partition" if len(overview.free) == 1 else "partitions"
        faults.append(f"{noun} {_list_partitions(overview.free, counted=False)} {belongs} to nobody")
    return [line(printable(fault), "bad") for fault in faults]


def _list_partitions(numbers: Sequence[int], *, counted: bool = True) -> str:
    """Return numbers as ranges, such as `12: 0-9, 14, 15`."""
    if not numbers:
        return "-"
    ranges = []
    for _, group in groupby(enumerate(numbers), lambda one: one[1] - one[0]):
        run = [number for _, number in group]
        ranges.append(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)))
    listed = ", ".join(ranges)
    return f"{len(numbers)}: {listed}" if counted else listed


def _duration(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s"


def _count(number: int, noun: str, several: str = "") -> str:
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def _as_json(address: StoreAddress, overview: Overview) -> dict[str, Any]:
    workers = [
        {
            "name": one.name,
            "roles": one.roles,
            "version": one.version,
            "host": one.host,
            "pid": one.pid,
            "since": datetime.fromtimestamp(one.since, UTC).isoformat(timespec="seconds"),
            "draining": one.is_draining,
            "partitions": overview.partitions_of(one.name),
            "channels": overview.channels_of(one.name),
            "turns": one.turns,
            "waiting": one.waiting,
            "fenced": one.fenced,
        }
        for one in overview.workers
    ]
    said = structs.asdict(overview)
    kept = {key: said[key] for key in ("agent", "partitions", "holders", "messages", "replies", "dead")}
    oldest = {"oldest_seconds": overview.oldest, "free_partitions": overview.free}
    return {"version": 1, "store": address.shown, "workers": workers, **kept, **oldest}


def _show_alone(ctx: typer.Context, *, as_json: bool) -> None:
    """Show what is known of a gateway whose inbox is a file: who runs it is not written down anywhere."""
    with open_local_inbox(options_of(ctx)) as inbox:
        entries = inbox.alone(inbox.list_entries)
    dead = sum(one.reason is not None for one in entries)
    waiting = len(entries) - dead
    if as_json:
        path = str(inbox.path) if inbox.path is not None else None
        show_json({"version": 1, "store": None, "inbox": path, "waiting": waiting, "dead": dead}, indent=2)
        return
    shown = [line("no store is shared: one gateway works on the inbox of this machine (`gateway.store` names one)")]
    waits = "waits" if waiting == 1 else "wait"
    shown.append(line(f"{_count(waiting, 'message or reply', 'messages and replies')} {waits}, {dead} set aside"))
    show(shown)
