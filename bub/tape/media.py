"""Pictures and files of a conversation: kept beside the tape, and put back into the messages that named them.

A tape names what came with a message (BEHAVIOURS P19). Beside it lies the thing itself, so that the next request holds
it, too: otherwise a model could look at a picture in one turn only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from bub.errors import TapeError
from bub.tape.context import MEDIA
from bub.tape.entry import TapeEntry
from bub.tape.tape import Tape

# `MEDIA` is the name of the sidecar and of its events, too.

MOST = 20
"""How many pictures and files a request holds of a conversation."""

MOST_BYTES = 20_000_000
"""How many bytes they have together, as they are sent. Providers refuse requests of 32 MB."""

Part = Mapping[str, Any]


async def keep_media(tape: Tape, parts: Mapping[int, Part]) -> list[dict[str, Any]]:
    """Keep parts of a message, by their places in it, and say for its `meta` where they lie. One is kept once."""
    kept = []
    for place, part in parts.items():
        handle = hashlib.sha256(repr(sorted(part.items())).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        if await _read(tape, handle) is None:
            own = TapeEntry.event(MEDIA, {"part": dict(part)})
            await tape.sidecar(MEDIA).append(TapeEntry.anchor(handle), own)
        kept.append({"place": place, "handle": handle, "bytes": size_of(part)})
    return kept


async def put_back(tape: Tape, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put what is kept into the messages of a tape that say where it lies; what is not there any more stays named."""
    whole = [{name: value for name, value in message.items() if name != MEDIA} for message in messages]
    found = [(number, one) for number, message in enumerate(messages) for one in message.get(MEDIA) or ()]
    for number, one in found:
        part, content = await _read(tape, one["handle"]), whole[number].get("content")
        if part is not None and isinstance(content, list):
            whole[number]["content"] = [*content[: one["place"]], part, *content[one["place"] + 1 :]]
    return whole


def first_that_stays(sizes: Sequence[int]) -> int:
    """Tell how many of the oldest leave the conversation, of pictures and files with these sizes.

    If one more does not fit, so many leave at once that half of the room is free. So they leave seldom: each time the
    provider has to read the conversation again.
    """
    first = total = 0
    for last, size in enumerate(sizes):
        total += size
        if last - first >= MOST or total > MOST_BYTES:
            while first < last and (last - first >= MOST // 2 or total > MOST_BYTES // 2):
                total -= sizes[first]
                first += 1
    return first


def size_of(part: Part) -> int:
    """Return the bytes of a part as it is sent: those of all its strings."""
    return sum(
        len(value) if isinstance(value, str) else size_of(value) if isinstance(value, Mapping) else 0
        for value in part.values()
    )


async def _read(tape: Tape, handle: str) -> dict[str, Any] | None:
    sidecar = tape.sidecar(MEDIA)
    try:
        found = await sidecar.fetch(sidecar.query().after_anchor(handle).limit(1))
    except TapeError as error:
        if error.reason != "not_found":
            raise
        return None
    data = found[0].payload.get("data") if found else None
    part = data.get("part") if isinstance(data, dict) else None
    return part if isinstance(part, dict) else None
