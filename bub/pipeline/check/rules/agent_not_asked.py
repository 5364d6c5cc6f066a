"""What a test says of the agent's model and tools, in a turn in which the agent is asked."""

from __future__ import annotations

from bub.base.diagnostics import Place
from bub.hooks.facts import BUILTIN
from bub.hookspecs import HOOK_POINTS, MODEL_POINT
from bub.pipeline.check.cases import Case, answers_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.stages import StagePlan

CODE = "B156"

_OF_A_MODEL = ("tool_calls", "usage")
_ANSWER = HOOK_POINTS["run_model_stream"]


def check(plan: Plan, case: Case) -> None:
    """Find answers that only a model gives, and models and tools that are never asked for (warnings)."""
    _check_answers(plan, case)
    reason = _why_not_asked(plan, case)
    for what, place, path in _of_the_agent(case) if reason is not None else ():
        plan.findings.warn(
            CODE,
            f"{case} {what}, but {reason}",
            place,
            path=f"{case.path}.{path}",
            profile=case.profile,
            help="take it out, or let the agent answer: mock `call_model`, and the agent runs its tools",
        )


def _check_answers(plan: Plan, case: Case) -> None:
    for section, mocks in (("mock", case.mocks()), ("mock_tools", case.mocked_tools())):
        for name, mock in mocks:
            for path, answer in answers_of(mock):
                said = next((key for key in _OF_A_MODEL if answer.get(key) is not None), None)
                node = answer.get(said) if said is not None else None
                if node is not None and (section, name) != ("mock", MODEL_POINT):
                    plan.findings.add(
                        CODE,
                        f"{case} mocks `{name}` with `{said}`, which only the answer of a model has",
                        node.where,
                        path=f"{case.path}.{section}.{name}{path}.{said}",
                        help=f"write it in a mock of `{MODEL_POINT}`: the agent asks this mock instead of a model",
                    )


def _of_the_agent(case: Case) -> list[tuple[str, Place, str]]:
    """What a test says of the agent: in words, where, and by its path."""
    mocks = [(name, mock.where) for name, mock in case.mocks() if name == MODEL_POINT]
    said = [(f"mocks `{name}`", place, f"mock.{name}") for name, place in mocks]
    said += [(f"mocks the tool `{name}`", mock.where, f"mock_tools.{name}") for name, mock in case.mocked_tools()]
    for at, turn in case.turns():
        calls = turn.get("expect", "tool_calls")
        if calls is not None and calls.is_sequence and calls.elements():
            said.append(("expects calls of tools", calls.where, f"{at}.expect.tool_calls".lstrip(".")))
    return said


def _why_not_asked(plan: Plan, case: Case) -> str | None:
    """Why the agent is not asked in a test; None if it may be."""
    mocked = {name for name, _ in case.mocks()}
    reason = f"no stage of profile `{case.profile}` asks the agent"
    for stage in plan.stages:
        if not stage.enabled or _ANSWER.name not in (stage.hook.point.name, stage.hook.point.twin):
            continue
        if mocked.isdisjoint((stage.id, _ANSWER.name, _ANSWER.twin)) and _may_be_builtin(stage):
            return None
        reason = f"stage `{stage.id}` does not ask the agent"
        if not mocked.isdisjoint((stage.id, _ANSWER.name, _ANSWER.twin)):
            reason = f"stage `{stage.id}` is mocked, so the agent is not asked"
    return reason


def _may_be_builtin(stage: StagePlan) -> bool:
    only = stage.node.get("only") or (stage.hook.node.get("only") if stage.hook.node is not None else None)
    return only is None or any(name == BUILTIN or "${" in name for name, _ in names_of(only))
