"""Leases: who may work on something alone, for how long, and how each write proves it."""

from __future__ import annotations

from collections.abc import Collection
from contextvars import ContextVar
from typing import Protocol

import msgspec


class Lease(msgspec.Struct, frozen=True):
    """That a worker alone works on what `name` names, until the store says otherwise.

    `epoch` grows each time somebody takes it, so no two leases of a name are ever equal.
    """

    name: str
    epoch: int
    worker: str

    @property
    def token(self) -> str:
        """What lies in the store while the lease holds; a script that writes compares it first."""
        return f"{self.epoch}:{self.worker}"


class Leases(Protocol):
    """Gives leases, which end by themselves unless they are renewed; only the store's clock counts.

    Raises a `BubError` if the store cannot be asked: nobody then knows whether a lease still holds.
    """

    seconds: float
    """How long a lease holds without a renewal."""

    async def take(self, name: str, worker: str) -> Lease | None:
        """Take a lease with an epoch greater than all before it; None if somebody has it."""

    async def renew(self, leases: Collection[Lease]) -> Collection[Lease]:
        """Let leases hold for `seconds` from now; return those that hold. One that is over is not revived."""

    async def release(self, lease: Lease) -> None:
        """Let somebody else take it at once; nothing if it was lost."""

    async def wait_for_release(self) -> None:
        """Wait until somebody, perhaps this worker, has released a lease since this was last asked."""

    async def holders(self) -> dict[str, str]:
        """Return the worker that has each lease, by its name."""


current_lease: ContextVar[Lease | None] = ContextVar("current_lease", default=None)
"""The lease under which a turn runs: what a shared store writes for the turn is refused once that is over."""
