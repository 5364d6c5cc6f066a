"""Markdown that is still being written, in finished blocks and an unfinished rest."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}(?=[^`]*$)|~{3,})")
_LIST = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?:\s|$)")


class Blocks:
    """Cuts a text into blocks as it comes: a block ends with a blank line, or with the end of a fenced one.

    What is indented below a list belongs to it. All blocks and the rest together are the text, and they are the
    same however it was cut when it came.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line = ""
        self._fence = ""
        self._fence_is_the_block = False
        self._is_behind_a_gap = False

    @property
    def rest(self) -> str:
        """What is not finished."""
        return "".join(self._lines) + self._line

    def feed(self, text: str) -> Iterator[str]:
        """Take the next piece; gives the blocks that are finished by it."""
        *lines, rest = text.split("\n")
        for line in lines:
            yield from self._begin(self._line + line)
            yield from self._end(f"{self._line}{line}\n")
            self._line = ""
        if rest:
            self._line += rest
            yield from self._begin(self._line)

    def finish(self) -> str:
        """Return the rest, which is finished then; "" if there is none."""
        rest = self.rest
        Blocks.__init__(self)
        return rest

    def _begin(self, line: str) -> Iterator[str]:
        """Yield what is finished since this line, of which the first letter is known, is part of another block."""
        if self._is_behind_a_gap and line and not line[0].isspace():
            yield self._block()

    def _end(self, line: str) -> Iterator[str]:
        """Yield what is finished with the end of this line."""
        self._lines.append(line)
        found = _FENCE.match(line.rstrip("\n"))
        if self._fence:
            if found and found["mark"].startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence = ""
                if self._fence_is_the_block:
                    yield self._block()
        elif found:
            self._fence = found["mark"]
            self._fence_is_the_block = not found["indent"] and _LIST.match(self._lines[0]) is None
            self._is_behind_a_gap = False
        else:
            # Blank lines before a block are part of it.
            self._is_behind_a_gap = not line.strip() and any(map(str.strip, self._lines))

    def _block(self) -> str:
        block = "".join(self._lines)
        self._lines, self._is_behind_a_gap = [], False
        return block
