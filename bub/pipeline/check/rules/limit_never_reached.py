"""Each limit can be the one that is reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeGuard

from bub.base.diagnostics import Related
from bub.pipeline.plan.limits import DEFAULT_LIMITS
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import seconds_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.merge import SHIPPED

CODE = "B195"

_BUDGET: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "calls_per_tool": ("tool_calls",),
        "identical_calls": ("calls_per_tool", "tool_calls"),
        "tokens_per_turn": ("tokens_per_day",),
    }
)
"""Limits of a budget, each with those that count all that it counts, and more."""


def check(plan: Plan) -> None:
    """Find limits that lie beyond another which is always reached before."""
    for path, narrow, other, wide in (*_of_budget(plan), *_of_settings(plan)):
        usual = "" if wide is not None else f" ({DEFAULT_LIMITS[other.rpartition('.')[2]]} if it is not set)"
        plan.findings.warn(
            CODE,
            f"`{path.rpartition('.')[2]}` has no effect: Bub always reaches `{other}`{usual} first",
            narrow.where,
            path=path,
            help=f"make it smaller than `{other}`, or take it out",
            related=[Related(f"`{other}` is set here", wide.where.file, wide.where.range)] if wide is not None else [],
        )


def _of_budget(plan: Plan) -> Iterator[tuple[str, Node, str, Node | None]]:
    profile = plan.effective.profile_node
    budget = profile.get("budget") if profile is not None else None
    for key, others in _BUDGET.items() if budget is not None else ():
        narrow = budget.get(key)  # type: ignore[union-attr]  # is there
        for other in others if narrow is not None and _is_number(narrow.value) else ():
            wide = budget.get(other)  # type: ignore[union-attr]  # as above
            most = DEFAULT_LIMITS.get(other) if wide is None else wide.value
            if narrow is not None and _is_number(most) and narrow.value > most:
                yield f"profiles.{plan.profile}.budget.{key}", narrow, f"budget.{other}", wide
                break


def _of_settings(plan: Plan) -> Iterator[tuple[str, Node, str, Node]]:
    gateway = plan.root.get("settings", "gateway")
    debounce, longest = (gateway.get(key) if gateway is not None else None for key in ("debounce", "max_wait"))
    request = plan.root.get("settings", "timeout")
    pairs = [("settings.gateway.debounce", debounce, "gateway.max_wait", longest)]
    for stage in plan.callers.get("run_model_stream", ()) + plan.callers.get("run_model", ()):
        pairs.append(("settings.timeout", request, f"stages.{stage.id}.timeout", stage.node.get("timeout")))
    for stage in plan.stages:
        idle, whole = stage.node.get("idle_timeout"), stage.node.get("timeout")
        if stage.enabled and idle is not None and not idle.place.file.startswith(SHIPPED):
            pairs.append((f"stages.{stage.id}.idle_timeout", idle, f"stages.{stage.id}.timeout", whole))
    for path, narrow, other, wide in pairs:
        seconds, others = seconds_of(narrow), seconds_of(wide)
        if narrow is not None and wide is not None and seconds is not None and others is not None and seconds > others:
            yield path, narrow, other, wide


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
