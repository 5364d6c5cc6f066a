"""A baseline: the warnings that a repository had when it began to be checked, so that Bub reports only new ones.

It is a JSON file to commit. Lines are no part of it, and neither are the numbers of list items, so that what stays
the same is known again wherever it moves to. An error is never part of it: a start refuses the file all the same.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bub.base.diagnostics import Diagnostic, sort_diagnostics
from bub.base.failures import explain_os_error
from bub.base.rewrite import write_new
from bub.errors import UsageError
from bub.pipeline.report.report import path_below
from bub.pipeline.report.start_codes import needs_plugins

_MOVES = re.compile(r"\b(line|item|route) \d+|:\d+:\d+\b")
"""What a message says of places that move when something is written above them."""
_OF_PROFILE, _OF_OTHERS = re.compile(r"\bprofile `[^`]*`"), re.compile(r"(?s) \(the same in .*\)$")
"""What a message says of the profiles that it holds for: another one may join them."""
_INDEX = re.compile(r"\[\d+\]")


class _Entry(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """One known warning, and how many times it was found in its file."""

    file: str
    code: str
    path: str
    message: str
    count: int = 1


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as a whole."""

    version: int
    findings: tuple[_Entry, ...]


class Sifted(NamedTuple):
    """What a baseline leaves to be reported, what it keeps back, and how many of its entries are no longer found."""

    told: tuple[Diagnostic, ...]
    known: tuple[Diagnostic, ...]
    gone: int


def write_baseline(file: Path, findings: Iterable[Diagnostic]) -> int:
    """Write the warnings among `findings` as a baseline, over an older one, and return how many there are.

    Raises `UsageError` if the file is there and is no baseline, and `BubError` if it cannot be written.
    """
    if file.exists():
        _read(file)  # whatever else it is, nobody wants it to be written over
    counts = Counter(_entry(item, file) for item in sort_diagnostics(findings) if item.severity == "warning")
    entries = tuple(msgspec.structs.replace(entry, count=count) for entry, count in sorted(counts.items()))
    write_new(file, msgspec.json.format(msgspec.json.encode(_Written(1, entries)), indent=2) + b"\n")
    return counts.total()


def sift(file: Path, findings: Sequence[Diagnostic], checked: Iterable[str]) -> Sifted:
    """Keep back the warnings that a baseline knows; of more than it counted, the last ones are new.

    An entry counts as gone if its file is among those `checked`, and it needs no plugins. Raises `UsageError` if there
    is no such baseline.
    """
    left = {msgspec.structs.replace(entry, count=1): entry.count for entry in _read(file)}
    told, known = [], []
    for item in sort_diagnostics(findings):
        entry = _entry(item, file) if item.severity == "warning" else None
        if entry is not None and left.get(entry, 0) > 0:
            left[entry] -= 1
            known.append(item)
        else:
            told.append(item)
    names = {_name(name, file) for name in checked}
    gone = sum(count for entry, count in left.items() if entry.file in names and not needs_plugins(entry.code))
    return Sifted(tuple(told), tuple(known), gone)


def _entry(item: Diagnostic, baseline: Path) -> _Entry:
    message = _OF_PROFILE.sub("profile", _OF_OTHERS.sub("", item.message))
    message = _MOVES.sub(lambda found: f"{found[1]} …" if found[1] else ":…", message)
    return _Entry(_name(item.file, baseline), item.code, _INDEX.sub("[]", item.path), message)


def _name(file: str, baseline: Path) -> str:
    """Return what a file is called in a baseline: its path from there, which does not depend on the current folder."""
    folder = Path(os.path.realpath(baseline)).parent
    return path_below(folder, os.path.realpath(file) if Path(file).exists() else file) or file


def _read(file: Path) -> tuple[_Entry, ...]:
    try:
        written = msgspec.json.decode(file.read_bytes(), type=_Written)
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist", help="write it with --write-baseline") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {explain_os_error(error)}", help="name another file") from None
    except msgspec.DecodeError:
        raise UsageError(
            f"{file} is not a baseline", help="name one that --write-baseline wrote, or a new file"
        ) from None
    if written.version != 1:
        raise UsageError(f"{file} is of a newer version of Bub", help="write it again with --write-baseline") from None
    return written.findings
