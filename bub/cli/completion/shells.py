"""Words as the shells write them: bash hands over its line as it was typed, and puts what it gets into it as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_BREAKS = "=:"
"""The signs at which bash begins a new word for completion (`COMP_WORDBREAKS`), beside blanks, quotes and its own."""

_ENDS = ";|&()\n"
"""What ends a command."""

_PLAIN = re.compile(r"[\w./:=@%+,-]")
_ASSIGNMENT = re.compile(r"\w+=")


class Typed(NamedTuple):
    """The line up to the cursor: the `words` that are complete, and the last one, which may be empty.

    `last` is its text, `quote` the quote that is open in it, `kept` the beginning of the text that bash leaves alone
    when it puts a completion into the line.
    """

    words: Sequence[str]
    last: str
    quote: str
    kept: str


def split_line(line: str) -> Typed:
    """Take a line of bash apart, up to the cursor, without its first word; nothing is expanded."""
    words: list[str] = []
    text, kept, quote = "", "", ""
    is_word = False
    letters = iter(line)
    for letter in letters:
        if quote == "'" or (quote and letter not in '"\\'):
            if letter == quote:
                quote = ""
            else:
                text += letter
        elif letter == "\\":
            text, is_word = text + next(letters, ""), True
        elif letter in "\"'":
            quote, is_word = ("", True) if quote else (letter, True)
            kept = text
        elif letter.isspace() or letter in _ENDS:
            if is_word:
                words.append(text)
            if letter in _ENDS:
                words.clear()
            text, kept, is_word = "", "", False
        else:
            text, is_word = text + letter, True
            if letter in _BREAKS:
                kept = text
    while words and _ASSIGNMENT.match(words[0]):
        del words[0]
    return Typed(words[1:], text, quote, kept)


def for_bash(value: str, typed: Typed) -> str | None:
    """Return what bash is to put into its line for a value; None if it cannot be written within the open quote."""
    if not value.startswith(typed.kept):
        return None
    rest = value.removeprefix(typed.kept)
    match typed.quote:
        case "'":
            return rest if "'" not in rest else None
        case '"':
            return re.sub(r'([\\"$`])', r"\\\1", rest) if "!" not in rest else None  # `!` means the history there
        case _:
            return "".join(letter if _PLAIN.match(letter) else f"\\{letter}" for letter in rest)
