"""The files that ship with Bub: its pipelines, schemas and pages to read, in a wheel and in a checkout alike."""

from __future__ import annotations

import re
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


def locate_shipped(kind: str) -> Path:
    """The folder of the shipped `pipelines`, `schemas` or `docs`.

    A wheel carries it inside the package; in a checkout, and so in an editable install, it lies beside it.
    """
    packed = _PACKAGE / "_data" / kind
    return packed if packed.is_dir() else _PACKAGE.parent / kind


def shipped_pipelines() -> list[str]:
    """The names of the shipped pipelines, without `bub:`."""
    return sorted(path.stem for path in locate_shipped("pipelines").glob("*.yaml"))


def shipped_pipeline(name: str) -> Path | None:
    """The file of the shipped pipeline `name` (without `bub:`), or None when there is none of that name."""
    path = locate_shipped("pipelines") / f"{name}.yaml"
    # A name is never a path: `bub:../secrets` names nothing.
    return path if _NAME.fullmatch(name) and path.is_file() else None


def is_shipped(path: Path) -> bool:
    """Whether a path leads to one of the shipped pipelines."""
    try:
        return path.resolve().parent == locate_shipped("pipelines").resolve()
    except (OSError, RuntimeError, ValueError):
        return False


def shipped_schema(*parts: str) -> Path:
    """The path of a shipped schema: `shipped_schema("settings", "builtin.schema.json")`."""
    return locate_shipped("schemas").joinpath(*parts)
