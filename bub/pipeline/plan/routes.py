"""Which profile a message gets: the first route that matches it, else the profile chosen at start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bub.base.diagnostics import Place
from bub.base.globs import GlobIndex
from bub.base.layout import EMPTY, Line, Span, cells, columns, indent_text, label_text, line
from bub.envelope import ADDRESS, Envelope, field_of
from bub.hooks.facts import SESSION
from bub.pipeline.plan.conditions import When
from bub.pipeline.plan.origins import flow
from bub.pipeline.plan.shown import value_to_show
from bub.pipeline.source.merge import Document
from bub.pipeline.source.referred import reader

_LABEL = 9


class Route(msgspec.Struct, frozen=True):
    """One route: `match` as it is written, `globs` with its references replaced, None for what matches nothing.

    `number` counts from 1.
    """

    number: int
    match: Mapping[str, str]
    profile: str
    place: Place
    globs: Mapping[str, str | None]
    when: When

    def refusal(self, message: Envelope) -> str | None:
        """The first field that keeps the route from matching a message; None where it matches."""
        patterns = self.when.patterns
        return next((pattern[0] for pattern in patterns if not When((pattern,)).matches(message)), None)

    @property
    def words(self) -> str:
        """The messages it is for."""
        return match_in_words(self.match)


class RouteTable:
    """Finds the first of many routes that matches a message; most of the others are not tried."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._index = GlobIndex(route.globs for route in self.routes)

    def first(self, message: Envelope) -> Route | None:
        """The first route that matches a message."""

        def text_in(field: str) -> str | None:
            value = field_of(message, field)
            return None if value is None else str(value)

        asked = (self.routes[number] for number in self._index.find(text_in))
        return next((route for route in asked if route.when.matches(message)), None)


class Routing(msgspec.Struct, frozen=True):
    """What became of a message: the profile it gets, and the `routes` in order, each with the field that refused it.

    `taken` is the route that matched, None if none did; those behind it are not asked.
    """

    message: Mapping[str, Any]
    profile: str
    taken: Route | None
    routes: tuple[tuple[Route, str | None], ...]

    @property
    def session_id(self) -> str:
        """The session that the message belongs to, if no plugin says another."""
        own = str(field_of(self.message, SESSION) or "").strip()
        return own or ":".join(str(field_of(self.message, name)) for name in ADDRESS)

    def as_dict(self) -> dict[str, Any]:
        return {
            "profile": self.profile,
            "route": self.taken.number if self.taken is not None else None,
            "session_id": self.session_id,
            "message": dict(self.message),
            "routes": [self._route(route, refusal) for route, refusal in self.routes],
        }

    def _route(self, route: Route, refusal: str | None) -> dict[str, Any]:
        start = route.place.range.start
        return {
            "number": route.number,
            "match": dict(route.match),
            "profile": route.profile,
            "file": route.place.file,
            "line": start.line,
            "column": start.column,
            "matches": refusal is None if self._was_asked(route) else None,
            "refused_by": refusal if self._was_asked(route) else None,
        }

    def _was_asked(self, route: Route) -> bool:
        return self.taken is None or route.number <= self.taken.number


def routes_of(document: Document, environment: Mapping[str, str]) -> tuple[Route, ...]:
    """The routes that can be read, references replaced; what is wrong with the others, the rules say.

    One with a reference that stands for nothing matches nothing: without it, it would match more than was meant.
    """

    read = reader(document, environment)
    section = document.root.get("routes")
    routes = []
    for number, node in enumerate(section.elements() if section is not None else (), 1):
        match, profile = node.get("match"), read(node.get("profile"))
        if match is not None and match.is_mapping and profile:
            globs = {name: read(glob) for name, glob in match.items()}
            shown = value_to_show(match.plain())
            routes.append(Route(number, shown, profile, node.place, globs, When.of(globs)))
    return tuple(routes)


def choose(routes: Iterable[Route], message: Mapping[str, Any], chosen_at_start: str) -> Routing:
    """The profile of a message that has a channel and a chat (`envelope.addressed`), and why it is that one."""
    asked = tuple((route, route.refusal(message)) for route in routes)
    taken = next((route for route, refusal in asked if refusal is None), None)
    return Routing(message, taken.profile if taken is not None else chosen_at_start, taken, asked)


def match_in_words(match: Mapping[str, Any]) -> str:
    """The messages that a `match` is for, as a row of its fields."""
    return ", ".join(f"{name}: {flow(glob)}" for name, glob in match.items()) or "every message"


# As a person reads it


def choice_page(choice: Routing, width: int) -> list[Line]:
    """The profile and why, in lines of at most `width` cells."""
    message = match_in_words(choice.message)
    lines = [
        *label_text("profile", choice.profile, width, _LABEL),
        *label_text("why", _why(choice), width, _LABEL),
        *label_text("message", message, width, _LABEL),
        *label_text("session", f"{choice.session_id}, unless a plugin says another", width, _LABEL),
    ]
    if choice.routes:
        lines += [EMPTY, line("routes, asked in this order", "faint"), *_describe_routes(choice, width)]
    return lines


def _why(choice: Routing) -> str:
    if choice.taken is not None:
        return f"the first route that matches is {choice.taken.place}"
    none = "no route matches" if choice.routes else "the file has no routes"
    return f"{none}, so Bub uses the profile chosen at start"


def _describe_routes(choice: Routing, width: int) -> list[Line]:
    """Describe each route with its place, its profile and what became of it; in columns if there is room for them."""
    rows = [
        (
            "*" if route is choice.taken else " ",
            str(route.place),
            f"→ {route.profile}",
            _outcome(choice, route, refusal),
        )
        for route, refusal in choice.routes
    ]
    in_columns = columns([[Span(f"  {mark} {place}"), Span(to), Span(outcome)] for mark, place, to, outcome in rows])
    if all(sum(cells(span.text) for span in one) <= width for one in in_columns):
        return in_columns
    lines: list[Line] = []
    for mark, place, to, outcome in rows:
        lines += [line(f"  {mark} {place} {to}"), *indent_text(outcome, width, 6)]
    return lines


def _outcome(choice: Routing, route: Route, refusal: str | None) -> str:
    if route is choice.taken:
        return route.words
    if choice.taken is not None and route.number > choice.taken.number:
        return "not asked any more"
    glob, value = flow(route.match.get(refusal or "")), field_of(choice.message, refusal or "")
    if value is None:
        return f"wants {refusal}: {glob}, but the message has no {refusal}"
    return f"wants {refusal}: {glob}, but it is {flow(value)}"
