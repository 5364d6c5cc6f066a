"""What is said of a hook elsewhere than under `hooks:`: its kind, and who calls it."""

from __future__ import annotations

from bub.hooks.facts import KINDS, Kind
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.stages import HookPlan


def kind_of(plan: Plan, hook: HookPlan) -> Kind | None:
    """How a hook is called: as it says, else as a stage that calls it says, else as its point usually is."""
    called = (stage.kind for stage in plan.callers.get(hook.point.name, ()))
    return hook.kind or next((kind for kind in called if kind is not None), None) or KINDS.get(hook.point.kinds[0])


def is_called_in_a_profile(plan: Plan, name: str) -> bool:
    """Whether a stage calls a hook, in this profile or in another one of the document; also one that is off."""
    if name in plan.callers:
        return True
    profiles = plan.document.root.get("profiles")
    for _, profile in profiles.items() if profiles is not None else ():
        stages = profile.get("stages")
        for stage, node in stages.items() if stages is not None else ():
            said = node.get("hook")
            # A reference may name any hook.
            if (said is None and stage == name) or (said is not None and text_of(said) in (name, None)):
                return True
    return False
