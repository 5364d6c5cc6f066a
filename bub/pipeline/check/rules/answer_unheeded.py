"""What an implementation of a `modifying` point returns is heeded there, and what it looks up is offered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from bub.base.diagnostics import Range, sure_repair
from bub.hooks.facts import BUILTIN
from bub.hooks.implementations import Implementation
from bub.hooks.kinds.modifying import JOINED
from bub.pipeline.plan.callers import kind_of
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.stages import HookPlan
from bub.plugins.answers import DENY, answers_in, lookups_in

CODE = "B240"

ETHOS: Mapping[str, str] = MappingProxyType(
    {
        "prependSystem": "prepend_system",
        "appendSystem": "append_system",
        "overrideSystem": "system",
        "sessionId": "session_id",
        "parentSessionId": "session_id",
        "childSessionId": "child_session_id",
        "toolName": "tool",
        "toolCallId": "call_id",
        "personalityId": "personality",
        "filePath": "path",
        "workingDir": "workspace",
    }
)
"""How Ethos calls what has another name here."""

_CAMEL = frozenset(ETHOS)


def check(plan: Plan, offers: Offers) -> None:
    """Find keys that nobody heeds in what is returned, and names that only Ethos has in what is looked up.

    A guard that looks up such a name finds nothing, and allows everything.
    """
    for implementation, point in offers.fitting():
        hook = offers.hooks.get(point.name)
        kind = kind_of(plan, hook) if hook is not None else None
        if hook is None or kind is None or implementation.plugin == BUILTIN:
            continue
        if implementation.everything:
            _check_lookups(plan, offers, implementation)
        heeded = _heeded(plan, hook) if kind.name == "modifying" else None
        if heeded:
            _check_answers(plan, offers, implementation, heeded)


def _check_lookups(plan: Plan, offers: Offers, implementation: Implementation) -> None:
    for name, where in lookups_in(implementation.function, _CAMEL):
        problem = f"looks up `{name}` in `{implementation.hook}`, but nothing there has this name"
        _tell(plan, offers, implementation, problem, where, f"Bub calls it `{ETHOS[name]}`", is_error=True)


def _check_answers(plan: Plan, offers: Offers, implementation: Implementation, heeded: frozenset[str]) -> None:
    names = sorted(heeded)
    for answer in answers_in(implementation.function, heeded):
        for key, where in answer.keys.items():
            if key in heeded or key == DENY:  # a denial is another rule's
                continue
            meant = ETHOS.get(key) if ETHOS.get(key) in heeded else sure_repair(key, heeded)
            advice = f"write `{meant}`" if meant else f"it may return {', '.join(f'`{name}`' for name in names)}"
            is_error = meant is not None or heeded.isdisjoint(answer.keys)
            problem = f"returns `{key}` from `{implementation.hook}`, but Bub does not use this key there"
            _tell(plan, offers, implementation, problem, where, advice, is_error=is_error)


def _heeded(plan: Plan, hook: HookPlan) -> frozenset[str]:
    """The keys of an answer that count: those of a point that the agent fires, or what the stages may change."""
    return frozenset((*hook.point.keys, *_changed(plan, hook)))


def _changed(plan: Plan, hook: HookPlan) -> Iterator[str]:
    for stage in plan.callers.get(hook.point.name, ()):
        for name, _ in names_of(stage.node.get("changes")):
            yield from (name, *(f"{beginning}{name}" for beginning in JOINED))


def _tell(
    plan: Plan,
    offers: Offers,
    implementation: Implementation,
    problem: str,
    where: Range,
    advice: str,
    *,
    is_error: bool,
) -> None:
    plan.findings.add(
        CODE,
        f"plugin `{implementation.plugin}` {problem}",
        replace(offers.place_of(implementation), span=where),
        severity="error" if is_error else "warning",
        help=advice,
    )
