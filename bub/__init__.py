"""Bub: a hook-first runtime for agents, in which the turn itself is a YAML file.

The names below are imported when they are first used, so that `import bub` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["BubFramework", "Settings", "TurnResult", "__version__", "hookimpl", "tool"]

_HOMES = {
    "BubFramework": "bub.framework",
    "Settings": "bub.plugins.section",
    "TurnResult": "bub.framework",
    "tool": "bub.tools",
    "hookimpl": "bub.hookspecs",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module("bub.log").keep_quiet()
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
