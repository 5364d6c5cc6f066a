"""What is wrong with the text of a YAML file that its parser would read, or would refuse in words that help nobody."""

from __future__ import annotations

import re

import msgspec

SYNTAX = "B001"
TAB = "B003"
TAG = "B005"

_FORBIDDEN = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]"
"""What YAML 1.2 (§5.1) allows nowhere in a file, not even in a comment.

The few that are refused are named, not the many that are allowed: such a set takes ten times as long to compile.
"""

_BLANKS = r"[ \t]*"
_LOOK_ALIKE = "[\u00a0\u1680\u180e\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff]"
"""What looks like a space, or like nothing at all, and is text to YAML."""
_UP_TO_A_VALUE = r"[ \t]*(?:-[ \t]*)?(?:[\w.-]+:[ \t]*)?"


class Fault(msgspec.Struct, frozen=True):
    """One reason why a text is not YAML, between two offsets in code points; `related` is another stretch of it."""

    code: str
    message: str
    help: str | None
    start: int
    end: int
    related: tuple[str, int, int] | None = None


def forbidden_character(text: str) -> Fault | None:
    """Return the first control character of a text, or None when it has none."""
    found = None if _is_seen(text) else re.search(_FORBIDDEN, text)
    if found is None:
        return None
    name = f"U+{ord(found.group()):04X}"
    return Fault(
        SYNTAX,
        f"the control character {name} is not allowed in YAML",
        f'remove it, or write it as an escape in double quotes: "\\u{ord(found.group()):04x}"',
        *found.span(),
    )


def tab_fault(start: int, end: int) -> Fault:
    """Return the refusal of a tab between `start` and `end`."""
    return Fault(TAB, "a tab is used for indentation", "indent with spaces", start, end)


def has_look_alikes(text: str) -> bool:
    """Return whether a text has any character that looks like a space and is none."""
    return not _is_seen(text) and re.search(_LOOK_ALIKE, text) is not None


def _is_seen(text: str) -> bool:
    """Return whether all of a text can be seen, as of most files: what is forbidden and what looks like a space cannot.

    The patterns for these take longer to compile than such a file to read.
    """
    return text.replace("\n", " ").isprintable()


def look_alike_of_a_space(text: str, start: int) -> int | None:
    """Return the place of a character that looks like a space and is none, in an entry that begins at `start`.

    That is in front of the entry, behind its `-`, or behind the `:` of its key.
    """
    at = re.compile(_UP_TO_A_VALUE).match(text, start).end()  # type: ignore[union-attr]  # matches "" as well
    return at if re.compile(_LOOK_ALIKE).match(text, at) else None


def look_alike_fault(text: str, at: int) -> Fault:
    """Return the refusal of the character at `at`, which cannot be seen."""
    import unicodedata  # only where there is one

    name = f"{unicodedata.name(text[at]).lower()}, U+{ord(text[at]):04X}"
    return Fault(
        SYNTAX,
        f"this looks like a space and is another character ({name})",
        "write a space; such characters come with text that is copied from elsewhere",
        at,
        at + 1,
    )


def indentation_end(text: str, line: int) -> int:
    """Return where the indentation of the line that begins at `line` ends."""
    return re.compile(_BLANKS).match(text, line).end()  # type: ignore[union-attr]  # matches "" as well


def indentation_tab(text: str, line: int, at: int) -> tuple[int, int] | None:
    """Return the first run of tabs between `line`, where a line begins, and `at`, which lies in its indentation."""
    found = re.compile(r"\t+").search(text, line, at)
    return found.span() if found else None
