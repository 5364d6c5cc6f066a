"""What a schedule says: when which message is handed to which session."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bub.pipeline.plan.scalars import flag_of, mappings_in
from bub.pipeline.source.document import Node, Plain

KEY = "schedules"

UTC = "UTC"
"""The time zone of a schedule that names none: what a file means does not depend on the machine."""

_NEEDED = {"cron", "message", "session"}

NONE, LAST = "none", "last"
"""What becomes of firings that were missed: nothing, or the last of them is made up for."""


class Schedule(msgspec.Struct, frozen=True):
    """A message that Bub hands to a session at the moments that `cron` means in `timezone`.

    `session` is `CHANNEL:CHAT`. `profile` takes the turn; if it is None, routes choose.
    """

    name: str
    cron: str
    message: str
    session: str
    timezone: str = UTC
    profile: str | None = None
    catch_up: str = NONE

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
        """Name its moments: with another rule it is followed again, and what was missed before is nothing to it."""
        return f"{' '.join(self.cron.split())} {self.timezone}"


def schedules_of(said: Plain) -> tuple[Schedule, ...]:
    """Return the schedules that are on and can be read, of what a file says; rules tell what is wrong with others.

    References have to be replaced: with one left, a schedule cannot be read.
    """
    found = []
    for name, keys in said.items() if isinstance(said, dict) else ():
        texts = {key: value for key, value in keys.items() if isinstance(value, str)} if isinstance(keys, dict) else {}
        is_on = texts.pop("enabled", "") != "false" and not (isinstance(keys, dict) and keys.get("enabled") is False)
        if is_on and texts.keys() >= _NEEDED and not any("${" in text for text in texts.values()):
            known = {key: text for key, text in texts.items() if key in Schedule.__struct_fields__ and key != "name"}
            found.append(Schedule(name, **known))
    return tuple(found)


def nodes_of(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield the schedules of a document that are on, as they are written."""
    for name, node in mappings_in(root.get(KEY)):
        if flag_of(node.get("enabled")) is not False:
            yield name, node
