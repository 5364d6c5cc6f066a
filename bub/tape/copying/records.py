"""An entry of a tape as a copy carries it, and what a copy asks of the stores at both of its ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeVar

import msgspec
import trio

from bub.tape.entry import TapeEntry, mend
from bub.tape.store import encode_entry

MOST = 1_000
MOST_BYTES = 4 << 20
"""How many entries go together, and how long they are, so that nobody else waits for long."""

_T = TypeVar("_T")


class Record(NamedTuple):
    """An entry: `payload` and `meta` are JSON, the very bytes that a store keeps. Its id is its place in the tape."""

    kind: str
    payload: bytes
    meta: bytes
    date: str

    @classmethod
    def of(cls, entry: TapeEntry) -> Record:
        """Take an entry apart."""
        encode = msgspec.json.encode
        return cls(mend(entry.kind), encode_entry(encode, entry.payload), encode_entry(encode, entry.meta), entry.date)

    def as_entry(self) -> TapeEntry:
        """Put the entry together."""
        decode = msgspec.json.decode
        return TapeEntry(0, self.kind, decode(self.payload), decode(self.meta), self.date)

    @property
    def anchor(self) -> str | None:
        """The name of an anchor; None for every other entry."""
        return self.as_entry().anchor_name if self.kind == "anchor" else None

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return len(self.payload) + len(self.meta) + 64


class Records(Protocol):
    """What a store of tapes in Bub's own folder does for a copy. Raises `TapeError`."""

    def is_there(self) -> bool:
        """Whether anything was ever written; nothing is made for that."""

    def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""

    def read_records(self, tape: str, after: int) -> Iterator[Record]:
        """The entries behind the first so many."""

    def write_records(self, tape: str, records: Sequence[Record]) -> None:
        """Write entries at the end of a tape, all or none."""

    def reset(self, tape: str) -> None:
        """Forget a tape."""

    def settle(self, tapes: Iterable[str]) -> None:
        """Have some tapes lie on the disk."""

    def close(self) -> None:
        """Close what is open."""


class TapeSide(Protocol):
    """The tapes of one agent in a store, for a copy. Everything raises `BubError` if the store cannot be used."""

    async def list_tapes(self) -> list[str]:
        """Return the names of the tapes that belong to the agent, or to all agents of the store; sorted."""

    def is_own(self, tape: str) -> bool:
        """Return whether a tape is the agent's alone, so that nobody else has anything there."""

    async def count(self, tape: str) -> int:
        """Return how many entries a tape has; 0 if it is not there."""

    def read(self, tape: str, after: int = 0) -> AsyncIterator[Sequence[Record]]:
        """Give the entries behind the first so many, some at a time."""

    async def write(self, tape: str, records: Sequence[Record]) -> None:
        """Write entries at the end of a tape, all or none."""

    async def reset(self, tape: str) -> None:
        """Forget a tape."""

    async def settle(self) -> None:
        """See that what was written stays there if the power fails."""


async def digest_of(side: TapeSide, tape: str, most: int) -> tuple[int, str]:
    """Return how many entries a tape has, `most` of them at most, and a digest of all they are and of their order."""
    count, found = 0, sha256()
    async with aclosing(side.read(tape)) as parts:  # type: ignore[type-var]
        async for records in parts:
            for record in records[: most - count]:
                found.update(msgspec.msgpack.encode(record))
            count += min(len(records), most - count)
            await trio.lowlevel.checkpoint()
            if count == most:
                break
    return count, found.hexdigest()


def in_parts(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Part entries so that each part is of a good size."""
    part: list[Record] = []
    size = 0
    for record in records:
        part.append(record)
        size += record.size
        if len(part) >= MOST or size >= MOST_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
