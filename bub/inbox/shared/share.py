"""Which partitions a gateway should work on, as far as it knows of the others: decisions only, nothing waits here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from bub.base.redis.keys import partition_of
from bub.inbox.shared.store import Worker

TURNS = "turns"
"""The role of a gateway that answers messages."""

CHANNELS = "channels"
"""The role of a gateway that runs channels."""

ROLES = (TURNS, CHANNELS)


def fair_share(partitions: int, workers: Collection[Worker], own: str) -> int:
    """Return how many partitions a gateway should have: as many as any other, and none if it is about to end."""
    living = {worker.name for worker in workers if TURNS in worker.roles and not worker.is_draining}
    if own not in living:
        return 0
    return -(-partitions // len(living))


def choose_to_take(partitions: int, holders: Mapping[str, str], own: str, share: int) -> list[int]:
    """Return the free partitions that a gateway should try to take, in its own order so that few want the same."""
    held = sum(holder == own for name, holder in holders.items() if name.startswith("partition:"))
    free = [one for one in range(partitions) if f"partition:{one}" not in holders]
    begin = partition_of(own, partitions)
    free.sort(key=lambda one: (one - begin) % partitions)
    return free[: max(0, share - held)]


def choose_to_give(held: Sequence[int], share: int, is_busy: Callable[[int], bool]) -> list[int]:
    """Return the partitions that a gateway has too many of: those first in which no turn is under way."""
    return sorted(held, key=lambda one: (is_busy(one), one))[: max(0, len(held) - share)]
