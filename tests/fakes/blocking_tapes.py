"""Tapes in a Redis for those who wait for each call, as they wait for a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from fakes.redis_server import TAPES

from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of
from bub.tape.shared.store import RedisTapeStore


class BlockingTapes:
    """A `RedisTapeStore` whose methods are plain functions; the tapes are those of the agent of a folder."""

    blocks = True

    def __init__(self, folder: Path) -> None:
        self._store = RedisTapeStore(StoreAddress.parse(os.environ[TAPES]), agent_of(folder))
        self._open = ExitStack()
        self._portal = self._open.enter_context(start_blocking_portal("trio"))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)
        return lambda *given: self._portal.call(method, *given)

    def close(self) -> None:
        """Close it, and let the thread end in which it runs."""
        with self._open:
            self._portal.call(self._store.close)
