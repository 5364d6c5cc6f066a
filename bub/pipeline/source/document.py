"""YAML read with places: every key and value knows the file, line and column it is at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bub.base.diagnostics import Place

Plain = Any
"""A value without places: None, bool, int, float, str, dict or list."""


class Node(msgspec.Struct, frozen=True, gc=False):
    """One value of a document, and its place.

    `value` is a scalar, a dict of name → Node for a mapping, or a tuple of Nodes for a sequence. `place` is the
    range of the value's own text; `key` that of the key that holds it (None for the root and list items).
    `origins` lists every place that set the value, weakest first, so the last one is `place` (for a mapping:
    every file's mapping that was merged into it).
    `quoted` is true for a string that was written in quotes or as a block.
    """

    value: Plain
    place: Place
    key: Place | None = None
    origins: tuple[Place, ...] = ()
    quoted: bool = False

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_sequence(self) -> bool:
        return isinstance(self.value, tuple)

    @property
    def where(self) -> Place:
        """The place a finding about this value's existence points at: its key, or itself if it has none."""
        return self.key or self.place

    def get(self, *path: str | int) -> Node | None:
        """Return the value below this one at `path`, or None when there is none (of that shape)."""
        node = self
        for step in path:
            value = node.value
            if isinstance(value, dict):
                if step not in value:
                    return None
            elif not (isinstance(value, tuple) and isinstance(step, int) and 0 <= step < len(value)):
                return None
            node = value[step]
        return node

    def items(self) -> Iterator[tuple[str, Node]]:
        """Yield the entries of a mapping in the order written; nothing for any other value."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def elements(self) -> tuple[Node, ...]:
        """Return the items of a sequence; nothing for any other value."""
        return self.value if isinstance(self.value, tuple) else ()

    def plain(self) -> Plain:
        """Return the value without places, as `yaml.safe_load` would give it."""
        value = self.value
        if isinstance(value, dict):
            return {name: node.plain() for name, node in value.items()}
        if isinstance(value, tuple):
            return [node.plain() for node in value]
        return value


def walk(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield every value of a document with its dotted path (`stages.prompt.needs[0]`), from the outside in."""
    yield path, node
    for name, child in node.items():
        yield from walk(child, f"{path}.{name}" if path else name)
    for index, child in enumerate(node.elements()):
        yield from walk(child, f"{path}[{index}]")
