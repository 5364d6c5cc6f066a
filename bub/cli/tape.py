"""`bub tape`: what was said and done in each session, to be listed, read, searched, taken out and put back."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import trio
import typer

from bub.base.failures import explain_os_error
from bub.base.layout import Line, Span, columns, line
from bub.cli.opening import open_framework
from bub.cli.options import options_of
from bub.cli.output import file_size, page_width, show, show_json
from bub.cli.terminal import printable
from bub.errors import TapeError, UsageError
from bub.tape.entry import TapeEntry
from bub.tape.lines import lines_of, read_lines, tape_in, write_lines
from bub.tape.listing import list_tapes
from bub.tape.shelf import Store, add_tape, find_tape, search_tapes, stats, summaries
from bub.tape.tape import Summary, Tape
from bub.tape.transcript import excerpt, is_bookkeeping, moment, transcript

app = typer.Typer(rich_markup_mode=None, add_completion=False, help="What was said and done in each session.")

_T = TypeVar("_T")

_BEGINNING = 10
"""How many entries are enough to know that something was said on a tape."""

_TAPE = typer.Argument(metavar="TAPE", help="A session such as cli:local, a tape's name, or the beginning of one.")
_JSON = typer.Option("--json", help="Print JSON for a program.")


@app.callback()
def tape() -> None:
    """What was said and done in each session."""


@app.command("list")
def list_them(ctx: typer.Context, as_json: Annotated[bool, _JSON] = False) -> None:
    """Show every tape: when it was used, how many entries it has, its session and folder, and its last words.

    The one used last comes first.
    """
    found = _with_store(ctx, lambda store, _: summaries(store))
    if as_json:
        show_json([msgspec.structs.asdict(summary) for summary in found])
    elif found:
        show(list_tapes(found, _width()))
    else:
        _say("no tape has been written yet")


@app.command("show")
def show_one(
    ctx: typer.Context,
    name: Annotated[str, _TAPE],
    since: Annotated[str | None, typer.Option(metavar="ANCHOR", help="What came after the last such anchor.")] = None,
    last: Annotated[int | None, typer.Option("--last", "-n", min=1, metavar="N", help="The newest N entries.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole tape, Bub's bookkeeping included.")] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Show what was said, called and answered: from the last anchor of a tape on, unless an option says otherwise.

    JSON has Bub's bookkeeping, too.
    """
    if (since is not None) + (last is not None) + everything > 1:
        raise UsageError("--since, --last and --all cannot be used together", help="use one of them at a time")

    async def read(store: Store, workspace: Path) -> tuple[Summary, list[TapeEntry], bool]:
        found = await find_tape(store, name, workspace)
        if last is not None:
            entries = await _newest(found, last, every=as_json)
        elif since is not None:
            entries = await _entries_after(found, since)
        else:
            entries = await _since_last_anchor(found) if not everything else await found.fetch(found.query())
        if not (everything or as_json):
            entries = [entry for entry in entries if not is_bookkeeping(entry)]
        return await found.summary(), entries, await _is_more(found, before=entries[0].id if entries else 1)

    summary, entries, is_more = _with_store(ctx, read)
    if as_json:
        listed = [dataclasses.asdict(entry) for entry in entries]
        show_json({"tape": summary.name, "session": summary.session, "entries": listed}, default=str)
        return
    if is_more:
        _say("older entries are not shown (--all shows them)")
    if not entries:
        _say("nothing was said (--all shows what Bub noted)")
    show(transcript(entries, _width()))


async def _newest(tape: Tape, count: int, *, every: bool) -> list[TapeEntry]:
    most = count
    while True:
        found = await tape.search(tape.query(), most=most)
        wanted = [entry for entry in found if every or not is_bookkeeping(entry)]
        if len(wanted) >= count or len(found) < most:
            return wanted[:count][::-1]
        most *= 4


async def _since_last_anchor(tape: Tape) -> list[TapeEntry]:
    anchors = await tape.anchors(most=1)
    return [*anchors, *await tape.fetch(tape.query().last_anchor() if anchors else tape.query())]


async def _is_more(tape: Tape, *, before: int) -> bool:
    """Whether something was said before an entry; a look at the beginning of the tape tells."""
    first = await tape.fetch(tape.query().limit(min(before - 1, _BEGINNING)))
    return any(not is_bookkeeping(entry) for entry in first)


async def _entries_after(tape: Tape, anchor: str) -> list[TapeEntry]:
    try:
        return await tape.fetch(tape.query().after_anchor(anchor))
    except TapeError as error:
        names = [entry.anchor_name or "" for entry in await tape.anchors()]
        if error.reason != "not_found" or not names:
            raise
        listed = ", ".join(f"`{name}`" for name in dict.fromkeys(reversed(names)))
        raise TapeError(str(error), help=f"its anchors: {listed}", reason=error.reason) from error


