"""The chats of the page: what was said, what is said now, and an end to what is under way."""

from __future__ import annotations

from typing import Any

from bub.studio.channel import session_of
from bub.studio.requests import Asked
from bub.studio.studio import Studio
from bub.studio.views.loaded import NotThereError, loaded_profile
from bub.studio.views.tapes import read_tape

_MOST = 100


async def read_chat(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return the last entries of a chat's tape, and whether something is under way."""
    session, framework = session_of(asked.name("chat")), studio.framework
    entries: list[Any] = []
    store = framework.get_tape_store()
    if store is not None:
        try:
            page = await read_tape(store, framework.workspace, session, framework.mask, limit=_MOST, everything=False)
            entries = page["entries"]
        except NotThereError:  # nothing was said yet
            entries = []
    is_running = studio.channel.is_busy(asked.name("chat"))
    is_running = is_running or any(turn.session_id == session for turn in framework.turns_under_way)
    return {"entries": entries, "running": is_running}


async def say(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Take in a message for a profile; it is kept when this returns, and its answer comes over the feed."""
    profile = asked.name("profile", "") or studio.framework.profile
    loaded_profile(studio.framework.generation, profile)
    return {"message_id": await studio.channel.submit(asked.name("chat"), profile, asked.text("content"))}


async def stop(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Cancel what is under way in a chat, and forget what waits there."""
    return {"stopped": studio.channel.stop(asked.name("chat"))}
