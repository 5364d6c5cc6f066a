"""What was set for one session, such as its model: kept beside its tape, the last word counts."""

from __future__ import annotations

from typing import Any

from bub.tape.entry import TapeEntry
from bub.tape.tape import Tape

PERSONALITY = "personality"
"""The setting that names the profile which a session has chosen."""

SETTINGS = "settings"
"""The sidecar that they are kept in, and the name of its events."""


async def session_settings(tape: Tape) -> dict[str, Any]:
    """What is set for the session of a tape, by name (BEHAVIOURS P23). Reads one entry, the newest."""
    sidecar = tape.sidecar(SETTINGS)
    newest = await sidecar.search(sidecar.query(), most=1)
    data = newest[0].payload.get("data") if newest else None
    return dict(data) if isinstance(data, dict) else {}


async def set_session_setting(tape: Tape, name: str, value: Any) -> None:
    """Set something for the session of a tape from now on; "" or None sets it no more."""
    chosen = await session_settings(tape)
    chosen.pop(name, None)
    if value not in ("", None):
        chosen[name] = value
    await tape.sidecar(SETTINGS).append(TapeEntry.event(SETTINGS, chosen))
