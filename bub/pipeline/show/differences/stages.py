"""Which stages there are, what holds for each, and what the gates among them guard."""

from __future__ import annotations

from collections.abc import Iterable

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.swaps import REPLACE
from bub.pipeline.show.differences.changes import Changes, describe_change, list_names
from bub.pipeline.show.differences.facts import (
    GATE,
    STAGE_KEYS,
    comes_from_elsewhere,
    fact,
    is_gate,
    kind_of,
    stage_fact,
    stages_behind,
)
from bub.pipeline.show.differences.order import describe_position
from bub.pipeline.show.differences.sending import opens_default
from bub.pipeline.show.differences.weakening import UNCHECKED, guards, opens_stage, removal_of_check, shows_unjudged
from bub.pipeline.source.document import Node


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell which stages are new or gone, and what changes about the others; their order aside."""
    before, after = ({stage.id: stage for stage in plan.stages} for plan in (old, new))
    renamed = _renamed_guards(old, new)
    for name, stage in after.items():
        if name in renamed:
            was = renamed[name]
            message = f"{_title(was)} is called `{name}`"
            changes.add("stages.renamed", message, f"stages.{name}", stage.node, old=was.id, new=name)
            _compare_stage(was, stage, old, new, changes)
        elif name not in before:
            _report_added(stage, old, new, changes)
        elif stage.replaced_by and not before[name].replaced_by:
            _report_replaced(before[name], stage, old, new, changes)
        else:
            _compare_stage(before[name], stage, old, new, changes)
    for name, stage in before.items():
        if name not in after and stage not in renamed.values():
            _report_removed(stage, old, changes)
    was_said, now_said = (fact("on_failure", plan.root.get("on_failure"), unset="propagate") for plan in (old, new))
    if was_said.sense != now_said.sense:
        message = describe_change("on_failure", "the pipeline", was_said, now_said)
        changes.add_differing("policies.on_failure", message, "on_failure", was_said, now_said)


def _renamed_guards(old: Plan, new: Plan) -> dict[str, StagePlan]:
    """Return the gates and checks called otherwise now, by their new names: stages that ask the same hook point."""
    gone, come = (
        {
            stage.hook.point.name: stage
            for stage in plan.stages
            if guards(stage, plan) and stage.id not in other.position
        }
        for plan, other in ((old, new), (new, old))
    )
    return {come[point].id: gone[point] for point in come if point in gone}


def _report_added(stage: StagePlan, old: Plan, new: Plan, changes: Changes) -> None:
    where, path = describe_position(list(new.position), stage.id), f"stages.{stage.id}"
    if is_gate(stage):
        message = f"gate `{stage.id}` is new, {where}: it runs before {list_names(_ids(stages_behind(stage, new)))}"
        changes.add("gates.added", message, path, stage.node, new=GATE)
    else:
        more = "" if stage.enabled else ", switched off"
        message = f"stage `{stage.id}` ({kind_of(stage)}) is new, {where}{more}"
        danger = stage.enabled and (opens_default(None, stage, old) or shows_unjudged(stage))
        changes.add("stages.added", message, path, stage.node, new=kind_of(stage), danger=danger)


def _report_removed(stage: StagePlan, plan: Plan, changes: Changes) -> None:
    path = f"stages.{stage.id}"
    if is_gate(stage):
        message = f"gate `{stage.id}` is gone: it ran before {list_names(_ids(stages_behind(stage, plan)))}"
        changes.add("gates.removed", message, path, stage.node, old=GATE, danger=True)
    else:
        message = f"stage `{stage.id}` ({kind_of(stage)}) is gone"
        danger = removal_of_check(stage, plan)
        changes.add("stages.removed", message, path, stage.node, old=kind_of(stage), danger=danger)


def _report_replaced(was: StagePlan, now: StagePlan, old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what stands in for a stage; for a gate, what that lets pass which the gate did not."""
    heirs = [new.stage(name) for name in new.standing_for(now.id)]
    path, node = f"stages.{now.replaced_by[0]}.{REPLACE}", new.stage(now.replaced_by[0]).node.get(REPLACE)
    if not is_gate(was):
        message = f"stage `{was.id}` is replaced by {' and '.join(f'`{heir.id}` ({kind_of(heir)})' for heir in heirs)}"
        danger = removal_of_check(was, old) and not any(kind_of(heir) == kind_of(was) for heir in heirs)
        changes.add("stages.replaced", message, path, node, old=was.id, new=_ids(heirs), danger=danger)
        return
    gates = [heir for heir in heirs if is_gate(heir)]
    danger = not any(_is_as_strict(was, gate, old, new) for gate in gates)
    message = f"gate `{was.id}` is replaced by {list_names(_ids(gates or heirs))}"
    if not gates:
        message += f", which denies nothing: it ran before {list_names(_ids(stages_behind(was, old)))}"
    elif danger:
        message += ", which may deny less"
    changes.add("gates.replaced", message, path, node, old=was.id, new=_ids(heirs), danger=danger)
    for gate in gates[:1]:
        _report_unguarded(was, gate, old, new, changes)


