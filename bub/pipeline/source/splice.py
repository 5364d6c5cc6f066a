"""Editing the text of a file at the places where the reader found things: what is not named stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from bub.base.diagnostics import Range
from bub.pipeline.source.line_index import LineIndex
from bub.pipeline.source.scalars import read_scalar

_BOM = "\ufeff"
_WORD = re.compile(r"[^\s\"'\\]+")


@dataclass(frozen=True, slots=True)
class Edit:
    """Put `text` in the place of a range; an empty range puts it in between, an empty text takes the range out.

    With `keep_quotes`, a word that replaces a value in quotes gets the same ones.
    """

    range: Range
    text: str
    keep_quotes: bool = False


def splice(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with every edit made, all else as it was, character for character.

    Ranges are those of findings and nodes: they count code points, and a byte order mark is no part of line 1. Raises
    `ValueError` for a range that is not in the text, and for edits that overlap; those that only touch do not, unless
    both are between the same two characters, since nobody knows which comes first.
    """
    bom, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    lines = LineIndex(text)
    parts, done, last = [bom], 0, None
    for edit in sorted(edits, key=lambda edit: edit.range):
        start, end = lines.offset(edit.range.start), lines.offset(edit.range.end)
        if start > end:
            raise ValueError("a range ends before it begins")
        if start < done or edit.range == last:
            raise ValueError("two edits overlap")
        fresh = _keep_quotes(text[start:end], edit.text) if edit.keep_quotes else edit.text
        parts += [text[done:start], fresh]
        done, last = end, edit.range
    return "".join([*parts, text[done:]])


def _keep_quotes(old: str, word: str) -> str:
    """Return the word in the quotes of `old`.

    What would not be text without them is left alone: `true` for `"yes"` is meant to lose the quotes.
    """
    quote = old[:1]
    if quote not in ('"', "'") or len(old) < 2 or not old.endswith(quote) or not _WORD.fullmatch(word):
        return word
    return f"{quote}{word}{quote}" if isinstance(read_scalar(word), str) else word
