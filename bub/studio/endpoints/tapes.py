"""The tapes of the agent: sessions, one of them page by page, and a search through all."""

from __future__ import annotations

from typing import Any

from bub.studio.requests import Asked
from bub.studio.studio import Studio
from bub.studio.views.loaded import NotThereError
from bub.studio.views.tapes import MOST_ON_A_PAGE, list_sessions, read_tape, search_tapes


async def sessions(studio: Studio, asked: Asked) -> Any:
    """List the sessions of the agent, the one that was used last first."""
    framework, most = studio.framework, asked.number("limit", 50, MOST_ON_A_PAGE)
    before = asked.moment("before")
    return await list_sessions(_store(studio), framework.workspace, framework.mask, most=most, before=before)


async def tape(studio: Studio, asked: Asked) -> Any:
    """Return a page of a session's tape."""
    framework, session = studio.framework, asked.name("session")
    return await read_tape(
        _store(studio),
        framework.workspace,
        session,
        framework.mask,
        before=asked.number("before", 0, 2**53) if "before" in asked.query else None,
        limit=asked.number("limit", 50, MOST_ON_A_PAGE),
    )


async def search(studio: Studio, asked: Asked) -> Any:
    """Search the tapes of the agent, or that of one session."""
    framework, session = studio.framework, asked.name("session", "") or None
    return await search_tapes(_store(studio), framework.workspace, asked.name("query"), framework.mask, session=session)


def _store(studio: Studio) -> Any:
    store = studio.framework.get_tape_store()
    if store is None:
        raise NotThereError("no plugin keeps tapes here")
    return store
