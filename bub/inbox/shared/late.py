"""What an inbox imports when it first needs it: only a store that several gateways share is a Redis."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "RedisInbox": "bub.inbox.shared.redis.inbox",
    "RedisSide": "bub.inbox.shared.redis.copy_side",
    "examine_store": "bub.inbox.shared.redis.examination",
    "read_overview": "bub.inbox.shared.redis.overview",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
