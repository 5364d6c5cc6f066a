"""Bub's own folder, held by what runs for long, so that `bub uninstall` does not remove it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bub.base.private import hold_together
from bub.errors import BubError


@contextmanager
def hold_home(home: Path) -> Iterator[None]:
    """Keep `bub uninstall` from removing Bub's own folder as long as the block lasts.

    Raises `BubError` if it is at work already.
    """
    with ExitStack() as held:
        try:
            held.enter_context(hold_together(home / "chats.lock"))
        except BlockingIOError:
            raise BubError(f"`bub uninstall` is removing {home}", help="wait until it has ended") from None
        yield
