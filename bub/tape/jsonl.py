"""Tapes as files of lines, one a tape, that can be read with any tool: what is asked for is read from the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.base.locate import remedy_for
from bub.base.private import lock_file, make_private, open_private
from bub.errors import TapeError
from bub.log import log_warning
from bub.tape.copying.records import Record
from bub.tape.entry import TapeEntry
from bub.tape.query import LAST_ANCHOR, AnchorSelector, TapeQuery, no_anchor, part_as_written
from bub.tape.store import check_name, encode_entry, number_entries, stop_if_cancelled

_SUFFIX = ".jsonl"
_CHUNK = 64 * 1024
_READ_AT_ONCE = 256


class _Tail(msgspec.Struct):
    """What is known of the end of a file as long as it has this size and identity."""

    identity: tuple[int, int]
    size: int
    last_id: int
    torn: bool


class JsonlTapeStore:
    """One file of JSON lines a tape in `folder`, safe with several processes at once (POSIX locks).

    A line that cannot be read costs itself only: it is left out, counted in `bad_lines` and logged. A crash in the
    middle of a write tears the last line at most.
    """

    blocks = False
    """Files are read from their end, and writes go to the system's memory first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tails: dict[str, _Tail] = {}
        self._reported: set[tuple[str, int]] = set()
        self._lock = threading.RLock()
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(TapeEntry).decode

    # The protocol.

    def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""
        with _explain_errors(self.folder):
            return sorted(path.stem for path in self.folder.glob(f"*{_SUFFIX}"))

    def append(self, tape: str, entry: TapeEntry) -> None:
        """Write one entry at the end of a tape."""
        self.extend(tape, [entry])

    def extend(self, tape: str, entries: Sequence[TapeEntry]) -> None:
        """Write entries at the end of a tape in one go; if the disk is full, none of them."""
        path = self._path(tape)
        with self._lock, _explain_errors(path), _open_locked(path) as file:
            tail = self._tail(tape, file)
            numbered_entries = number_entries(entries, tail.last_id)
            data = b"".join(self._line(entry) for entry in numbered_entries)
            if tail.torn:
                data = b"\n" + data  # whatever the torn line was to be, it takes no other along
            try:
                _write(file, data)
            except OSError:
                os.ftruncate(file, tail.size)
                raise
            self._tails[tape] = _Tail(tail.identity, tail.size + len(data), tail.last_id + len(entries), torn=False)

    def fetch_all(self, query: TapeQuery) -> list[TapeEntry]:
        """The entries that a query wants, in its order."""
        if query.most == 0:
            return []
        with _explain_errors(self._path(query.tape)):
            wanted = (entry for entry in self._select(query) if query.wants(entry))
            return list(islice(wanted, query.most))

    def reset(self, tape: str) -> None:
        """Forget a tape; the next entry is its first."""
        path = self._path(tape)
        with self._lock, _explain_errors(path):
            self._tails.pop(tape, None)
            if path.exists():
                with _open_locked(path):
                    path.unlink(missing_ok=True)

    def bad_lines(self, tape: str) -> int:
        """How many lines of a tape cannot be read. Reads all of it."""
        with _explain_errors(self._path(tape)):
            return sum(1 for line in self._lines(tape, backwards=False) if self._read(line) is None)

    def size(self) -> int:
        """How many bytes the tapes take on the disk."""
        with _explain_errors(self.folder):
            return sum(path.stat().st_size for path in self.folder.glob(f"*{_SUFFIX}"))

    # What copies ask for (`Records`).

    def is_there(self) -> bool:
        """Whether there is a folder."""
        return self.folder.exists()

    def read_records(self, tape: str, after: int) -> Iterator[Record]:
        """The entries behind the first so many; lines that cannot be read are left out."""
        return map(Record.of, self.fetch_all(TapeQuery(tape))[after:])

    def write_records(self, tape: str, records: Sequence[Record]) -> None:
        """Write entries at the end of a tape, all or none."""
        self.extend(tape, [record.as_entry() for record in records])

    def settle(self, tapes: Iterable[str]) -> None:
        """Have some tapes lie on the disk."""
        for path in map(self._path, tapes):
            with self._lock, _explain_errors(path), _open_locked(path) as file:
                os.fsync(file)

    def close(self) -> None:
        """Nothing stays open between two calls."""

    # What queries ask for.

    def _select(self, query: TapeQuery) -> Iterable[TapeEntry]:
        """Return the entries of the stretch that a query asks for, in its order."""
        if query.anchors is None and query.after is None:
            return self._entries(query.tape, backwards=query.backwards, text=query.text or "")
        if query.anchors is None:
            newest_first = self._behind(query.tape, query.after)
        else:
            start, end = query.anchors
            newest_first = self._before(self._behind(query.tape, start), query.tape, end)
            if query.after is not None:
                behind = self._behind(query.tape, query.after)
                newest_first = [entry for entry in newest_first if behind and entry.id >= behind[-1].id]
        return newest_first if query.backwards else reversed(newest_first)

    def _behind(self, tape: str, anchor: AnchorSelector) -> list[TapeEntry]:
        """The entries behind the last such anchor, newest first; only they are read."""
        found: list[TapeEntry] = []
        for entry in self._entries(tape, backwards=True):
            name = entry.anchor_name
            if name is not None and (anchor is LAST_ANCHOR or anchor == name):
                return found
            found.append(entry)
        raise no_anchor(tape, anchor)

    def _before(self, newest_first: list[TapeEntry], tape: str, end: str) -> list[TapeEntry]:
        for index in reversed(range(len(newest_first))):
            if newest_first[index].anchor_name == end:
                return newest_first[index + 1 :]
        raise no_anchor(tape, end)

    def _entries(self, tape: str, *, backwards: bool, text: str = "") -> Iterator[TapeEntry]:
        """The entries of a tape; of those that have not a text, most are left out before they are decoded."""
        bad, part = 0, part_as_written(text)
        for number, line in enumerate(self._lines(tape, backwards=backwards)):
            if number % _READ_AT_ONCE == 0:
                stop_if_cancelled()
            if part and not _may_have(line, part):
                continue
            entry = self._read(line)
            if entry is None:
                bad += 1
            else:
                yield entry
        if bad and (tape, bad) not in self._reported:
            self._reported.add((tape, bad))
            log_warning("tape.bad_lines", tape=tape, lines=bad, file=str(self._path(tape)))

    def _lines(self, tape: str, *, backwards: bool) -> Iterator[bytes]:
        try:
            with self._path(tape).open("rb") as file:
                yield from _lines_from_end(file.fileno()) if backwards else (line for line in file if line.strip())
        except FileNotFoundError:
            return

    def _read(self, line: bytes) -> TapeEntry | None:
        try:
            return self._decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None

    # Files.

    def _path(self, tape: str) -> Path:
        return self.folder / f"{check_name(tape)}{_SUFFIX}"

    def _line(self, entry: TapeEntry) -> bytes:
        return encode_entry(self._encode, entry) + b"\n"

    def _tail(self, tape: str, file: int) -> _Tail:
        """The end of an open, locked file: known from the last write, else read."""
        status = os.fstat(file)
        identity = (status.st_dev, status.st_ino)
        known = self._tails.get(tape)
        if known is not None and known.identity == identity and known.size == status.st_size:
            return known
        last = next(filter(None, map(self._read, _lines_from_end(file))), None)
        torn = status.st_size > 0 and os.pread(file, 1, status.st_size - 1) != b"\n"
        return _Tail(identity, status.st_size, last.id if last is not None else 0, torn)


def _may_have(line: bytes, part: str) -> bool:
    """Whether a line can be one with a part of a text; letters that it has by their numbers only can be any."""
    return part in line.decode(errors="replace").casefold() or b"\\u" in line


def _lines_from_end(file: int) -> Iterator[bytes]:
    """The lines of a file that are not blank, the last one first."""
    position, rest = os.fstat(file).st_size, b""
    while position > 0:
        size = min(_CHUNK, position)
        position -= size
        first, *lines = (os.pread(file, size, position) + rest).split(b"\n")
        yield from (line for line in reversed(lines) if line.strip())
        rest = first
    if rest.strip():
        yield rest


@contextmanager
def _open_locked(path: Path) -> Iterator[int]:
    """Open the file and lock it, so that nobody else appends. It still has this name once the lock is held."""
    if not path.parent.exists():
        make_private(path.parent)
    while True:
        file = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            lock_file(file)
            if _is_still(path, file):
                yield file
                return
        finally:
            os.close(file)


def _is_still(path: Path, file: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(file)
    return (there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TapeError(
            f"the tape {path} cannot be used: {explain_os_error(error)}",
            help=remedy_for(path, "see that the disk has room and the file is yours"),
            reason="unavailable",
        ) from error
