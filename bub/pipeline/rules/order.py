"""Every stage has its place: what it needs exists above it, and new ones say where they stand (B120-B123)."""

from __future__ import annotations

import itertools

from bub.diagnostics import Place, Related
from bub.pipeline.document import Node
from bub.pipeline.merge import Layer
from bub.pipeline.plan import Plan, StagePlan, anchor_of, circles_in, names_of, text_of


def check(plan: Plan) -> None:
    """Find references to stages that do not exist or go in a circle, and new stages without a place."""
    _check_references(plan)
    _check_needs(plan)
    inherited: set[str] = set()
    for index, layer in enumerate(plan.effective.layers):
        stages = {name: node for name, node in _entries(layer.root) if node.is_mapping}
        _check_places(plan, layer, stages, inherited, is_root=index == 0)
        inherited.update(stages)


def _entries(root: Node) -> list[tuple[str, Node]]:
    node = root.get("stages")
    return list(node.items()) if node is not None else []


def _check_references(plan: Plan) -> None:
    # A stage that cannot be read exists all the same.
    known = {stage.id for stage in plan.stages} | {name for name, _ in _entries(plan.root)}
    for stage in plan.stages:
        asked = [("needs", *need) for need in names_of(stage.node.get("needs"))]
        cleanup_for = stage.node.get("cleanup_for")
        if stage.cleanup_for is not None and cleanup_for is not None:
            asked.append(("cleanup_for", stage.cleanup_for, cleanup_for.place))
        for key, name, place in asked:
            if name not in known:
                verb = "needs" if key == "needs" else "cleans up for"
                plan.findings.add(
                    "B120",
                    f"{stage} {verb} `{name}`, which does not exist",
                    place,
                    path=f"stages.{stage.id}.{key}",
                    help=plan.findings.did_you_mean(name, known),
                )


def _check_needs(plan: Plan) -> None:
    position = {stage.id: index for index, stage in enumerate(plan.stages)}
    edges = {stage.id: [name for name in stage.needs or () if name in position] for stage in plan.stages}
    for stage in plan.stages:
        _check_cleanup(plan, stage, position)
    told: set[tuple[str, str]] = set()
    for circle in circles_in(edges):
        told.update(itertools.pairwise(circle))
        stage = next(stage for stage in plan.stages if stage.id == circle[0])
        plan.findings.add(
            "B121",
            f"{stage} waits for itself: {' → '.join(circle)}",
            next(place for name, place in names_of(stage.node.get("needs")) if name == circle[1]),
            path=f"stages.{stage.id}.needs",
            help="`a → b` reads: a needs b; take one of them out",
        )
    for stage in plan.stages:
        for name, place in names_of(stage.node.get("needs")):
            if (stage.id, name) in told or not plan.adrift.isdisjoint((stage.id, name)):
                continue
            if name in position and position[name] > position[stage.id]:
                plan.findings.add(
                    "B121",
                    f"{stage} needs `{name}`, which stands below it",
                    place,
                    path=f"stages.{stage.id}.needs",
                    help=f"move `{stage.id}` below `{name}`",
                )


def _check_cleanup(plan: Plan, stage: StagePlan, position: dict[str, int]) -> None:
    """A clean-up stands below its target: above it, it would have run once, before there is anything to clean up."""
    target, path = stage.cleanup_for, f"stages.{stage.id}.cleanup_for"
    said = stage.node.get("cleanup_for")
    if target is None or said is None or target not in position:
        return
    if target == stage.id:
        plan.findings.add("B121", f"{stage} cannot clean up for itself", said.place, path=path)
    elif position[target] > position[stage.id] and plan.adrift.isdisjoint((stage.id, target)):
        plan.findings.add(
            "B121",
            f"{stage} cleans up for `{target}`, which stands below it",
            said.place,
            path=path,
            help=f"move `{stage.id}` below `{target}`",
        )


def _check_places(plan: Plan, layer: Layer, stages: dict[str, Node], inherited: set[str], *, is_root: bool) -> None:
    known = inherited | set(stages)
    edges: dict[str, list[str]] = {}
    for name, node in stages.items():
        path = f"stages.{name}"
        before, after = node.get("before"), node.get("after")
        if before is not None and after is not None:
            plan.findings.add(
                "B123",
                f"stage `{name}` says both `before` and `after`",
                after.where,
                path=path,
                help="it stands directly beside one stage; keep one of the two",
                related=[_related("the other one is here", before.where)],
            )
            continue
        side, other = anchor_of(node)
        if side is None or other is None:
            if name not in inherited and not is_root and before is None and after is None:
                plan.findings.add(
                    "B122",
                    f"stage `{name}` is new here, but does not say where it stands",
                    node.where,
                    path=path,
                    help="add `before: STAGE` or `after: STAGE`",
                )
            continue
        place = (before or after or node).place
        if other not in known:
            message = f"stage `{name}` is to stand {side} `{other}`, which does not exist"
            plan.findings.add(
                "B120", message, place, path=f"{path}.{side}", help=plan.findings.did_you_mean(other, known)
            )
        elif text_of(node.get(side)) is not None:
            edges[name] = [other]
    for circle in circles_in(edges):
        node = stages[circle[0]]
        side, _ = anchor_of(node)
        plan.findings.add(
            "B121",
            f"stage `{circle[0]}` is placed beside itself: {' → '.join(circle)}",
            (node.get(side or "before") or node).place,
            path=f"stages.{circle[0]}.{side}",
            help="set one of them beside another stage",
        )


def _related(message: str, place: Place) -> Related:
    return Related(message, place.file, place.range)
