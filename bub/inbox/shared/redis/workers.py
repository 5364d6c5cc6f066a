"""Who works on a store: each gateway says so again and again, and is forgotten when it does not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys
from bub.inbox.shared.store import Worker


class RedisWorkers:
    """The workers of one agent."""

    def __init__(self, redis: RedisConnection, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._names = keys.of_all("workers")

    async def report(self, worker: Worker, lasts: float) -> None:
        """Keep how a worker is, for so many seconds."""
        client = self._redis.client
        key, milliseconds = self._key_of(worker.name), max(1, round(lasts * 1000))
        await self._redis.ask(client.set(key, msgspec.json.encode(worker), px=milliseconds))
        await self._redis.ask(client.sadd(self._names, [worker.name]))

    async def all(self) -> Sequence[Worker]:
        """Return those that have reported lately, by their names."""
        client = self._redis.client
        names = sorted(name.decode() for name in await self._redis.ask(client.smembers(self._names)))
        if not names:
            return []
        bodies = await self._redis.ask(client.mget([self._key_of(name) for name in names]))
        gone = [name for name, body in zip(names, bodies, strict=True) if body is None]
        if gone:
            await self._redis.ask(client.srem(self._names, gone))
        return [msgspec.json.decode(body, type=Worker) for body in bodies if body is not None]

    def _key_of(self, name: str) -> str:
        return self._keys.of_all(f"worker:{name}")
