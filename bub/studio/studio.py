"""What the endpoints of the page ask of the process around them: the runtime, and whoever serves it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from bub.framework import BubFramework
from bub.studio.access import Access
from bub.studio.settings import StudioSettings


class PastReload(NamedTuple):
    """What became of a reload, and what was found, as a line each."""

    at: float
    outcome: str
    findings: tuple[str, ...]


class Surroundings(Protocol):
    """What serves the runtime: a gateway, or `bub studio` by itself."""

    @property
    def is_gateway(self) -> bool:
        """Whether channels of the file run here."""

    @property
    def channels(self) -> Sequence[str]:
        """The channels that run here, by their names."""

    @property
    def reloads(self) -> Sequence[PastReload]:
        """What became of the last reloads, the oldest first."""

    def describe_health(self) -> Mapping[str, Any]:
        """How everything is, in types of JSON (`/healthz`)."""


class Studio:
    """The page of one runtime: what it is served with, and what it can see."""

    def __init__(self, framework: BubFramework, settings: StudioSettings, access: Access, around: Surroundings) -> None:
        self.framework = framework
        self.settings = settings
        self.access = access
        self.around = around
        self.started = time.time()
