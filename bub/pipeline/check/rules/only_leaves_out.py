"""`only` names plugins that implement the hook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bub.base.diagnostics import Place
from bub.hooks.facts import BUILTIN, Kind
from bub.hooks.implementations import Implementation
from bub.hookspecs import HookPoint
from bub.pipeline.plan.callers import kind_of
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.stages import HookPlan
from bub.pipeline.source.document import Node
from bub.plugins.sources import may_register

CODE = "B213"


class _Asking(msgspec.Struct, frozen=True):
    """A stage, or a hook that no stage calls, whose `only` names plugins."""

    who: str
    path: str
    hook: HookPlan
    kind: Kind | None
    only: Node
    is_stage: bool

    @property
    def names(self) -> dict[str, Place]:
        return dict(names_of(self.only))

    @property
    def point(self) -> HookPoint:
        return self.hook.point

    @property
    def must_be_implemented(self) -> bool:
        """Whether it is an error by itself if no plugin at all implements it."""
        return not self.hook.known or (self.is_stage and self.is_gate)

    @property
    def is_gate(self) -> bool:
        return self.kind is not None and self.kind.name == "gate"


def check(plan: Plan, offers: Offers) -> None:
    """Find an `only` whose plugins do not implement the hook: an error for a gate, which then lets everything pass.

    A plugin that implements nothing there while another one of them does is a note. A plugin that implements a gate and
    is not asked is one, too.
    """
    if offers.are_broken:
        return
    for asking in _all_asking(plan):
        found = offers.implementing(asking.point)
        asked = [one for one in found if one.plugin in asking.names]
        if not asked:
            if (found or not asking.must_be_implemented) and not _is_told(plan, offers, asking):
                _tell_that_nobody_answers(plan, offers, asking, found)
            continue
        for name, place in asking.names.items():
            if all(name != one.plugin for one in asked) and name in offers.by_plugin:
                _note(plan, asking, place, f"asks `{name}`, which does not implement `{asking.point.name}`")
        for one in found if asking.is_gate else ():
            if one.plugin not in asking.names and not _is_asked_elsewhere(plan, asking, one.plugin):
                _note(plan, asking, asking.only.where, f"does not ask `{one.plugin}`, which implements it too")


def _is_told(plan: Plan, offers: Offers, asking: _Asking) -> bool:
    """Whether one of the plugins is not allowed, or implements a hook that does not exist: told once already."""
    allowed = {BUILTIN, *(name for name, _ in plan.allowlist)}
    hooks = (one.hook for name in asking.names for one in offers.by_plugin.get(name, ()))
    return not allowed.issuperset(asking.names) or any(hook not in offers.points for hook in hooks)


def _all_asking(plan: Plan) -> Iterator[_Asking]:
    for stage in plan.stages:
        own, kind = stage.node.get("only"), stage.kind
        only, path = (own, f"stages.{stage.id}") if own is not None else (_only_of(stage.hook), _path_of(stage.hook))
        if stage.enabled and only is not None and only.elements():
            yield _Asking(str(stage), f"{path}.only", stage.hook, kind, only, True)
    for name, hook in plan.hooks.items():
        only = _only_of(hook)
        if name not in plan.callers and only is not None and only.elements() and not hook.point.bootstrap:
            yield _Asking(f"hook `{name}`", f"{_path_of(hook)}.only", hook, kind_of(plan, hook), only, False)


def _only_of(hook: HookPlan) -> Node | None:
    return hook.node.get("only") if hook.node is not None else None


def _path_of(hook: HookPlan) -> str:
    return f"hooks.{hook.point.name}"


def _is_asked_elsewhere(plan: Plan, asking: _Asking, plugin: str) -> bool:
    others = (other for other in _all_asking(plan) if other.point.name == asking.point.name)
    unlimited = any(
        stage.enabled and stage.node.get("only") is None and _only_of(stage.hook) is None
        for stage in plan.callers.get(asking.point.name, ())
    )
    return unlimited or any(plugin in other.names for other in others)


def _tell_that_nobody_answers(plan: Plan, offers: Offers, asking: _Asking, found: tuple[Implementation, ...]) -> None:
    """Tell that none of the plugins an `only` names implements the hook.

    Those that may be missing are missing, and those that register handlers while they run may do so for this hook:
    neither can be for a gate.
    """
    if not asking.is_gate and any(_may_answer_later(offers, name, asking.kind) for name in asking.names):
        return
    if not (asking.is_gate or found) and BUILTIN in asking.names:  # says no more than that nobody else is to answer
        return
    left_out = list(dict.fromkeys(one.plugin for one in found))
    names, point = _quote_names(asking.names), asking.point.name
    alone = next(iter(asking.names.values())) if len(asking.names) == 1 else None
    lacking = f"which does not implement `{point}`" if alone is not None else f"none of which implements `{point}`"
    plan.findings.add(
        CODE,
        f"{asking.who} asks only {names}, {lacking}" + (", so it lets everything pass" if asking.is_gate else ""),
        alone or asking.only.where,
        severity="error" if asking.is_gate else "warning",
        path=asking.path,
        profile=plan.profile,
        help=f"`{point}` is implemented by {_quote_names(left_out)}: name it, or leave `only` out"
        if left_out
        else f"implement `{point}` there, or leave `only` out",
    )


def _may_answer_later(offers: Offers, name: str, kind: Kind | None) -> bool:
    plugin = offers.find_plugin(name)
    return plugin is None or (kind is not None and kind.handled_as is not None and may_register(plugin.plugin))


def _note(plan: Plan, asking: _Asking, place: Place, message: str) -> None:
    plan.findings.add(
        CODE,
        f"{asking.who} {message}",
        place,
        severity="note",
        path=asking.path,
        profile=plan.profile,
        help="change `only` if you do not want this",
    )


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
