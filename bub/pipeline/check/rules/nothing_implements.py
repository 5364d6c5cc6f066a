"""What has to be implemented is: gates, and the hooks that a pipeline declares for itself."""

from __future__ import annotations

from bub.base.diagnostics import suggest
from bub.pipeline.check.rules import hook_entry_in_vain
from bub.pipeline.check.rules.unmarked_hook import find_unmarked
from bub.pipeline.plan.callers import is_called_in_a_profile
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B204"


def check(plan: Plan, offers: Offers) -> None:
    """Find gates that would let everything pass, and hooks of the pipeline's own that would do nothing."""
    # What is missing may be in a plugin that did not load, under a name that is misspelt, or not marked: told already.
    if offers.are_broken:
        return
    forgotten = {suggest(name, offers.points) for name in offers.by_hook if name not in offers.points}
    forgotten.update(one.hook for one in find_unmarked(offers))
    for stage in plan.stages:
        if not stage.enabled or stage.kind is None or (stage.hook.known and stage.kind.name != "gate"):
            continue
        name = stage.hook.point.name
        if name in forgotten or name in offers.by_hook or not (stage.hook.known or name in plan.hooks):
            continue
        if plan.findings.speaks_of(stage.where, hook_entry_in_vain.BY_LOCK):
            continue
        what = "is a gate that" if stage.kind.name == "gate" else "calls a hook that"
        plan.findings.add(
            CODE,
            f"{stage} {what} no plugin of profile `{plan.profile}` implements",
            stage.where,
            path=f"stages.{stage.id}",
            profile=plan.profile,
            help=f"add a plugin with `{name}` to the profile's `plugins`, or switch the stage off",
        )
    for name, hook in plan.hooks.items():
        if hook.known or hook.node is None or name in {*offers.by_hook, *forgotten}:
            continue
        if not (
            is_called_in_a_profile(plan, name)
            or plan.findings.speaks_of(hook.node.where, hook_entry_in_vain.CODE, hook_entry_in_vain.BY_LOCK)
        ):
            plan.findings.add(
                CODE,
                f"hook `{name}` is declared here, but no plugin of profile `{plan.profile}` implements it",
                hook.node.where,
                path=f"hooks.{name}",
                profile=plan.profile,
                help=f"add a plugin with `{name}` to the profile's `plugins`, or take the entry out",
            )
