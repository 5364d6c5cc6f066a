"""A folder in the environment to unpack packages in, and moving them into place: all of them, or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from bub.agent.local.installers import Workplace, wait_for_lock
from bub.asking import Telling
from bub.base.failures import explain_os_error
from bub.errors import BubError
from bub.setup.packages.environment import Environment

STAGE = "stage"
"""The folder of a workplace that packages are unpacked in, laid out like the environment."""

_NEW = ".bub-new-"
_MOVES, _TRASH = "moves.json", "trash"


class Moves(msgspec.Struct, frozen=True):
    """Which files go out of an environment and which come into it, by their paths below its prefix.

    `folders` are those that are made for it, the outer ones first.
    """

    out: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@contextmanager
def work_in(environment: Environment, again: str, tell: Telling) -> Iterator[Workplace]:
    """Give a new folder in the environment, to one process at a time; it is removed at the end, whatever happens.

    What a process that was killed left behind is taken back first. `again` is the command that is run. Raises
    BubError if the environment cannot be changed.
    """
    environment.require_changeable()
    try:
        lock = os.open(environment.prefix, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise _refused(environment, error) from None
    try:
        wait_for_lock(lock, tell)
        recover(environment)
        try:
            new = Path(tempfile.mkdtemp(prefix=_NEW, dir=environment.prefix))
        except OSError as error:
            raise _refused(environment, error) from None
        try:
            yield Workplace(new, lock, again)
        finally:
            if not (new / _MOVES).exists():  # else it is still needed to take everything back
                shutil.rmtree(new, ignore_errors=True)
    finally:
        os.close(lock)


def recover(environment: Environment) -> None:
    """Take back what processes that were killed had moved, and remove their folders."""
    for left in environment.prefix.glob(f"{_NEW}*"):
        if (left / _MOVES).exists():
            _take_back(left, environment.prefix)
        shutil.rmtree(left, ignore_errors=True)


def is_cut_short(environment: Environment) -> bool:
    """Return whether a process was killed while it changed the environment, and nobody has taken that back yet."""
    return any((left / _MOVES).exists() for left in environment.prefix.glob(f"{_NEW}*"))


def plan_moves(environment: Environment, out: Sequence[str], into: Sequence[str]) -> Moves:
    """Plan to take files `out` and to put others `into` the environment; of those `out`, the ones that are there."""
    there = [path for path in dict.fromkeys(out) if os.path.lexists(environment.prefix / path)]
    folders = {parent.as_posix() for path in into for parent in Path(path).parents}
    missing = [folder for folder in folders - {"."} if not (environment.prefix / folder).is_dir()]
    return Moves(tuple(there), tuple(into), tuple(sorted(missing)))


def move(moves: Moves, environment: Environment, workplace: Path) -> None:
    """Move files out of the environment, and those of the stage into it: all, or none if anything goes wrong.

    A process that is killed leaves a note of what it was about, which `recover` takes back. Raises BubError.
    """
    prefix, note = environment.prefix, workplace / _MOVES
    try:
        note.write_bytes(msgspec.json.encode(moves))
        for folder in moves.folders:
            (prefix / folder).mkdir(exist_ok=True)
        for path in moves.out:
            _rename(prefix / path, workplace / _TRASH / path)
        for path in moves.into:
            if os.path.lexists(prefix / path):
                raise FileExistsError(None, "there is a file of another package", str(prefix / path))
            _rename(workplace / STAGE / path, prefix / path)
    except BaseException as error:  # also Ctrl-C: no half of a package stays
        if note.exists():
            _take_back(workplace, prefix)
        if isinstance(error, OSError):
            raise _refused(environment, error) from None
        raise
    note.unlink()
    _remove_empty({parent for path in moves.out for parent in Path(path).parents}, environment)


def _remove_empty(folders: Iterable[Path], environment: Environment) -> None:
    """Remove folders below the prefix if nothing is in them any more, except those that every environment has."""
    site = environment.site.relative_to(environment.prefix)
    for folder in sorted(folders, key=lambda one: -len(one.parts)):
        if folder not in (site, *site.parents) and folder.as_posix() not in ("bin", "Scripts"):
            with suppress(OSError):  # something else is in it
                (environment.prefix / folder).rmdir()


def _take_back(workplace: Path, prefix: Path) -> None:
    moves = msgspec.json.decode((workplace / _MOVES).read_bytes(), type=Moves)
    for path in moves.into:
        if not os.path.lexists(workplace / STAGE / path) and os.path.lexists(prefix / path):
            _rename(prefix / path, workplace / STAGE / path)
    for path in moves.out:
        if os.path.lexists(workplace / _TRASH / path):
            _rename(workplace / _TRASH / path, prefix / path)
    for folder in reversed(moves.folders):
        with suppress(OSError):
            (prefix / folder).rmdir()
    (workplace / _MOVES).unlink()


def _rename(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def _refused(environment: Environment, error: OSError) -> BubError:
    where = error.filename or environment.prefix
    return BubError(
        f"the environment cannot be changed, and is as it was: {where}: {explain_os_error(error)}",
        help="correct that, or install Bub into an environment of its own, as with `uv tool install` or `pipx install`",
    )
