"""From an offset into a text to its line and column, and back."""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

from bub.base.diagnostics import Position, Range


class Stretch(msgspec.Struct, frozen=True, gc=False):
    """The text between two offsets."""

    lines: LineIndex
    start: int
    end: int

    @property
    def range(self) -> Range:
        return self.lines.range(self.start, self.end)


class LineIndex:
    """Turns an offset into a text (in code points) into a position.

    YAML 1.1 parsers also count U+0085, U+2028 and U+2029 as line ends; editors, and so positions, do not.
    """

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]
        self._length = len(text)

    def position(self, offset: int) -> Position:
        """Return the line and column of an offset; past the end is the end."""
        offset = max(0, min(offset, self._length))
        line = bisect_right(self._starts, offset)
        return Position(line, offset - self._starts[line - 1] + 1)

    def offset(self, position: Position) -> int:
        """Return the offset of a position; raises `ValueError` for one that is not in the text."""
        line, column = position
        if 1 <= line <= len(self._starts) and column >= 1:
            offset = self._starts[line - 1] + column - 1
            if self.position(offset) == position:
                return offset
        raise ValueError(f"line {line}, column {column} is not in the text")

    def range(self, start: int, end: int) -> Range:
        """Return the range between two offsets."""
        first = self.position(start)
        begin = self._starts[first.line - 1]
        # Nearly all ends on the line where it begins: there is no need to look the line up once more.
        if first.line < len(self._starts) and start <= end < self._starts[first.line]:
            return Range(first, Position(first.line, end - begin + 1))
        return Range(first, self.position(max(start, end)))
