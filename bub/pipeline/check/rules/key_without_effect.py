"""Every key of a stage changes what the stage does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import seconds_of, text_of
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.source.document import Node

CODE = "B189"

_ALWAYS_THERE = ("channel", "chat_id")
"""The fields that every message has."""


class _Idle(msgspec.Struct, frozen=True):
    """A key that says nothing: why, as a sentence behind the stage, and what to write instead."""

    key: str
    node: Node
    reason: str
    help: str


def check(plan: Plan) -> None:
    """Find keys that are right for the kind of a stage, and yet do nothing beside its other keys."""
    for stage in plan.stages:
        if stage.kind is None or stage.hook.point.bootstrap:
            continue
        # As it is written: a reference that stands for nothing is told by itself.
        written = plan.effective.root.get("stages", stage.id) or stage.node
        about = (_about_its_value(stage), _about_when_it_runs(stage, written), _about_time(stage, written))
        for idle in itertools.chain(*about, _about_cleaning_up(plan, stage)):
            plan.findings.warn(
                CODE,
                f"{stage} {idle.reason}",
                idle.node.where,
                path=f"stages.{stage.id}.{idle.key}",
                help=idle.help,
            )


def _about_its_value(stage: StagePlan) -> Iterator[_Idle]:
    node = stage.node
    combine, default, default_if = (node.get(key) for key in ("combine", "default", "default_if"))
    if stage.kind is None or "into" not in stage.kind.keys:
        return  # that its kind knows none of these keys is told
    if node.get("into") is None:
        for key, said in (("combine", combine), ("default", default), ("default_if", default_if)):
            if said is not None:
                reason = f"has a `{key}`, but no `into`, so its result is thrown away"
                yield _Idle(key, said, reason, f"name the value with `into: NAME`, or take `{key}` out")
                return
    # Over a default that is inherited, null takes that away.
    if default is not None and default.value is None and len(default.origins) < 2:
        yield _Idle(
            "default",
            default,
            "has no `default`: null is not one",
            'write the value itself, such as `""`, `[]` or `{}`',
        )
    if default_if is not None and default is None and "combine" in stage.kind.keys:
        yield _Idle("default_if", default_if, "has a `default_if`, but no `default`", "add a `default`, or take it out")


def _about_when_it_runs(stage: StagePlan, written: Node) -> Iterator[_Idle]:
    needs, when = written.get("needs"), written.get("when")
    if needs is not None and needs.is_sequence and stage.is_barrier and stage.kind is not None:
        reason = f"is a {stage.kind.name}, so it waits for all stages above it, even with `needs`"
        yield _Idle("needs", needs, reason, "take `needs` out: no stage runs beside a gate or a claim, or passes it")
    if when is not None and when.is_mapping and not when.value:
        reason = "has an empty `when`, which every message matches"
        yield _Idle("when", when, reason, "say which messages it is for, or take `when` out")
    elif (
        when is not None
        and when.is_mapping
        and all(field in _ALWAYS_THERE and text_of(glob) == "*" for field, glob in when.items())
    ):
        reason = "has a `when` that every message matches"
        yield _Idle("when", when, reason, "say which messages it is for, or take `when` out")


def _about_cleaning_up(plan: Plan, stage: StagePlan) -> Iterator[_Idle]:
    node, target = stage.node.get("cleanup_for"), stage.cleanup_for
    if node is None or target is None or target not in plan.position or not stage.enabled:
        return
    if node.place.file != plan.document.file:  # a child that switches the target off knows what it does
        return
    meant = [plan.stage(name) for name in plan.meant_by(target)]
    if not any(other.enabled for other in meant):
        reason = f"cleans up for `{target}`, but `{target}` is off, so this stage is not a clean-up"
        yield _Idle("cleanup_for", node, reason, "name a stage that is on, or take `cleanup_for` out")


def _about_time(stage: StagePlan, written: Node) -> Iterator[_Idle]:
    retry, timeout = written.get("retry"), seconds_of(stage.node.get("timeout"))
    if retry is None or not retry.is_mapping:
        return
    if retry.get("times") is None:
        reason = "has a `retry` without `times`, so nothing is tried again"
        yield _Idle("retry", retry, reason, "say how often, such as `retry: {times: 2, backoff: 1s}`")
        return
    backoff = retry.get("backoff")
    seconds = seconds_of(backoff)
    if backoff is not None and timeout is not None and seconds is not None and seconds >= timeout:
        reason = "waits longer before it tries again than its `timeout`, so it never tries again"
        yield _Idle("retry.backoff", backoff, reason, "make `timeout` longer: it counts for all tries together")
