"""What an agent has in a Redis, as one end of a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from bub.base.redis.address import USUAL_PARTITIONS, StoreAddress
from bub.base.redis.connection import FencedWriteError, RedisConnection, StoreError
from bub.base.redis.keys import FORMAT, Keys
from bub.base.redis.redis_leases import RedisLeases
from bub.base.redis.settings import agent_of_memory
from bub.errors import BubError
from bub.inbox.copying.records import InboxRecord
from bub.inbox.shared.redis.copy_reading import CopyReader
from bub.inbox.shared.redis.copy_writing import Command, CopyWriter, is_of_inbox
from bub.inbox.shared.redis.letters import find_keys
from bub.inbox.shared.redis.workers import RedisWorkers
from bub.tape.copying.mark import Mark
from bub.tape.shared.copying import RedisTapeSide
from bub.tape.shared.mark import COPYING, read_mark

_AT_ONCE = 500
_BYTES_AT_ONCE = 4 << 20

# Only who has put the mark there writes: of two copies at once, the earlier one ends.
_APPLY = """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED') end
local index = 2
while index < #ARGV do
  local count = tonumber(ARGV[index])
  redis.call(unpack(ARGV, index + 1, index + count))
  index = index + count + 1
end
return 1
"""
"""Run commands. KEYS: the mark. ARGV: what the mark says, then for each command how many words it has, and these."""


class RedisSide:
    """What an agent has in the Redis at an address (`Side`)."""

    def __init__(self, address: StoreAddress, memory: str) -> None:
        agent = agent_of_memory(memory)
        self.memory = memory
        place = address.path or f"{address.host}:{address.port}"
        self.name = f"redis {place}/{address.database} {address.prefix} {agent}"
        self.shown = address.shown
        self._address = address
        self._redis = RedisConnection(address)
        self._keys = Keys(address.prefix, agent)
        self._partitions = 0
        self._mark = ""
        self.tapes = RedisTapeSide(self._redis, self._keys, lambda: self._mark)

    @asynccontextmanager
    async def opened(self, *, is_target: bool) -> AsyncIterator[None]:
        """Connect. A target is cut into partitions, if it is not yet."""
        await self._redis.open()
        try:
            await self._read_meta(is_target=is_target)
            yield
        finally:
            await self._redis.close()

    async def _read_meta(self, *, is_target: bool) -> None:
        client, key = self._redis.client, self._keys.of_all("meta")
        if is_target:
            for name, value in (("partitions", self._address.partitions or USUAL_PARTITIONS), ("format", FORMAT)):
                await self._redis.ask(client.hsetnx(key, name, value))
        found = await self._redis.ask(client.hgetall(key))
        self._partitions = int(found.get(b"partitions", 0))
        if int(found.get(b"format", 0)) > FORMAT:
            raise BubError(f"{self.shown} was made by a newer Bub", help="update this one")
        if is_target and self._address.partitions not in (None, self._partitions):
            problem = f"{self.shown} is cut into {self._partitions} partitions, not {self._address.partitions}"
            raise BubError(problem, help="leave `partitions` out, or name another `prefix`")

    async def find_workers(self) -> Sequence[str]:
        """Return the gateways that have reported lately, or have a lease.

        One that was about to end and has no lease any more can write nothing, whether it has ended or not.
        """
        reported = {one.name for one in await RedisWorkers(self._redis, self._keys).all() if not one.is_draining}
        return sorted(reported | set((await RedisLeases(self._redis, self._keys).holders()).values()))

    async def read_mark(self) -> Mark | None:
        """Return the mark of a half copy."""
        return await read_mark(self._redis, self._keys)

    async def write_mark(self, mark: Mark) -> None:
        """Mark the store."""
        self._mark = msgspec.json.encode(mark).decode()
        await self._redis.ask(self._redis.client.set(self._keys.of_all(COPYING), self._mark))

    async def remove_mark(self) -> None:
        """Say that the copy is whole."""
        await self._apply([("DEL", self._keys.of_all(COPYING))])

    def as_kept(self, record: InboxRecord) -> InboxRecord:
        """Return a record as it is: all of it can be kept."""
        return record

    async def read(self) -> AsyncIterator[InboxRecord]:
        """Give everything that the inbox has."""
        async for record in CopyReader(self._redis, self._keys, self._partitions).read():
            yield record

    async def write(self, records: AsyncIterator[InboxRecord]) -> None:
        """Put records in place of everything that the inbox has."""
        begin = f"{self._keys.prefix}:{{{self._keys.agent}"
        names = [*await find_keys(self._redis, f"{begin}}}:"), *await find_keys(self._redis, f"{begin}:")]
        waiting: list[Command] = [("UNLINK", name) for name in names if is_of_inbox(self._keys, name)]
        writer = CopyWriter(self._keys, self._partitions)
        size = 0
        async for record in records:
            commands = list(writer.write(record))
            waiting += commands
            size += sum(len(str(word)) for command in commands for word in command)
            if len(waiting) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
                await self._apply(waiting)
                waiting, size = [], 0
        await self._apply([*waiting, *writer.end()])

    async def _apply(self, commands: Sequence[Command]) -> None:
        for start in range(0, len(commands), _AT_ONCE):
            words = [word for one in commands[start : start + _AT_ONCE] for word in (len(one), *one)]
            try:
                await self._redis.run(_APPLY, [self._keys.of_all(COPYING)], [self._mark, *words])
            except FencedWriteError as error:
                problem = f"another copy to {self.shown} has begun meanwhile"
                raise StoreError(problem, help="let that one end") from error
