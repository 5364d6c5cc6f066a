"""Tapes in a Redis: a turn's entries are one step and one round trip, and only who has the session writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

import msgspec
import trio

from bub.base.backoff import Backoff
from bub.base.redis.address import StoreAddress
from bub.base.redis.connection import FencedWriteError, RedisConnection, StoreError
from bub.base.redis.keys import FORMAT, Keys
from bub.base.redis.leases import current_lease
from bub.errors import TapeError
from bub.tape.entry import TapeEntry, mend
from bub.tape.query import LAST_ANCHOR, TapeQuery, no_anchor, part_as_written
from bub.tape.shared import scripts
from bub.tape.shared.mark import check_whole
from bub.tape.shared.tails import Kept, Tails, stretch_in
from bub.tape.store import FencedTapeError, check_name, encode_entry
from bub.tape.tape import SIDECAR

TRYING = 15.0
"""How long, in seconds, a Redis that cannot be reached is asked again before a turn has to know."""

_NOTED = 2 * 60 * 1000
"""How long, in milliseconds, a write is remembered: far longer than it is tried."""

_PAUSES = Backoff(0.02, longest=1.0, spread=0.5)
_FOREVER = 1 << 53
_FIRST = 250
_MOST = 2_000
_BYTES_READ = 1 << 20
"""How many entries are read at once, and how long they are together: the server does nothing else meanwhile."""

_FEW = 32
"""How many are read to find one that is mostly among the newest."""

_MOST_BESIDE = 8
"""How many sidecars of a tape are read along with it."""

_NAMES_AT_ONCE = 5_000

_TEXTS_AT_ONCE = 2_000
_BYTES_AT_ONCE = 8 << 20
"""What is more than that is staged first, in parts, so that no other waits while all of it comes."""

_STAGED_FOR = 60 * 60

_T = TypeVar("_T")


_Slice: TypeAlias = tuple[int, int, Sequence[Kept]]
"""From which id on to which the rest lies, and the entries before."""


class _Written(msgspec.Struct):
    """What is kept of an entry: all but its id, which is its place."""

    kind: str
    payload: dict[str, Any]
    meta: dict[str, Any]
    date: str


@asynccontextmanager
async def open_redis_tapes(address: StoreAddress, agent: str) -> AsyncIterator[RedisTapeStore]:
    """Give the tapes of an agent at an address, and close the connection behind the block; it is made when needed."""
    store = RedisTapeStore(address, agent)
    try:
        yield store
    finally:
        await store.close()


class RedisTapeStore:
    """The tapes of one agent in a Redis (`AsyncTapeStore`), for any number of processes at once.

    It connects at its first use. What is written under a `current_lease` is written only while that holds, else
    FencedTapeError. A write whose answer is lost is tried again, and never done twice. Raises TapeError.
    """

    def __init__(self, address: StoreAddress, agent: str) -> None:
        self.shown = address.shown
        """Where the tapes lie, for people."""
        self._keys = Keys(address.prefix, agent)
        self._redis = RedisConnection(address)
        self._tails = Tails()
        self._beside: set[str] = set()
        """What turns ask for of what lies beside their tapes, by the names of sidecars."""
        self._opening = trio.Lock()
        self._is_open = False
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(_Written).decode

    # The protocol.

    async def list_tapes(self) -> list[str]:
        """The names of all tapes, sorted."""
        return sorted(await self._tapes())

    async def append(self, tape: str, entry: TapeEntry) -> None:
        """Write one entry at the end of a tape."""
        await self.extend(tape, [entry])

    async def extend(self, tape: str, entries: Sequence[TapeEntry]) -> None:
        """Write entries at the end of a tape, all or none, in one round trip."""
        check_name(tape)
        if not entries:
            return
        texts: list[str | bytes] = []
        for entry in entries:
            name = prefix_of(entry.anchor_name)
            texts += (self._text(entry), name or "-" if entry.kind == "anchor" else "")
        await self._write(scripts.EXTEND, tape, texts)

    async def fetch_all(self, query: TapeQuery) -> list[TapeEntry]:
        """The entries that a query wants, in its order."""
        if query.most == 0:
            return []
        if (known := await self._find_in_tail(query)) is not None:
            return known
        most = _FOREVER if query.most is None else query.most
        by_anchors = query.only == ("anchor",)
        has_filter = query.since is not None or query.text is not None or (query.only and not by_anchors)
        first = min(_FIRST, max(_FEW, most) if has_filter else most)
        if query.below is not None and query.anchors is None and query.after is None:
            low, high, part = await self._go_on(query, 1, max(query.below - 1, 0), first)
        else:
            low, high, part = await self._find(query, _where(query), first)
        found = self._read(query, part)
        while low <= high and len(found) < most:
            if by_anchors:
                low, high, part = await self._find(query, ["cursor", low, high, ""], min(most - len(found), _MOST))
            else:
                # As many as make a good slice, if they are as long as those before them.
                length = sum(len(entry.text) for entry in part) // len(part)
                count = max(1, min(_MOST, _BYTES_READ // max(length, 1)))
                low, high, part = await self._go_on(query, low, high, count)
            found += self._read(query, part)
        return found[: query.most]

    async def reset(self, tape: str) -> None:
        """Forget a tape; the next entry is its first."""
        await self._write(scripts.RESET, check_name(tape), [])

    # What others ask for.

    async def size(self) -> int:
        """How many bytes the entries have."""
        return sum((await self._tapes()).values())

    async def close(self) -> None:
        """Give up the connection; the next call makes it again."""
        self._is_open = False
        await self._redis.close()

    async def _tapes(self) -> dict[str, int]:
        """The bytes of each tape, by its name."""
        found: dict[str, int] = {}
        cursor = 0
        while True:
            start = cursor

            async def ask(start: int = start) -> Any:
                command = self._redis.client.hscan(self._keys.of_all("tapes"), cursor=start, count=_NAMES_AT_ONCE)
                return await self._redis.ask(command)

            cursor, names = await self._insist(ask)
            found.update((name.decode(), int(size)) for name, size in names.items())
            if not cursor:
                return found

    # Reading.

    async def _find_in_tail(self, query: TapeQuery) -> list[TapeEntry] | None:
        """Answer what a turn asks of its tape from the last anchor on, with one reading for all it asks."""
        lease, tape = current_lease.get(), query.tape
        far = (query.anchors, query.text, query.since, query.below)
        is_near = query.after in (None, LAST_ANCHOR) and all(one is None for one in far)
        if lease is None or not is_near or not self._is_of_session(tape, lease.token):
            return None
        tail = self._tails.find(tape, lease.token)
        if tail is None:
            await self._look_ahead(tape, lease.token)
            tail = self._tails.find(tape, lease.token)
        if tail is None or tail.entries is None:
            return None
        stretch = stretch_in(query, tail.entries)
        if stretch is None:
            return None
        begins = tuple(self._encode({"kind": mend(kind)})[:-1] + b"," for kind in query.only)
        in_order = reversed(stretch) if query.backwards else stretch
        wanted = (kept for kept in in_order if kept.version > FORMAT or not begins or kept.text.startswith(begins))
        return self._read(query, list(islice(wanted, query.most)))

    def _is_of_session(self, tape: str, token: str) -> bool:
        """Whether only the turn writes there: what lies beside other tapes than its own may be for all sessions."""
        owner, is_beside, name = tape.partition(SIDECAR)
        if not is_beside:
            return True
        if self._tails.find(owner, token) is None:
            return False
        if len(self._beside) < _MOST_BESIDE:
            self._beside.add(name)
        return True

    async def _look_ahead(self, tape: str, token: str) -> None:
        """Read the tail of a tape, and with it, as one round trip, what turns ask for of what lies beside."""
        beside = () if SIDECAR in tape else [f"{tape}{SIDECAR}{name}" for name in self._beside]
        failures: list[TapeError] = []

        async def read(name: str) -> None:
            mark = self._tails.begin(name)
            try:
                self._tails.end(name, mark, token, await self._read_tail(name))
            except TapeError as error:
                failures.append(error)

        async with trio.open_nursery() as nursery:
            for name in (tape, *beside):
                nursery.start_soon(read, name)
        if failures:
            raise failures[0]

    async def _read_tail(self, tape: str) -> list[Kept] | None:
        query, entries, size = TapeQuery(tape), list[Kept](), 0
        low, high, part = await self._find(query, ["tail", "", "", ""], _FIRST)
        while True:
            entries += part
            size += sum(len(one.text) for one in part)
            if low > high:
                return entries
            if size > _BYTES_READ:
                return None
            low, high, part = await self._go_on(query, low, high, _FIRST)

    async def _find(self, query: TapeQuery, where: list[Any], count: int) -> _Slice:
        """Look up the anchors of a query, or go on with a cursor, and read a slice: one round trip."""
        by_anchors = query.only == ("anchor",)
        keys, given = self._keys_of(query.tape), [*where, int(query.backwards), count, int(by_anchors)]
        missing, *found = await self._insist(lambda: self._redis.run(scripts.FIND, keys, given))
        if missing:
            start, end = query.anchors or (None, None)
            raise no_anchor(query.tape, {b"after": query.after, b"start": start, b"end": end}[missing])
        low, high, entries = found
        return low, high, [Kept.of(number, *fields[1::2]) for number, fields in entries]

    async def _go_on(self, query: TapeQuery, low: int, high: int, count: int) -> _Slice:
        """Read the next slice."""
        tape, _, _ = self._keys_of(query.tape)

        async def ask() -> Any:
            start, end = f"{low}-0", f"{high}-0"
            if query.backwards:
                return await self._redis.ask(self._redis.client.xrevrange(tape, end=end, start=start, count=count))
            return await self._redis.ask(self._redis.client.xrange(tape, start=start, end=end, count=count))

        entries = [Kept.of(one.identifier, *one.field_values.values()) for one in await self._insist(ask)]
        if len(entries) < count:
            return high + 1, high, entries
        last = entries[-1].number
        return (low, last - 1, entries) if query.backwards else (last + 1, high, entries)

    def _read(self, query: TapeQuery, entries: Sequence[Kept]) -> list[TapeEntry]:
        """Those entries of a slice that a query wants."""
        part, found = part_as_written(query.text or ""), []
        for kept in entries:
            if kept.version > FORMAT:
                problem = f"tape `{query.tape}` has what a newer Bub wrote"
                raise TapeError(problem, help="update this one", reason="unavailable")
            if part and part not in kept.text.decode().casefold():  # it is not decoded for nothing
                continue
            whole = self._decode(kept.text)
            entry = TapeEntry(kept.number, whole.kind, whole.payload, whole.meta, whole.date)
            if query.wants(entry):
                found.append(entry)
        return found

    # Writing.

    async def _write(self, script: str, tape: str, texts: Sequence[str | bytes]) -> None:
        """Run a script that writes to a tape, once."""
        self._tails.forget(tape)
        try:
            await self._write_once(script, tape, texts)
        finally:
            self._tails.forget(tape)

    async def _write_once(self, script: str, tape: str, texts: Sequence[str | bytes]) -> None:
        lease, note = current_lease.get(), self._keys.of_all(f"written:{uuid4().hex}")
        holder = self._keys.of_lease(lease.name) if lease is not None else note
        keys = [note, holder, self._keys.of_all("tapes"), *self._keys_of(tape)]
        staged = 0
        if len(texts) > _TEXTS_AT_ONCE or sum(map(len, texts)) > _BYTES_AT_ONCE:
            whole = texts
            keys.append(await self._insist(lambda: self._stage(whole)))
            staged, texts = len(whole), ()
        given = [lease.token if lease is not None else "", _NOTED, tape, FORMAT, staged, *texts]
        await self._insist(lambda: self._redis.run(script, keys, given))

    async def _stage(self, texts: Sequence[str | bytes]) -> str:
        """Put texts where a script finds them, part by part; they are forgotten by themselves if none does."""
        stage, client = self._keys.of_all(f"staged:{uuid4().hex}"), self._redis.client
        start = 0
        while start < len(texts):
            end, size = start, 0
            while end < len(texts) and end - start < _TEXTS_AT_ONCE and size < _BYTES_AT_ONCE:
                size += len(texts[end])
                end += 1
            await self._redis.ask(client.rpush(stage, list(texts[start:end])))
            await self._redis.ask(client.expire(stage, _STAGED_FOR))
            start = end
        return stage

    # The connection.

    async def _insist(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Ask for something that does no harm if it is asked twice, until there is an answer or no use in it."""
        deadline, failures = trio.current_time() + TRYING, 0
        while True:
            try:
                await self._connect()
                return await ask()
            except FencedWriteError as error:
                raise FencedTapeError(
                    "this session went to another gateway, so nothing was written to its tape",
                    help="nothing is to be done: the other gateway answers the message",
                ) from error
            except StoreError as error:
                failures += 1
                pause = _PAUSES.pause_after(failures)
                if error.is_away and trio.current_time() + pause <= deadline:
                    await trio.sleep(pause)
                # Who was stopped meanwhile asks no more: what it wrote may be forgotten by now, and be written twice.
                if not error.is_away or trio.current_time() + pause > deadline:
                    raise TapeError(
                        f"the tapes cannot be used: {error}", help=error.help, reason="unavailable"
                    ) from error

    async def _connect(self) -> None:
        if not self._is_open:
            async with self._opening:
                if not self._is_open:
                    await self._redis.open()
                    await check_whole(self._redis, self._keys)
                    self._is_open = True

    def _keys_of(self, tape: str) -> list[str]:
        return [self._keys.of_all(f"{part}:{tape}") for part in ("tape", "anchors", "names")]

    def _text(self, entry: TapeEntry) -> bytes:
        written = _Written(entry.kind, entry.payload, entry.meta, entry.date)
        return encode_entry(self._encode, written)


def _where(query: TapeQuery) -> list[Any]:
    """Where a query looks, as `FIND` takes it."""
    start, end = query.anchors or (None, None)
    mode = "after" if query.after is not None else ""
    after = query.after if isinstance(query.after, str) else None
    return [mode, prefix_of(after), prefix_of(start), prefix_of(end)]


def prefix_of(anchor: str | None) -> str:
    """How the index of anchors names one, its id apart, so that no name is the beginning of another."""
    if anchor is None:
        return ""
    name = mend(anchor)
    return f"{len(name.encode())}:{name}:"
