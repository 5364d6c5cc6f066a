"""What the reader of YAML imports when it first needs it: most files have no syntax error and no unknown section."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "explain_error": "bub.pipeline.source.yaml_errors",
    "installed_pipeline": "bub.plugins.installed.pipelines",
    "installed_pipelines": "bub.plugins.installed.pipelines",
    "installed_section": "bub.plugins.schemas",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
