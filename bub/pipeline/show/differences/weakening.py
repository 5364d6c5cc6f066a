"""What lets more pass a stage or a hook point than before: gates that open, checks of replies that are gone."""

from __future__ import annotations

from collections.abc import Mapping

from bub.base.globs import covers
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.plan.checks import shows_at_once
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.show.differences.facts import GATE, Fact, is_gate, kind_of, point_fact, stage_fact
from bub.pipeline.show.differences.judges import judges, renamed_plugins
from bub.pipeline.source.document import Plain
from bub.pipeline.source.interpolate import references

_CHECKING = ("claiming", "modifying")
"""The kinds that, beside gates, hold back or change what passes; of them a failure lets it pass."""

_MAKE_A_CHECK = ("enabled", "hook", "kind", "for_each", "changes", "when", "only", "takes")
"""The keys that say what a check of replies judges, and who does."""

_HANGS = "if a plugin hangs there, the turn never ends"
_FAILS_OPEN = "if the check fails, Bub lets through what it had to check"
_SHOWN = "Bub shows streamed text before the checks below have judged it"
UNCHECKED = "Bub sends what it held back or took out of replies"
"""Why it is dangerous that a check of replies is gone, or judges less."""


def opens_stage(key: str, was: StagePlan, now: StagePlan, old: Plan, new: Plan) -> bool | str:
    """Return whether a stage whose `key` changes may let something pass that it did not before, or why."""
    before, after = stage_fact(was, key), stage_fact(now, key)
    if before.sense == after.sense:
        return False
    if is_gate(was):
        return _opens_gate(key, before, after, old, new)
    if key == "show":
        return shows_unjudged(now)
    if key == "on_failure":
        return kind_of(was) in _CHECKING and _opens_failure(before, after)
    return checks_replies(was, old) and _opens_check(key, was, now, old, new)


def opens_point(name: str, key: str, old: Plan, new: Plan) -> bool | str:
    """Return the same of a hook point: of the stages that call it, or of the point itself if none does."""
    pairs = [
        (stage, now) for stage in old.callers.get(name, ()) for now in new.callers.get(name, ()) if stage.id == now.id
    ]
    if pairs:
        return next((why for was, now in pairs if (why := opens_stage(key, was, now, old, new))), False)
    was, now = old.hooks[name], new.hooks[name]
    before, after = point_fact(was, key), point_fact(now, key)
    kind = str(point_fact(was, "kind").value)
    if kind == GATE:
        return _opens_gate(key, before, after, old, new)
    return key == "on_failure" and kind in _CHECKING and _opens_failure(before, after)


def checks_replies(stage: StagePlan, plan: Plan) -> bool:
    """Return whether it is no gate, and yet may hold back or change replies before they are sent."""
    if not stage.enabled or kind_of(stage) not in _CHECKING or not judges(plan, stage_fact(stage, "only").value):
        return False
    return stage.each == OUTBOUNDS or OUTBOUNDS in stage.makes or "model_output" in stage.makes


def guards(stage: StagePlan, plan: Plan) -> bool:
    """Return whether it keeps something from those below it: a gate, or a check of replies."""
    return is_gate(stage) or checks_replies(stage, plan)


def shows_unjudged(stage: StagePlan) -> bool | str:
    """Return why it is dangerous how a stage shows what it streams, if it is."""
    return shows_at_once(stage) and _SHOWN


def removal_of_check(stage: StagePlan, plan: Plan) -> bool | str:
    """Return why it is dangerous that a stage which is no gate is gone, if it is."""
    return checks_replies(stage, plan) and UNCHECKED


def _opens_gate(key: str, was: Fact, now: Fact, old: Plan, new: Plan) -> bool | str:
    match key:
        case "kind" | "hook" | "for_each":
            return True
        case "enabled":
            return now.value is not True
        case "timeout":
            return _may_be_unset(now.value) and _HANGS
        case "on_failure":
            return now.value != "deny" and _FAILS_OPEN
        case _:
            return _judges_less(key, was, now, old, new)


def _opens_check(key: str, was: StagePlan, now: StagePlan, old: Plan, new: Plan) -> bool | str:
    """Return the same of a check of replies; what another hook does is not known."""
    before, after = stage_fact(was, key), stage_fact(now, key)
    is_lost = key == "hook" or not guards(now, new) or _judges_less(key, before, after, old, new)
    return key in _MAKE_A_CHECK and is_lost and UNCHECKED


def _judges_less(key: str, was: Fact, now: Fact, old: Plan, new: Plan) -> bool:
    """Return whether fewer messages are judged, fewer plugins asked, or less is shown to them."""
    match key:
        case "when":  # a message that does not match passes
            return not _is_as_wide(now.value, was.value)
        case "only":
            return not judges(old, was.value) <= judges(new, now.value, renamed_plugins(old, new))
        case "takes":
            return not _items(was.value) <= _items(now.value)
        case _:
            return False


def _may_be_unset(value: Plain) -> bool:
    """Return whether a value is none, or one that a variable without a default gives."""
    return value is None or (isinstance(value, str) and any(one.default is None for one in references(value)))


def _opens_failure(was: Fact, now: Fact) -> bool | str:
    return was.value == "propagate" and now.value != "propagate" and _FAILS_OPEN


def _is_as_wide(new: Plain, old: Plain) -> bool:
    """Return whether a `when` is for all messages that another one is for."""
    if new in (None, {}) or new == old:
        return True
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        return False
    return all(name in old and _covers(glob, old[name]) for name, glob in new.items())


def _covers(new: Plain, old: Plain) -> bool:
    return new == old or (isinstance(new, str) and isinstance(old, str) and covers(new, old))


def _items(value: Plain) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()
