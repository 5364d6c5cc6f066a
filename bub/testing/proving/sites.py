"""Sites: the implementations that a pipeline calls, each at the stage or fired point where it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bub.hooks.facts import OUTBOUNDS
from bub.hooks.implementations import Implementation
from bub.hookspecs import ERROR_POINT, HOOK_POINTS, HookPoint
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import seconds_of, text_of
from bub.pipeline.plan.stages import HookPlan, StagePlan, policy_of
from bub.pipeline.source.document import Node

OBSERVING = ("observer", "void")
"""The kinds that only watch."""

REPORTING = 10.0
"""How many seconds an error observer has."""


class Raw(msgspec.Struct, frozen=True, eq=False):
    """One implementation where a stage (by its id), or whoever fires a point (""), calls it."""

    number: int
    stage: str
    implementation: Implementation


class Site(msgspec.Struct, frozen=True, eq=False):
    """An implementation where it is called, with all that the file declares of that place.

    `where` is the id of its stage or the name of the fired point, `timeout` how many seconds a call may take there, and
    `idle` how many its stream may say nothing;
    `retries` how often a failed one is made again, `into` the value that its stage makes, `position` the place of the
    stage in the order of the turn; a fired point has none. `has_policy`: the file says what its failure does.
    """

    number: int
    where: str
    hook: str
    plugin: str
    kind: str
    point: HookPoint
    function: Callable[..., Any]
    is_async: bool
    fires: bool
    stage: StagePlan | None
    on_failure: str
    has_policy: bool
    timeout: float | None
    retries: int
    idle: float | None = None
    combine: str | None = None
    position: int = -1

    @property
    def is_gate(self) -> bool:
        return self.kind == "gate"

    @property
    def is_cleanup(self) -> bool:
        return self.stage is not None and self.stage.cleanup_for is not None

    @property
    def is_error_observer(self) -> bool:
        return self.where == ERROR_POINT

    @property
    def watches(self) -> bool:
        """Whether nothing that it does may change a reply."""
        return self.kind in OBSERVING and self.on_failure == "skip"

    @property
    def each(self) -> str | None:
        return self.stage.each if self.stage is not None else None

    @property
    def delivers(self) -> bool:
        """Whether it takes replies to where they belong: it is called for each, and changes none."""
        return self.each == OUTBOUNDS and self.kind not in ("gate", "claiming", "modifying") and not self.is_cleanup

    @property
    def is_conditional(self) -> bool:
        return self.stage is not None and self.stage.node.get("when") is not None

    @property
    def streams(self) -> bool:
        """Whether its answer may come piece by piece."""
        return self.kind == "stream" and self.point.form != "text"

    def __str__(self) -> str:
        return f"`{self.plugin}` at `{self.where}`"


def sites_of(plan: Plan, found: list[Raw]) -> list[Site]:
    """Return the sites of a profile: its stages in their order, then what is fired, then the error observers."""
    sites = [site for raw in found if (site := _site(plan, raw)) is not None]
    return sorted(sites, key=lambda site: (site.position < 0, site.position, site.number))


def _site(plan: Plan, raw: Raw) -> Site | None:
    one = raw.implementation
    names = (*one.required, *one.optional)
    common: dict[str, Any] = {
        "number": raw.number,
        "hook": one.hook,
        "plugin": one.plugin,
        "function": one.function,
        "is_async": one.is_async,
        "fires": "fire" in names or one.everything,
    }
    if raw.stage:
        stage = plan.stage(raw.stage)
        if not stage.enabled or stage.kind is None:
            return None
        said = _says_policy(stage.node, stage.hook, plan)
        return Site(
            **common,
            where=stage.id,
            kind=stage.kind.name,
            point=_point(one.hook, stage.hook),
            stage=stage,
            on_failure=stage.on_failure,
            has_policy=said,
            timeout=timeout_of(stage),
            retries=_retries(stage.node),
            idle=seconds_of(stage.node.get("idle_timeout")),
            combine=text_of(stage.node.get("combine")) or "list" if "combine" in stage.kind.keys else None,
            position=plan.position[stage.id],
        )
    return _fired_site(plan, one, common)


def _fired_site(plan: Plan, one: Implementation, common: dict[str, Any]) -> Site | None:
    if one.hook == ERROR_POINT:
        point, policy = HOOK_POINTS[ERROR_POINT], "skip"
        timeout: float | None = REPORTING
        node = None
        kind, where = "observer", ERROR_POINT
    else:
        hook = plan.hooks.get(one.hook)
        if hook is None or hook.node is None or hook.kind is None or hook.point.bootstrap or one.hook in plan.callers:
            return None
        point, kind, where, node = hook.point, hook.kind.name, one.hook, hook.node
        policy = policy_of(hook.node, hook, hook.kind, text_of(plan.root.get("on_failure")))
        timeout = seconds_of(hook.node.get("timeout"))
    return Site(
        **common,
        where=where,
        kind=kind,
        point=point,
        stage=None,
        on_failure=policy,
        has_policy=node is not None and node.get("on_failure") is not None,
        timeout=timeout,
        retries=0,
    )


def timeout_of(stage: StagePlan) -> float | None:
    """The seconds that a stage may take; None if nothing says it."""
    own = seconds_of(stage.node.get("timeout"))
    return own if own is not None or stage.hook.node is None else seconds_of(stage.hook.node.get("timeout"))


def _point(hook: str, plan: HookPlan) -> HookPoint:
    """The point that an implementation is of: that of its stage, or the twin of it."""
    return plan.point if hook == plan.point.name else HOOK_POINTS.get(hook, plan.point)


def _retries(node: Node) -> int:
    times = node.get("retry", "times")
    return times.value if times is not None and isinstance(times.value, int) else 0


def _says_policy(node: Node, hook: HookPlan, plan: Plan) -> bool:
    own = node.get("on_failure") is not None or (hook.node is not None and hook.node.get("on_failure") is not None)
    return own or node.get("retry") is not None
