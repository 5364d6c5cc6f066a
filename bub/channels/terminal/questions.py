"""What a question shows of the call that it is about: its very arguments, and a change to a file as a diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bub.approval import Question
from bub.base.plain import plain
from bub.channels.terminal.escaping import escape_invisible

_EDIT = "fs.edit"
_MOST_CHANGED = 80
"""How many lines of a change are shown; the question says how many there are beside."""
_MOST_LETTERS = 8000
"""How many letters of a change are shown, if its lines are long."""
_UNCHANGED = 3
"""How many lines that stay as they are stand around each change."""
_MOST_COMPARED = 600
"""How many lines are compared with each other; of more, all old ones are shown to go and all new ones to come."""

REMOVED, ADDED = "  - ", "  + "
"""How a line of a change begins that goes, or comes; a line of an argument begins with its name or further in."""


def arguments_of(question: Question) -> str:
    """Return the very arguments of a call, a line each; a longer one goes on below itself, indented."""
    return _arguments(question.arguments) or "  nothing"


def _arguments(arguments: Mapping[str, Any]) -> str:
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else str(plain(value))
        lines.append(f"  {escape_invisible(f'{name}: {text}')}".replace("\n", "\n    "))
    return "\n".join(lines)


def is_edit(question: Question) -> bool:
    """Whether a call replaces one text by another."""
    old, new = question.arguments.get("old"), question.arguments.get("new")
    return question.tool == _EDIT and isinstance(old, str) and isinstance(new, str) and old != new


def change_of(question: Question) -> tuple[str, int]:
    """Return an edit with its change as a diff, and how many lines of it are not shown whole."""
    given = dict(question.arguments)
    old, new = escape_invisible(given.pop("old")), escape_invisible(given.pop("new"))
    shown, hidden, left = [_arguments(given)], 0, _MOST_LETTERS
    for line in _compare(old.split("\n"), new.split("\n")):
        if len(line) > left or len(shown) > _MOST_CHANGED:
            hidden += 1
        if left > 0 and len(shown) <= _MOST_CHANGED:
            shown.append(line if len(line) <= left else f"{line[:left]}…")
            left -= len(line)
    return "\n".join(shown), hidden


def _compare(old: list[str], new: list[str]) -> Iterator[str]:
    """Yield the lines of a diff; what stays as it is far from any change is left out."""
    if len(old) + len(new) > _MOST_COMPARED:
        yield from (REMOVED + line for line in old)
        yield from (ADDED + line for line in new)
        return
    from difflib import SequenceMatcher

    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_UNCHANGED))
    for index, group in enumerate(groups):
        if index:
            yield "    …"
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (f"    {line}" for line in old[old_from:old_to])
                continue
            yield from (REMOVED + line for line in old[old_from:old_to])
            yield from (ADDED + line for line in new[new_from:new_to])
