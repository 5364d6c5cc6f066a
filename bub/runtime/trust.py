"""Remembering which folders' pipeline files may run without being named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bub.base.failures import explain_os_error
from bub.base.locate import Found, remedy_for
from bub.base.private import lock_file, open_private
from bub.base.rewrite import write_private
from bub.errors import BubError, NotTrustedError, UsageError

STORE_NAME = "trusted.json"
TRUST_VARIABLE = "BUB_TRUST_WORKSPACE"

_VERSION = 1


def is_trusted(folder: Path, home: Path, environ: Mapping[str, str]) -> bool:
    """Whether the pipeline file in `folder` may run without being named.

    It may if somebody ran `bub trust` for exactly this folder, or if `BUB_TRUST_WORKSPACE` is `1` (for CI and
    containers). Folders are compared with their links resolved. Trust is not inherited by folders below: a checkout
    of someone else's project inside a trusted folder is still someone else's.

    `environ` has to be the real environment, without what a `.env` file in the folder adds.
    """
    return environ.get(TRUST_VARIABLE) == "1" or _key(folder) in _read(home).folders


def require_trust(found: Found, home: Path, environ: Mapping[str, str]) -> None:
    """Raise `NotTrustedError` when `found` came by itself from a workspace that is not trusted.

    A file that was named and the user's own file in `home` need no trust (DESIGN §6).
    """
    if found.path is None or found.consent or not found.workspace_file:
        return
    folder = found.path.parent
    if is_trusted(folder, home, environ):
        return
    error = NotTrustedError(str(folder.absolute()), str(found.path))
    problem = store_problem(home)
    if problem is not None:
        error.help = f"{problem}, so no folder is trusted; {error.help}"
    raise error


def trust(folder: Path, home: Path) -> None:
    """Trust `folder` from now on. A damaged store is set aside as `trusted.json.damaged` and begun again.

    Raises `UsageError` when there is no such folder, `BubError` when the store cannot be written.
    """
    if not os.path.isdir(folder):  # noqa: PTH112 (unlike `Path.is_dir`, it never raises)
        raise UsageError(f"{folder} is not a folder", help="name the folder that holds the pipeline file")
    key = _key(folder)
    with _lock_store(home):
        store = _read(home)
        if store.problem is not None:
            _set_aside(home / STORE_NAME)
        if key not in store.folders:
            _write(home, {*store.folders, key})


def revoke(folder: Path, home: Path) -> bool:
    """Trust `folder` no longer; false when it was not trusted. The folder itself may be gone by now."""
    keys = {_key(folder), str(folder.absolute())}
    if not keys & _read(home).folders:
        return False
    with _lock_store(home):
        folders = _read(home).folders
        if not keys & folders:
            return False
        _write(home, folders - keys)
    return True


def trusted_folders(home: Path) -> tuple[Path, ...]:
    """Every trusted folder, sorted; none while the store is damaged (see `store_problem`)."""
    return tuple(Path(folder) for folder in sorted(_read(home).folders))


def store_problem(home: Path) -> str | None:
    """What is wrong with the store, in one clause that names the file, or None when it can be used."""
    return _read(home).problem


class _Store(msgspec.Struct, frozen=True):
    """The folders of the store as absolute paths without links, or what keeps it from being used."""

    folders: frozenset[str] = frozenset()
    problem: str | None = None


def _key(folder: Path) -> str:
    return os.path.realpath(folder)


def _read(home: Path) -> _Store:
    """Read the store; what is not exactly as Bub writes it trusts nothing, since half a list may be another's."""
    path = home / STORE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return _Store()
    except UnicodeDecodeError:
        return _Store(problem=f"{path} is damaged (not UTF-8)")
    except OSError as error:
        return _Store(problem=f"{path} cannot be read ({explain_os_error(error)})")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _Store(problem=f"{path} is damaged (not JSON)")
    folders = _folders(data)
    if folders is None:
        return _Store(problem=f"{path} is damaged (not a list of absolute paths as `bub trust` writes it)")
    return _Store(folders)


def _folders(data: Any) -> frozenset[str] | None:
    if not isinstance(data, dict):
        return None
    version = data.get("version")
    if type(version) is not int or version != _VERSION:  # `true` and `1.0` equal 1
        return None
    listed = data.get("folders")
    if not isinstance(listed, list):
        return None
    if not all(isinstance(item, str) and Path(item).is_absolute() for item in listed):
        return None
    # Stored paths are taken as they are, never resolved again: a link that is put where a trusted folder was leads
    # to a folder that nobody was asked about.
    return frozenset(os.path.normpath(item) for item in listed)


def _write(home: Path, folders: set[str] | frozenset[str]) -> None:
    """Replace the store as a whole, readable by its owner only. The caller holds the lock."""
    path = home / STORE_NAME
    text = json.dumps({"version": _VERSION, "folders": sorted(folders)}, indent=2) + "\n"
    try:
        old = path.read_bytes() if path.exists() else None
    except OSError as error:
        raise _not_writable(path, error) from error
    write_private(path, old, text.encode())


def _set_aside(path: Path) -> None:
    try:
        path.replace(path.with_name(f"{path.name}.damaged"))
    except OSError as error:
        raise _not_writable(path, error) from error


@contextmanager
def _lock_store(home: Path) -> Iterator[None]:
    """Keep every other process from writing the store meanwhile; the system frees the lock if this one dies."""
    path = home / f"{STORE_NAME}.lock"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_private(path)
    except OSError as error:
        raise _not_writable(path, error) from error
    try:
        try:
            lock_file(descriptor)
        except OSError as error:
            raise _not_writable(path, error) from error
        yield
    finally:
        os.close(descriptor)


def _not_writable(path: Path, error: OSError) -> BubError:
    return BubError(
        f"{path} cannot be written: {explain_os_error(error)}",
        help=remedy_for(path, "correct the permissions of its folder"),
    )
