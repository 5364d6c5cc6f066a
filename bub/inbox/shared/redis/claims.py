"""What a process has claimed, and how it proves that in each step."""

from __future__ import annotations

from bub.base.redis.keys import Keys
from bub.base.redis.leases import Lease, current_lease
from bub.inbox.store import FencedError


class Claims:
    """The leases with which a process works. Whether they still hold is for the server to say."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._leases: dict[str, Lease] = {}

    def add(self, lease: Lease) -> None:
        """Work with a lease."""
        self._leases[lease.name] = lease

    def drop(self, lease: Lease) -> bool:
        """Work with it no more; False if it was none of these."""
        if self._leases.get(lease.name) != lease:
            return False
        del self._leases[lease.name]
        return True

    def clear(self) -> None:
        """Work with none."""
        self._leases.clear()

    def all(self) -> list[Lease]:
        """Return them."""
        return list(self._leases.values())

    def holds(self, partition: int) -> bool:
        """Return whether a partition is among them."""
        return f"partition:{partition}" in self._leases

    def prove(self, partition: int) -> str:
        """Return what the lease of a partition must have. Raises `FencedError` for one that is not claimed."""
        lease = self._leases.get(f"partition:{partition}")
        if lease is None:
            raise FencedError("another gateway works on these messages by now")
        return lease.token

    def prove_channel(self, channel: str) -> tuple[str, str]:
        """Return the key of a channel's lease, and what it must have, as `prove` does."""
        lease = self._leases.get(f"channel:{channel}")
        if lease is None:
            raise FencedError(f"the channel `{channel}` runs in another gateway by now")
        return self._keys.of_lease(lease.name), lease.token

    def prove_turn(self) -> tuple[str, str]:
        """Return the same for the lease under which a turn runs; outside of a turn there is nothing to prove."""
        lease = current_lease.get()
        return (self._keys.of_lease(lease.name), lease.token) if lease is not None else (self._keys.of_lease(""), "")
