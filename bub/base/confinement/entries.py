"""What an entry of `reach.write` and `reach.read` means: the workspace, a folder in it, in the home folder, or any."""

from __future__ import annotations

import posixpath
from pathlib import Path

WORKSPACE = "workspace"
"""The folder that the agent works in."""

NEEDED = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/snap")
"""Folders of programs and what they load. They hold nothing private, so each confined command may read them."""


def is_in_workspace(entry: str) -> bool:
    """Whether an entry means the workspace or a part of it, wherever that lies. A reference may mean anything."""
    return "${" not in entry and _first(posixpath.normpath(entry)) == WORKSPACE


def problem_of(entry: str) -> str:
    """Say in a clause why an entry means no folder; "" if it means one, or if only a variable tells."""
    if "${" in entry:
        return ""
    if not entry.strip():
        return "it is empty"
    if "\0" in entry or any(sign in entry for sign in "*?["):
        return "it has to be one folder or file, not a pattern"
    if _first(entry) not in (WORKSPACE, "~", ""):
        return f"it begins neither with `{WORKSPACE}` nor with `~/` or `/`"
    if _first(entry) and _first(posixpath.normpath(entry)) != _first(entry):
        return "`..` leads out of it; write the folder itself"
    return ""


def too_wide(entry: str, *, writing: bool) -> str:
    """Say in a clause why an entry leaves nothing shut; "" if it does not."""
    if "${" in entry:
        return ""
    folder = posixpath.normpath(entry)
    if folder.strip("/") == "":
        return "that is the whole machine"
    if writing and folder in ("~", "/proc", "/sys", "/dev", "/etc"):
        return "who writes there decides what runs outside of it"
    return ""


def covers(entry: str, other: str) -> bool:
    """Whether the folder of one entry holds that of another, as far as their words tell."""
    entry, other = posixpath.normpath(entry), posixpath.normpath(other)
    return other == entry or other.startswith(f"{entry.rstrip('/')}/")


def find(entry: str, workspace: Path, home: Path) -> Path:
    """Return the path that an entry without a problem means; links in it are not followed."""
    first, _, rest = entry.partition("/")
    root = {WORKSPACE: workspace, "~": home}.get(first, Path("/"))
    return root / rest.lstrip("/")


def _first(entry: str) -> str:
    return entry.partition("/")[0]
