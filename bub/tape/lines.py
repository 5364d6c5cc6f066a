"""Tapes as lines of JSON outside of any store: archived, exported, and read back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bub.base.failures import explain_os_error
from bub.base.locate import remedy_for
from bub.base.private import make_private, open_private
from bub.errors import TapeError
from bub.tape.entry import TapeEntry
from bub.tape.store import check_name, encode_entry

SUFFIX = ".jsonl"

_STAMP = "%Y%m%dT%H%M%S.%fZ"
_MOST_TOLD = 5


def lines_of(entries: Iterable[TapeEntry]) -> Iterator[bytes]:
    """Each entry as a line of JSON, its end included."""
    encode = msgspec.json.Encoder().encode
    return (encode_entry(encode, entry) + b"\n" for entry in entries)


def read_lines(lines: Iterable[bytes], source: str) -> list[TapeEntry]:
    """The entries that lines of JSON hold, blank ones left out.

    All or none: TapeError names the lines of `source` that are no entry, and says why for the first of them.
    """
    decode = msgspec.json.Decoder(TapeEntry).decode
    entries: list[TapeEntry] = []
    bad: list[int] = []
    why = ""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entries.append(_check(decode(line)))
        except (ValueError, OverflowError, RecursionError) as error:
            bad.append(number)
            why = why or str(error) or "it is nested too deep"
    if bad:
        which = ", ".join(map(str, bad[:_MOST_TOLD])) + (f" and {len(bad) - _MOST_TOLD} more" * (len(bad) > _MOST_TOLD))
        raise TapeError(
            f"{source} holds something other than an entry of a tape in line {which}: {why}",
            help="correct or remove it; nothing was imported",
        )
    if not entries:
        raise TapeError(f"{source} holds no entry", help="name a file that `bub tape export` wrote")
    return entries


def _check(entry: TapeEntry) -> TapeEntry:
    """Check an entry that another program may have written, and write its date as Bub does; raises ValueError."""
    if not entry.kind:
        raise ValueError("its `kind` is empty")
    moment = datetime.fromisoformat(entry.date)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return TapeEntry(entry.id, entry.kind, entry.payload, entry.meta, moment.isoformat(timespec="microseconds"))


def write_lines(path: Path, entries: Iterable[TapeEntry]) -> None:
    """Write entries to a new file, for its owner only; TapeError if it exists or cannot be written as a whole."""
    with _explain_write_failure(path):
        _write_new(path, entries)


def write_archive(folder: Path, tape: str, entries: Iterable[TapeEntry]) -> Path:
    """Write the entries of a tape to a file of their own in `folder` and return it (BEHAVIOURS P20).

    It lies on the disk when this returns. TapeError if that fails; then nothing is left of it.
    """
    check_name(tape)
    entries = list(entries)
    with _explain_write_failure(folder):
        make_private(folder)
        while True:
            path = folder / f"{tape}.{datetime.now(UTC).strftime(_STAMP)}{SUFFIX}"
            with suppress(FileExistsError):
                _write_new(path, entries)
                return path


def tape_in(path: Path) -> str:
    """The name of the tape that a file was written from, as the name of the file tells it."""
    name = path.name.removesuffix(SUFFIX)
    whole, _, stamp = name.rpartition(".")
    tape, _, seconds = whole.rpartition(".")
    with suppress(ValueError):
        datetime.strptime(f"{seconds}.{stamp}", _STAMP)
        return tape
    return name


def _write_new(path: Path, entries: Iterable[TapeEntry]) -> None:
    file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with open(file, "wb") as opened:  # noqa: PTH123 (it is open already)
            opened.writelines(lines_of(entries))
            opened.flush()
            os.fsync(opened.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def _explain_write_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise TapeError(f"{path} exists already", help="name a file that does not exist yet") from error
    except OSError as error:
        raise TapeError(
            f"{path} cannot be written: {explain_os_error(error)}",
            help=remedy_for(path, "see that the disk has room and the folder is yours"),
            reason="unavailable",
        ) from error
