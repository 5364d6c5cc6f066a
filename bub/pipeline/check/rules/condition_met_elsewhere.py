"""A message that meets the condition of a stage gets a profile that has the stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from bub.base.diagnostics import Related
from bub.base.globs import covers, may_meet
from bub.envelope import ADDRESS
from bub.hooks.facts import SESSION
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import flag_of, text_of
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import DEFAULT_PROFILE
from bub.pipeline.source.profiles import effective, profile_of

CODE = "B198"

_OF_THE_SENDER = ("channel", "chat_id", "sender_id")
"""The fields that no stage gives another value."""

_OF_THE_MESSAGE = (*_OF_THE_SENDER, "content", "kind")
"""The fields that a message has when its profile is chosen."""

_Globs = Mapping[str, str]


class _Route(msgspec.Struct, frozen=True):
    """One route: the globs of it that can be read; `is_whole` if that are all. `profile` is None if it is not known."""

    number: int
    node: Node
    globs: _Globs
    is_whole: bool
    profile: str | None


def check(plan: Plan) -> None:
    """Find a `when` that only such messages meet as the routes give to profiles without the stage."""
    routes = _read_routes(plan)
    for stage in plan.stages if routes else ():
        asked = _condition_of(plan, stage)
        if stage.enabled and asked and not _is_asked_somewhere(plan, stage, asked, routes):
            _tell(plan, stage, asked, routes)


def _read_routes(plan: Plan) -> list[_Route]:
    section = plan.root.get("routes")
    routes = []
    for number, node in enumerate(section.elements() if section is not None else (), 1):
        match = node.get("match")
        read = {field: text_of(glob) for field, glob in (match.items() if match is not None else ())}
        globs = {field: glob for field, glob in read.items() if glob is not None}
        is_whole = match is not None and match.is_mapping and len(globs) == len(read)
        routes.append(_Route(number, node, globs, is_whole, text_of(node.get("profile"))))
    return routes


def _condition_of(plan: Plan, stage: StagePlan) -> dict[str, str]:
    """What a stage asks of the message that its profile was chosen for."""
    when = stage.node.get("when")
    if when is None or stage.each is not None:
        return {}
    remade = any(other.into != SESSION and "message" in other.makes for other in plan.above(stage))
    fields = _OF_THE_SENDER if remade else _OF_THE_MESSAGE
    globs = {field: text_of(glob) for field, glob in when.items() if field in fields}
    return {field: glob for field, glob in globs.items() if glob is not None}


def _is_asked_somewhere(plan: Plan, stage: StagePlan, asked: _Globs, routes: list[_Route]) -> bool:
    """Whether a message gets to a stage in this profile or in another that has it.

    What a profile says of a stage itself counts for those only that are built on it.
    """
    if any(_is_open(way, asked, routes) for way in _ways_to(plan.profile, routes)):
        return True
    saying = _profile_saying(stage)
    profiles = plan.document.root.get("profiles")
    written = (name for name, _ in profiles.items()) if profiles is not None else ()
    for name in {DEFAULT_PROFILE, *written} - {plan.profile}:
        view = effective(plan.document, name)
        node = view.root.get("stages", stage.id)
        if node is None or flag_of(node.get("enabled")) is False or (saying is not None and saying not in view.chain):
            continue
        when = node.get("when")
        there = {field: text_of(glob) for field, glob in (when.items() if when is not None else ()) if field in asked}
        globs = {field: glob for field, glob in there.items() if glob is not None}
        if any(_is_open(way, globs, routes) for way in _ways_to(name, routes)):
            return True
    return False


def _profile_saying(stage: StagePlan) -> str | None:
    """The profile that says a part of a stage's `when`; None if the file does for all of them."""
    when = stage.node.get("when")
    names = [profile_of(node.place) for _, node in (when.items() if when is not None else ())]
    return next((name for name in reversed(names) if name is not None), None)


def _ways_to(profile: str, routes: list[_Route]) -> Iterator[_Route | None]:
    """The routes to a profile; None for a message that no route matches, if the profile is chosen at start."""
    leading = [route for route in routes if route.profile in (profile, None)]
    if profile == DEFAULT_PROFILE or not leading:
        yield None
    yield from leading


def _is_open(way: _Route | None, asked: _Globs, routes: list[_Route]) -> bool:
    """Whether a message that meets a condition may come this way."""
    return _may_meet(way, asked) and _hiding(way, asked, routes) is None


def _may_meet(way: _Route | None, asked: _Globs) -> bool:
    globs = way.globs if way is not None else {}
    return all(may_meet(glob, asked[field]) for field, glob in globs.items() if field in asked)


def _hiding(way: _Route | None, asked: _Globs, routes: list[_Route]) -> _Route | None:
    """The route that takes every message which would come a way and meets a condition."""
    known = (asked, way.globs) if way is not None else (asked,)
    for route in routes[: way.number - 1] if way is not None else routes:
        if route.profile is None or not route.is_whole or (way is not None and route.profile == way.profile):
            continue
        if all(_is_sure(field, glob, known) for field, glob in route.globs.items()):
            return route
    return None


def _is_sure(field: str, glob: str, known: Iterable[_Globs]) -> bool:
    """Whether each message that meets what is known has a field that a glob matches."""
    return (glob == "*" and field in ADDRESS) or any(field in one and covers(glob, one[field]) for one in known)


def _tell(plan: Plan, stage: StagePlan, asked: _Globs, routes: list[_Route]) -> None:
    when = stage.node.get("when")
    assert when is not None
    ways = list(_ways_to(plan.profile, routes))
    hiding = next((_hiding(way, asked, routes) for way in ways if _may_meet(way, asked)), None)
    alone = list(asked) if len(asked) == 1 else _fields_alone(asked, ways)
    field = alone[0] if len(alone) == 1 else None
    said = when.get(field) if field is not None else None
    words = ", ".join(f"{name} `{glob}`" for name, glob in asked.items() if field in (None, name))
    if hiding is not None:
        why = f"but route {hiding.number} leads every such message to profile `{hiding.profile}`"
        advice = f"put the stage into profile `{hiding.profile}`, or take it out"
        related = Related("the route", hiding.node.place.file, hiding.node.place.range)
    else:
        leading = next(way.node.place for way in ways if way is not None)
        why = f"but no route leads such a message to profile `{plan.profile}`"
        advice = "ask for messages that a route leads to this profile, or take it out"
        related = Related("a route to the profile", leading.file, leading.range)
    place = said.place if said is not None else when.where
    saying = _profile_saying(stage)
    path = f"stages.{stage.id}.when" + (f".{field}" if field is not None else "")
    plan.findings.warn(
        CODE,
        f"{stage} asks for {words}, {why}",
        place,
        path=f"profiles.{saying}.{path}" if saying is not None else path,
        profile=saying,
        help=advice,
        related=[related],
    )


def _fields_alone(asked: _Globs, ways: list[_Route | None]) -> list[str]:
    """The fields of which each by itself contradicts every way."""
    return [name for name, glob in asked.items() if not any(_may_meet(way, {name: glob}) for way in ways)]
