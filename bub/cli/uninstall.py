"""`bub uninstall`: removes what Bub left in its own folder, after asking, and says how to remove the program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bub.base.layout import EMPTY, Line, Span, columns, indent_text, line
from bub.base.locate import bub_home
from bub.cli.completion.command import STARTS
from bub.cli.exits import FAILED
from bub.cli.output import file_size, page_width, show
from bub.cli.prompts import can_ask, confirm
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.runtime.trust import trusted_folders
from bub.setup.installed import removal_of_program
from bub.setup.own_files import FoundFile, OwnFiles
from bub.setup.removal import Removal, by_kind, hold_locks, plan_removal, remove_files
from bub.setup.service import find_services

UNIT = "~/.config/systemd/user/bub.service"
"""The unit that docs/gateway.md tells a person to write by hand."""

_MOST_NAMED = 10


def uninstall(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")] = False,
    keep_tapes: Annotated[bool, typer.Option("--keep-tapes", help="Keep what was said and done.")] = False,
) -> int:
    """Remove what Bub left in its own folder, and say how to remove the program itself.

    It shows first what it would remove, and asks. What Bub did not make, links, and all other folders stay as they are.
    """
    home = bub_home(os.environ)
    removal, folders = plan_removal(home, keep_tapes=keep_tapes), trusted_folders(home)
    show(_page_of(home, removal))
    failures: list[str] = []
    if removal.files and not dry_run:
        with hold_locks(home, removal.files):
            if not yes and not _ask(home, len(removal.files)):
                print("nothing was removed", file=sys.stderr)
                return 0
            failures = remove_files(home, removal.files)
        print(f"removed {_count(len(removal.files) - len(failures))}\n")
    show(_last_words(folders))
    for failure in failures:
        print(printable(f"bub: {failure}"), file=sys.stderr)
    return FAILED if failures else 0


def _ask(home: Path, number: int) -> bool:
    if not can_ask():
        raise UsageError(f"there is no terminal to ask whether to remove {_count(number)}", help="say --yes")
    try:
        return confirm(f"Remove {_count(number)} from {printable(str(home))} for good?")
    except KeyboardInterrupt as stop:
        stop.add_note("nothing was removed")
        raise


def _page_of(home: Path, removal: Removal) -> Iterator[Line]:
    """What would be removed, with sizes, and what would stay."""
    if removal.files:
        yield line(f"Bub left in {home}:", "strong")
        yield from columns([_row(kind, files) for kind, files in by_kind(removal.files)], 2)
    else:
        yield line(f"There is nothing of Bub to remove in {home}.")
    for why, names in (
        ("Kept", [file.path for file in removal.kept]),
        ("Not made by Bub, or links, so they stay", removal.others),
    ):
        if names:
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            yield from indent_text(f"{why}: {', '.join(names[:_MOST_NAMED])}{more}", page_width(), 0)
    yield EMPTY


def _row(kind: OwnFiles, files: Sequence[FoundFile]) -> list[Span]:
    paths = [file.path for file in files]
    name = ", ".join(paths) if len(paths) < 3 else f"{os.path.commonpath(paths) or paths[0]} … ({_count(len(paths))})"
    return [Span(name), Span(file_size(sum(file.size for file in files)), "faint"), Span(kind.what)]


def _last_words(folders: Sequence[Path]) -> Iterator[Line]:
    """What else there is of Bub, which a person removes."""
    width = page_width()
    yield from indent_text(f"To remove the program, {removal_of_program()}.", width, 0)
    for file in STARTS:
        if "bub completion" in _read(Path(file)):
            yield from indent_text(f"Take the line with `bub completion` out of {file}.", width, 0)
    if Path(UNIT).expanduser().exists():
        yield from indent_text(f"Run `systemctl --user disable --now bub`, then delete {UNIT}.", width, 0)
    for service, stop in find_services(os.environ):
        yield from indent_text(f"Run `{stop}`, then delete {service}.", width, 0)
    if folders:
        named = ", ".join(map(str, folders[:_MOST_NAMED])) + (" …" if len(folders) > _MOST_NAMED else "")
        yield from indent_text(f"Pipeline files of yours are in the folders that you trusted: {named}", width, 0)


def _read(file: Path) -> str:
    try:
        return file.expanduser().read_text(encoding="utf-8", errors="replace")
    except (OSError, RuntimeError):
        return ""


def _count(number: int) -> str:
    return "1 file" if number == 1 else f"{number:,} files"
