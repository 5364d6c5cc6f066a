"""What becomes of replies in a Redis: only the owner of their channel says so."""

from __future__ import annotations

from typing import Any

from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys, partition_of_id
from bub.inbox.shared.redis import scripts
from bub.inbox.shared.redis.claims import Claims
from bub.inbox.shared.redis.feeds import Feeds
from bub.inbox.shared.redis.reading import PartitionKeys, number_of
from bub.inbox.store import Id
from bub.tape.entry import mend


class RedisReplies:
    """The outbox of one agent; `feeds` knows the replies that this process has read."""

    def __init__(self, redis: RedisConnection, keys: Keys, claims: Claims, feeds: Feeds) -> None:
        self._redis = redis
        self._keys = keys
        self._claims = claims
        self._feeds = feeds

    async def mark_delivered(self, id: Id) -> None:  # noqa: A002 (what a reply in a store is known by)
        """Take a reply out."""
        await self._change(scripts.DELIVERED, id)
        self._feeds.forget_reply(id)

    async def put_off(self, id: Id, not_before: float) -> None:  # noqa: A002
        """Count a delivery that failed; the next one is for a Unix time."""
        attempts = self._feeds.attempts_of(id) + 1
        self._feeds.note_attempts(id, attempts)
        await self._change(scripts.NOTE, id, ":attempts", attempts, ":not_before", repr(not_before))

    async def keep_draft(self, id: Id, draft: str) -> None:  # noqa: A002
        """Keep what the channel notes of a reply."""
        await self._change(scripts.NOTE, id, ":draft", mend(draft))

    async def set_aside(self, id: Id, reason: str) -> None:  # noqa: A002
        """Make a dead letter of a reply."""
        await self._change(scripts.UNDELIVERABLE, id, mend(reason))
        self._feeds.forget_reply(id)

    async def _change(self, script: str, id: Id, *given: Any) -> None:  # noqa: A002
        channel = self._feeds.channel_of(id)
        key, token = self._claims.prove_channel(channel)
        at = PartitionKeys(self._keys, partition_of_id(id))
        keys = [key, at.own("n"), at.own(f"out:{mend(channel)}"), at.own("about"), at.own("dead_replies")]
        await self._redis.run(script, keys, [token, number_of(id), *given])
