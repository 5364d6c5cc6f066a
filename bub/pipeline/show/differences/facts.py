"""What holds for a stage or a hook point of a plan, wherever it is written and however it is spelt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from bub.base.duration import parse_duration
from bub.hooks.facts import HOOK_KEYS, OUTBOUNDS
from bub.pipeline.plan.checks import CHECKED
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import HookPlan, StagePlan, policy_of
from bub.pipeline.source.document import Node, Plain

GATE = "gate"

POINT_KEYS = tuple(key for key in HOOK_KEYS if key != "description")
"""The keys of a hook point that do something; a stage that calls it inherits them."""

STAGE_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "enabled": "stages",
        "hook": "stages",
        "kind": "policies",
        "when": "policies",
        "on_failure": "policies",
        "timeout": "policies",
        "retry": "policies",
        "show": "policies",
        "idle_timeout": "policies",
        "cleanup_for": "policies",
        "only": "policies",
        "thread": "policies",
        "takes": "values",
        "for_each": "values",
        "into": "values",
        "combine": "values",
        "changes": "values",
        "default": "values",
        "default_if": "values",
    }
)
"""What each key of a stage is about; `needs`, `before` and `after` show in the order, `replace` in what is off."""

_DEFAULTS: Mapping[str, Plain] = MappingProxyType(
    {"enabled": True, "thread": False, "combine": "list", "changes": [], "default_if": "none", "show": CHECKED}
)
"""What holds if a key is left out, if that is anything."""

_SETS = ("takes", "changes", "only", "channels", "folders", "env", "allow_users", "allow_chats")
"""Lists whose order means nothing."""

_DURATIONS = ("timeout", "idle_timeout", "backoff")


class Fact(NamedTuple):
    """A value, if it is written (None: nowhere), and its sense, which is one for all that mean the same."""

    value: Any
    node: Node | None
    sense: str


def fact(key: str, *nodes: Node | None, unset: Plain = None) -> Fact:
    """Return what the first node that is there says, else `unset`; `key` tells how it is to be understood."""
    node = next((node for node in nodes if node is not None), None)
    value = node.plain() if node is not None else unset
    return Fact(value, node, json.dumps(_sense(key, value), sort_keys=True))


def _sense(key: str, value: Plain) -> Plain:
    if key in _SETS and isinstance(value, list):
        return sorted(value, key=str)
    if key in _DURATIONS and isinstance(value, str):
        return parse_duration(value) or value
    if key == "retry" and isinstance(value, dict):
        return {name: _sense(name, inner) for name, inner in value.items()}
    return value or None if key == "when" else value


def leaves_of(node: Node | None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yield every value of a mapping that is no mapping itself, or an empty one, by its path."""
    for name, child in node.items() if node is not None else ():
        if child.is_mapping and child.value:
            yield from leaves_of(child, (*path, name))
        else:
            yield (*path, name), child


def stage_fact(stage: StagePlan, key: str) -> Fact:
    """Return what holds for a stage: what it says itself, else what its hook point says, else what is usual."""
    hook = stage.hook.node
    own, inherited = stage.node.get(key), hook.get(key) if hook is not None and key in POINT_KEYS else None
    match key:
        case "hook":
            return fact(key, own, unset=stage.id)
        case "enabled" if stage.replaced_by:
            return fact(key, unset=False)
        case "on_failure":
            return fact(key, own, inherited, unset=stage.on_failure)
        case "takes":
            return fact(key, inherited, unset=list(stage.hook.takes))
        case "combine" if kind_of(stage) != "broadcast":
            return fact(key, own)
        case _:
            return fact(key, own, inherited, unset=_DEFAULTS.get(key))


def point_fact(hook: HookPlan, key: str) -> Fact:
    """Return what holds for a hook point as such."""
    node = hook.node.get(key) if hook.node is not None else None
    match key:
        case "kind":
            return fact(key, node, unset=hook.point.kinds[0])
        case "takes":
            return fact(key, node, unset=list(hook.takes))
        case "on_failure" if hook.node is not None:
            return fact(key, node, unset=policy_of(hook.node, hook, hook.kind, None))
        case _:
            return fact(key, node, unset=_DEFAULTS.get(key))


def comes_from_elsewhere(was: StagePlan, now: StagePlan, key: str) -> bool:
    """Return whether the difference lies in the stage's hook point, or in the pipeline's `on_failure`."""
    if was.hook.point.name != now.hook.point.name:
        return key == "takes"
    if key not in POINT_KEYS or any(stage.node.get(key) is not None for stage in (was, now)):
        return False
    declared = [stage.hook.node is not None for stage in (was, now)]
    return all(declared) or (key == "on_failure" and not any(declared) and was.kind == now.kind)


# Gates


def kind_of(stage: StagePlan) -> str:
    return stage.kind.name if stage.kind is not None else str(stage_fact(stage, "kind").value)


def is_gate(stage: StagePlan) -> bool:
    """Return whether it is a gate that is on, or may be on if a reference says so."""
    return stage.enabled and kind_of(stage) == GATE


def stages_behind(guard: StagePlan, plan: Plan) -> list[StagePlan]:
    """Return the stages that a gate stops when it denies; of one for each item, and of a check, those that get replies.

    A gate for each item of another list stops those that work on that list.
    """
    below = plan.stages[plan.position[guard.id] + 1 :]
    # What cleans up runs whether the gate allows or not.
    running = [stage for stage in below if stage.enabled and stage.cleanup_for is None]
    if is_gate(guard) and guard.each is None:
        return running
    return [stage for stage in running if (guard.each or OUTBOUNDS) in stage.taken]


def gates_of(plan: Plan) -> dict[str, list[str] | None]:
    """Return every gate, stage or hook point, with the plugins that it asks; None for all of the profile."""
    points = {name: point_fact(hook, "only").value for name, hook in plan.hooks.items() if kind_of_point(hook) == GATE}
    return points | {stage.id: stage_fact(stage, "only").value for stage in plan.stages if is_gate(stage)}


def kind_of_point(hook: HookPlan) -> str:
    return hook.kind.name if hook.kind is not None else str(point_fact(hook, "kind").value)