def _is_as_strict(was: StagePlan, now: StagePlan, old: Plan, new: Plan) -> bool:
    """Return whether a gate asks the same, at least as often, as another one did."""
    return not any(opens_stage(key, was, now, old, new) for key in STAGE_KEYS)


def _compare_stage(was: StagePlan, now: StagePlan, old: Plan, new: Plan, changes: Changes) -> None:
    who = _title(was)
    for key, area in STAGE_KEYS.items():
        before, after = stage_fact(was, key), stage_fact(now, key)
        if before.sense == after.sense or comes_from_elsewhere(was, now, key):
            continue
        danger = opens_default(was, now, old) if key == "default" else opens_stage(key, was, now, old, new)
        message = describe_change(key, who, before, after)
        if key == "enabled" and isinstance(after.value, bool):
            message = f"{who} is switched {'on' if after.value else 'off'}"
        kind, path = f"{'gates' if danger and key != 'default' else area}.{key}", f"stages.{now.id}.{key}"
        changes.add_differing(kind, message, path, before, after, now.node, danger=danger)
    if guards(was, old) and guards(now, new):
        _report_unguarded(was, now, old, new, changes)


def _report_unguarded(was: StagePlan, now: StagePlan, old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what a gate or a check guarded and guards no longer: stages, and hook points that are called beside it."""
    who = _title(was)
    guarded, still = stages_behind(was, old), {now.id, *_ids(stages_behind(now, new))}
    points = _points(guarded) - _points(stage for stage in old.above(was) if stage.enabled)
    heirs = {heir: stage.id for stage in guarded for heir in new.heirs.get(stage.id, ())}
    for stage in new.stages:
        if stage.id in still or not stage.enabled or is_gate(stage) or (not is_gate(was) and guards(stage, new)):
            continue
        if stage.id in _ids(guarded):
            message = f"{who} no longer runs before `{stage.id}`"
        elif stage.id in heirs:
            message = f"{who} does not run before `{stage.id}`, which runs in the place of `{heirs[stage.id]}`"
        elif points & _points([stage]):
            message = f"{who} does not run before `{stage.id}`, which also calls `{stage.hook.point.name}`"
        else:
            continue
        # Either may have been moved, or the stage made a clean-up.
        keys = (stage.node.get("cleanup_for"), *_anchors(stage), *_anchors(now))
        path = f"stages.{stage.id}"
        danger = is_gate(was) or UNCHECKED
        changes.add("gates.passed", message, path, *keys, stage.node, old=was.id, new=stage.id, danger=danger)


def _anchors(stage: StagePlan) -> tuple[Node | None, Node | None]:
    return stage.node.get("before"), stage.node.get("after")


def _points(stages: Iterable[StagePlan]) -> set[str]:
    """Return the hook points that some stages call: a point and its twin are called together."""
    points = [stage.hook.point for stage in stages]
    return {name for point in points for name in (point.name, point.twin) if name is not None}


def _title(stage: StagePlan) -> str:
    return f"gate `{stage.id}`" if is_gate(stage) else f"stage `{stage.id}`"


def _ids(stages: Iterable[StagePlan]) -> list[str]:
    return [stage.id for stage in stages]
