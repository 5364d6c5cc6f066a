"""What keeps a way from being gone: a question, a gate, the rule for private things beside those of strangers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bub.base.diagnostics import Place
from bub.hooks.facts import BUILTIN
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.callers import kind_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of, text_of
from bub.pipeline.plan.stages import HookPlan, StagePlan

_ANSWER = HOOK_POINTS["run_model_stream"]
_TOOL_GATE = "tool_gate"
_GATE = "gate"

_MOST_BYTES = 1_000_000


class Cut(msgspec.Struct, frozen=True):
    """What cuts a way. It is not certain if it is a gate, since only the loaded plugins tell who judges there."""

    words: str
    place: Place | None = None
    is_certain: bool = True


def agents_of(plan: Plan) -> list[StagePlan]:
    """Find the stages at which the agent may answer."""
    return [
        stage
        for stage in plan.stages
        if stage.enabled and stage.hook.point.name in (_ANSWER.name, _ANSWER.twin) and _asks(_only(stage), BUILTIN)
    ]


def gates_before(plan: Plan, agents: list[StagePlan]) -> Iterator[Cut]:
    """Find the gates that judge a message before any agent answers it."""
    first = min((plan.position[agent.id] for agent in agents), default=0)
    for stage in plan.stages[:first]:
        is_gate = stage.enabled and stage.kind is not None and stage.kind.name == _GATE
        # One for some messages, or for each item of a list, lets others pass.
        if (
            is_gate
            and stage.node.get("when") is None
            and stage.each is None
            and _judges(plan, _only(stage), stage.hook.point.name)
        ):
            yield Cut(f"a plugin judges the message at the gate `{stage.id}`", stage.where, False)


def gate_of_tools(plan: Plan) -> Cut | None:
    """Find the gate that judges each call of a tool."""
    hook = plan.hooks.get(_TOOL_GATE)
    kind = kind_of(plan, hook) if hook is not None else None
    if hook is None or kind is None or kind.name != _GATE or not _judges(plan, _only(hook), _TOOL_GATE):
        return None
    place = hook.node.where if hook.node is not None else None
    return Cut(f"a plugin judges each call at `{_TOOL_GATE}`", place, False)


def _only(what: StagePlan | HookPlan) -> frozenset[str] | None:
    """Whom a stage or a hook point asks; None for all plugins."""
    nodes = [what.node] if isinstance(what, HookPlan) else [what.node, what.hook.node]
    only = next((node.get("only") for node in nodes if node is not None and node.get("only") is not None), None)
    return frozenset(name for name, _ in names_of(only)) if only is not None else None


def _asks(only: frozenset[str] | None, plugin: str) -> bool:
    return only is None or plugin in only or any("${" in name for name in only)


def _judges(plan: Plan, only: frozenset[str] | None, hook: str) -> bool:
    """Whether some plugin may judge there; none of those that come with Bub does."""
    asked = (name for name, _ in plan.allowlist if _asks(only, name) and not plan.is_shipped(name))
    return any(_may_implement(plan, name, hook) for name in asked)


def _may_implement(plan: Plan, plugin: str, hook: str) -> bool:
    """Whether a plugin may implement a hook: its file is read, not run; of what is installed that is not known."""
    node = plan.root.get("plugins", plugin, "path")
    path = text_of(node)
    if node is None or path is None:
        return True
    try:
        with Path(plan.document.folders.get(node.place.file, Path()), path).open("rb") as file:
            text = file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return True
    return len(text) == _MOST_BYTES or re.search(rf"\b{re.escape(hook)}\b".encode(), text) is not None
