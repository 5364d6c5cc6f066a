"""The `{name}` in a `default`: each stands for a value, or for a field of the current message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bub.base.diagnostics import Place
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import place_in

TEMPLATE_NAME = re.compile(r"(?<!\{)\{([a-z_][a-z0-9_]*)\}(?!\})")
"""A `{name}` in a `default`; `{{name}}` stands for itself."""


def template_names(node: Node | None) -> Iterator[str]:
    """The names that the `{name}` of a default refer to, all the way down."""
    for text in _texts(node):
        yield from TEMPLATE_NAME.findall(text.value)


def template_places(node: Node | None) -> Iterator[tuple[str, Place]]:
    """Each name that a default refers to, with the place where it is written."""
    for text in _texts(node):
        for found in TEMPLATE_NAME.finditer(text.value):
            yield found[1], place_in(text, *found.span(1))


def _texts(node: Node | None) -> Iterator[Node]:
    if node is not None and isinstance(node.value, str):
        yield node
    elif node is not None:
        for child in (*node.elements(), *(item for _, item in node.items())):
            yield from _texts(child)
