"""The channel of a person's own terminal: `bub chat`. Questions of single commands are asked in `bub/cli/`.

`Terminal` and `Completions` are imported when they are first used: most commands have no conversation.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Completions", "Terminal"]

_HOMES = {"Completions": "bub.channels.terminal.completion", "Terminal": "bub.channels.terminal.channel"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
