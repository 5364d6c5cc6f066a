"""The mark of a Redis into which a copy has begun and not ended."""

from __future__ import annotations

import msgspec

from bub.base.redis.connection import RedisConnection
from bub.base.redis.keys import Keys
from bub.tape.copying.mark import HalfCopyError, Mark

COPYING = "copying"
"""The key that is there while a store holds half a copy: all that the copy writes proves what lies there."""


async def read_mark(redis: RedisConnection, keys: Keys) -> Mark | None:
    """Return the mark of a half copy in a store."""
    said = await redis.ask(redis.client.get(keys.of_all(COPYING)))
    return msgspec.json.decode(said, type=Mark) if said is not None else None


async def check_whole(redis: RedisConnection, keys: Keys) -> None:
    """Raise `HalfCopyError` if a store holds half a copy of what the agent has."""
    mark = await read_mark(redis, keys)
    if mark is not None:
        raise HalfCopyError(redis.address.shown, mark)
