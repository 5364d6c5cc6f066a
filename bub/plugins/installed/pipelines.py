"""The pipelines that installed packages bring for others to extend, found by entry points; nothing is imported."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from bub.plugins.packages import places_of

if TYPE_CHECKING:  # importing it costs 40 ms, which only a file that extends such a pipeline pays
    from importlib.metadata import EntryPoint

PIPELINES = "bub.pipelines"
"""The group of the entry points that say where such pipelines are: `NAME = "package:file.yaml"`."""


def installed_pipeline(name: str) -> Path | None:
    """Return the file that `PACKAGE:NAME` means; None if no installed package brings it."""
    entry = _offered().get(_key(name))
    if entry is None:
        return None
    package, _, file = entry.value.partition(":")
    if not re.fullmatch(r"[\w.-]+\.ya?ml", file) or not all(part.isidentifier() for part in package.split(".")):
        return None
    return next((path for path in places_of(entry, package, file) if path.is_file()), None)


def installed_pipelines() -> list[str]:
    """List the pipelines of installed packages, each as `PACKAGE:NAME`."""
    return sorted(_offered())


def _offered() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {_key(f"{one.dist.name}:{one.name}"): one for one in entry_points(group=PIPELINES) if one.dist is not None}


def _key(name: str) -> str:
    """The name with that of its package in the one form that is compared (PEP 503)."""
    package, _, pipeline = name.partition(":")
    return f"{re.sub(r'[-_.]+', '-', package).lower()}:{pipeline}"
