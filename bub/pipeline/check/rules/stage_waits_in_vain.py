"""No stage waits for itself, for one that stands below it, or is placed beside itself."""

from __future__ import annotations

import itertools

from bub.pipeline.plan.order import circles_in
from bub.pipeline.plan.plan import Plan, StagePlan
from bub.pipeline.plan.scalars import names_of

CODE = "B121"


def check(plan: Plan) -> None:
    """Find circles, and stages that need or clean up for one below them."""
    for stage in plan.stages:
        _check_cleanup(plan, stage)
    _check_needs(plan)
    _check_anchors(plan)


def _check_cleanup(plan: Plan, stage: StagePlan) -> None:
    """A clean-up stands below its target: above it, it would have run once, before there is anything to clean up."""
    target, path = stage.cleanup_for, f"stages.{stage.id}.cleanup_for"
    said = stage.node.get("cleanup_for")
    if target is None or said is None:
        return
    if target == stage.id:
        plan.findings.add(
            CODE,
            f"{stage} cannot clean up for itself",
            said.place,
            path=path,
            help="name the stage that it cleans up for",
        )
    elif _stands_below(plan, stage, target):
        plan.findings.add(
            CODE,
            f"{stage} cleans up for `{target}`, which stands below it",
            said.place,
            path=path,
            help=f"move `{stage.id}` below `{target}`",
        )


def _check_needs(plan: Plan) -> None:
    edges = {stage.id: [name for name in stage.needs or () if name in plan.position] for stage in plan.stages}
    told: set[tuple[str, str]] = set()
    for circle in circles_in(edges):
        told.update(itertools.pairwise(circle))
        stage = plan.stages[plan.position[circle[0]]]
        plan.findings.add(
            CODE,
            f"{stage} waits for itself: {' → '.join(circle)}",
            next(place for name, place in names_of(stage.node.get("needs")) if name == circle[1]),
            path=f"stages.{stage.id}.needs",
            help="`a → b` reads: a needs b; take one of them out",
        )
    for stage in plan.stages:
        for name, place in names_of(stage.node.get("needs")):
            if (stage.id, name) not in told and _stands_below(plan, stage, name):
                plan.findings.add(
                    CODE,
                    f"{stage} needs `{name}`, which stands below it",
                    place,
                    path=f"stages.{stage.id}.needs",
                    help=f"move `{stage.id}` below `{name}`",
                )


def _stands_below(plan: Plan, stage: StagePlan, name: str) -> bool:
    is_placed = plan.adrift.isdisjoint((stage.id, name))
    return is_placed and plan.position.get(name, -1) > plan.position[stage.id]


def _check_anchors(plan: Plan) -> None:
    for layer in plan.layers:
        anchors = {anchor.stage: anchor for anchor in layer.anchors() if anchor.other in layer.known}
        for circle in circles_in({name: [anchor.other] for name, anchor in anchors.items()}):
            name, side, _, place = anchors[circle[0]]
            plan.findings.add(
                CODE,
                f"stage `{name}` is placed beside itself: {' → '.join(circle)}",
                place,
                path=f"stages.{name}.{side}",
                help="set one of them beside another stage",
            )
