"""The files that are open in the editor, and positions in them as the editor counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from bub.base.diagnostics import Position, Range

_LINE_END = r"\r\n|\r|\n"


class Encoding(msgspec.Struct, frozen=True):
    """How a client counts columns: in units of UTF-16, unless both sides agreed on code points."""

    utf16: bool = True

    def count(self, text: str) -> int:
        """Return how many columns a text takes."""
        return len(text) + sum(one > "\uffff" for one in text) if self.utf16 and not text.isascii() else len(text)

    def cut(self, text: str, columns: int) -> str:
        """Return the beginning of a text that takes so many columns; all of it if it is shorter."""
        if not self.utf16 or text.isascii():
            return text[:columns]
        for index, one in enumerate(text):
            if columns <= 0:
                return text[:index]
            columns -= 1 + (one > "\uffff")
        return text


class Buffer(msgspec.Struct, frozen=True):
    """One open text: its address, what version the client calls it, and what it holds."""

    uri: str
    version: int | None
    text: str

    @property
    def path(self) -> Path | None:
        """The file it is or will be; None for a text that has no file yet."""
        return path_of(self.uri)

    @property
    def lines(self) -> list[str]:
        return split_lines(self.text)

    def change(self, changes: Iterable[Mapping[str, Any]], encoding: Encoding) -> str:
        """Return the text after the changes of a client: a whole text, or pieces in the place of ranges."""
        text = self.text
        for change in changes:
            piece = str(change["text"])
            span = change.get("range")
            if span is None:
                text = piece
            else:
                start, end = (_offset(text, span[side], encoding) for side in ("start", "end"))
                text = text[:start] + piece + text[max(start, end) :]
        return text


def _offset(text: str, position: Mapping[str, Any], encoding: Encoding) -> int:
    """Return where a position of the client is in a text; one behind the end of a line or of the text is that end."""
    start, number = 0, max(int(position["line"]), 0)
    for found in re.finditer(_LINE_END, text) if number else ():
        number -= 1
        start = found.end()
        if not number:
            break
    if number:
        return len(text)
    end = re.search(_LINE_END, text[start:])
    line = text[start : start + end.start()] if end is not None else text[start:]
    return start + len(encoding.cut(line, max(int(position["character"]), 0)))


def split_lines(text: str) -> list[str]:
    """Return the lines of a text as the client and the reader of YAML count them."""
    return re.split(_LINE_END, text)


def path_of(uri: str) -> Path | None:
    """Return the path that an address means; None if it is none of this machine's files."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path)
    if "\0" in path:
        return None
    return Path(path[1:] if re.match("/[A-Za-z]:", path) else path)


# Positions


class Ruler(msgspec.Struct, frozen=True):
    """Turns positions in the lines of a text into those of the client, and back."""

    lines: list[str]
    encoding: Encoding

    def position(self, at: Position) -> dict[str, int]:
        line = self.lines[at.line - 1] if at.line <= len(self.lines) else ""
        bom = int(at.line == 1 and line.startswith("\ufeff"))  # what reads YAML does not count it
        return {"line": at.line - 1, "character": self.encoding.count(line[: at.column - 1 + bom])}

    def range(self, span: Range) -> dict[str, Any]:
        return {"start": self.position(span.start), "end": self.position(span.end)}

    def place(self, position: Mapping[str, Any]) -> Position:
        number = min(max(int(position["line"]), 0), len(self.lines) - 1)
        line = self.lines[number]
        before = self.encoding.cut(line, max(int(position["character"]), 0))
        return Position(number + 1, len(before) + 1 - int(number == 0 and before.startswith("\ufeff")))
