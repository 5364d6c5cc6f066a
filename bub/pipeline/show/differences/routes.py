"""Which messages get which profile, and which of them get one that may do more."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from bub.pipeline.show.differences.changes import Changes, describe_match
from bub.pipeline.show.differences.facts import Fact, fact
from bub.pipeline.show.differences.messages import Routed
from bub.pipeline.show.differences.order import find_moved
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import Document

Stronger = Callable[[str, str], str]
"""What the second of two profiles may do that the first may not; "" if there is nothing."""


class _Route(NamedTuple):
    number: int
    match: Fact
    profile: str
    node: Node

    @property
    def path(self) -> str:
        return f"routes[{self.number}]"

    @property
    def messages(self) -> str:
        return describe_match(self.match.value)


def compare(old: Document, new: Document, samples: Iterable[Routed], stronger: Stronger, changes: Changes) -> None:
    """Tell which messages get another profile; dangerous is one that may do more, except who sits at the machine."""
    before, after = _routes(old), _routes(new)
    dangers = _Dangers(samples, stronger)
    for match, route in after.items():
        was = before.get(match)
        place, get = route.node.place, f"{route.messages} get profile `{route.profile}`"
        danger = dangers.by_new.get(route.number, False)
        if was is None:
            changes.add("routes.added", get, route.path, place, new=route.profile, danger=danger)
        elif was.profile != route.profile:
            message = f"{get} (was `{was.profile}`)"
            changes.add("routes.profile", message, route.path, place, old=was.profile, new=route.profile, danger=danger)
    for match, route in before.items():
        if match not in after:
            message = f"{route.messages} no longer get profile `{route.profile}` by a route of their own"
            danger = dangers.by_old.get(route.number, False)
            changes.add("routes.removed", message, route.path, route.node.place, old=route.profile, danger=danger)
    kept, were = [match for match in after if match in before], [match for match in before if match in after]
    for match in find_moved(were, kept):
        route, number = after[match], before[match].number
        message = f"the route of {route.messages} to profile `{route.profile}` is at another place among the routes"
        danger = dangers.by_new.get(route.number) or dangers.by_old.get(number) or False
        changes.add("routes.moved", message, route.path, route.node.place, old=number, new=route.number, danger=danger)


class _Dangers:
    """Why the messages that a route takes now, or took before, get a profile that may do more; by its number."""

    def __init__(self, samples: Iterable[Routed], stronger: Stronger) -> None:
        self.by_new: dict[int | None, str] = {}
        self.by_old: dict[int | None, str] = {}
        for routed in samples:
            if routed.is_operators or routed.old == routed.new:
                continue
            more = stronger(routed.old, routed.new)
            if more:
                why = f"strangers may do more than profile `{routed.old}` let them: {more}"
                self.by_new.setdefault(routed.after.number if routed.after is not None else None, why)
                self.by_old.setdefault(routed.before.number if routed.before is not None else None, why)


def _routes(document: Document) -> dict[str, _Route]:
    """Return the routes in their order, by the sense of their `match`; a second one for the same is never reached."""
    section = document.root.get("routes")
    routes: dict[str, _Route] = {}
    for number, node in enumerate(section.elements() if section is not None else ()):
        match, profile = fact("when", node.get("match")), fact("profile", node.get("profile"))
        routes.setdefault(match.sense, _Route(number, match, str(profile.value), node))
    return routes
