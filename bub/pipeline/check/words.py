"""The words by which findings name the values of a file."""

from __future__ import annotations

from collections.abc import Iterable

from bub.base.json_schema import join_steps
from bub.secrets.names import is_secret_variable

Path = tuple[str | int, ...]

COLLECTIONS = {
    ("stages",): "stage",
    ("hooks",): "hook",
    ("plugins",): "plugin",
    ("mcp",): "server",
    ("profiles",): "profile",
    ("tests",): "test",
    ("profiles", "*", "stages"): "stage",
    ("profiles", "*", "hooks"): "hook",
    ("profiles", "*", "mcp"): "server",
    ("tests", "*", "mock"): "mock",
    ("tests", "*", "mock_tools"): "mocked tool",
}
"""Mappings whose keys are names the user chose, and what one of their entries is called."""


def pattern_of(path: Path) -> tuple[str | int, ...]:
    return (path[0], "*", *path[2:]) if len(path) > 1 and path[0] in ("profiles", "tests") else path


def entry_word(path: Path) -> str | None:
    return COLLECTIONS.get(pattern_of(path[:-1])) if path else None  # type: ignore[arg-type]


def describe(path: Path) -> str:
    """Name a value in the words of the file: stage `x`, `timeout` of stage `x`, route 2, item 1 of `only` of …"""
    if not path:
        return "the file"
    above, last = path[:-1], path[-1]
    if isinstance(last, int):
        return f"route {last + 1}" if above == ("routes",) else f"item {last + 1} of {describe(above)}"
    if path[0] == "settings":
        return f"`{join_steps(path)}`"
    if path[0] in ("profiles", "tests") and path[2:3] == ("settings",):
        return f"`{join_steps(path[2:])}` of {describe(path[:2])}"
    entry = entry_word(path)
    if entry is not None:
        return f"{entry} `{shorten(last)}`" + (f" of {describe(above[:-1])}" if len(above) > 1 else "")
    return f"`{shorten(last)}`" + (f" of {describe(above)}" if above else "")


def may_be_told(path: Path) -> bool:
    """Whether a message may name what is at a path: no setting, and nothing that is named like a secret.

    In the place of a setting there may be a key that was pasted there.
    """
    is_setting = path[:1] == ("settings",) or (path[:1] in (("profiles",), ("tests",)) and path[2:3] == ("settings",))
    return not is_setting and not any(is_secret_variable(step) for step in path if isinstance(step, str))


def name_value(value: str | float) -> str:
    """Name a text or a number in a message."""
    try:
        text = shorten(str(value))
    except ValueError:  # it has thousands of digits
        return "of many digits"
    return f"`{text}`" if text else '`""`'


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:39] + "…"


def list_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def list_few(names: Iterable[str], most: int = 6) -> str:
    """Names in a sentence; of many the first few."""
    known = list(names)
    return list_names(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def join_names(names: Iterable[str], word: str = "or") -> str:
    return join([f"`{name}`" for name in names], word)


def join(items: Iterable[str], word: str) -> str:
    *first, last = items
    return f"{', '.join(first)} {word} {last}" if first else last
