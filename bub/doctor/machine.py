"""The machine that Bub runs on: Python and its packages, folders, the terminal."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, PackagePath, distribution, version
from pathlib import Path

from bub import __version__
from bub.base.failures import explain_os_error
from bub.base.locate import bub_home
from bub.base.other_bub import OTHER, OURS, explain_other, is_other_here, mend_other
from bub.doctor.checks import Check, Patient, in_thread
from bub.plugins.installed.added import SYNC, describe_lost

LEAST_FREE = 100 * 1024 * 1024
"""Bytes that should be free on the disk."""

_PACKAGES = ("httpx", "jsonschema", "msgspec", "pluggy", "pyyaml", "trio", "typer")


async def look_at_python(patient: Patient) -> Sequence[Check]:
    """Check Python, the packages that matter by their versions, and that Bub's files are its own."""
    checks = [await in_thread(_python)]
    if is_other_here() or _other_version():
        checks.append(await in_thread(_look_at_other))
    lost = await in_thread(partial(describe_lost, bub_home(patient.environ)))
    if lost:
        checks.append(Check("added", "broken", lost, f"run `{SYNC}`"))
    return checks


def _other_version() -> str:
    try:
        return version(OTHER)
    except PackageNotFoundError:
        return ""


def _look_at_other() -> Check:
    """Say which files of Bub another program has written over."""
    try:
        files = [file for file in distribution(OURS).files or () if file.hash is not None]
    except PackageNotFoundError:
        files = []
    lost = sum(not _is_as_installed(file) for file in files)
    changed = f"; {lost} of the {len(files)} files of Bub are not as they were installed" if lost else ""
    message = f"{explain_other()} ({_other_version() or 'a file of it was left behind'}{changed})"
    return Check("other bub", "broken", message, mend_other())


def _is_as_installed(file: PackagePath) -> bool:
    assert file.hash is not None
    try:
        digest = hashlib.new(file.hash.mode, file.read_binary()).digest()
    except OSError:
        return False
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value


def _python() -> Check:
    found, missing = [], []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        remedy = f"reinstall Bub for {sys.executable}"
        return Check("python", "broken", f"these packages are missing: {', '.join(missing)}", remedy)
    system = f"Python {platform.python_version()} on {platform.system()}"
    listed = ", ".join((*found, f"SQLite {sqlite3.sqlite_version}"))
    return Check("python", "ok", f"Bub {__version__}, {system}, {listed}")


async def look_at_folders(patient: Patient) -> Sequence[Check]:
    """Check that Bub's own folder, its log and the workspace can be written to."""
    home = bub_home(patient.environ)
    folders = {"home": home, "log": home / "logs", "workspace": patient.workspace}
    return [await in_thread(lambda: _folder(subject, folder)) for subject, folder in folders.items()]  # noqa: B023


def _folder(subject: str, folder: Path) -> Check:
    there = next((path for path in (folder, *folder.absolute().parents) if os.path.lexists(path)), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"?")
    except OSError as error:
        remedy = "correct its permissions, or make room on the disk; BUB_HOME names another folder for Bub's own files"
        return Check(subject, "broken", f"{folder} cannot be written to: {explain_os_error(error)}", remedy)
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE:
        return Check(subject, "warn", f"{folder} has only {free // 2**20} MB left on its disk", "make room there")
    return Check(subject, "ok", f"{folder}{'' if there == folder else ', made when it is needed'}")


async def look_at_terminal(_: Patient) -> Sequence[Check]:
    """Check what the terminal can show, and whether a person can be asked."""
    stdout = sys.__stdout__
    encoding = (stdout.encoding if stdout is not None else None) or "none"
    shown = f"text in {encoding}"
    if stdout is None or not stdout.isatty():
        shown += ", to a pipe or a file"
    else:
        size = shutil.get_terminal_size()
        shown += f", on a terminal of {size.columns} columns and {size.lines} lines"
    asked = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    shown += "; questions can be asked" if asked else "; nobody can be asked"
    if encoding.lower().replace("-", "") not in ("utf8", "utf8sig"):
        return [Check("terminal", "warn", shown, "set LANG to one with UTF-8, or PYTHONIOENCODING=utf-8")]
    return [Check("terminal", "ok", shown)]
