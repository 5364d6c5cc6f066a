"""Asking a Redis how it is set up. Nothing is changed."""

from __future__ import annotations

from bub.base.redis.address import StoreAddress
from bub.base.redis.connection import RedisConnection, StoreError
from bub.base.redis.keys import Keys
from bub.inbox.shared.examination import Examination


async def examine_store(address: StoreAddress, agent: str) -> Examination:
    """Ask a Redis how it is set up, and what it has of an agent. Raises `StoreError`."""
    redis = RedisConnection(address)
    await redis.open()
    try:
        told = await redis.ask(redis.client.info())
        meta = await redis.ask(redis.client.hgetall(Keys(address.prefix, agent).of_all("meta")))
        return Examination(
            version=str(told.get("redis_version", "")),
            policy=str(told.get("maxmemory_policy", "")),
            maxmemory=int(told.get("maxmemory", 0)),
            is_kept=bool(int(told.get("aof_enabled", 0))),
            sync=await _ask_for_sync(redis),
            partitions=int(meta.get(b"partitions", 0)),
            format=int(meta.get(b"format", 0)),
        )
    finally:
        await redis.close()


async def _ask_for_sync(redis: RedisConnection) -> str:
    try:
        told = await redis.ask(redis.client.config_get(["appendfsync"]))
    except StoreError as error:
        if error.is_away:
            raise
        return ""  # who serves a Redis to others often keeps this to themselves
    return "".join(_text(value) for name, value in told.items() if _text(name) == "appendfsync")


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
