"""Reading single values of a file leniently: what cannot be read, or is only a reference, is None."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bub.base.diagnostics import Place
from bub.base.duration import parse_duration
from bub.pipeline.source.document import Node


def text_of(node: Node | None) -> str | None:
    """A text that is no reference, or None."""
    if node is None or not isinstance(node.value, str) or "${" in node.value:
        return None
    return node.value


def flag_of(node: Node | None) -> bool | None:
    """A boolean (also one that a reference gave as text), or None."""
    if node is None:
        return None
    return {True: True, False: False, "true": True, "false": False}.get(node.value if _hashable(node.value) else None)


def seconds_of(node: Node | None) -> float | None:
    """A duration in seconds, or None."""
    text = text_of(node)
    return parse_duration(text) if text is not None else None


def names_of(node: Node | None) -> tuple[tuple[str, Place], ...]:
    """Return the strings of a list with their places; () for anything else."""
    if node is None:
        return ()
    return tuple((item.value, item.place) for item in node.elements() if isinstance(item.value, str))


def _hashable(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def mappings_in(node: Node | None) -> Iterator[tuple[str, Node]]:
    """The entries of a mapping that are mappings themselves; none of anything else."""
    if node is not None:
        yield from ((name, item) for name, item in node.items() if item.is_mapping)
