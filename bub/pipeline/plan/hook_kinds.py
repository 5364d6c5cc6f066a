"""Of which kind a hook is where it is not said under `hooks:` itself."""

from __future__ import annotations

from bub.hooks.facts import KINDS, Kind
from bub.pipeline.plan.plan import HookPlan, Plan


def kind_of(plan: Plan, hook: HookPlan) -> Kind | None:
    """How a hook is called: as it says, else as a stage that calls it says, else as its point usually is."""
    called = (stage.kind for stage in plan.callers.get(hook.point.name, ()))
    return hook.kind or next((kind for kind in called if kind is not None), None) or KINDS.get(hook.point.kinds[0])
