"""Standard input and output for a protocol alone: nothing else reads, and what prints goes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from typing import BinaryIO

import trio

_CHUNK = 65_536


class Reading:
    """What comes in."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def receive_some(self, max_bytes: int, /) -> bytes:
        """Return what has come, at most `max_bytes`; nothing at the end. Can be cancelled."""
        return await trio.to_thread.run_sync(os.read, self._stream.fileno(), max_bytes, abandon_on_cancel=True)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield line by line; what is no UTF-8 has a stand-in."""
        kept = bytearray()
        while chunk := await self.receive_some(_CHUNK):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield (bytes(kept) + line).decode(errors="replace")
                kept.clear()
            kept += rest


class Writing:
    """What goes out."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    async def send_all(self, data: bytes, /) -> None:
        """Write all of it."""
        await trio.to_thread.run_sync(self._write, data)

    async def write(self, text: str, /) -> None:
        """Write a text; whoever is cancelled meanwhile has to write no more, since nobody may read this to its end."""
        await trio.to_thread.run_sync(self._write, text.encode(), abandon_on_cancel=True)

    async def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._stream.write(view) :]


def take_streams() -> tuple[Reading, Writing]:
    """Take both from the rest of the process, and from the processes that it starts."""
    sys.stdout.flush()
    incoming = os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return Reading(incoming), Writing(outgoing)
