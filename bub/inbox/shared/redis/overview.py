"""Reading what a Redis says of all gateways of an agent, without being one and without changing anything."""

from __future__ import annotations

import re

from bub.base.redis.address import StoreAddress
from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys
from bub.base.redis.redis_leases import RedisLeases
from bub.inbox.shared.overview import Overview
from bub.inbox.shared.redis.reading import PartitionKeys
from bub.inbox.shared.redis.workers import RedisWorkers

_KEYS_AT_ONCE = 1000

_SPECIAL, _ESCAPED = re.compile(r"([*?\[\]\\])"), r"\\\1"
"""What means something in a pattern of Redis, and how it is escaped there."""


async def read_overview(address: StoreAddress, agent: str) -> Overview:
    """Return how the gateways of an agent are. Raises `StoreError` if the store cannot be asked."""
    redis, keys = RedisConnection(address), Keys(address.prefix, agent)
    await redis.open()
    try:
        return await _read(redis, keys, agent)
    finally:
        await redis.close()


async def _read(redis: RedisConnection, keys: Keys, agent: str) -> Overview:
    client = redis.client
    said = await redis.ask(client.hget(keys.of_all("meta"), "partitions"))
    partitions = int(said) if said is not None else 0
    workers = await RedisWorkers(redis, keys).all()
    holders = await RedisLeases(redis, keys).holders()
    now = (await redis.ask(client.time())).timestamp()  # that of the store, which the messages have too
    messages = dead = 0
    first: float | None = None
    for partition in range(partitions):
        at = PartitionKeys(keys, partition)
        messages += await redis.ask(client.xlen(at.own("in")))
        dead += await redis.ask(client.hlen(at.own("dead"))) + await redis.ask(client.hlen(at.own("dead_replies")))
        for entry in await redis.ask(client.xrange(at.own("in"), "-", "+", count=1)):
            came = float(entry.field_values.get(b"at", b"0"))
            first = came if first is None else min(first, came)
    return Overview(
        agent=agent,
        partitions=partitions,
        workers=workers,
        holders=holders,
        messages=messages,
        replies=await _count_replies(redis, keys),
        dead=dead,
        oldest=None if first is None else max(0.0, round(now - first, 3)),
    )


async def _count_replies(redis: RedisConnection, keys: Keys) -> int:
    """Count what waits for its delivery, also for channels that no gateway knows by now."""
    pattern = f"{keys.prefix}:{{{_SPECIAL.sub(_ESCAPED, keys.agent)}:*}}:out:*"
    cursor, found = 0, 0
    while True:
        cursor, streams = await redis.ask(redis.client.scan(cursor, match=pattern, count=_KEYS_AT_ONCE))
        for stream in streams:
            found += await redis.ask(redis.client.xlen(stream))
        if not cursor:
            return found
