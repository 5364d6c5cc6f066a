"""The commands that plugins brought when they were loaded last, by pipeline file and profile, for whoever may not ask.

They are kept in Bub's own folder, for its owner only. They are read with suspicion: what Bub would not have written
there is no command.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bub.base.locate import find_pipeline
from bub.base.private import make_private
from bub.base.rewrite import write_private
from bub.errors import BubError

FILE_NAME = "commands.json"

_SHIPPED = "bub:"
_DEFAULT = "bub:default"
_VERSION = 1
_MOST_COMMANDS, _LONGEST = 50, 80
_MOST_BYTES = 100_000
"""How large the file may be; the pipelines that were loaded first are forgotten."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


def pipeline_file(config: str | Path | None, workspace: str | Path | None) -> str:
    """Return the pipeline file that a command would use, or the name of the shipped one; `UsageError` if none."""
    if config is not None and str(config).startswith(_SHIPPED):
        return str(config)
    found = find_pipeline(Path(config) if config else None, Path(workspace or ".").expanduser(), os.environ)
    return str(found.path) if found.path is not None else _DEFAULT


def known_commands(home: Path, pipeline: str, profile: str) -> Mapping[str, str]:
    """Return the commands of plugins for a profile of a pipeline, each with its help; nothing if none are known."""
    found = _read(home).get(_key(pipeline))
    commands = found.get(profile) if isinstance(found, dict) else None
    if not isinstance(commands, dict):
        return {}
    return {name: said for name, said in commands.items() if _NAME.fullmatch(name) and isinstance(said, str)}


def keep_commands(home: Path, pipeline: str, profile: str, commands: Mapping[str, str]) -> None:
    """Remember the commands of the plugins that were just loaded; nothing is written if they are known already.

    A folder that cannot be written, and another process that writes, are no reason to complain.
    """
    kept = {name: said[:_LONGEST] for name, said in list(commands.items())[:_MOST_COMMANDS] if _NAME.fullmatch(name)}
    if kept == known_commands(home, pipeline, profile):
        return
    path, known, key = home / FILE_NAME, _read(home), _key(pipeline)
    earlier = known.pop(key, {})
    profiles = {**(earlier if isinstance(earlier, dict) else {}), profile: kept}
    known[key] = {name: found for name, found in profiles.items() if found}
    while len(text := json.dumps({"version": _VERSION, "commands": known}, indent=1)) > _MOST_BYTES:
        del known[next(iter(known))]
    with suppress(OSError, BubError):
        make_private(home)
        write_private(path, path.read_bytes() if path.exists() else None, text.encode())


def _key(pipeline: str) -> str:
    return pipeline if pipeline.startswith(_SHIPPED) else os.path.realpath(pipeline)


def _read(home: Path) -> dict[str, Any]:
    try:
        with (home / FILE_NAME).open("rb") as file:
            data = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    commands = data.get("commands") if isinstance(data, dict) and data.get("version") == _VERSION else None
    return commands if isinstance(commands, dict) else {}