@app.command("search")
def search(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(help="The text to look for, in capitals or not.")],
    name: Annotated[str | None, typer.Option("--tape", metavar="TAPE", help="Look through this tape only.")] = None,
    most: Annotated[int, typer.Option("--last", "-n", min=1, metavar="N", help="The newest N entries found.")] = 20,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Show the newest entries that have a text, in all tapes or in one."""
    if not text.strip():
        raise UsageError("the text is empty", help="say what to look for")

    async def look(store: Store, workspace: Path) -> tuple[dict[str, Summary], list[tuple[str, TapeEntry]]]:
        known = {summary.name: summary for summary in await summaries(store)}
        only = None if name is None else await find_tape(store, name, workspace)
        return known, await search_tapes(store, known if only is None else [only.name], text, most)

    known, hits = _with_store(ctx, look)
    if as_json:
        show_json([{"tape": tape, **dataclasses.asdict(entry)} for tape, entry in hits], default=str)
    elif hits:
        show(_hits(hits, known, text, page_width()))
    else:
        _say(f"`{text}` was not found")


@app.command("export")
def export(
    ctx: typer.Context,
    name: Annotated[str, _TAPE],
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="A file that does not exist yet; `-` prints.")] = "-",
) -> None:
    """Write a tape as lines of JSON, one an entry."""

    async def read(store: Store, workspace: Path) -> list[TapeEntry]:
        found = await find_tape(store, name, workspace)
        return await found.fetch(found.query())

    entries = _with_store(ctx, read)
    if file == "-" and sys.stdout.isatty():
        for text in lines_of(entries):
            print(printable(text.decode().rstrip("\n")))
        return
    if file == "-":
        sys.stdout.buffer.writelines(lines_of(entries))  # the same bytes, whatever the locale
        return
    write_lines(Path(file), entries)
    _say(f"{len(entries):,} entries were written to {file}")


@app.command("import")
def import_one(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of lines of JSON; `-` reads standard input.")],
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="What to call the tape; as its file by default.")
    ] = None,
) -> None:
    """Put a tape back that was exported or archived: the whole file, or nothing of it.

    A tape that is there already is never written over.
    """
    if file == "-" and name is None:
        raise UsageError("what comes from standard input has no name", help="give it one with --as")
    entries = _read_entries(file)
    called = name if name is not None else tape_in(Path(file))
    _with_store(ctx, lambda store, _: add_tape(store, called, entries))
    _say(f"{len(entries):,} entries were imported as {called}")


@app.command("stats")
def stats_of_all(ctx: typer.Context, as_json: Annotated[bool, _JSON] = False) -> None:
    """Show how much the tapes hold, where they are kept, and which lines of them cannot be read."""
    found = _with_store(ctx, lambda store, _: stats(store))
    if as_json:
        show_json(msgspec.structs.asdict(found))
        return
    bad = sum(found.bad_lines.values()) if found.bad_lines is not None else None
    rows = {
        "store": found.store,
        "place": found.place,
        "tapes": f"{found.tapes:,}",
        "sidecars": f"{found.sidecars:,}",
        "entries": f"{found.entries:,}",
        "size": file_size(found.size) if found.size is not None else None,
        "bad lines": f"{bad:,}" if bad is not None else None,
    }
    show(columns([(Span(label, "faint"), Span(value)) for label, value in rows.items() if value is not None]))
    show(line(f"  {name}: {count:,}", "bad") for name, count in (found.bad_lines or {}).items())


def _with_store(ctx: typer.Context, work: Callable[[Store, Path], Awaitable[_T]]) -> _T:
    """Do some work with the profile's store and its workspace, and return its result."""
    with redirect_stdout(sys.stderr):  # what a plugin prints is no result of ours
        framework = open_framework(options_of(ctx))

        async def run() -> _T:
            async with framework.running():
                store: Any = framework.get_tape_store()
                if store is None:
                    raise TapeError("no plugin of the profile keeps tapes", reason="unavailable")
                return await work(store, framework.workspace)

        return trio.run(run)


def _read_entries(file: str) -> list[TapeEntry]:
    if file == "-":
        return read_lines(sys.stdin.buffer, "standard input")
    try:
        with Path(file).open("rb") as opened:
            return read_lines(opened, file)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {explain_os_error(error)}", help="name another file") from error


def _width() -> int | None:
    """Return how long a line may be; None, for any length, if a program reads it."""
    return page_width() if sys.stdout.isatty() else None


def _hits(hits: list[tuple[str, TapeEntry]], known: dict[str, Summary], text: str, width: int) -> list[Line]:
    lines: list[Line] = []
    for name, entry in hits:
        session = known[name].session if name in known else None
        when, what = Span(f"{moment(entry.date)}  ", "faint"), Span(f"  #{entry.id} {entry.kind}", "faint")
        lines += [(when, Span(session or name, "strong"), what), (Span("  "), *excerpt(entry, text, width - 2))]
    return lines


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr)
