"""A default is for when nobody answers."""

from __future__ import annotations

from bub.hooks.facts import BUILTIN, SESSION
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of, text_of
from bub.pipeline.plan.stages import StagePlan

CODE = "B193"

_ANSWERED = "resolve_session"
"""The hook at which `builtin` answers for each message."""

_SAME = "{channel}:{chat_id}"
"""What it answers."""


def check(plan: Plan) -> None:
    """Find a default for the session's id that is never used, since the builtin plugin always finds one."""
    for stage in plan.stages:
        default = stage.node.get("default")
        if default is None or stage.hook.point.name != _ANSWERED or text_of(stage.node.get("into")) != SESSION:
            continue
        if text_of(default) not in (None, _SAME) and not _may_go_unanswered(stage):
            plan.findings.warn(
                CODE,
                f"the default of {stage} is never used: the builtin plugin finds a session for every message",
                default.where,
                path=f"stages.{stage.id}.default",
                help="write `enabled: false` beside the default, and Bub uses the default for every message; or"
                f" write a plugin with `{_ANSWERED}`",
            )


def _may_go_unanswered(stage: StagePlan) -> bool:
    """Whether the builtin plugin is not asked, or is not waited for."""
    hook = stage.hook.node
    only = stage.node.get("only") or (hook.get("only") if hook is not None else None)
    asked = only is None or BUILTIN in dict(names_of(only))
    timeout = stage.node.get("timeout") or (hook.get("timeout") if hook is not None else None)
    is_late = stage.on_failure == "skip" and timeout is not None
    return not stage.enabled or stage.node.get("when") is not None or not asked or is_late
