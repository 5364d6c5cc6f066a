"""A hook that is declared is called by a stage, or fired by a plugin."""

from __future__ import annotations

from bub.base.diagnostics import Severity
from bub.hooks.facts import BUILTIN
from bub.pipeline.check.rules import hook_entry_in_vain, no_kind, nothing_implements
from bub.pipeline.plan.callers import is_called_in_a_profile, kind_of
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.stages import HookPlan
from bub.plugins.sources import may_fire

CODE = "B214"

_TOLD = (no_kind.CODE, hook_entry_in_vain.CODE, nothing_implements.CODE)
"""What says all there is to say of an entry that nobody fires."""


def check(plan: Plan, offers: Offers) -> None:
    """Find hooks that no stage calls and no plugin fires: an error for a gate, which then is never asked."""
    if offers.are_broken:
        return
    for name, hook in plan.hooks.items():
        if hook.node is None or hook.point.twin in plan.callers or plan.findings.speaks_of(hook.node.where, *_TOLD):
            continue
        if hook.point.bootstrap or _is_shipped(plan, hook):
            continue
        if is_called_in_a_profile(plan, name) or _is_fired(plan, offers, hook):
            continue
        kind = kind_of(plan, hook)
        is_gate = kind is not None and kind.name == "gate"
        plan.findings.add(
            CODE,
            f"hook `{name}` is {'a gate' if is_gate else 'declared'}, but no stage calls it"
            f" and no plugin of profile `{plan.profile}` fires it",
            hook.node.where,
            severity=_severity(plan, offers, hook, is_gate=is_gate),
            path=f"hooks.{name}",
            profile=plan.profile,
            help=f"let a stage call it: `stages: {{{name}: {{before: STAGE}}}}`, or take the entry out",
        )


def _is_fired(plan: Plan, offers: Offers, hook: HookPlan) -> bool:
    name = hook.point.name
    if hook.point.fired and _asks_the_agent(plan):
        return True
    return any(may_fire(plugin.plugin, name) for plugin in offers.plugins.plugins if plugin.name != BUILTIN)


def _asks_the_agent(plan: Plan) -> bool:
    """Whether a stage asks the agent for an answer, or would if it were not off."""
    for stage in plan.stages:
        only = stage.node.get("only") or (stage.hook.node.get("only") if stage.hook.node is not None else None)
        asks = only is None or any(name == BUILTIN for name, _ in names_of(only))
        if stage.hook.point.form != "either" and (asks or not stage.enabled):
            return True
    return False


def _severity(plan: Plan, offers: Offers, hook: HookPlan, *, is_gate: bool) -> Severity:
    """A note where it may be meant for another profile, or for a plugin that is not there; else as bad as it is."""
    loaded = {BUILTIN, *offers.by_plugin}
    may_be_fired_elsewhere = not _listed_plugins(plan) <= loaded
    profiles = plan.document.root.get("profiles")
    if may_be_fired_elsewhere or (hook.point.fired and profiles is not None and len(profiles.value) > 1):
        return "note"
    return "error" if is_gate else "warning"


def _listed_plugins(plan: Plan) -> set[str]:
    """Every plugin that a profile of the person's own files lists."""
    sections = (layer.root.get("profiles") for layer in plan.document.layers if not layer.shipped)
    profiles = (profile for section in sections if section is not None for _, profile in section.items())
    return {name for profile in profiles for name, _ in names_of(profile.get("plugins"))}


def _is_shipped(plan: Plan, hook: HookPlan) -> bool:
    """Whether only a shipped file declares a hook: nobody of those who use it counts on it."""
    shipped = {layer.root.place.file for layer in plan.document.layers if layer.shipped}
    return hook.node is not None and hook.node.where.file in shipped
