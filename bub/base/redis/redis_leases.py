"""Leases in a Redis: a key that ends by itself, with a token that no other lease ever has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bub.base.redis.address import USUAL_LEASE
from bub.base.redis.connection import ANSWERING, RedisConnection
from bub.base.redis.keys import Keys
from bub.base.redis.leases import Lease

_BLOCK = 1.0
"""How long, in seconds, the server is asked to wait for a release before it is asked again."""

# The epoch is counted beside the lease and never goes back: who was away is never taken for who came since.
_TAKE = """
if redis.call('exists', KEYS[1]) == 1 then return false end
local epoch = redis.call('incr', KEYS[2])
redis.call('set', KEYS[1], epoch .. ':' .. ARGV[1], 'px', ARGV[2])
redis.call('hset', KEYS[3], ARGV[3], ARGV[1])
return epoch
"""

_RENEW = """
local held = {}
for index, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[index + 1] then
    redis.call('pexpire', key, ARGV[1])
    held[#held + 1] = index
  end
end
return held
"""

_RELEASE = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('hdel', KEYS[2], ARGV[2])
redis.call('xadd', KEYS[3], 'maxlen', '~', 100, '*', 'lease', ARGV[2])
return redis.call('del', KEYS[1])
"""


class RedisLeases:
    """The leases of one agent (`Leases`)."""

    def __init__(self, redis: RedisConnection, keys: Keys, *, seconds: float = USUAL_LEASE) -> None:
        self.seconds = seconds
        self._redis = redis
        self._keys = keys
        self._released = keys.of_all("released")
        self._seen = b""
        """The name of the last entry that was seen of those that say what was released."""

    async def take(self, name: str, worker: str) -> Lease | None:
        """Take a lease with an epoch greater than all before it; None if somebody has it."""
        keys = [self._keys.of_lease(name), self._keys.of_lease(f"{name}:epoch"), self._keys.of_all("holders")]
        epoch = await self._redis.run(_TAKE, keys, [worker, self._milliseconds, name])
        return Lease(name, int(epoch), worker) if epoch else None

    async def renew(self, leases: Collection[Lease]) -> Collection[Lease]:
        """Let leases hold from now on for as long as a new one; return those that hold."""
        asked = list(leases)
        if not asked:
            return []
        given = [self._milliseconds, *(lease.token for lease in asked)]
        held = await self._redis.run(_RENEW, [self._keys.of_lease(lease.name) for lease in asked], given)
        return [asked[int(index) - 1] for index in held]

    async def release(self, lease: Lease) -> None:
        """Let somebody else take it at once; nothing if it was lost."""
        keys = [self._keys.of_lease(lease.name), self._keys.of_all("holders"), self._released]
        await self._redis.run(_RELEASE, keys, [lease.token, lease.name])

    async def wait_for_release(self) -> None:
        """Wait until somebody, perhaps this worker, has released a lease since this was last asked."""
        if not self._seen:
            newest = await self._redis.ask(self._redis.client.xrevrange(self._released, count=1))
            self._seen = newest[0].identifier if newest else b"0-0"
        came: Mapping[bytes, Sequence[Any]] | None = None
        while not came:
            command = self._redis.waiting.xread({self._released: self._seen}, block=round(_BLOCK * 1000))
            came = await self._redis.ask(command, patience=ANSWERING + _BLOCK)
        for entries in came.values():
            self._seen = entries[-1].identifier

    async def holders(self) -> dict[str, str]:
        """Return the worker that has each lease, by its name."""
        known = await self._redis.ask(self._redis.client.hgetall(self._keys.of_all("holders")))
        names = [name.decode() for name in known]
        if not names:
            return {}
        tokens = await self._redis.ask(self._redis.client.mget([self._keys.of_lease(name) for name in names]))
        return {
            name: token.decode().partition(":")[2]
            for name, token in zip(names, tokens, strict=True)
            if token is not None
        }

    @property
    def _milliseconds(self) -> int:
        return max(1, round(self.seconds * 1000))
