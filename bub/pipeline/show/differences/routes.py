"""Which messages get which profile."""

from __future__ import annotations

from typing import NamedTuple

from bub.pipeline.show.differences.changes import Changes, describe_match
from bub.pipeline.show.differences.facts import Fact, fact
from bub.pipeline.show.differences.order import find_moved
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import Document


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


def compare(old: Document, new: Document, changes: Changes) -> None:
    """Tell which messages get another profile."""
    before, after = _routes(old), _routes(new)
    for match, route in after.items():
        was = before.get(match)
        place, get = route.node.place, f"{route.messages} get profile `{route.profile}`"
        if was is None:
            changes.add("routes.added", get, route.path, place, new=route.profile)
        elif was.profile != route.profile:
            message = f"{get} (was `{was.profile}`)"
            changes.add("routes.profile", message, route.path, place, old=was.profile, new=route.profile)
    for match, route in before.items():
        if match not in after:
            message = f"{route.messages} no longer get profile `{route.profile}` by a route of their own"
            changes.add("routes.removed", message, route.path, route.node.place, old=route.profile)
    kept, were = [match for match in after if match in before], [match for match in before if match in after]
    for match in find_moved(were, kept):
        route, number = after[match], before[match].number
        message = f"the route of {route.messages} to profile `{route.profile}` is asked at another place"
        changes.add("routes.moved", message, route.path, route.node.place, old=number, new=route.number)


def _routes(document: Document) -> dict[str, _Route]:
    """Return the routes in their order, by the sense of their `match`; a second one for the same is never reached."""
    section = document.root.get("routes")
    routes: dict[str, _Route] = {}
    for number, node in enumerate(section.elements() if section is not None else ()):
        match, profile = fact("when", node.get("match")), fact("profile", node.get("profile"))
        routes.setdefault(match.sense, _Route(number, match, str(profile.value), node))
    return routes
