"""Nobody is below a plugin that always answers."""

from __future__ import annotations

from bub.hooks.facts import BUILTIN
from bub.hooks.implementations import Implementation, in_call_order
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.plan.stages import StagePlan

CODE = "B219"

_RESOLVE = "resolve_session"
_ANSWERED = (_RESOLVE, "run_model_stream")
"""The hooks at which `builtin` answers every time."""


def check(plan: Plan, offers: Offers) -> None:
    """Find implementations that come behind `builtin` where the first answer counts, and that always answers."""
    asked: set[Implementation] = set()
    behind: list[Implementation] = []
    for stage in plan.stages:
        order = _call_order(stage, offers)
        names = [(one.plugin, one.hook) for one in order]
        answering = [names.index((BUILTIN, hook)) for hook in _ANSWERED if (BUILTIN, hook) in names]
        # Where a failure is skipped, the next one is asked if `builtin` fails, as it never does at a session.
        is_last = stage.on_failure == "propagate" or stage.hook.point.name == _RESOLVE
        end = answering[0] + 1 if answering and is_last else len(order)
        asked.update(order[:end])
        behind += order[end:]
    for implementation in dict.fromkeys(behind):
        if implementation not in asked:
            plan.findings.warn(
                CODE,
                f"plugin `{implementation.plugin}` implements `{implementation.hook}`, but Bub never asks it: Bub"
                f" asks `{BUILTIN}` first, and `{BUILTIN}` always answers",
                offers.place_of(implementation),
                help=f"take `trylast` off, or leave `{BUILTIN}` out with `only`",
            )


def _call_order(stage: StagePlan, offers: Offers) -> tuple[Implementation, ...]:
    """Who answers at a stage, in call order."""
    own, hook = stage.node.get("only"), stage.hook.node
    only = own or (hook.get("only") if hook is not None else None)
    allowed = {name for name, _ in names_of(only)}
    found = offers.implementing(stage.hook.point)
    return in_call_order(one for one in found if only is None or one.plugin in allowed) if stage.enabled else ()
