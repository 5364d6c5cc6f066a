"""What a question shows of the call that it is about: its very arguments, and a change to a file as a diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bub.approval import Question
from bub.base.plain import plain
from bub.channels.terminal.escaping import escape_invisible

_EDIT, _PATCH = "fs.edit", "fs.patch"
_CHANGES = ("old", "new", "all", "edits", "patch")
"""The arguments that are shown as a change."""
_MOST_CHANGED = 80
"""How many lines of a change are shown; the question says how many there are beside."""
_MOST_LETTERS = 8000
"""How many letters of a change are shown, if its lines are long."""
_UNCHANGED = 3
"""How many unchanged lines are shown around each change."""
_MOST_COMPARED = 600
"""How many lines are compared with each other; of more, all old ones are shown to go and all new ones to come."""

REMOVED, ADDED = "  - ", "  + "
"""How a line of a change begins that goes, or comes; a line of an argument begins with its name or further in."""


def arguments_of(question: Question) -> str:
    """Return the very arguments of a call, a line each; a longer one goes on below itself, indented."""
    return _arguments(question.arguments) or "  nothing"


def reason_of(question: Question) -> str:
    """Return a line that says why it is asked, if that is not only what the profile wants; else ""."""
    return f"Why you are asked: {escape_invisible(question.why)}." if question.why else ""


def _arguments(arguments: Mapping[str, Any]) -> str:
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else str(plain(value))
        lines.append(f"  {escape_invisible(f'{name}: {text}')}".replace("\n", "\n    "))
    return "\n".join(lines)


def is_edit(question: Question) -> bool:
    """Whether a call changes pieces of files, so that its change can be shown."""
    return bool(_edits_of(question)) or _patch_of(question) is not None


def change_of(question: Question) -> tuple[str, int]:
    """Return an edit with its change as a diff, and how many lines of it are not shown whole."""
    shown, hidden, left = [], 0, _MOST_LETTERS
    given = {name: value for name, value in question.arguments.items() if name not in _CHANGES}
    if given:
        shown.append(_arguments(given))
    for line in _changes_of(question):
        if len(line) > left or len(shown) > _MOST_CHANGED:
            hidden += 1
        if left > 0 and len(shown) <= _MOST_CHANGED:
            shown.append(line if len(line) <= left else f"{line[:left]}…")
            left -= len(line)
    return "\n".join(shown), hidden


def _edits_of(question: Question) -> list[tuple[str, str, bool]]:
    """Return the edits of a call: what each replaces, by what, and whether everywhere."""
    if question.tool != _EDIT:
        return []
    given = question.arguments
    edits = [(each.get("old"), each.get("new"), bool(each.get("all"))) for each in given.get("edits") or [given]]
    return edits if all(isinstance(old, str) and isinstance(new, str) and old != new for old, new, _ in edits) else []


def _patch_of(question: Question) -> str | None:
    patch = question.arguments.get("patch")
    return patch if question.tool == _PATCH and isinstance(patch, str) else None


def _changes_of(question: Question) -> Iterator[str]:
    patch, edits = _patch_of(question), _edits_of(question)
    for line in escape_invisible(patch).splitlines() if patch is not None else ():
        is_name = line.startswith(("--- ", "+++ "))
        yield f"  {line[0]} {line[1:]}" if line[:1] in ("-", "+") and not is_name else f"    {line.removeprefix(' ')}"
    for number, (old, new, everywhere) in enumerate(edits, 1):
        if everywhere or len(edits) > 1:
            yield f"  edit {number} of {len(edits)}{', wherever it occurs' if everywhere else ''}:"
        yield from _compare(escape_invisible(old).split("\n"), escape_invisible(new).split("\n"))


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
