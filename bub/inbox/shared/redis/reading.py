"""Messages and replies as they lie in the streams, and how they are read from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from bub.base.redis.address import MOST_PARTITIONS
from bub.base.redis.keys import FORMAT, Keys
from bub.base.surfaces import Surface
from bub.inbox.schedules.firing import Firing
from bub.inbox.store import Arrival, Id, Outgoing, Received
from bub.inbox.texts import MessageTexts

Fields = Mapping[bytes, bytes]
"""The fields of an entry of a stream."""


class NewerEntryError(Exception):
    """An entry was written by a newer version: nobody here knows what it means, so it is left alone."""


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of one partition, in the order in which the scripts know them."""

    keys: Keys
    partition: int

    def all(self) -> list[str]:
        """Return the keys of the scripts about messages."""
        own = ("n", "in", "about", "calls:", "out:", "dead")
        of_partition = [self.keys.of_partition(self.partition, name) for name in own]
        asked = self.keys.of_all(f"asked:{self.partition}:")
        return [self.lease, *of_partition, self.keys.of_all("questions"), asked]

    @property
    def lease(self) -> str:
        """Name the key of its lease."""
        return self.keys.of_lease(f"partition:{self.partition}")

    def own(self, name: str) -> str:
        """Name another key of the partition."""
        return self.keys.of_partition(self.partition, name)

    def id_of(self, number: int) -> Id:
        """Return the id of what has a number here."""
        return number * MOST_PARTITIONS + self.partition


def number_of(id: Id) -> int:  # noqa: A002 (what a message in a store is known by)
    """Return the number that something has in its partition."""
    return id // MOST_PARTITIONS


def number_in(entry: bytes) -> int:
    """Return the number of an entry of a stream, whose name there is `NUMBER-0`."""
    return int(entry.partition(b"-")[0])


def check_format(fields: Fields) -> None:
    """Raise `NewerEntryError` for what a newer version has written."""
    if int(fields.get(b"v", b"0")) > FORMAT:
        raise NewerEntryError


def read_message(id: Id, fields: Fields, about: Fields, texts: MessageTexts, *, has_calls: bool) -> Received:  # noqa: A002
    """Read a message; `about` is what has changed about those of its partition. Raises what `UNREADABLE` names."""
    check_format(fields)
    number = number_of(id)
    draft = about.get(b"%d:draft" % number)
    message = texts.read(fields[b"body"])
    if draft is not None:
        message = replace(message, draft=draft.decode())
    firing = read_firing(fields.get(b"firing"))
    arrival = None
    if b"session" in fields:
        first = fields[b"first"]
        group = (int(first) if first else number) * MOST_PARTITIONS + id % MOST_PARTITIONS
        arrival = Arrival(fields[b"session"].decode(), fields[b"values"], group, int(fields[b"count"]))
    surface = firing.surface if firing is not None else Surface.CHANNEL
    attempts = int(about.get(b"%d:attempts" % number, b"0"))
    return Received(id, message, attempts, float(fields[b"at"]), surface, has_calls, firing, arrival)


def read_reply(id: Id, fields: Fields, about: Fields, texts: MessageTexts) -> Outgoing:  # noqa: A002
    """Read a reply. Raises what `UNREADABLE` names."""
    check_format(fields)
    number = number_of(id)
    message = texts.read(fields[b"body"])
    draft = about.get(b"%d:draft" % number)
    if draft is not None:
        message = replace(message, draft=draft.decode())
    not_before = float(about.get(b"%d:not_before" % number, b"0"))
    return Outgoing(id, message, int(about.get(b"%d:attempts" % number, b"0")), not_before)


def write_firing(firing: Firing) -> bytes:
    """Write a firing as it lies in the stream beside its message."""
    return msgspec.json.encode((firing.schedule, firing.at, firing.profile, firing.is_own))


def read_firing(body: bytes | None) -> Firing | None:
    """Read a firing; None for a message that no schedule has led to."""
    if body is None:
        return None
    return Firing(*msgspec.json.decode(body, type=tuple[str, float, str | None, bool]))
