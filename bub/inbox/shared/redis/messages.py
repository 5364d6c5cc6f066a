"""What becomes of messages in a Redis: each step is one script, under the lease of their partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from bub.approval import NotedCall
from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys, partition_of_id
from bub.channels.message import ChannelMessage
from bub.inbox.schedules.firing import Firing
from bub.inbox.shared.redis import scripts
from bub.inbox.shared.redis.claims import Claims
from bub.inbox.shared.redis.reading import PartitionKeys, number_of, write_firing
from bub.inbox.shared.redis.schedules import REMEMBERED
from bub.inbox.store import Id, Outgoing, Received
from bub.tape.entry import mend

Written: TypeAlias = tuple[str, ChannelMessage]
"""A message as the text that it is kept as, and as it will be read from there."""


class RedisMessages:
    """The messages of one agent; `partition_of` says in which partition an origin or a session is."""

    def __init__(self, redis: RedisConnection, keys: Keys, claims: Claims, partition_of: Callable[[str], int]) -> None:
        self._redis = redis
        self._keys = keys
        self._claims = claims
        self._partition_of = partition_of

    async def receive(self, body: str, message: ChannelMessage) -> Received | None:
        """Keep a message; None if one with the same `once` was received before."""
        at = self._at(self._partition_of(message.origin))
        taken = f"taken:{mend(message.channel)}"
        keys = [at.own("n"), at.own("in"), at.own(taken), self._keys.of_all(taken)]
        came = await self._redis.run(scripts.RECEIVE, keys, [mend(message.once), REMEMBERED, "body", body])
        return Received(at.id_of(int(came[0])), message, 0, float(came[1])) if came else None

    async def still_waits(self, message: ChannelMessage) -> bool:
        """Whether the message that was received with this `once` still waits in the partition of its chat."""
        at = self._at(self._partition_of(message.origin))
        keys = [at.own("in"), at.own(f"taken:{mend(message.channel)}")]
        return bool(await self._redis.run(scripts.STILL_WAITS, keys, [mend(message.once)]))

    async def fire(
        self,
        body: str,
        message: ChannelMessage,
        firing: Firing,
        more: Sequence[str],
        *,
        until: float | None,
        missed: int,
    ) -> Received | None:
        """Claim a firing and keep its message; `more` are the keys of its schedule."""
        at = self._at(self._partition_of(message.origin))
        given = [repr(until) if until is not None else "", mend(firing.schedule), missed, repr(firing.at), REMEMBERED]
        fields = ["body", body, "firing", write_firing(firing)]
        came = await self._redis.run(scripts.FIRE, [at.own("n"), at.own("in"), *more], [*given, *fields])
        if not came:
            return None
        return Received(at.id_of(int(came[0])), message, 0, float(came[1]), firing.surface, firing=firing)

    async def count(self, ids: Sequence[Id], by: int) -> tuple[list[NotedCall], set[int]]:
        """Count attempts of messages, one more or one less; return the calls and the questions that belong to them."""
        calls: list[NotedCall] = []
        asked: set[int] = set()
        for at, numbers in self._part(ids):
            given = [self._claims.prove(at.partition), by, *numbers]
            noted, numbers_asked = await self._redis.run(scripts.BEGIN, at.all(), given)
            calls += [msgspec.json.decode(one, type=NotedCall) for one in noted]
            asked.update(map(int, numbers_asked))
        return calls, asked

    async def finish(self, ids: Sequence[Id], written: Sequence[Written]) -> list[Outgoing]:
        """Take messages out and put replies in; nothing if they were out already."""
        *others, (at, numbers) = self._part(ids) or [(self._at_of_chat(written), [])]
        for other, theirs in others:
            given = [self._claims.prove(other.partition), len(theirs), *theirs]
            await self._redis.run(scripts.FINISH, other.all(), given)
        keys = at.all()
        if ids:
            token = self._claims.prove(at.partition)
        else:
            keys[0], token = self._claims.prove_turn()
        given = [token, len(numbers), *numbers, *_as_posts(written)]
        return _read_posted(at, written, await self._redis.run(scripts.FINISH, keys, given))

    async def set_aside(self, ids: Sequence[Id], reason: str, written: Sequence[Written]) -> list[Outgoing]:
        """Make dead letters of messages and put replies in; nothing if that was done already."""
        posted: list[Outgoing] = []
        for at, numbers in self._part(ids):
            given = [self._claims.prove(at.partition), mend(reason), len(numbers), *numbers, *_as_posts(written)]
            posted += _read_posted(at, written, await self._redis.run(scripts.SET_ASIDE, at.all(), given))
            written = []
        return posted

    async def bury(self, id: Id, reason: str) -> None:  # noqa: A002 (what a message in a store is known by)
        """Set a message aside that cannot be read, if its partition is claimed here."""
        if self._claims.holds(partition_of_id(id)):
            await self.set_aside([id], reason, [])

    async def move(self, ids: Sequence[Id], session_id: str, values: bytes) -> None:
        """Move messages that are answered as one to the partition of their session."""
        to = self._at(self._partition_of(session_id))
        for at, numbers in self._part(ids):
            keys = [*at.all(), to.own("n"), to.own("in"), to.own("about")]
            given = [self._claims.prove(at.partition), len(numbers), mend(session_id), values, *numbers]
            await self._redis.run(scripts.MOVE, keys, given)

    async def keep_draft(self, id: Id, draft: str) -> None:  # noqa: A002
        """Keep the channel's name for what shows the answer to a message."""
        at = self._at(partition_of_id(id))
        given = [self._claims.prove(at.partition), number_of(id), ":draft", mend(draft)]
        await self._redis.run(scripts.NOTE, at.all(), given)

    def _at(self, partition: int) -> PartitionKeys:
        return PartitionKeys(self._keys, partition)

    def _at_of_chat(self, written: Sequence[Written]) -> PartitionKeys:
        """Return the partition of replies that answer no message: that of the first one's chat."""
        return self._at(self._partition_of(written[0][1].origin if written else ""))

    def _part(self, ids: Iterable[Id]) -> list[tuple[PartitionKeys, list[int]]]:
        """Part ids by their partitions; what is answered as one is in one, unless a message has steered from afar."""
        found: dict[int, list[int]] = {}
        for one in ids:
            found.setdefault(partition_of_id(one), []).append(number_of(one))
        return [(self._at(partition), numbers) for partition, numbers in found.items()]


def _as_posts(written: Sequence[Written]) -> list[str]:
    return [text for body, message in written for text in (mend(message.channel), body)]


def _read_posted(at: PartitionKeys, written: Sequence[Written], came: Any) -> list[Outgoing]:
    if not came:
        return []
    _, *numbers = came
    return [
        Outgoing(at.id_of(int(number)), message, 0, 0.0) for number, (_, message) in zip(numbers, written, strict=True)
    ]
