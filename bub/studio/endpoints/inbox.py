"""What waits in the inbox and the outbox, and what was set aside: tried again, or dropped."""

from __future__ import annotations

from typing import Any

from bub.inbox.store import InboxEntry
from bub.studio.desks import Desk
from bub.studio.requests import Asked
from bub.studio.studio import Studio
from bub.studio.views.loaded import ChangedError, NotThereError

_MOST = 500
_TEXT = 600


async def list_inbox(studio: Studio, asked: Asked) -> dict[str, Any]:
    """List what waits for its turn, what waits for its delivery, and what was set aside."""
    found: dict[str, list[dict[str, Any]]] = {"waiting": [], "outgoing": [], "dead": []}
    for begin, desk in studio.desks.items():
        for entry in await desk.entries():
            kind = "dead" if entry.reason is not None else "waiting" if entry.kind == "message" else "outgoing"
            if len(found[kind]) < _MOST:
                found[kind].append(_describe(f"{begin}{_name(entry)}", entry))
    return found


async def retry(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Let what was set aside wait again, as if nothing had been tried."""
    desk, entry = await _find(studio, asked)
    await desk.retry(entry.kind, [entry.id])
    studio.pulse.look_again()
    return {"done": True}


async def drop(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Throw away what was set aside, for good."""
    desk, entry = await _find(studio, asked)
    await desk.drop(entry.kind, [entry.id])
    studio.pulse.look_again()
    return {"done": True}


async def _find(studio: Studio, asked: Asked) -> tuple[Desk, InboxEntry]:
    """Return what was set aside under a name. Raises `NotThereError`, or `ChangedError` if it waits again."""
    name = asked.name("id")
    for begin, desk in sorted(studio.desks.items(), reverse=True):
        if not name.startswith(begin):
            continue
        for entry in await desk.entries():
            if f"{begin}{_name(entry)}" == name:
                if entry.reason is None:
                    waits = "its turn" if entry.kind == "message" else "its delivery"
                    raise ChangedError(f"`{name}` was not set aside: it waits for {waits}")
                return desk, entry
    raise NotThereError(f"there is no `{name}` in the inbox any more")


def _describe(name: str, entry: InboxEntry) -> dict[str, Any]:
    message = entry.message
    return {
        "id": name,
        "kind": message.kind if message is not None else entry.kind,
        "channel": entry.channel,
        "chat": entry.chat_id,
        "at": entry.at,
        "attempts": entry.attempts,
        "reason": entry.reason,
        "text": message.content[: 4 * _TEXT] if message is not None else "(cannot be read)",
    }


def _name(entry: InboxEntry) -> str:
    return f"{entry.kind[0]}{entry.id}"
