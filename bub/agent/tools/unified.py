"""Unified diffs as models write them: Bub does not trust their numbers, and applies a hunk only if every line fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from bub.agent.tools.editing import ends_as_windows

NOWHERE = "/dev/null"

_SIGNS = ("", " ", "-", "+", "\\")
_NUMBERS = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_IGNORED = ("index ", "similarity index ", "dissimilarity index ", "new file mode ", "deleted file mode ")
_REFUSED = {
    "old mode ": "changes a mode, which a patch cannot do here",
    "copy from ": "copies a file: write the copy as a new file",
    "Binary files ": "changes bytes that are no text",
    "GIT binary patch": "changes bytes that are no text",
    "*** ": "is in another form: write a unified diff, with `--- a/FILE` and `+++ b/FILE` above its hunks",
}
_LONGEST_SHOWN = 160
_MOST_CANDIDATES = 2000


class Line(msgspec.Struct, frozen=True):
    """A line of a hunk: `sign` is a space, `-` or `+`."""

    sign: str
    text: str
    is_bare: bool = False
    """Whether no end of line follows it in the file."""


class Hunk(msgspec.Struct, frozen=True):
    """One change: lines that have to be there, and those that take their place. `start` is where they should be."""

    header: str
    lines: tuple[Line, ...]
    start: int | None = None

    @property
    def old(self) -> list[str]:
        """The lines that have to be in the file."""
        return [line.text for line in self.lines if line.sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that are there afterwards."""
        return [line.text for line in self.lines if line.sign != "-"]


class FileDiff(msgspec.Struct):
    """What happens to one file: it is made if it has no `old` name, and deleted if it has no `new` one."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = msgspec.field(default_factory=list)

    @property
    def name(self) -> str:
        """The file as problems call it."""
        return self.new or self.old or "a file without a name"


class DiffError(Exception):
    """What is wrong with a diff, or why it does not fit: one line each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


# Reading a diff


