"""The tapes of an agent in a Redis, for a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from uuid import uuid4

import msgspec

from bub.base.redis.connection import FencedWriteError, RedisConnection
from bub.base.redis.keys import FORMAT, Keys
from bub.errors import TapeError
from bub.tape.copying.records import MOST, MOST_BYTES, Record
from bub.tape.shared import scripts
from bub.tape.shared.mark import COPYING
from bub.tape.shared.store import prefix_of
from bub.tape.store import check_name

_NOTED = 60 * 1000
_FIRST = 50
_NAMES_AT_ONCE = 5_000


class _Written(msgspec.Struct):
    """An entry as it lies there, of which the JSON inside stays as it is."""

    kind: str
    payload: msgspec.Raw
    meta: msgspec.Raw
    date: str


class RedisTapeSide:
    """The tapes of one agent in a Redis (`TapeSide`); `prove` gives what lies at `COPYING` as long as it may write."""

    def __init__(self, redis: RedisConnection, keys: Keys, prove: Callable[[], str]) -> None:
        self._redis = redis
        self._keys = keys
        self._prove = prove
        self._read = msgspec.json.Decoder(_Written).decode
        self._encode = msgspec.json.Encoder().encode

    async def list_tapes(self) -> list[str]:
        """Return the names of all tapes."""
        found: set[str] = set()
        cursor = 0
        while True:
            command = self._redis.client.hscan(self._keys.of_all("tapes"), cursor=cursor, count=_NAMES_AT_ONCE)
            cursor, names = await self._redis.ask(command)
            found.update(name.decode() for name in names)
            if not cursor:
                return sorted(found)

    def is_own(self, tape: str) -> bool:
        """Return True: only the agent has something there."""
        return True

    async def count(self, tape: str) -> int:
        """Return how many entries a tape has."""
        return int(await self._redis.ask(self._redis.client.xlen(self._key("tape", tape))))

    async def read(self, tape: str, after: int = 0) -> AsyncIterator[Sequence[Record]]:
        """Give the entries behind the first so many."""
        count = _FIRST
        while True:
            command = self._redis.client.xrange(self._key("tape", tape), f"({after}-0", "+", count=count)
            entries = await self._redis.ask(command)
            records = [self._record(tape, entry.field_values) for entry in entries]
            if records:
                yield records
            if len(entries) < count:
                return
            after += len(entries)
            average = sum(record.size for record in records) // len(records)
            count = max(1, min(MOST, MOST_BYTES // average))

    async def write(self, tape: str, records: Sequence[Record]) -> None:
        """Write entries at the end of a tape, in one step."""
        texts: list[str | bytes] = []
        for one in records:
            written = _Written(one.kind, msgspec.Raw(one.payload), msgspec.Raw(one.meta), one.date)
            texts += (self._encode(written), prefix_of(one.anchor) or "-" if one.kind == "anchor" else "")
        await self._run(scripts.EXTEND, tape, texts)

    async def reset(self, tape: str) -> None:
        """Forget a tape."""
        await self._run(scripts.RESET, tape, [])

    async def settle(self) -> None:
        """Nothing: the server decides when it writes to its disk."""

    async def _run(self, script: str, tape: str, texts: Sequence[str | bytes]) -> None:
        check_name(tape)
        note, holder = self._keys.of_all(f"written:{uuid4().hex}"), self._keys.of_all(COPYING)
        keys = [note, holder, self._keys.of_all("tapes"), *(self._key(part, tape) for part in _PARTS)]
        try:
            await self._redis.run(script, keys, [self._prove(), _NOTED, tape, FORMAT, 0, *texts])
        except FencedWriteError as error:
            raise TapeError("another copy to this store has begun meanwhile", help="let that one end") from error

    def _record(self, tape: str, fields: dict[bytes, bytes]) -> Record:
        if int(fields[b"v"]) > FORMAT:
            raise TapeError(f"tape `{tape}` has what a newer Bub wrote", help="update this one", reason="unavailable")
        one = self._read(fields[b"e"])
        return Record(one.kind, bytes(one.payload), bytes(one.meta), one.date)

    def _key(self, part: str, tape: str) -> str:
        return self._keys.of_all(f"{part}:{tape}")


_PARTS = ("tape", "anchors", "names")
