"""The sections of a pipeline file and the names in them, as an editor lists them."""

from __future__ import annotations

from typing import Any

from bub.base.diagnostics import Range
from bub.lsp.buffers import Ruler
from bub.pipeline.source.document import Node

_NAMESPACE, _CLASS, _FUNCTION, _EVENT, _MODULE, _PROPERTY, _KEY = 3, 5, 12, 24, 2, 7, 20
_KINDS = {
    "stages": _FUNCTION,
    "hooks": _EVENT,
    "plugins": _MODULE,
    "profiles": _CLASS,
    "settings": _PROPERTY,
    "tests": _KEY,
}
"""As what a client shows the names in a section."""


def render_outline(root: Node, ruler: Ruler) -> list[dict[str, Any]]:
    """Return the symbols of a file: its top-level keys, and below each section what it names."""
    return [
        _symbol(name, node, _NAMESPACE if node.is_mapping else _KEY, ruler, inner=_KINDS.get(name))
        for name, node in root.items()
    ]


def _symbol(name: str, node: Node, kind: int, ruler: Ruler, inner: int | None = None) -> dict[str, Any]:
    where = node.where.range
    whole = Range(min(where.start, node.place.range.start), max(where.end, node.place.range.end))
    below = [_symbol(child, found, inner, ruler) for child, found in node.items()] if inner is not None else []
    return {
        "name": name or '""',  # a client refuses a symbol without a name
        "kind": kind,
        "range": ruler.range(whole),
        "selectionRange": ruler.range(where),
        "children": below,
    }
