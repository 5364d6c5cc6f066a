"""What is said of a stage that is replaced has an effect."""

from __future__ import annotations

from collections.abc import Iterator

from bub.base.diagnostics import Related
from bub.hooks.facts import HANDED_ON_KEYS
from bub.pipeline.check.words import list_names
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import flag_of
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.swaps import REPLACE
from bub.pipeline.source.document import Node
from bub.pipeline.source.profiles import profile_of

CODE = "B182"

_SIDES = ("before", "after")
_ANSWERS = ("default", "default_if", "combine")


def check(plan: Plan) -> None:
    """Find keys of an inherited stage that change nothing, since the file or a file above it replaces the stage."""
    for stage in plan.stages:
        if not stage.replaced_by:
            continue
        replacing = plan.stage(stage.replaced_by[0])
        swap = replacing.place_of(REPLACE)
        for key, node in _find_idle(plan, stage, plan.layer_saying(replacing.id, REPLACE)):
            advice = (
                f"switch {list_names(stage.replaced_by)} off to run `{stage.id}` again, or take `{key}` out"
                if key == "enabled"
                else f"move it to {list_names(stage.replaced_by)}"
            )
            plan.findings.warn(
                CODE,
                f"`{key}` of {stage} changes nothing, since `{replacing.id}` runs in its place",
                node.where,
                path=f"stages.{stage.id}.{key}",
                profile=profile_of(node.where),
                help=advice,
                related=[Related("it is replaced here", swap.file, swap.range)],
            )


def _find_idle(plan: Plan, stage: StagePlan, swapped: int) -> Iterator[tuple[str, Node]]:
    for index, layer in enumerate(plan.layers):
        written = layer.stages.get(stage.id)
        # A layer that makes the stage says all that it is; what it inherits, it changes.
        if index < swapped or written is None or stage.id not in (layer.inherited or ()):
            continue
        for key, node in written.items():
            handed_on = key in HANDED_ON_KEYS or (key in _SIDES and index == swapped)
            answers = key in _ANSWERS and bool(stage.makes)
            is_off = key == "enabled" and flag_of(node) is False
            if not (handed_on or answers or is_off or key == REPLACE):
                yield key, node
