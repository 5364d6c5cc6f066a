"""What `hooks:` says is about a point that it can say something about."""

from __future__ import annotations

from bub.base.diagnostics import Place, Related, sure_repair
from bub.hooks.facts import HOOK_KEYS
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.callers import is_called_in_a_profile
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import HookPlan
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import SHIPPED

CODE = "B177"

BY_LOCK = "B249"
"""A hook that nobody implements, as a lock knows it."""

_HEEDED = frozenset(HOOK_KEYS) - {"kind", "description"}
"""The keys of an entry that say how its point is called."""


_OVERRULED = ("timeout", "on_failure", "thread")
"""The keys of an entry that a stage's own goes before."""


def check(plan: Plan) -> None:
    """Find entries whose name is a slip for a known point's, and keys of points that nobody calls as they say."""
    for name, hook in plan.hooks.items():
        if hook.node is None:
            continue
        if not hook.known:
            _check_name(plan, name, hook, hook.node.where)
        elif keys := [key for key, _ in hook.node.items() if key in _HEEDED]:
            _check_keys(plan, name, hook, f"`{keys[0]}`", hook.node.where)
        _check_overruled(plan, name, hook, hook.node)


def _check_name(plan: Plan, name: str, hook: HookPlan, place: Place) -> None:
    possible = {known for known, point in HOOK_POINTS.items() if not point.bootstrap}
    meant = sure_repair(name, possible)
    # A hook that a stage calls, or that is of a kind which the known point cannot be, is one of its own.
    if meant is None or hook.kind is None or hook.kind.name not in HOOK_POINTS[meant].kinds:
        return
    if is_called_in_a_profile(plan, name):
        return
    is_gate = hook.kind.name == "gate"
    plan.findings.add(
        CODE,
        f"no stage calls hook `{name}`, and its name is almost `{meant}`"
        + (", so it guards nothing" if is_gate else ""),
        place,
        severity="error" if is_gate else "warning",
        path=f"hooks.{name}",
        help=f"did you mean `{meant}`? If not, let a stage call it",
    )


def _check_keys(plan: Plan, name: str, hook: HookPlan, key: str, place: Place) -> None:
    twin = HOOK_POINTS[name].twin
    caller = next(iter(plan.callers.get(twin, ())), None) if twin is not None else None
    if hook.point.bootstrap:
        message, advice = f"Bub calls `{name}` by itself, so {key} here changes nothing", "take the entry out"
    elif caller is not None and not is_called_in_a_profile(plan, name):
        message = f"{caller} calls `{twin}`, so {key} of `{name}` changes nothing"
        advice = f"move it to `{twin}`, or to the stage"
    else:
        return
    plan.findings.warn(CODE, message, place, path=f"hooks.{name}", help=advice)


def _check_overruled(plan: Plan, name: str, hook: HookPlan, node: Node) -> None:
    """Find keys that each stage which calls the point says itself; whoever fires a point heeds them."""
    callers = plan.callers.get(name, ())
    if not callers or hook.point.fired:
        return
    for key in _OVERRULED:
        said = node.get(key)
        if said is None or said.place.file.startswith(SHIPPED):
            continue
        own = [stage.node.get(key) for stage in callers]
        if all(one is not None for one in own):
            plan.findings.add(
                CODE,
                f"{callers[0]} has a `{key}` of its own, so that of hook `{name}` changes nothing",
                said.where,
                severity="warning" if hook.known else "note",  # a plugin may fire one of the file's own
                path=f"hooks.{name}.{key}",
                help=f"change it at the stage: `stages: {{{callers[0].id}: {{{key}: …}}}}`",
                related=[Related("this one counts", one.where.file, one.where.range) for one in own if one is not None],
            )
