"""The channel of a person's own terminal: `bub chat`.

`Terminal` and `Offers` are imported when they are first used: most commands have no conversation.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["Offers", "Terminal"]

_HOMES = {"Offers": "bub.channels.terminal.offers", "Terminal": "bub.channels.terminal.channel"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
