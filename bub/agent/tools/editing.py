"""Changing the text of a file: reads it, makes the edits one after another, and says where they are."""

from __future__ import annotations

import difflib
import re
import threading
from collections.abc import Sequence

import msgspec

from bub.agent.tools.reach import AllowedPath
from bub.tools import ToolError

LARGEST_EDIT = 20_000_000
"""The largest file, in bytes, that is edited: its text is held in memory several times over."""

CHANGING = threading.Lock()
"""Files are changed one after another, whoever asks for it."""

_CLOSEST_AMONG = 5000


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One text that takes the place of another."""

    old: str
    new: str
    all: bool = False

    @property
    def with_plain_ends(self) -> Edit:
        """The edit with line ends of one letter; raises `ToolError` if it would change nothing."""
        old, new = (text.replace("\r\n", "\n") for text in (self.old, self.new))
        if not old:
            raise ToolError("`old` is empty", help="fs.write writes a whole file", kind="invalid_input")
        if old == new:
            raise ToolError("`old` and `new` are the same, so nothing would change", kind="invalid_input")
        encode(new)
        return Edit(old, new, self.all)


def make_edits(name: str, text: str, edits: Sequence[Edit]) -> tuple[str, str]:
    """Return the text with all edits made in their order, and where; raises `ToolError` if one does not fit."""
    done, problems = [], []
    for number, edit in enumerate(edits, 1):
        try:
            changed, places = replace_text(name, text, edit.with_plain_ends)
        except ToolError as error:
            if len(edits) == 1:
                raise
            problems.append(f"edit {number} of {len(edits)}: {error}")
        else:
            done.append(lines_of(text, places))
            text = changed
    if problems:
        raise ToolError("\n".join(["nothing was changed, since not all edits fit", *problems]), kind="invalid_input")
    return text, "; ".join(done)


def replace_text(name: str, text: str, edit: Edit) -> tuple[str, list[int]]:
    """Return the text with `new` in the place of the old text, and where that was (BEHAVIOURS A27).

    A line of the old text may end in the file as it does on Windows; the new text then does, too.
    """
    old, new = edit.old, edit.new
    exact = r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, old.split("\n")))
    # Places that overlap are two places: which of them is meant, nobody can say.
    places = [match.start() for match in re.finditer(exact if edit.all else f"(?={exact})", text)]
    if not places:
        raise ToolError(f"`old` does not occur in {name}", help=_closest(text, old))
    if len(places) > 1 and not edit.all:
        raise ToolError(
            f"`old` occurs in {name} at {lines_of(text, places)}",
            help="add text around it so that it occurs once, or set `all`",
        )
    windows = ends_as_windows(text)

    def write_new(match: re.Match[str]) -> str:
        ends = "\r\n" in match[0] if "\n" in match[0] else windows
        return new.replace("\n", "\r\n") if ends else new

    return re.sub(exact, write_new, text), places


def ends_as_windows(text: str) -> bool:
    """Whether most lines end as on Windows."""
    return text.count("\r\n") * 2 > text.count("\n")


def lines_of(text: str, places: list[int]) -> str:
    """Return the first few places in words, as the numbers of their lines."""
    if len(places) == 1:
        return f"line {text.count(chr(10), 0, places[0]) + 1}"
    shown = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:10])
    return f"{len(places)} places, lines {shown}{', …' if len(places) > 10 else ''}"


def read_whole(place: AllowedPath, folder: int) -> bytes:
    """Return all bytes of a file that is to be changed; `ToolError` if it is too large for that."""
    file, status = place.open(folder)
    with file:
        if status.st_size > LARGEST_EDIT:
            raise ToolError(f"{place.shown} is too large to be edited: {status.st_size:,} bytes")
        return file.read()


def encode(text: str) -> bytes:
    """Return the bytes of a text that a model wrote."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolError("the text holds half a character, which no file can hold", kind="invalid_input") from None


def _closest(text: str, old: str) -> str:
    """What may have been meant: the line of the file that is most like the first line of `old`."""
    wanted = next((line for line in old.split("\n") if line.strip()), "").strip()[:300]
    lines = {line.strip()[:300]: number for number, line in enumerate(text.split("\n")[:_CLOSEST_AMONG], 1)}
    close = difflib.get_close_matches(wanted, lines, n=1) if wanted else []
    if not close:
        return "read the file: nothing in it is like that"
    return f"the closest is line {lines[close[0]]}: `{close[0]}`; spaces and indentation count"
