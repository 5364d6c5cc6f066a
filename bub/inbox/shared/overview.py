"""All gateways of one store at one moment: who runs, who has what, and what waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bub.inbox.shared.share import CHANNELS, TURNS
from bub.inbox.shared.store import Worker


class Overview(msgspec.Struct, frozen=True):
    """What a store says of one agent. `partitions` is 0 if no gateway has ever used it."""

    agent: str
    partitions: int
    workers: Sequence[Worker]
    """Those that have reported within the length of a lease, by their names."""
    holders: Mapping[str, str]
    """The worker that has each lease, such as that of `partition:7` or of `channel:telegram`."""
    messages: int
    replies: int
    dead: int
    """How many messages and replies were set aside."""
    oldest: float | None
    """For how many seconds the message has waited that came first; None if none waits."""

    def partitions_of(self, worker: str) -> list[int]:
        """Return the partitions that a worker has, in order."""
        return sorted(int(name) for name in self._held_by(worker, "partition"))

    def channels_of(self, worker: str) -> list[str]:
        """Return the channels that a worker runs, in order."""
        return sorted(self._held_by(worker, "channel"))

    @property
    def free(self) -> list[int]:
        """The partitions that nobody has."""
        return [one for one in range(self.partitions) if f"partition:{one}" not in self.holders]

    @property
    def missing_roles(self) -> list[str]:
        """The roles that no living worker has, so that what needs them waits."""
        had = {role for worker in self.workers if not worker.is_draining for role in worker.roles}
        return [role for role in (TURNS, CHANNELS) if role not in had]

    def _held_by(self, worker: str, kind: str) -> list[str]:
        found = (name.partition(":") for name, holder in self.holders.items() if holder == worker)
        return [name for its, _, name in found if its == kind]