def parse_diff(text: str) -> list[FileDiff]:
    """Read a diff. The numbers of its hunks may be wrong, since models cannot count. Raises `DiffError`."""
    reader = _Reader(text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
    files = reader.read()
    if not files and not reader.problems:
        reader.problems.append("there is no file in it: it has to have `--- a/FILE` and `+++ b/FILE` above its hunks")
    for file in files:
        if not file.hunks and file.old == file.new:
            reader.problems.append(f"{file.name}: there is no hunk for it")
    if reader.problems:
        raise DiffError(*reader.problems)
    return files


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0
        self._files: list[FileDiff] = []
        self._awaits_names = False
        self.problems: list[str] = []

    def read(self) -> list[FileDiff]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            refused = next((why for begin, why in _REFUSED.items() if line.startswith(begin)), None)
            if refused is not None:
                self.problems.append(f"line {self._at + 1} of the patch {refused}")
                return self._files
            if line.startswith("@@"):
                self._read_hunk()
                continue
            if self._is_header(self._at):
                self._read_names()
                continue
            self._read_extended(line)
            self._at += 1
        return self._files

    def _read_extended(self, line: str) -> None:
        """A line above the hunks, as git writes them."""
        if line.startswith("diff --git "):
            old, new = _split_git(line.removeprefix("diff --git "))
            self._files.append(FileDiff(old, new))
            self._awaits_names = True
        elif line.startswith("rename from ") and self._files:
            self._files[-1].old = _unquote(line.removeprefix("rename from "))
        elif line.startswith("rename to ") and self._files:
            self._files[-1].new = _unquote(line.removeprefix("rename to "))
        elif line.startswith("new file mode ") and self._awaits_names:
            self._files[-1].old = None
        elif line.startswith("deleted file mode ") and self._awaits_names:
            self._files[-1].new = None
        elif line.strip() and self._files and self._files[-1].hunks and not line.startswith((*_IGNORED, "```", "-- ")):
            self.problems.append(
                f"line {self._at + 1} of the patch, `{_show(line)}`, begins with neither a space, `+` nor `-`: "
                "a line that stays has a space in front"
            )

    def _read_names(self) -> None:
        old, new = (_name_of(self._lines[self._at + more]) for more in (0, 1))
        self._at += 2
        if (old is None or old.startswith("a/")) and (new is None or new.startswith("b/")):
            old, new = (name[2:] if name else None for name in (old, new))
        if self._awaits_names:
            self._files[-1].old, self._files[-1].new = old, new
            self._awaits_names = False
        else:
            self._files.append(FileDiff(old, new))

    def _is_header(self, at: int) -> bool:
        lines = self._lines
        return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")

    def _read_hunk(self) -> None:
        header = self._lines[self._at]
        found = _NUMBERS.match(header)
        sizes = tuple(1 if found[at] is None else int(found[at]) for at in (2, 4)) if found is not None else None
        self._at += 1
        end = self._counted_end(*sizes) if sizes is not None else None
        if end is None:
            end = self._likely_end(sizes)
        lines: list[Line] = []
        for line in self._lines[self._at : end]:
            if not line.startswith("\\"):
                lines.append(Line(line[:1] or " ", line[1:]))
            elif lines:
                lines[-1] = msgspec.structs.replace(lines[-1], is_bare=True)
        self._at = end
        self._take_hunk(Hunk(header.strip(), tuple(lines), int(found[1]) if found is not None else None))

    def _counted_end(self, old: int, new: int) -> int | None:
        """Where a hunk with so many lines ends; None if they are not there, or seem to go on: it was miscounted."""
        at, lines = self._at, self._lines
        while (old or new) and at < len(lines) and lines[at][:1] in _SIGNS:
            old -= lines[at][:1] not in ("+", "\\")
            new -= lines[at][:1] not in ("-", "\\")
            at += 1
        at += at < len(lines) and lines[at].startswith("\\")
        goes_on = at < len(lines) and lines[at][:1] in (" ", "-", "+") and not self._is_header(at)
        return at if old == new == 0 and not goes_on else None

    def _likely_end(self, sizes: tuple[int, ...] | None) -> int:
        """Where a hunk ends that was not, or wrongly, counted."""
        at, lines = self._at, self._lines
        while at < len(lines) and lines[at][:1] in _SIGNS and not self._is_header(at):
            at += 1
        # An empty line has lost its space, or is none of the hunk's.
        owed = sizes[0] - sum(line[:1] in ("", " ", "-") for line in lines[self._at : at]) if sizes else -at
        while owed < 0 and at > self._at and not lines[at - 1]:
            at, owed = at - 1, owed + 1
        return at

    def _take_hunk(self, hunk: Hunk) -> None:
        if not self._files:
            self.problems.append("a hunk comes before the first `--- a/FILE`")
        elif all(line.sign == " " for line in hunk.lines):
            self.problems.append(f"{self._files[-1].name}: the hunk `{hunk.header}` changes nothing")
        else:
            self._files[-1].hunks.append(hunk)


def _name_of(line: str) -> str | None:
    name = _unquote(line[4:].partition("\t")[0].strip())
    return None if name == NOWHERE else name


def _split_git(names: str) -> tuple[str | None, str | None]:
    """The two names of `diff --git a/OLD b/NEW`, if they can be told apart."""
    half = len(names) // 2
    old, new = names[:half], names[half + 1 :]
    if names[half : half + 1] != " " or old[2:] != new[2:]:
        old, _, new = names.partition(" ")
    return _unquote(old).removeprefix("a/"), _unquote(new).removeprefix("b/")


def _unquote(name: str) -> str:
    """A name as git quotes it, if it holds more than ASCII."""
    if len(name) < 2 or not (name[0] == name[-1] == '"'):
        return name
    try:
        return name[1:-1].encode("latin-1").decode("unicode_escape").encode("latin-1").decode("utf-8")
    except UnicodeError:
        return name[1:-1]


# Applying it


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> tuple[str, list[int]]:
    """Return the text with all hunks applied, and the line of each; raises `DiffError` with each that does not fit.

    Every line that a hunk does not change has to be there exactly. If that is in several places, its number decides.
    """
    pieces = re.findall(r"[^\n]*\n|[^\n]+", text)
    bodies = [_body(piece) for piece in pieces]
    problems: list[str] = []
    placed: list[tuple[int, Hunk]] = []
    for number, hunk in enumerate(hunks, 1):
        try:
            placed.append((_place_of(bodies, hunk), hunk))
        except DiffError as error:
            problems.append(f"hunk {number} of {len(hunks)} (`{_show(hunk.header)}`): {error}")
    placed.sort(key=lambda each: each[0])
    for (at, hunk), (below, other) in pairwise(placed):
        if at + len(hunk.old) > below:
            problems.append(f"the hunks `{_show(hunk.header)}` and `{_show(other.header)}` overlap: make one of them")
    if problems:
        raise DiffError(*problems)
    newline = "\r\n" if ends_as_windows(text) else "\n"
    ends_bare = bool(pieces) and not pieces[-1].endswith("\n")
    for at, hunk in reversed(placed):
        end = at + len(hunk.old)
        if end == len(pieces) and any(line.is_bare for line in hunk.lines):
            ends_bare = any(line.is_bare for line in hunk.lines if line.sign != "-")
        pieces[at:end] = _rewrite(pieces[at:end], hunk, newline)
    ended = [piece if piece.endswith("\n") else piece + newline for piece in pieces]
    if ended and ends_bare:
        ended[-1] = _body(ended[-1])
    return "".join(ended), [at + 1 for at, _ in placed]


def _rewrite(pieces: Sequence[str], hunk: Hunk, newline: str) -> Iterator[str]:
    """The lines that take the place of others: what stays, stays byte for byte; what is new ends as its neighbour."""
    rest = iter(pieces)
    end = _end(pieces[0]) if pieces else ""
    for line in hunk.lines:
        if line.sign == "+":
            yield line.text + (end or newline)
            continue
        piece = next(rest)
        end = _end(piece)
        if line.sign == " ":
            yield piece


def _place_of(bodies: Sequence[str], hunk: Hunk) -> int:
    old = hunk.old
    if not old:
        if bodies:
            raise DiffError("it has only new lines, so its place is unknown: add an unchanged line beside them")
        return 0
    places = _find(bodies, old)
    if len(places) == 1 or (hunk.start is not None and hunk.start - 1 in places):
        return places[0] if len(places) == 1 else hunk.start - 1  # type: ignore[operator]
    if places:
        shown = ", ".join(str(place + 1) for place in places[:10])
        raise DiffError(f"its lines are in {len(places)} places, at lines {shown}: add context so that they are in one")
    raise DiffError(_explain(bodies, hunk))


def _find(bodies: Sequence[str], wanted: Sequence[str]) -> list[int]:
    if not wanted:
        return []
    first, size = wanted[0], len(wanted)
    return [at for at, body in enumerate(bodies) if body == first and list(bodies[at : at + size]) == list(wanted)]


def _explain(bodies: Sequence[str], hunk: Hunk) -> str:
    """Why a hunk fits nowhere, in words that say what to change in it."""
    done = _find(bodies, hunk.new)
    if done and len(hunk.new) > 1:
        return f"the file has this change already, at line {done[0] + 1}"
    loose = _find([_loosen(body) for body in bodies], [_loosen(line) for line in hunk.old])
    at = loose[0] if loose else _closest(bodies, hunk.old)
    if at is None:
        return "none of its lines is in the file: read the file again"
    for number, line in enumerate(hunk.old):
        there = bodies[at + number] if 0 <= at + number < len(bodies) else None
        if there == line:
            continue
        if there is None:
            return f"it wants `{_show(line)}` behind line {len(bodies)}, where the file ends"
        hint = "; they differ in spaces or tabs only, which count" if _loosen(there) == _loosen(line) else ""
        return f"line {at + number + 1} of the file is `{_show(there)}`, but the hunk has `{_show(line)}` there{hint}"
    raise AssertionError("a hunk that fits was explained")


def _closest(bodies: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Where most of the wanted lines are; None if none of them is anywhere."""
    where: dict[str, list[int]] = {}
    for number, line in enumerate(wanted):
        if line.strip():
            where.setdefault(line, []).append(number)
    starts: dict[int, int] = {}
    for at, body in enumerate(bodies):
        for number in where.get(body, ()):
            if len(starts) < _MOST_CANDIDATES or at - number in starts:
                starts[at - number] = starts.get(at - number, 0) + 1
    return max(starts, key=lambda start: starts[start]) if starts else None


def _loosen(line: str) -> str:
    return " ".join(line.split())


def _show(line: str) -> str:
    return line.replace("\t", "\\t")[:_LONGEST_SHOWN]


def _body(piece: str) -> str:
    return piece[: len(piece) - len(_end(piece))]


def _end(piece: str) -> str:
    return "\r\n" if piece.endswith("\r\n") else "\n" if piece.endswith("\n") else ""
