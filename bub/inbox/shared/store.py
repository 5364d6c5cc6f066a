"""What the inbox asks of a store that several gateways share, beside what it asks of every store.

Messages are in partitions: a message in that of its origin until its session is known, then in that of its session. Who
has the lease of a partition answers what is there. Replies are delivered by who has the lease of their channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from bub.base.redis.leases import Lease, Leases
from bub.inbox.store import Id, InboxStore, Outgoing, Received


class Worker(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gateway of several, as it describes itself to the others; `since` is a Unix time of the store's clock."""

    name: str
    version: str = ""
    roles: tuple[str, ...] = ("turns", "channels")
    host: str = ""
    pid: int = 0
    since: float = 0.0
    is_draining: bool = False
    partitions: tuple[int, ...] = ()
    channels: tuple[str, ...] = ()
    turns: int = 0
    waiting: int = 0
    fenced: int = 0


class SharedInbox(InboxStore, Protocol):
    """A store behind several gateways. Whatever changes what is in a partition, or answers for a channel, is fenced.

    A store remembers the leases that it was given by `claim_partition` and `claim_channel`, and every method of
    `InboxStore` that names ids proves them: it raises `FencedError` once one of them is over, and does nothing.
    """

    @property
    def leases(self) -> Leases:
        """Who may work on what."""

    @property
    def partitions(self) -> int:
        """Into how many partitions it is cut, known once it is open."""

    def partition_of(self, name: str) -> int:
        """Return in which partition an origin or a session is."""

    @property
    def fenced(self) -> int:
        """How many writes the store has refused, since their lease was over."""

    async def claim_partition(self, lease: Lease) -> Sequence[Received]:
        """Begin with a partition: give what waits there, in order, what an earlier owner had begun with first."""

    async def read_anew(self, lease: Lease) -> Sequence[Received]:
        """Give what waits in a claimed partition once more, in order. Raises `FencedError` if it is claimed no more."""

    async def claim_channel(self, lease: Lease) -> Sequence[Outgoing]:
        """Begin with a channel: give the replies that wait for it, in order."""

    async def drop_claim(self, lease: Lease) -> None:
        """Have no more to do with a partition or channel, whether its lease still holds or not; release that."""

    async def wait_for_messages(self) -> Sequence[Received]:
        """Wait for what comes into the claimed partitions, and give it, in order for each; cancel it at any time.

        It may give nothing, so that who waits can look at what else there is to do.
        """

    async def wait_for_replies(self) -> Sequence[Outgoing]:
        """Wait for replies of the claimed channels, as `wait_for_messages` does for messages."""

    async def move(self, ids: Sequence[Id], session_id: str, values: bytes) -> None:
        """Move messages that are answered as one to the partition of their session, in one step.

        There they come as `Received` with an `arrival`. `values` is the JSON of what the stages so far have made.
        """

    async def report(self, worker: Worker) -> None:
        """Tell the others how this worker is; after the length of a lease without a report, it counts as gone."""

    async def workers(self) -> Sequence[Worker]:
        """Return the workers that have reported, by their names."""
