"""A stage that is new in a file with `extends`, or in a profile, says where it is."""

from __future__ import annotations

from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.order import SIDES
from bub.pipeline.plan.plan import Plan

CODE = "B122"


def check(plan: Plan) -> None:
    """Find new stages that say none of `before`, `after` and `replace`.

    One that calls no hook there is and is named almost like an inherited stage is a slip for that: B150 says so.
    """
    for layer in plan.layers:
        if layer.inherited is None:
            continue
        for name, node in layer.stages.items():
            if name in layer.inherited or any(node.get(side) is not None for side in SIDES):
                continue
            calls_nothing = node.get("hook") is None and name not in HOOK_POINTS and name not in plan.hooks
            if not (calls_nothing and plan.findings.did_you_mean(name, layer.inherited)):
                plan.findings.add(
                    CODE,
                    f"stage `{name}` is new here, but does not say where it belongs",
                    node.where,
                    path=f"stages.{name}",
                    help="add `before: STAGE` or `after: STAGE`, or `replace: STAGE` to run it instead of that stage",
                )
