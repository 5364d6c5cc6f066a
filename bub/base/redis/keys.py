"""What everything of one agent is called in a Redis, and in which partition what lies."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from bub.base.redis.address import MOST_PARTITIONS

FORMAT = 1
"""The version of what lies in a store. Each entry of a stream carries it: one that is newer is left alone."""


def partition_of(name: str, partitions: int) -> int:
    """Return in which of so many partitions something of that name lies, the same in each process and version."""
    return int.from_bytes(sha256(name.encode("utf-8", "surrogatepass")).digest()[:8], "big") % partitions


def partition_of_id(id: int) -> int:  # noqa: A002 (what a message in a store is known by)
    """Return in which partition the message or reply of an id is."""
    return id % MOST_PARTITIONS


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of the keys of an `agent` below a `prefix`.

    What belongs to a partition has the same tag in braces, so that a cluster keeps it on one machine.
    """

    prefix: str
    agent: str

    def of_all(self, name: str) -> str:
        """Name a key that all partitions of the agent share."""
        return f"{self.prefix}:{{{self.agent}}}:{name}"

    def of_partition(self, partition: int, name: str) -> str:
        """Name a key of one partition."""
        return f"{self.prefix}:{{{self.agent}:{partition}}}:{name}"

    def of_lease(self, name: str) -> str:
        """Name the key of who has a lease, such as that of `partition:7` or of `channel:telegram`."""
        return self.of_all(f"lease:{name}")
