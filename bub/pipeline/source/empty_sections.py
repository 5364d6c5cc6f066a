"""Sections with nothing behind their key: each is reported, and read as what was probably meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from bub.base.diagnostics import Findings, suggest
from bub.hooks.facts import HOOK_KEYS, STAGE_KEYS
from bub.pipeline.source.document import Node

_Shape = Mapping[str, Any] | tuple[()]
_ENTRIES: _Shape = {"*": {}}
_SECTIONS: Mapping[str, _Shape] = {
    "stages": _ENTRIES,
    "hooks": _ENTRIES,
    "plugins": _ENTRIES,
    "mcp": _ENTRIES,
    "profiles": {
        "*": {
            "plugins": (),
            "tools": {},
            "settings": {},
            "stages": _ENTRIES,
            "hooks": _ENTRIES,
            "schedules": _ENTRIES,
            "mcp": _ENTRIES,
        },
    },
    "routes": (),
    "settings": {},
    "agents": {"*": ()},
    "schedules": _ENTRIES,
    "tests": _ENTRIES,
}
"""The keys that need a mapping `{…}` or a list `()`, so that no value at all is a mistake there."""

_KEYS_OF_ENTRIES = frozenset(
    {
        *STAGE_KEYS,
        *HOOK_KEYS,
        "path",
        "optional",
        "runtime",
        "extends",
        "plugins",
        "channels",
        "concurrency",
        "profile",
        "cron",
    }
)
"""Keys of stages, hooks, plugins, profiles and tests whose value is no mapping; an entry's value is one."""

_TOP_LEVEL = frozenset({"version", "extends", "description", "on_failure", *_SECTIONS})


def fill_empty_sections(root: Node, findings: Findings) -> Node:
    """Report every section with nothing behind its key, and return the document as it was probably meant.

    Lines that should be indented below an empty section are taken as its entries; else the section is empty.
    """
    return _fill_empty(_indent_sections(root, findings), _SECTIONS, "", findings)


def _indent_sections(root: Node, findings: Findings) -> Node:
    """Take the entries behind an empty section that are no sections themselves as if they were indented below it."""
    entries: dict[str, Node] = {}
    empty: str | None = None
    for name, node in root.items():
        if empty is not None and not name.startswith("x-") and suggest(name, _TOP_LEVEL) is None:
            section = entries[empty]
            if section.value is None:
                _report_not_indented(findings, section, empty, name)
            entries[empty] = replace(section, value={**(section.value or {}), name: node})
            continue
        entries[name] = node
        empty = name if node.value is None and _SECTIONS.get(name) else None
    return replace(root, value=entries)


def _indent_keys(node: Node, path: str, findings: Findings) -> Node:
    """Take what can only be keys of an empty entry, behind it, as if it were indented below that entry."""
    entries: dict[str, Node] = {}
    empty: str | None = None
    for name, child in node.items():
        if empty is None or name not in _KEYS_OF_ENTRIES or child.is_mapping or child.value is None:
            entries[name] = child
            empty = name if child.value is None else None
            continue
        entry = entries[empty]
        if entry.value is None:
            _report_not_indented(findings, entry, f"{path}.{empty}", name)
        entries[empty] = replace(entry, value={**(entry.value or {}), name: child})
    return replace(node, value=entries)


def _report_not_indented(findings: Findings, empty: Node, path: str, first: str) -> None:
    name = path.rpartition(".")[2]
    findings.add(
        "B011",
        f"`{name}` has nothing behind it: the lines below are not indented",
        empty.where,
        path=path,
        help=f"indent `{first}`, and what else belongs to `{name}`",
    )


def _fill_empty(node: Node, shape: _Shape, path: str, findings: Findings) -> Node:
    """Report every section that has nothing behind it, and read on as if it were written as empty."""
    mapping = isinstance(shape, Mapping)
    if node.value is None:
        name = path.rpartition(".")[2]
        empty = "{}" if mapping else "[]"
        findings.add(
            "B011",
            f"`{name}` has nothing behind it",
            node.where,
            path=path,
            help=f"write `{name}: {empty}` to say that it is empty on purpose, or remove the key",
        )
        return replace(node, value={} if mapping else ())
    if not isinstance(shape, Mapping) or not node.is_mapping:
        return node
    if "*" in shape:
        node = _indent_keys(node, path, findings)
    return replace(node, value=dict(_fill_entries(node, shape, path, findings)))


def _fill_entries(node: Node, shape: Mapping[str, _Shape], path: str, findings: Findings) -> Iterator[tuple[str, Node]]:
    for name, child in node.items():
        inner = shape.get(name, shape.get("*"))
        below = f"{path}.{name}" if path else name
        yield name, child if inner is None else _fill_empty(child, inner, below, findings)
