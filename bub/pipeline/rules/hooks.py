"""Every stage calls a hook point that exists, and every declared hook point can be called (B150, B151)."""

from __future__ import annotations

from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan import Plan, text_of


def check(plan: Plan) -> None:
    """Find stages whose hook point nobody declared, and points of the start that a stage cannot call."""
    callable_points = {name for name, point in HOOK_POINTS.items() if not point.bootstrap}
    for stage in plan.stages:
        name = stage.hook.point.name
        said = stage.node.get("hook")
        place = said.place if said is not None else stage.where
        if said is not None and text_of(said) is None:
            continue  # a reference, or no text at all: which hook is meant cannot be told
        if stage.hook.point.bootstrap:
            plan.findings.add(
                "B151",
                f"{stage} calls `{name}`, which is not called in a turn",
                place,
                path=f"stages.{stage.id}.hook",
                help="the framework calls it by itself; leave the stage out",
            )
        elif not stage.hook.known and name not in plan.hooks:
            plan.findings.add(
                "B150",
                f"{stage} calls the hook `{name}`, which does not exist",
                place,
                path=f"stages.{stage.id}.hook",
                help=plan.findings.did_you_mean(name, callable_points | set(plan.hooks))
                or f"declare it: `hooks: {{{name}: {{kind: …, takes: […]}}}}`",
            )
    for name, hook in plan.hooks.items():
        if hook.node is None:
            continue
        if not hook.known and hook.node.get("kind") is None and not _stage_says_kind(plan, name):
            meant = plan.findings.did_you_mean(name, HOOK_POINTS)
            plan.findings.add(
                "B110",
                f"hook `{name}` has no kind",
                hook.node.where,
                path=f"hooks.{name}",
                help=meant or f"say how it is called: `{name}: {{kind: observer, takes: […]}}`",
            )


def _stage_says_kind(plan: Plan, hook: str) -> bool:
    return any(stage.hook.point.name == hook and stage.kind is not None for stage in plan.stages)
