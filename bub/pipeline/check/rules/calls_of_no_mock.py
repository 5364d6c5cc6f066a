"""A test looks at the calls of what it mocks, and at arguments that these have."""

from __future__ import annotations

from collections.abc import Iterator

from bub.hookspecs import HOOK_POINTS
from bub.pipeline.check.cases import Case
from bub.pipeline.check.words import join_names
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import HookPlan
from bub.pipeline.source.document import Node

CODE = "B152"


def check(plan: Plan, case: Case) -> None:
    """Find calls of what is not mocked, in no known form, or with arguments that nobody hands over."""
    mocked = [name for name, _ in case.mocks()]
    for at, turn in case.turns():
        section = turn.get("expect", "calls")
        for name, calls in section.items() if section is not None else ():
            path = f"{case.path}.{at}.expect.calls.{name}" if at else f"{case.path}.expect.calls.{name}"
            if name not in mocked:
                plan.findings.add_unknown(
                    CODE,
                    f"{case} asks how `{name}` was called, but does not mock it",
                    calls.where,
                    name,
                    mocked,
                    path=path,
                    profile=case.profile,
                    help=f"mock it, such as `mock: {{{name}: {{return: …}}}}`: Bub keeps only the calls of mocks",
                )
            elif not calls.is_sequence and not _is_count(calls):
                plan.findings.add(
                    CODE,
                    f"`{name}` must be a whole number, or a list of calls",
                    calls.place,
                    path=path,
                    help=f"write how often it is called, such as `{name}: 2`, or `{name}: [{{ARGUMENT: …}}, {{}}]`",
                )
            else:
                _check_arguments(plan, name, calls, path)


def _is_count(calls: Node) -> bool:
    return type(calls.value) is int and calls.value >= 0


def _check_arguments(plan: Plan, mock: str, calls: Node, path: str) -> None:
    point = HOOK_POINTS.get(mock)
    known = [name for hook in _hooks(plan, mock) for name in hook.takes if name != "fire"]
    known += point.takes if point is not None and point.bootstrap else ()
    for index, call in enumerate(calls.elements() if calls.is_sequence else ()):
        for name, node in call.items() if call.is_mapping and known else ():
            if name not in known:
                plan.findings.add_unknown(
                    CODE,
                    f"`{mock}` is never called with `{name}`",
                    node.where,
                    name,
                    known,
                    path=f"{path}[{index}].{name}",
                    help=f"it is given {join_names(dict.fromkeys(known), 'and')}",
                )


def _hooks(plan: Plan, mock: str) -> Iterator[HookPlan]:
    """The hooks that a mock answers for, at a stage or wherever the hook point is called."""
    if mock in plan.position:
        yield plan.stage(mock).hook
    yield from (stage.hook for stage in plan.stages if mock in (stage.hook.point.name, stage.hook.point.twin))
    if mock in plan.hooks:
        yield plan.hooks[mock]
