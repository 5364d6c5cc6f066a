"""Leaving the page; how one enters it is `bub/studio/app.py`'s to answer, since only that sees headers."""

from __future__ import annotations

from bub.studio.requests import Asked
from bub.studio.studio import Studio


async def leave(studio: Studio, asked: Asked) -> None:
    """Let the browser that asks be unknown again."""
    studio.access.leave(asked.cookie)
