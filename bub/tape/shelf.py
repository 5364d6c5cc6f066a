"""All tapes of a store, as people look for them: listed, found by what they call them, searched, counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bub.base.diagnostics import did_you_mean
from bub.errors import TapeError
from bub.tape.entry import TapeEntry
from bub.tape.store import AsyncTapeStore, TapeStore, check_name, show_place
from bub.tape.tape import SIDECAR, Summary, Tape, call_store, list_tapes, tape_name

Store = TapeStore | AsyncTapeStore

_MOST_TOLD = 5


async def summaries(store: Store) -> list[Summary]:
    """What there is to know of each tape at a glance, the one written to last first; sidecars are nobody's concern."""
    names = [name for name in await list_tapes(store) if SIDECAR not in name]
    found = [await Tape(name, store).summary() for name in names]
    return sorted(found, key=lambda summary: summary.last_date or "", reverse=True)


async def find_tape(store: Store, called: str, workspace: Path) -> Tape:
    """The tape that somebody means by its name, its session (first in this workspace), or the beginning of its name.

    Raises TapeError if there is none, or more than one.
    """
    names = await list_tapes(store)
    for name in (called, tape_name(workspace, called)):
        if name in names:
            return Tape(name, store)
    found = await summaries(store)
    of_session = [summary for summary in found if summary.session == called]
    meant = of_session or [summary for summary in found if called and summary.name.startswith(called)]
    if len(meant) == 1:
        return Tape(meant[0].name, store)
    if meant:
        listed = ", ".join(_with_place(summary) for summary in meant[:_MOST_TOLD])
        more = f" and {len(meant) - _MOST_TOLD} more" if len(meant) > _MOST_TOLD else ""
        raise TapeError(f"`{called}` can mean {len(meant)} tapes", help=f"name one of {listed}{more}")
    known = [*names, *(summary.session for summary in found if summary.session is not None)]
    remedy = did_you_mean(called, known) or "`bub tape list` shows those that there are"
    raise TapeError(f"there is no tape `{called}`", help=remedy, reason="not_found")


def _with_place(summary: Summary) -> str:
    return f"{summary.name} ({summary.workspace})" if summary.workspace else summary.name


async def search_tapes(store: Store, tapes: Iterable[str], text: str, most: int) -> list[tuple[str, TapeEntry]]:
    """The newest entries of some tapes that have a text, each with the name of its tape, the newest first."""
    found: list[tuple[str, TapeEntry]] = []
    for name in tapes:
        tape = Tape(name, store)
        found += [(name, entry) for entry in await tape.search(tape.query().query(text), most=most)]
    return sorted(found, key=lambda hit: hit[1].date, reverse=True)[:most]


async def add_tape(store: Store, name: str, entries: Sequence[TapeEntry]) -> None:
    """Write the entries of a tape that is not there yet: all of them, or none. Raises TapeError when it is there."""
    if check_name(name) in await list_tapes(store):
        raise TapeError(f"there is a tape `{name}` already", help="name another one with --as")
    tape = Tape(name, store)
    try:
        await tape.append(*entries)
    except BaseException:
        if not hasattr(store, "extend"):  # one by one: some of them may be there
            await tape.forget()
        raise


class Stats(msgspec.Struct, frozen=True):
    """How much a store holds; None for what it cannot tell. `bad_lines` are those that cannot be read, by tape."""

    store: str
    place: str | None
    tapes: int
    sidecars: int
    entries: int
    size: int | None
    bad_lines: dict[str, int] | None


async def stats(store: Store) -> Stats:
    """Count what there is in a store; its own `size` and `bad_lines` are asked if it has them."""
    names = await list_tapes(store)
    entries = 0
    for name in names:
        newest = await Tape(name, store).search(Tape(name, store).query(), most=1)
        entries += newest[0].id if newest else 0
    sidecars = sum(SIDECAR in name for name in names)
    own: Any = store
    bad = {name: await call_store(own, own.bad_lines, name) for name in names} if hasattr(own, "bad_lines") else None
    return Stats(
        type(store).__name__,
        show_place(store),
        len(names) - sidecars,
        sidecars,
        entries,
        await call_store(own, own.size) if hasattr(own, "size") else None,
        {name: count for name, count in bad.items() if count} if bad is not None else None,
    )
