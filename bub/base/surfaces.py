"""The surfaces that hand over messages, and which of them the operator sits at.

A message cannot say this of itself: whoever hands it over to the runtime says it, in the call (DESIGN §13).
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from bub.envelope import Envelope, field_of


class Surface(Enum):
    """Who hands a message over."""

    TERMINAL = "terminal"
    """Bub's own terminal: somebody at this machine typed it, or piped it into `bub chat`."""
    RUN = "run"
    """The command line of `bub run`."""
    CHANNEL = "channel"
    """A channel of a plugin, whatever its name is; and what the inbox kept over a restart."""
    BUS = "bus"
    """A bus, whoever publishes there."""
    MCP = "mcp"
    """A program that uses Bub as an MCP server: whoever drives it, and mostly a model (`bub mcp serve`)."""
    PAGE = "page"
    """The chat of the page that `bub studio` serves. Who has its token answers as the operator, but types as anyone."""
    SCHEDULE = "schedule"
    """A schedule of the file. The operator wrote it, and nobody sits there: a command in it is asked as anyone's."""
    PROGRAM = "program"
    """Code that calls `process_inbound`, a tool or a plugin among them."""

    @property
    def is_operator(self) -> bool:
        """Whether the message comes from the operator, so that a command is its own yes (DESIGN §6)."""
        return self in OPERATOR


class Writer(NamedTuple):
    """Who wrote a message: the surface that handed it over, its channel, and the id that the channel has for them."""

    surface: Surface
    channel: str
    id: str


OPERATOR = (Surface.TERMINAL, Surface.RUN)
"""The surfaces that the operator sits at; a tuple, since the hash of an enum costs more than looking twice."""


def writers_of(message: Envelope, surface: Surface) -> tuple[Writer]:
    """Return who wrote a message that a surface handed over, as the message says; only a channel vouches for that."""
    return (Writer(surface, str(field_of(message, "channel")), str(field_of(message, "sender_id", ""))),)
