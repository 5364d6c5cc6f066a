"""What else a profile says of itself: how much a turn may use, which channels run, whether turns run side by side."""

from __future__ import annotations

import math

from bub.base.json_schema import join_steps
from bub.pipeline.plan.limits import DEFAULT_LIMITS
from bub.pipeline.plan.plan import Plan
from bub.pipeline.show.differences.changes import Changes, describe_change
from bub.pipeline.show.differences.facts import Fact, fact, leaves_of
from bub.pipeline.source.document import Node, Plain
from bub.pipeline.source.merge import without

_TOLD_ELSEWHERE = ("extends", "description", "plugins", "tools", "reach", "settings", "stages", "hooks", "schedules")
"""The keys of a profile that are no limits of it."""

_AS_GOOD_AS_NONE = 10
"""How many times as high a limit is none any more."""


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes in the `concurrency`, `budget`, `channels` and `approvers` of the profile."""
    before, after = (dict(leaves_of(_limits(plan))) for plan in (old, new))
    for path in dict.fromkeys((*after, *before)):
        was, now = fact(path[0], before.get(path)), fact(path[0], after.get(path))
        if was.sense != now.sense:
            name = join_steps(path)
            danger = _frees(path[-1], was.value, now.value) if path[0] == "budget" else _lets_approve(path, was, now)
            message = describe_change(name, "the profile", was, now)
            where = f"profiles.{new.profile}.{name}"
            changes.add_differing(f"limits.{path[0]}", message, where, was, now, danger=danger)


def _frees(limit: str, was: Plain, now: Plain) -> bool | str:
    """Return why a limit bounds next to nothing now, if it does."""
    before, after = _number(limit, was), _number(limit, now)
    if after <= before or (now is not None and after < before * _AS_GOOD_AS_NONE):
        return False
    if after == math.inf:
        return "nothing limits what the agent spends"
    return f"Bub uses the usual {after:.0f} instead" if now is None else "it is too high to limit much"


def _lets_approve(path: tuple[str, ...], was: Fact, now: Fact) -> bool | str:
    """Return who may say yes to calls of tools now, if somebody may who could not."""
    had, has = ({str(one) for one in of.value} if isinstance(of.value, list) else set() for of in (was, now))
    more = sorted(has - had) if path[0] == "approvers" else []
    return f"{', '.join(more)} may say yes to every call that needs a yes" if more else False


def _number(limit: str, value: Plain) -> float:
    """Return how much a limit allows; what only a variable knows is taken for what is usual."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return DEFAULT_LIMITS.get(limit, math.inf)


def _limits(plan: Plan) -> Node | None:
    profile = plan.effective.profile_node
    return without(profile, _TOLD_ELSEWHERE) if profile is not None else None
