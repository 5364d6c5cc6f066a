"""Every value that a stage takes has been made above it."""

from __future__ import annotations

from bub.base.diagnostics import Place
from bub.hooks.facts import START_VALUES
from bub.pipeline.plan.plan import Plan, StagePlan, known_values
from bub.pipeline.plan.templates import template_names

CODE = "B130"


def check(plan: Plan) -> None:
    """Find values that nobody makes, and those that are made below the stage that takes them."""
    _check_missing(plan)
    above = set(START_VALUES)
    for stage in plan.stages:
        if stage.kind is not None:
            _check_made_below(plan, stage, above)
        above.update(stage.makes)


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


def _check_made_below(plan: Plan, stage: StagePlan, above: set[str]) -> None:
    asked = {name: place for name, place in stage.asks if name not in above}
    for name in dict.fromkeys((*asked, *stage.takes, *stage.templated)):
        late = _others_making(plan, stage, name)
        if name in above or not late or not plan.adrift.isdisjoint((stage.id, late[0].id)):
            continue
        if late[0].id in (stage.cleanup_for, *(stage.needs or ())):
            continue  # that it stands below is said already
        plan.findings.add(
            CODE,
            f"{stage} takes `{name}`, which is made below it",
            asked.get(name) or _place_of_taking(stage, name),
            path=f"stages.{stage.id}",
            help=f"move it below `{late[0].id}`",
            related=[late[0].making(name)],
        )


def _place_of_taking(stage: StagePlan, name: str) -> Place:
    """What is to be changed where a stage takes a value that it does not ask for: its default, else where it stands."""
    default = stage.node.get("default")
    if default is not None and name in template_names(default):
        return default.place
    return stage.place_of("after" if stage.node.get("after") else "before")
