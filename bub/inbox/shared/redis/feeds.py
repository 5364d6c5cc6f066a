"""Reading the streams of what a process has claimed: from the beginning once, and then what comes in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import trio

from bub.base.redis.connection import ANSWERING, RedisConnection
from bub.base.redis.keys import Keys, partition_of_id
from bub.inbox.shared.redis.reading import (
    Fields,
    NewerEntryError,
    PartitionKeys,
    number_in,
    number_of,
    read_message,
    read_reply,
)
from bub.inbox.store import Id, Outgoing, Received
from bub.inbox.texts import UNREADABLE, MessageTexts
from bub.log import log_warning
from bub.tape.entry import mend

_AT_ONCE = 500
"""How many entries are read in one step."""

_BLOCK = 1.0
"""How long, in seconds, the server is asked to wait for something new before it is asked again."""

_Place = TypeVar("_Place")

Bury = Callable[[Id, str], Awaitable[None]]
"""Sets aside what cannot be read."""


class Feeds:
    """What the claimed partitions and channels bring. Reading takes nothing away: what is done with is deleted."""

    def __init__(self, redis: RedisConnection, keys: Keys, texts: MessageTexts, bury: Bury, bury_reply: Bury) -> None:
        self.partitions = 0
        self._redis = redis
        self._keys = keys
        self._texts = texts
        self._bury = bury
        self._bury_reply = bury_reply
        self._messages: dict[int, int] = {}
        """The number of the last message read, by partition."""
        self._replies: dict[tuple[str, int], int] = {}
        """The number of the last reply read, by channel and partition."""
        self._beginning: dict[int | str, object] = {}
        """Who reads a partition or a channel from its beginning now: what comes in meanwhile is read behind that."""
        self._channels: dict[Id, str] = {}
        self._attempts: dict[Id, int] = {}
        self._newer: set[Id] = set()
        self._waits: dict[str, trio.CancelScope] = {}

    def clear(self) -> None:
        """Forget everything."""
        for one in (self._messages, self._replies, self._channels, self._attempts, self._newer, self._beginning):
            one.clear()

    # Partitions.

    async def begin_partition(self, partition: int) -> Sequence[Received]:
        """Read a partition from its beginning, and from now on."""
        mark = self._beginning[partition] = object()
        found, last = await self._read_partition(partition)
        if self._beginning.get(partition) is mark:  # else it has ended meanwhile
            del self._beginning[partition]
            self._messages[partition] = last
            self._look_anew("messages")
        return found

    def end_partition(self, partition: int) -> None:
        """Read a partition no more."""
        self._beginning.pop(partition, None)
        self._messages.pop(partition, None)
        self._look_anew("messages")

    async def all_messages(self) -> list[Received]:
        """Read everything that waits in the claimed partitions."""
        found: list[Received] = []
        for partition in sorted(self._messages):
            found += (await self._read_partition(partition))[0]
        return found

    async def next_messages(self) -> list[Received]:
        """Wait for messages in the claimed partitions; nothing after a while, and if other ones are claimed."""
        streams = {self._at(partition).own("in"): partition for partition in self._messages}
        came = await self._wait("messages", {key: f"{self._messages[p]}-0" for key, p in streams.items()})
        found: list[Received] = []
        last: dict[int, int] = {}
        for key, entries in came.items():
            partition = streams[key]
            if partition in self._messages and entries:
                found += await self._decode(self._at(partition), entries, came_now=True)
                last[partition] = number_in(entries[-1].identifier)
        _advance(self._messages, last)
        return found

    async def fetch(self, ids: Sequence[Id]) -> list[Received]:
        """Read those of these messages that are there, in order."""
        found: list[Received] = []
        for one in sorted(set(ids)):
            at, number = self._at(partition_of_id(one)), number_of(one)
            entries = await self._redis.ask(self._redis.client.xrange(at.own("in"), f"{number}-0", f"{number}-0"))
            found += await self._decode(at, entries)
        return found

    async def _read_partition(self, partition: int) -> tuple[list[Received], int]:
        """Read a partition from its beginning; return the number of what came last, too."""
        at = self._at(partition)
        entries = await self._read_stream(at.own("in"))
        return await self._decode(at, entries), number_in(entries[-1].identifier) if entries else 0

    async def _read_stream(self, key: str) -> list[Any]:
        found: list[Any] = []
        while True:
            start = f"({number_in(found[-1].identifier)}-0" if found else "-"
            entries = await self._redis.ask(self._redis.client.xrange(key, start, "+", count=_AT_ONCE))
            found += entries
            if len(entries) < _AT_ONCE:
                return found

    async def _decode(self, at: PartitionKeys, entries: Sequence[Any], *, came_now: bool = False) -> list[Received]:
        if not entries:
            return []
        about: Fields = {}
        called: Iterable[bytes] = ()
        # Of what just came nobody has noted anything, unless it came from elsewhere with a note.
        if not came_now or any(b"noted" in entry.field_values for entry in entries):
            about, called = await self._read_about(at)
        found: list[Received] = []
        for entry in entries:
            number = number_in(entry.identifier)
            id = at.id_of(number)  # noqa: A001 (what a message in a store is known by)
            try:
                has_calls = b"%d" % number in called
                found.append(read_message(id, entry.field_values, about, self._texts, has_calls=has_calls))
            except NewerEntryError:
                self._tell_of_newer(id)
            except (KeyError, *UNREADABLE) as error:
                await self._bury(id, f"it cannot be read: {error}")
        return found

    async def _read_about(self, at: PartitionKeys) -> tuple[Fields, Iterable[bytes]]:
        about = await self._redis.ask(self._redis.client.hgetall(at.own("about")))
        called = await self._redis.ask(self._redis.client.smembers(at.own("calls:")))
        return about, called

    def _tell_of_newer(self, id: Id) -> None:  # noqa: A002
        if id not in self._newer:
            self._newer.add(id)
            log_warning("inbox.newer_entry", id=id, help="a newer gateway wrote it; update this one")

    # Channels.

    async def begin_channel(self, channel: str) -> list[Outgoing]:
        """Read the replies of a channel from the beginning of each partition, and from now on."""
        mark = self._beginning[channel] = object()
        found, last = [], {}
        for partition in range(self.partitions):
            replies, last[channel, partition] = await self._read_replies(channel, partition)
            found += replies
        if self._beginning.get(channel) is mark:  # as above
            del self._beginning[channel]
            self._replies.update(last)
            self._look_anew("replies")
        return found

    def end_channel(self, channel: str) -> None:
        """Read the replies of a channel no more."""
        self._beginning.pop(channel, None)
        for place in [place for place in self._replies if place[0] == channel]:
            del self._replies[place]
        for one in [one for one, its in self._channels.items() if its == channel]:
            self.forget_reply(one)
        self._look_anew("replies")

    async def all_replies(self) -> list[Outgoing]:
        """Read everything that waits for the claimed channels."""
        found = []
        for place in sorted(self._replies):
            found += (await self._read_replies(*place))[0]
        return found

    async def next_replies(self) -> list[Outgoing]:
        """Wait for replies of the claimed channels, as for messages."""
        streams = {self._stream_of(*place): place for place in self._replies}
        came = await self._wait("replies", {key: f"{self._replies[place]}-0" for key, place in streams.items()})
        found: list[Outgoing] = []
        last: dict[tuple[str, int], int] = {}
        for key, entries in came.items():
            place = streams[key]
            if place in self._replies and entries:
                found += await self._decode_replies(*place, entries, {})
                last[place] = number_in(entries[-1].identifier)
        _advance(self._replies, last)
        return found

    def channel_of(self, id: Id) -> str:  # noqa: A002
        """Return the channel of a reply that was read; "" for one that was not."""
        return self._channels.get(id, "")

    def attempts_of(self, id: Id) -> int:  # noqa: A002
        """Return how many deliveries of a reply have failed."""
        return self._attempts.get(id, 0)

    def note_attempts(self, id: Id, attempts: int) -> None:  # noqa: A002
        """Note how many have failed by now."""
        self._attempts[id] = attempts

    def note_reply(self, outgoing: Outgoing) -> None:
        """Note a reply that this process has made itself, if its channel is claimed here."""
        if (outgoing.message.channel, 0) in self._replies:
            self._channels[outgoing.id] = outgoing.message.channel

    def forget_reply(self, id: Id) -> None:  # noqa: A002
        """Have no more to do with a reply."""
        self._channels.pop(id, None)
        self._attempts.pop(id, None)

    async def _read_replies(self, channel: str, partition: int) -> tuple[list[Outgoing], int]:
        entries = await self._read_stream(self._stream_of(channel, partition))
        if not entries:
            return [], 0
        about = await self._redis.ask(self._redis.client.hgetall(self._at(partition).own("about")))
        replies = await self._decode_replies(channel, partition, entries, about)
        return replies, number_in(entries[-1].identifier)

    async def _decode_replies(
        self, channel: str, partition: int, entries: Sequence[Any], about: Fields
    ) -> list[Outgoing]:
        """Read replies; of those that just came, nobody has noted anything, so that `about` is empty."""
        at = self._at(partition)
        found: list[Outgoing] = []
        for entry in entries:
            id = at.id_of(number_in(entry.identifier))  # noqa: A001 (as above)
            self._channels[id] = channel
            try:
                outgoing = read_reply(id, entry.field_values, about, self._texts)
            except NewerEntryError:
                self._tell_of_newer(id)
            except (KeyError, *UNREADABLE) as error:
                await self._bury_reply(id, f"it cannot be read: {error}")
            else:
                self._attempts[id] = outgoing.attempts
                found.append(outgoing)
        return found

    def _stream_of(self, channel: str, partition: int) -> str:
        return self._at(partition).own(f"out:{mend(channel)}")

    def _at(self, partition: int) -> PartitionKeys:
        return PartitionKeys(self._keys, partition)

    # Waiting.

    async def _wait(self, what: str, streams: Mapping[str, str]) -> dict[str, Sequence[Any]]:
        with trio.CancelScope() as scope:
            self._waits[what] = scope
            if not streams:
                await trio.sleep(_BLOCK)
                return {}
            command = self._redis.waiting.xread(dict(streams), block=round(_BLOCK * 1000), count=_AT_ONCE)
            came = await self._redis.ask(command, patience=ANSWERING + _BLOCK)
            return {key.decode(): entries for key, entries in (came or {}).items()}
        return {}  # something else is claimed by now

    def _look_anew(self, what: str) -> None:
        if what in self._waits:
            self._waits[what].cancel()


def _advance(known: dict[_Place, int], last: Mapping[_Place, int]) -> None:
    """Note how far was read, once nothing can fail any more: what was read and not given would never come again.

    What is read no more since then is left out.
    """
    known.update({place: max(known[place], number) for place, number in last.items() if place in known})
