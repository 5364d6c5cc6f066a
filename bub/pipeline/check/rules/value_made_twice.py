"""A value is made by one stage only; another that takes it may make a new version of it."""

from __future__ import annotations

from bub.hooks.facts import START_VALUES
from bub.pipeline.plan.order import anchor_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.swaps import REPLACE
from bub.pipeline.source.merge import is_own
from bub.pipeline.source.profiles import profile_of

CODE = "B131"


def check(plan: Plan) -> None:
    """Find stages that make a value which is there already, without taking it."""
    for stage in plan.stages:
        into = stage.into
        if into is None or into not in stage.makes or into in stage.taken:
            continue
        first = plan.flow.makers[into][0]
        if into in START_VALUES:
            _report(plan, stage, f"{stage} makes `{into}` without taking it, but `{into}` exists from the start")
        elif first is not stage and not _are_rivals(plan, first, stage):
            # It is told of the one that a person can change, wherever that stands.
            told, other = (stage, first) if is_own(stage.place_of("into")) else (first, stage)
            _report(plan, told, f"{told} makes `{into}`, which {other} makes already", other)


def _are_rivals(plan: Plan, one: StagePlan, other: StagePlan) -> bool:
    """Whether they replace one stage in different layers, which is told already."""
    replaced = {text_of(stage.node.get(REPLACE)) for stage in (one, other)}
    said_in = {plan.layer_saying(stage.id, REPLACE) for stage in (one, other)}
    return replaced != {None} and len(replaced) == 1 and len(said_in) > 1


def _report(plan: Plan, stage: StagePlan, message: str, other: StagePlan | None = None) -> None:
    said = stage.node.get("into")
    if said is None or stage.into is None:
        return
    advice = "give the value another name, or take the value and make a new version of it"
    # Where it stands is said of a stage that is new, and of one that was moved.
    if other is not None and anchor_of(stage.node)[0] in ("before", "after"):
        advice = f"add `replace: {other.id}` to run this stage instead of `{other.id}`; otherwise {advice}"
    plan.findings.add(
        CODE,
        message,
        said.place,
        path=f"stages.{stage.id}.into",
        profile=profile_of(said.place),
        help=advice,
        related=[other.making(stage.into)] if other is not None else [],
    )
