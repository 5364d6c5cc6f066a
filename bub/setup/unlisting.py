"""Taking plugins that are gone off the lists of a pipeline file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from bub.pipeline.edit.paths import REMOVED, Keys
from bub.pipeline.source.merge import load_text


def find_listings(text: str, plugins: Collection[str], *, file: str, base: Path) -> dict[Keys, Any]:
    """Return where a file itself lists plugins, or says something of them, and what has to be there instead.

    What it inherits stays, and so do the settings: a plugin that comes back finds them.
    """
    root = load_text(text, file=file, base=base).layers[-1].root
    changes: dict[Keys, Any] = {}
    profiles = root.get("profiles")
    for name, profile in profiles.items() if profiles is not None and profiles.is_mapping else ():
        listed = profile.get("plugins") if profile.is_mapping else None
        names = [str(item.value) for item in listed.elements()] if listed is not None else []
        kept = [one for one in names if one not in plugins]
        if kept != names:
            changes["profiles", name, "plugins"] = kept
    for plugin in plugins:
        if root.get("plugins", plugin) is not None:
            changes["plugins", plugin] = REMOVED
    return changes
