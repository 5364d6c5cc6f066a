"""What a shared store says of itself to who asks whether it can be relied on."""

from __future__ import annotations

import msgspec


class Examination(msgspec.Struct, frozen=True):
    """How a store is set up. `partitions` is 0 if no gateway has ever used it, and `format` that of what lies there."""

    version: str
    policy: str
    """What it does if its memory is full; it must be `noeviction`."""
    maxmemory: int
    """How many bytes it may use; 0 for as many as there are."""
    is_kept: bool
    """Whether it writes what it gets to its disk at once, or each second."""
    sync: str
    """When that is on the disk: `always`, `everysec`, `no`; "" if it does not say."""
    partitions: int
    format: int
