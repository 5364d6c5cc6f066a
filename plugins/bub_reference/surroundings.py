"""The surroundings of code of a plugin: for which profile it runs, and with whose settings.

The reference has one process, one configuration. Here each profile has its own, so whoever calls a plugin says for
which one; what nobody calls, such as a test, sees the process's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bub.asking import Asking


@dataclass(eq=False)
class Surroundings:
    """What the names of the reference answer with: the `settings` of a profile, and what was made of them.

    `folder` is Bub's own folder, None if the environment says which. `asking` puts the questions of a set-up.
    `section` is the plugin's own, "" outside of one.
    """

    settings: Mapping[str, Any]
    made: dict[str, list[Any]] = field(default_factory=dict)
    folder: Path | None = None
    asking: Asking | None = None
    section: str = ""

    @property
    def home(self) -> Path:
        """Bub's own folder."""
        if self.folder is not None:
            return self.folder
        said = os.environ.get("BUB_HOME")
        return Path(said).expanduser() if said else Path.home() / ".bub"


DATA: dict[str, Any] = {}
"""The settings of the whole process, which only a program that has no pipeline file fills."""

PROCESS = Surroundings(DATA)
"""What code sees that nobody calls for a profile."""

_CURRENT: ContextVar[Surroundings] = ContextVar("bub_reference_surroundings", default=PROCESS)


def here() -> Surroundings:
    """Return the surroundings of the code that asks."""
    return _CURRENT.get()


@contextmanager
def within(surroundings: Surroundings) -> Iterator[Surroundings]:
    """Let the code of the block run there."""
    token = _CURRENT.set(surroundings)
    try:
        yield surroundings
    finally:
        _CURRENT.reset(token)
