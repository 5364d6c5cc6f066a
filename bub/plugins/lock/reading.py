"""Finding and reading the lock beside a pipeline file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bub.base.failures import explain_os_error
from bub.errors import BubError
from bub.plugins.lock.facts import VERSION, Lock

_OURS = b"\n[tool.bub]\n"
"""What is written above Bub's own part of a lock."""

_REMAKE = "`bub lock` makes it again"


class LockError(BubError):
    """A lock that cannot be used: whoever goes on without it would go on unlocked."""


def read_lock(file: Path) -> Lock | None:
    """Read what a lock says of plugins and servers; None if there is no such file.

    Where packages come from is for installers: to read that, too, would take ten times as long. Raises `LockError` for
    a file that cannot be read, or holds no lock of Bub.
    """
    data = _read(file)
    return parse_lock(data, file) if data is not None else None


def parse_lock(data: bytes, file: Path) -> Lock:
    """Parse what a lock says of plugins and servers. Raises `LockError`, which names the `file`."""
    _, heading, ours = data.partition(_OURS)
    return lock_in(_parse(heading + ours if heading else data, file), file)


def read_toml(file: Path) -> Mapping[str, Any] | None:
    """Read all that a lock holds; None if there is no such file. Raises `LockError` if it cannot be read."""
    data = _read(file)
    return _parse(data, file) if data is not None else None


def _read(file: Path) -> bytes | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe of this name holds up nobody
        with os.fdopen(descriptor, "rb") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LockError(f"{file} cannot be read: {explain_os_error(error)}", help="correct its permissions") from error


def _parse(data: bytes, file: Path) -> Mapping[str, Any]:
    import tomllib  # only where there is a lock

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise LockError(f"{file} is no lock: {' '.join(str(error).split())}", help=_REMAKE) from error


def lock_in(data: Mapping[str, Any], file: Path) -> Lock:
    """Take what is Bub's out of a lock file. Raises `LockError` if it is missing, or not of this form."""
    tool = data.get("tool")
    said = tool.get("bub") if isinstance(tool, dict) else None
    if not isinstance(said, dict):
        raise LockError(f"{file} locks no plugins: it has no `[tool.bub]`", help=_REMAKE)
    if said.get("version") != VERSION:
        raise LockError(
            f"{file} has the form {said.get('version')!r}, and this Bub knows form {VERSION}",
            help=f"use the Bub that made it, or let this one make it again: {_REMAKE}",
        )
    try:
        return msgspec.convert(said, Lock)
    except msgspec.ValidationError as error:
        raise LockError(f"{file} is no lock of Bub: {error}", help=_REMAKE) from error
