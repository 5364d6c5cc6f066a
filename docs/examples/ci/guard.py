"""A guard over files: the agent writes below `notes/` only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bub import hookimpl

WRITING = {"fs.write", "fs.edit"}


@hookimpl
def tool_gate(tool: str, args: Mapping[str, Any], workspace: Path) -> dict[str, str] | None:
    """Judge a call by where it would write, links and `..` followed."""
    if tool not in WRITING:
        return None
    file = (workspace / args["path"]).resolve()
    if file.is_relative_to(workspace.resolve() / "notes"):
        return None
    return {"deny": "only what is below notes/ may be written"}
