"""`bub lock`: what is installed, and what plugins and servers bring, written down beside the pipeline file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from functools import partial
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated

import typer

from bub.base.diagnostics import PipelineError
from bub.base.layout import Line, Tone, line
from bub.base.rewrite import require_writable, write_new
from bub.cli.exits import FAILED
from bub.cli.findings import ShownPipelineError
from bub.cli.opening import usual_file
from bub.cli.options import Options, options_of, workspace_of
from bub.cli.output import show, show_json
from bub.cli.progress import progress
from bub.cli.prompts import can_ask, confirm, require_person
from bub.cli.terminal import printable
from bub.errors import UsageError
from bub.pipeline.check.validate import profiles_of
from bub.pipeline.source.merge import SHIPPED, Document, load_document
from bub.plugins.lock.drift import Drift, Sign
from bub.plugins.lock.reading import LockError
from bub.setup.locking.making import Found
from bub.setup.locking.proposing import find_changes, look, place_of, propose, read_old
from bub.setup.locking.resolving import resolve

_TONES: Mapping[Sign, Tone] = MappingProxyType({"+": "good", "-": "bad", "~": "warn"})
_TOLD = ("subject", "sign", "what", "before", "after")


def lock(
    ctx: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Show what has changed since the lock was made, and write nothing.")
    ] = False,
    upgrade: Annotated[
        str | None, typer.Option(metavar="NAME", help="Accept one plugin, server or package as it is now.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> int:
    """Write down beside the pipeline file what is installed, and what plugins and servers bring.

    From then on, a start refuses what has changed. Bub imports the plugins of all profiles and starts their servers, so
    the folder has to be trusted. What changes is shown before an older lock is written over, and a person at a terminal
    is asked. With --check it ends with 1 if something has changed.
    """
    if check and upgrade is not None:
        raise UsageError("--check writes nothing, so there is nothing to upgrade", help="leave one of the two out")
    if not check:
        require_person()
    options = options_of(ctx)
    document = _open(options)
    with redirect_stdout(sys.stderr):  # what a plugin prints is no result of ours
        changes, written = _check(document, options) if check else _make(document, options, upgrade)
    name = place_of(document).name
    if as_json:
        listed = [{key: getattr(one, key) for key in _TOLD} for one in changes]
        show_json({"version": 1, "file": name, "written": written, "changes": listed}, indent=2, ensure_ascii=False)
    elif check:
        show([*_lines(changes)] or [line(f"nothing has changed since {name} was made", "good")])
    return FAILED if check and changes else 0


def _open(options: Options) -> Document:
    """Read the pipeline file that is meant; its folder has to be trusted."""
    named = str(options.config or "")
    file = usual_file(options) if not named.startswith(SHIPPED) else None
    if file is None:
        raise UsageError("a pipeline that comes with Bub has no lock", help="make a file of your own: `bub init`")
    return load_document(file)


def _check(document: Document, options: Options) -> tuple[tuple[Drift, ...], bool]:
    old = read_old(place_of(document))
    if old is None:
        raise UsageError(f"there is no {place_of(document).name} yet", help="`bub lock` makes it")
    return find_changes(old, _look(document, options)), False


def _make(document: Document, options: Options, name: str | None) -> tuple[tuple[Drift, ...], bool]:
    """Write the lock, and say what it changes before that; whether it was written."""
    file = place_of(document)
    require_writable(file)
    try:
        old = read_old(file)
    except LockError as error:
        if name is not None:
            raise
        print(printable(f"{error}: Bub makes it again"), file=sys.stderr)
        old = None
    found = _look(document, options)
    with progress(f"asking where {len(found.wanted)} packages come from, second", None, sys.stderr) as tell:
        begun = time.monotonic()

        def watch() -> None:
            tell(int(time.monotonic() - begun))

        proposal = propose(file, old, found, partial(resolve, watch=watch), name)
    if old is not None and not proposal.differs:
        print(f"{file.name} is up to date", file=sys.stderr)
        return (), False
    changes = proposal.changes
    if old is not None:
        with redirect_stdout(sys.stderr):
            show(_lines(changes))
        if changes and can_ask() and not confirm(f"Write this to {printable(file.name)}?"):
            return changes, False
    write_new(file, proposal.text.encode())
    print(printable(f"{file} is written"), file=sys.stderr)
    return changes, True


def _look(document: Document, options: Options) -> Found:
    profiles = len(profiles_of(document))
    with progress("loading profile", profiles, sys.stderr) as tell:
        try:
            return look(document, workspace_of(options), os.environ, tell)
        except PipelineError as error:
            raise ShownPipelineError(error, document.sources) from error


def _lines(changes: Iterable[Drift]) -> Iterator[Line]:
    """The lines of a diff, below a heading for each plugin, server and package."""
    for subject, drifts in groupby(changes, key=attrgetter("subject")):
        yield line(subject, "strong")
        yield from (line(f"  {drift.line}", _TONES[drift.sign]) for drift in drifts)
