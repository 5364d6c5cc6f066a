"""What a command prints: read as it comes, kept within bounds, and waited for."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import msgspec
import trio

LONGEST_OUTPUT = 32 * 1024
"""How many bytes of what a command prints are shown: half of them from its beginning, half from its end."""

KEPT_OUTPUT = 1024 * 1024
"""How many bytes a command in the background may print before the first ones are forgotten."""


class _Wait(msgspec.Struct, eq=False):
    """Somebody waits for output from byte `offset` on, or for a `text` in it; `searched` is up to if it is not."""

    offset: int
    text: bytes
    searched: int
    has_come: bool = False
    is_over: trio.Event = msgspec.field(default_factory=trio.Event)

    def is_met(self, last: bytearray, total: int) -> bool:
        """Look whether it has come among the `last` of `total` bytes."""
        if self.text:
            begin = total - len(last)
            self.has_come = self.has_come or last.find(self.text, max(self.searched - begin, 0)) >= 0
            self.searched = max(self.offset, total - len(self.text) + 1)  # it may come in two pieces
        else:
            self.has_come = total > self.offset
        return self.has_come


class Output:
    """What a command prints, read by a thread of its own as long as anybody holds the other end.

    A thread, since a command in the background has no task to read for it, and a full pipe would stop it. Memory is
    bounded: of what is long the first bytes and the last ones are kept.
    """

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        self.ended = trio.Event()
        self._token = token
        self._lock = threading.Lock()
        self._first = bytearray()
        self._last = bytearray()
        self._total = 0
        self._waits: list[_Wait] = []

    def read_in_thread(self, pipe: int) -> None:
        """Read until nobody can write any more; then close the pipe and set `ended`. RuntimeError without threads."""
        try:
            threading.Thread(target=self._read, args=(pipe,), name="bub-bash", daemon=True).start()
        except RuntimeError:
            os.close(pipe)
            raise

    def _read(self, pipe: int) -> None:
        try:
            while data := os.read(pipe, 65536):
                self._take(data)
        finally:
            os.close(pipe)
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._end)

    def _end(self) -> None:
        self.ended.set()
        for wait in self._waits:
            wait.is_over.set()

    def _take(self, data: bytes) -> None:
        with self._lock:
            self._total += len(data)
            self._first += data[: LONGEST_OUTPUT // 2 - len(self._first)]
            self._last += data
            if len(self._last) > 2 * KEPT_OUTPUT:
                del self._last[:-KEPT_OUTPUT]
            # Looked for here, before it can be forgotten.
            met = [wait for wait in self._waits if wait.is_met(self._last, self._total)]
        for wait in met:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(wait.is_over.set)

    async def wait_for(self, offset: int, text: str = "") -> bool:
        """Wait until something was printed from a byte on, or `text` was; False if nothing more can come."""
        wait = _Wait(offset, text.encode(), offset)
        with self._lock:
            if wait.is_met(self._last, self._total) or self.ended.is_set():
                return wait.has_come
            self._waits.append(wait)
        try:
            await wait.is_over.wait()
        finally:
            with self._lock:
                self._waits.remove(wait)
        return wait.has_come

    def text(self) -> str:
        """All of it, or the beginning and the end with how much was cut between them."""
        half = LONGEST_OUTPUT // 2
        with self._lock:
            if self._total <= LONGEST_OUTPUT:
                return _decode(self._last)
            cut = f"\n[… {self._total - 2 * half:,} bytes cut …]\n"
            return _decode(self._first) + cut + _decode(self._last[-half:])

    def since(self, offset: int) -> tuple[str, int]:
        """What was printed from a byte on, and the offset to go on from."""
        with self._lock:
            begin = self._total - len(self._last)
            missed = f"[… {begin - offset:,} bytes are forgotten …]\n" if offset < begin else ""
            start = min(max(offset, begin), self._total)
            piece = self._last[start - begin :][:LONGEST_OUTPUT]
        return missed + _decode(piece), start + len(piece)


def _decode(data: bytes | bytearray) -> str:
    return data.decode("utf-8", errors="replace")
