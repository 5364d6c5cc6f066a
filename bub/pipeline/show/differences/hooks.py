"""Which hook points are declared, and what holds for each."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import HookPlan
from bub.pipeline.show.differences.changes import Changes, describe_change
from bub.pipeline.show.differences.facts import GATE, POINT_KEYS, is_gate, kind_of_point, point_fact
from bub.pipeline.show.differences.judges import judges
from bub.pipeline.show.differences.weakening import opens_point


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell which hook points are new or gone under `hooks:`, and what changes about the others."""
    asked = {stage.hook.point.name for stage in old.stages if is_gate(stage)}
    for name, now in new.hooks.items():
        if name in old.hooks:
            _compare_point(name, name in asked, old, new, changes)
        else:
            kind = kind_of_point(now)
            area, word = ("gates", "gate") if kind == GATE else ("hooks", "hook point")
            changes.add(f"{area}.declared", f"{word} `{name}` is declared", f"hooks.{name}", now.node, new=kind)
    for name, was in old.hooks.items():
        if name not in new.hooks:
            kind = kind_of_point(was)
            danger = _is_guarded(was, kind, old) and name not in asked  # else it is reported as the stage that asks
            area, word = ("gates", "gate") if danger else ("hooks", "hook point")
            message = f"{word} `{name}` is no longer declared"
            changes.add(f"{area}.undeclared", message, f"hooks.{name}", was.node, old=kind, danger=danger)


def _is_guarded(hook: HookPlan, kind: str, plan: Plan) -> bool:
    """Return whether a point is a gate that some plugin may implement."""
    return kind == GATE and bool(judges(plan, point_fact(hook, "only").value))


def _compare_point(name: str, asked: bool, old: Plan, new: Plan, changes: Changes) -> None:
    was, now = old.hooks[name], new.hooks[name]
    guards = asked or kind_of_point(was) == GATE
    for key in POINT_KEYS:
        before, after = point_fact(was, key), point_fact(now, key)
        if before.sense != after.sense:
            danger = opens_point(name, key, old, new)
            message = describe_change(key, f"{'gate' if guards else 'hook point'} `{name}`", before, after)
            kind = f"{'gates' if danger else 'hooks'}.{key}"
            changes.add_differing(kind, message, f"hooks.{name}.{key}", before, after, now.node, danger=danger)
