"""The names of the Bub on PyPI (bubbuild/bub), for plugins that were written for it and run with `runtime: asyncio`.

Inside such a plugin, and in a process of `python -m bub_reference`, this package is `bub`; for everybody else `bub` is
Bub. There is one module for each module of the reference that a public plugin uses; what lies behind them is Bub's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bub import __version__ as __version__
from bub.hookspecs import hookimpl as hookimpl

if TYPE_CHECKING:
    from pathlib import Path

    from bub_reference.configure import Settings as Settings
    from bub_reference.configure import config as config
    from bub_reference.configure import ensure_config as ensure_config
    from bub_reference.framework import BubFramework as BubFramework
    from bub_reference.tools import tool as tool

    home: Path

__all__ = ["BubFramework", "Settings", "config", "ensure_config", "home", "hookimpl", "tool"]

_HOMES = {
    "BubFramework": "framework",
    "Settings": "configure",
    "config": "configure",
    "ensure_config": "configure",
    "tool": "tools",
}


def __getattr__(name: str) -> Any:
    if name == "home":  # asked each time, since it follows the environment and the profile
        return import_module("bub_reference.surroundings").here().home
    if name not in _HOMES:
        raise AttributeError(f"Bub does not have `bub.{name}`, for a plugin of the Bub on PyPI neither")
    value = getattr(import_module(f"bub_reference.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
