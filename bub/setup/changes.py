"""What the answers of a set-up change in the text of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Any

from bub.pipeline.edit.paths import REMOVED, Keys
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document
from bub.pipeline.source.profiles import effective


def changes_of(
    document: Document, profile: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[Keys, Any]:
    """Return the changes in the file between the settings `before` and `after`, for `amend`; None takes a key out.

    A value that the profile itself sets changes there. Other changes belong to all profiles where they are made for
    `default`, else to the profile alone.
    """
    chain = effective(document, profile).chain
    usual: Keys = () if profile == DEFAULT_PROFILE else ("profiles", profile)

    def home(keys: Keys) -> Keys:
        own = ("profiles", profile)
        is_own = profile in chain and document.root.get(*own, "settings", *keys) is not None
        return (*(own if is_own else usual), "settings", *keys)

    return {home(keys): value for keys, value in setting_changes(before, after).items()}


def setting_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[Keys, Any]:
    """What settings change from `before` to `after`, by their path; REMOVED takes one out."""
    return {keys: REMOVED if value is None else value for keys, value in _leaves(before, after)}


def _leaves(before: Mapping[str, Any], after: Mapping[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    for name, value in after.items():
        keys, old = (*above, name), before.get(name)
        if isinstance(value, Mapping):
            yield from _leaves(old if isinstance(old, Mapping) else {}, value, keys)
        elif value != old or type(value) is not type(old):
            yield keys, value


def difference(file: str, before: str, after: str) -> list[str]:
    """Return the lines that differ between two versions of a file, in the unified form; none if they are the same."""
    lines = unified_diff(before.splitlines(), after.splitlines(), file, file, n=1, lineterm="")
    return [line for line in lines if line.strip() not in ("---", "+++")]
