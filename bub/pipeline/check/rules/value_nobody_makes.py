"""Every value that a stage takes has been made above it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bub.base.diagnostics import Place
from bub.hooks.facts import START_VALUES
from bub.pipeline.check.words import list_few
from bub.pipeline.plan.order import find_move
from bub.pipeline.plan.plan import Plan, known_values
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.templates import template_names
from bub.pipeline.source.merge import is_own
from bub.pipeline.source.profiles import profile_of

CODE = "B130"


def check(plan: Plan) -> None:
    """Find values that nobody makes, and those that are made below the stage that takes them."""
    _check_missing(plan)
    faults: dict[_Fault, list[_Late]] = {}
    above = set(START_VALUES)
    for stage in plan.stages:
        if stage.kind is not None:
            for fault, late in _find_late(plan, stage, above):
                faults.setdefault(fault, []).append(late)
        above.update(stage.makes)
    for fault, found in faults.items():
        _report(plan, fault, found)


def _check_missing(plan: Plan) -> None:
    """Find missing values that the file asks for by name; what a hook merely may take is None there."""
    missing = plan.flow.missing.difference(plan.flow.slips.values())
    told: set[Place] = set()
    for stage in plan.stages if missing else ():
        for name, place in stage.asks:
            # Stages that call one hook ask for its `takes` at one place.
            if name in missing and place not in told and _others_making(plan, stage, name) == ():
                told.add(place)
                plan.findings.add_unknown(
                    CODE,
                    f"{stage} takes `{name}`, which no stage makes",
                    place,
                    name,
                    known_values(plan) - {name},
                    path=f"stages.{stage.id}",
                    help=f"let a stage above make it: `into: {name}`",
                )


def _others_making(plan: Plan, stage: StagePlan, name: str) -> tuple[StagePlan, ...]:
    return tuple(other for other in plan.flow.makers.get(name, ()) if other is not stage)


class _Fault(msgspec.Struct, frozen=True):
    """What is made too low or taken too high: `stage` is the one to move, as is said at `place`."""

    stage: str
    place: Place
    path: str
    is_maker: bool


class _Late(msgspec.Struct, frozen=True):
    """A stage that takes a value, and the one that makes it below."""

    taker: StagePlan
    value: str
    maker: StagePlan


def _find_late(plan: Plan, stage: StagePlan, above: set[str]) -> Iterator[tuple[_Fault, _Late]]:
    asked = {name: place for name, place in stage.asks if name not in above}
    named = plan.meant_by(*(() if stage.cleanup_for is None else (stage.cleanup_for,)), *(stage.needs or ()))
    for name in dict.fromkeys((*asked, *stage.takes, *stage.templated)):
        makers = _others_making(plan, stage, name)
        if name in above or not makers or not plan.adrift.isdisjoint((stage.id, makers[0].id)):
            continue
        maker = makers[0]
        if maker.id in named:
            continue  # that it stands below is said already
        late, move = _Late(stage, name, maker), find_move(plan.layers, stage.id, maker.id)
        if move is not None and move.stage == maker.id:
            yield _Fault(maker.id, move.place, move.path, is_maker=True), late
            continue
        said = [asked.get(name), _place_in_default(stage, name), move.place if move is not None else None]
        places = [place for place in (*said, stage.where, maker.place_of("into")) if place is not None]
        place = next(filter(is_own, places), places[0])
        yield _Fault(stage.id, place, f"stages.{stage.id}", is_maker=False), late


def _place_in_default(stage: StagePlan, name: str) -> Place | None:
    default = stage.node.get("default")
    return default.place if default is not None and name in template_names(default) else None


def _report(plan: Plan, fault: _Fault, late: list[_Late]) -> None:
    """Tell of one stage at the wrong place, whatever takes from it or it takes."""
    taker, value, maker = late[0].taker, late[0].value, late[0].maker
    values = list_few(dict.fromkeys(one.value for one in late))
    if fault.is_maker:
        takers = list(dict.fromkeys(one.taker.id for one in late))
        verb = "takes" if len(takers) == 1 else "take"
        message = f"{maker} makes {values} below {list_few(takers)}, which {verb} it"
        advice, related = f"set it above `{taker.id}`, with `before: {taker.id}`", taker.taking(value)
    else:
        lowest = max((one.maker for one in late), key=lambda other: plan.position[other.id])
        verb = "is" if len(late) == 1 else "are"
        message = f"{taker} takes {values}, which {verb} made below it"
        advice, related = f"move it below `{lowest.id}`", maker.making(value)
        if _feeds(plan, taker, lowest):
            advice = f"take {values} out of `{taker.id}`: `{lowest.id}` needs what `{taker.id}` makes"
    plan.findings.add(
        CODE, message, fault.place, path=fault.path, profile=profile_of(fault.place), help=advice, related=[related]
    )


def _feeds(plan: Plan, stage: StagePlan, other: StagePlan) -> bool:
    """Whether what a stage makes is needed for another, directly or by stages in between."""
    fed = set(stage.makes)
    for between in plan.stages[plan.position[stage.id] + 1 : plan.position[other.id]]:
        if not fed.isdisjoint(between.taken):
            fed.update(between.makes)
    return not fed.isdisjoint(other.taken)
