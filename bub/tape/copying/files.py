"""The tapes in a folder such as Bub's own, for a copy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

from bub.tape.copying.records import Record, Records, in_parts

_OF_AN_AGENT = re.compile(r"[0-9a-f]{16}__")


class FileTapes:
    """The tapes of the agent whose tapes begin with `prefix`, in the store of a folder (`TapeSide`).

    Of other agents' tapes there it knows nothing; those that have no owner belong to all of them.
    """

    def __init__(self, store: Records, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._written: set[str] = set()

    async def list_tapes(self) -> list[str]:
        """Return the names of the agent's tapes, and of those that belong to all; nothing is made for that."""
        names = self._store.list_tapes() if self._store.is_there() else []
        return [name for name in names if self.is_own(name) or _OF_AN_AGENT.match(name) is None]

    def is_own(self, tape: str) -> bool:
        """Return whether a tape is the agent's alone."""
        return tape.startswith(self._prefix)

    async def count(self, tape: str) -> int:
        """Return how many entries a tape has."""
        return sum(1 for _ in self._store.read_records(tape, 0)) if self._store.is_there() else 0

    async def read(self, tape: str, after: int = 0) -> AsyncIterator[Sequence[Record]]:
        """Give the entries behind the first so many."""
        if self._store.is_there():
            for part in in_parts(self._store.read_records(tape, after)):
                yield part

    async def write(self, tape: str, records: Sequence[Record]) -> None:
        """Write entries at the end of a tape."""
        self._written.add(tape)
        self._store.write_records(tape, records)

    async def reset(self, tape: str) -> None:
        """Forget a tape."""
        if self._store.is_there():
            self._store.reset(tape)

    async def settle(self) -> None:
        """Have what was written lie on the disk."""
        if self._written:
            self._store.settle(sorted(self._written))

    def close(self) -> None:
        """Close what is open."""
        self._store.close()
