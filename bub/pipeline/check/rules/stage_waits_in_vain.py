"""No stage waits for itself, for one that is below it, is placed beside itself or replaces itself."""

from __future__ import annotations

import itertools

from bub.base.diagnostics import Place, Related
from bub.pipeline.plan.order import StageLayer, circles_in, find_move
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.swaps import REPLACE, circles_of_replaced
from bub.pipeline.source.merge import is_own
from bub.pipeline.source.profiles import profile_of

CODE = "B121"


def check(plan: Plan) -> None:
    """Find circles, and stages that need or clean up for one below them."""
    for stage in plan.stages:
        _check_cleanup(plan, stage)
    _check_needs(plan)
    _check_anchors(plan)
    _check_replaced(plan)


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
    else:
        _check_below(plan, stage, target, "cleans up for", path, said.place)


def _check_needs(plan: Plan) -> None:
    edges = {stage.id: [name for name in stage.needs or () if name in plan.position] for stage in plan.stages}
    told: set[tuple[str, str]] = set()
    for circle in circles_in(edges):
        told.update(itertools.pairwise(circle))
        stage = plan.stage(circle[0])
        plan.findings.add(
            CODE,
            f"{stage} waits for itself: {' → '.join(circle)}",
            next(place for name, place in names_of(stage.node.get("needs")) if name == circle[1]),
            path=f"stages.{stage.id}.needs",
            help="`a → b` means: a needs b; take one `needs` out",
        )
    for stage in plan.stages:
        for name, place in names_of(stage.node.get("needs")):
            if (stage.id, name) not in told:
                _check_below(plan, stage, name, "needs", f"stages.{stage.id}.needs", place)


def _check_below(plan: Plan, stage: StagePlan, name: str, verb: str, path: str, said: Place) -> None:
    """Find that a stage names one below it, or one for which another stands in below it."""
    for other in plan.standing_for(name):
        if stage.replaced_by or not _stands_below(plan, stage, other):
            continue
        below = (
            "which is below it"
            if other == name
            else f"but `{other}` runs instead of `{name}`, and it is below `{stage.id}`"
        )
        move = find_move(plan.layers, stage.id, other)
        place, related, advice = said, [], f"move `{stage.id}` below `{other}`"
        if move is not None and not is_own(said):
            place, path = move.place, move.path
            related = [Related(f"{stage} {verb} `{name}` here", said.file, said.range)]
            if move.stage == other:
                advice = f"move `{other}` above `{stage.id}`"
        elif move is not None:
            related = [Related(f"the place of `{move.stage}` is set here", move.place.file, move.place.range)]
        message = f"{stage} {verb} `{name}`, {below}"
        plan.findings.add(CODE, message, place, path=path, profile=profile_of(place), help=advice, related=related)


def _stands_below(plan: Plan, stage: StagePlan, name: str) -> bool:
    is_placed = plan.adrift.isdisjoint((stage.id, name))
    return is_placed and plan.position.get(name, -1) > plan.position[stage.id]


def _check_anchors(plan: Plan) -> None:
    for layer in plan.layers:
        anchors = {anchor.stage: anchor for anchor in layer.anchors() if anchor.other in layer.known}
        for circle in circles_in({name: [anchor.other] for name, anchor in anchors.items()}):
            first = anchors[circle[0]]
            plan.findings.add(
                CODE,
                f"stage `{first.stage}` is placed beside itself: {' → '.join(circle)}",
                first.place,
                path=f"stages.{first.stage}.{first.side}",
                help="set one of them beside another stage",
            )


def _check_replaced(plan: Plan) -> None:
    for circle in circles_of_replaced({stage.id: stage.node for stage in plan.stages}):
        if any(_says_all(layer, circle) for layer in plan.layers):
            continue  # then they are placed beside themselves
        last = max(circle[1:], key=lambda name: plan.layer_saying(name, REPLACE))
        at = circle.index(last)
        said = plan.stage(last).place_of(REPLACE)
        plan.findings.add(
            CODE,
            f"stage `{last}` replaces itself: {' → '.join([*circle[at:], *circle[1 : at + 1]])}",
            said,
            path=f"stages.{last}.{REPLACE}",
            profile=profile_of(said),
            help=f"take one `{REPLACE}` out",
        )


def _says_all(layer: StageLayer, circle: list[str]) -> bool:
    anchors = {anchor.stage: anchor.other for anchor in layer.anchors() if anchor.side == REPLACE}
    return all(anchors.get(name) == other for name, other in itertools.pairwise(circle))
