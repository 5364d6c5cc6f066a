"""Messages that stand for all which the routes of two files may tell apart, and the profile that each gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from bub.base.globs import covers, sample
from bub.pipeline.plan.conditions import When
from bub.pipeline.plan.routes import Route, RouteTable
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document
from bub.pipeline.source.referred import read_default

Globs = Mapping[str, str | None]

_FIELDS = ("channel", "chat_id", "session_id", "sender_id", "kind", "content")
"""What a route may ask for."""

_TERMINAL = "cli"
"""The channel of who sits at the machine (`bub chat`, `bub run`)."""

_MOST_PAIRS = 20_000
"""How many pairs of routes are looked at for messages that both match."""


@dataclass(frozen=True, slots=True)
class Routed:
    """A message that stands for others, and the first route of each file that matches it, if any."""

    channel: str
    before: Route | None
    after: Route | None

    @property
    def old(self) -> str:
        return _profile_of(self.before)

    @property
    def new(self) -> str:
        return _profile_of(self.after)

    @property
    def is_operators(self) -> bool:
        """Whether it comes from the terminal of the machine, and so from no stranger."""
        return self.channel == _TERMINAL


def route_samples(old: Document, new: Document) -> list[Routed]:
    """Route a message for each route of both files, for each pair of routes that may match the same, and one more."""
    before, after = list(read_routes(old)), list(read_routes(new))
    tables = RouteTable(before), RouteTable(after)
    found = []
    for globs in _regions(before, after):
        message = {name: sample(glob) for name, glob in globs.items() if glob is not None}
        message = {**dict.fromkeys(_FIELDS, sample("*")), **message}
        found.append(Routed(message["channel"], *(table.first(message) for table in tables)))
    return found


def read_routes(document: Document) -> Iterator[Route]:
    """Yield the routes as they are written, with the defaults of their references; what cannot be read, is not."""
    section = document.root.get("routes")
    for number, node in enumerate(section.elements() if section is not None else ()):
        match, profile = node.get("match"), read_default(node.get("profile"))
        if match is not None and match.is_mapping and profile:
            globs = {name: read_default(glob) for name, glob in match.items()}
            yield Route(number, {}, profile, node.place, globs, When.of(globs))


def _regions(before: Iterable[Route], after: Iterable[Route]) -> list[Globs]:
    """Return what to ask for, so that a message of each sort is there."""
    kinds = {tuple(sorted(route.globs.items(), key=str)): route.globs for route in (*before, *after)}
    alone: list[Globs] = [{}, *(globs for globs in kinds.values() if None not in globs.values())]
    if len(alone) ** 2 > _MOST_PAIRS:
        return alone
    both = (_meet(one, other) for number, one in enumerate(alone) for other in alone[number + 1 :])
    return [*alone, *(globs for globs in both if globs is not None)]


def _meet(one: Globs, other: Globs) -> Globs | None:
    """Return what messages have that both match; None if there are none, or it cannot be known."""
    both = {**one, **other}
    for name in one.keys() & other.keys():
        first, second = str(one[name]), str(other[name])
        if not covers(first, second):
            if not covers(second, first):
                return None
            both[name] = first
    return both


def _profile_of(route: Route | None) -> str:
    return route.profile if route is not None else DEFAULT_PROFILE
