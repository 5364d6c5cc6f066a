"""Writing a lock as TOML: the same lock is always the same text, and a change of it is a change of few lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from bub.plugins.lock.facts import Lock

_HEAD = "# Made by `bub lock`; `bub lock --check` tells what has changed since. Nobody needs to write here.\n"

_OPEN = frozenset({"tool", "bub", "packages", "plugins", "servers", "tools"})
"""What has a heading of its own; all else is written in the line of its key."""


def as_toml(packages: Sequence[Mapping[str, Any]], lock: Lock, requires_python: str) -> str:
    """Write a lock file: the sources of packages (PEP 751), and what Bub knows of them."""
    document = {
        "lock-version": "1.0",
        "created-by": "bub",
        "requires-python": requires_python,
        "packages": packages,
        "tool": {"bub": {"version": lock.version, **msgspec.to_builtins(lock)}},
    }
    return _HEAD + "".join(_table((), document)).replace("\n\n\n", "\n\n").strip("\n") + "\n"


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    opened = {key: value for key, value in table.items() if key in _OPEN and isinstance(value, Mapping | list | tuple)}
    for key, value in table.items():
        if key not in opened:
            yield f"{_key(key)} = {_value(value)}\n"
    for key, value in opened.items():
        inner = (*path, key)
        heading = ".".join(map(_key, inner))
        if isinstance(value, Mapping):
            yield f"\n[{heading}]\n" if any(name not in _OPEN for name in value) else ""
            yield from _table(inner, value)
        else:
            for one in value:
                yield f"\n[[{heading}]]\n"
                yield from _table(inner, one)


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "_").replace("_", "a").isalnum()
    return name if is_bare else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        items = [_value(one) for one in value]
        if any(isinstance(one, Mapping) for one in value):
            return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
        return f"[{', '.join(items)}]"
    return str(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
