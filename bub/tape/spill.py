"""Text too long for the context: kept beside the tape in parts, and read part by part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from bub.errors import TapeError
from bub.tape.entry import TapeEntry, mend
from bub.tape.tape import Tape

SPILL = "spill"
"""The sidecar that they are kept in, and the name of its events."""

LONGEST = 16 * 1024
"""The most bytes of a text that stays in the context as it is."""

PART = LONGEST - 128
"""The most bytes of a part: read back, with the line that says which one it is, it is not too long itself."""

_HEAD, _TAIL = 400, 200
"""How many letters of a text's beginning and end the context keeps: what went wrong is often at the end."""


class Spilled(msgspec.Struct, frozen=True):
    """A text that was put aside: `preview` is what the context keeps of it, `handle` gives its `parts` back."""

    handle: str
    preview: str
    parts: int


def is_long(text: str) -> bool:
    """Whether a text is to be spilled."""
    return len(text) > LONGEST or (len(text) * 4 > LONGEST and len(text.encode("utf-8", "surrogatepass")) > LONGEST)


async def spill(tape: Tape, text: str) -> Spilled:
    """Put a text aside and return what is in its place (BEHAVIOURS P22). Raises TapeError as `Tape.append`."""
    text = mend(text)
    handle = hashlib.sha256(text.encode()).hexdigest()[:12]
    parts = list(parts_of(text)) or [text]
    spilled = Spilled(handle, _preview(text, handle, len(parts)), len(parts))
    if await _part(tape, handle, len(parts)) is not None:  # the same text was put aside before
        return spilled
    # An anchor before each part: it is found by its name, and nothing else is read.
    await tape.sidecar(SPILL).append(
        *(
            entry
            for number, part in enumerate(parts, start=1)
            for entry in (
                TapeEntry.anchor(_anchor(handle, number)),
                TapeEntry.event(SPILL, {"part": number, "of": len(parts), "text": part}),
            )
        )
    )
    return spilled


async def read_spilled(tape: Tape, handle: str, part: int = 1) -> str:
    """One part of a text that was put aside, counted from 1; a last line says which of how many it is.

    Raises TapeError for a handle or a part that there is not.
    """
    found = await _part(tape, handle, part)
    if found is None:
        first = await _part(tape, handle, 1) if part != 1 else None
        if first is None:
            raise TapeError(
                f"nothing is kept under `{handle}`",
                help="the handle is in the shortened result; a reset of the tape removes what it leads to",
                reason="not_found",
            )
        raise TapeError(f"`{handle}` has no part {part}", help=f"name one from 1 to {first['of']}", reason="not_found")
    return f"{found['text']}\n[part {part} of {found['of']}]"


async def _part(tape: Tape, handle: str, part: int) -> dict[str, object] | None:
    sidecar = tape.sidecar(SPILL)
    try:
        found = await sidecar.fetch(sidecar.query().after_anchor(_anchor(handle, part)).limit(1))
    except TapeError as error:
        if error.reason != "not_found":
            raise
        return None
    data = found[0].payload.get("data") if found else None
    return data if isinstance(data, dict) and "text" in data else None


def parts_of(text: str) -> Iterator[str]:
    """Split a text into parts of at most `PART` bytes: whole lines if that wastes less than half of a part."""
    data = text.encode()
    start = 0
    while start < len(data):
        end = start + PART
        if end < len(data):
            line = data.rfind(b"\n", start + PART // 2, end)
            end = line + 1 if line >= 0 else end
            while data[end] & 0xC0 == 0x80:  # in the middle of a letter
                end -= 1
        yield data[start:end].decode()
        start = end


def _anchor(handle: str, part: int) -> str:
    return f"{handle}/{part}"


def _preview(text: str, handle: str, parts: int) -> str:
    left_out = len(text) - _HEAD - _TAIL
    if left_out <= 0:
        return text
    which = "1" if parts == 1 else f"1 to {parts}"
    return (
        f"{text[:_HEAD]}\n"
        f"[… {left_out:,} characters left out; `spill.read` with handle `{handle}` gives part {which} …]\n"
        f"{text[-_TAIL:]}"
    )
