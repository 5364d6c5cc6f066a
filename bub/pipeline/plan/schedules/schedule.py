"""What a schedule says: when which message is handed to which session."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bub.base.diagnostics import Place
from bub.pipeline.plan.scalars import flag_of, mappings_in
from bub.pipeline.source.document import Node

KEY = "schedules"

UTC = "UTC"
"""The time zone of a schedule that names none: what a file means does not depend on the machine."""

NONE, LAST = "none", "last"
"""What becomes of firings that were missed: nothing, or the last of them is made up for."""


class Schedule(msgspec.Struct, frozen=True):
    """A message that Bub hands to a session at the moments that `cron` means in `timezone`.

    `session` is `CHANNEL:CHAT`. `profile` takes the turn; if it is None, routes choose. `place` is where the file says
    it, None for one that the agent has made.
    """

    name: str
    cron: str
    timezone: str
    message: str
    session: str
    profile: str | None = None
    catch_up: str = NONE
    place: Place | None = None

    @property
    def channel(self) -> str:
        """The channel of its session."""
        return self.session.partition(":")[0]

    @property
    def chat_id(self) -> str:
        """The chat of its session."""
        return self.session.partition(":")[2]

    @property
    def rule(self) -> str:
        """Name its moments: with another rule it is followed anew, and what was missed before is nothing to it."""
        return f"{' '.join(self.cron.split())} {self.timezone}"


def schedules_of(root: Node) -> tuple[Schedule, ...]:
    """Return the schedules that a profile's document says and that can be read; rules tell what is wrong with others.

    References have to be replaced: with one left, a schedule cannot be read.
    """
    return tuple(_read_schedules(root))


def nodes_of(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield the schedules of a document that are on, as they are written."""
    for name, node in mappings_in(root.get(KEY)):
        if flag_of(node.get("enabled")) is not False:
            yield name, node


def _read_schedules(root: Node) -> Iterator[Schedule]:
    for name, node in nodes_of(root):
        said = {key: value.value for key, value in node.items() if isinstance(value.value, str)}
        if any("${" in value for value in said.values()) or not {"cron", "message", "session"} <= said.keys():
            continue
        yield Schedule(
            name,
            said["cron"],
            said.get("timezone", UTC),
            said["message"],
            said["session"],
            said.get("profile"),
            said.get("catch_up", NONE),
            node.place,
        )
