"""What serves the runtime whose page is served, as the page sees it: a gateway, or `bub studio` by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bub.pipeline.report.reloads import Reload


class Surroundings(Protocol):
    """What the page asks of it."""

    @property
    def is_gateway(self) -> bool:
        """Whether channels of the file run here."""

    @property
    def channels(self) -> Sequence[str]:
        """The channels that run here, by their names."""

    @property
    def reloads(self) -> Sequence[Reload]:
        """What became of the last reloads, the oldest first."""

    @property
    def times_reloaded(self) -> int:
        """How often a reload came to an end."""

    def describe_health(self) -> Mapping[str, Any]:
        """How everything is, in types of JSON (`/healthz`)."""

    def note_reload(self, reload: Reload) -> None:
        """Keep what became of a reload that the page has led to."""
