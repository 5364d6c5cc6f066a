"""A stage that replaces a gate is a gate."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import flag_of
from bub.pipeline.plan.swaps import REPLACE
from bub.pipeline.source.profiles import profile_of

CODE = "B181"
_GATE = "gate"


def check(plan: Plan) -> None:
    """Find gates that are replaced by what denies nothing (a warning): who wants none switches the gate off."""
    for gate in plan.stages:
        is_gate = gate.kind is not None and gate.kind.name == _GATE and flag_of(gate.node.get("enabled")) is not False
        kinds = [plan.stage(name).kind for name in plan.heirs.get(gate.id, ())] if gate.replaced_by else []
        if not is_gate or not kinds or any(kind is None or kind.name == _GATE for kind in kinds):
            continue
        replacing = plan.stage(gate.replaced_by[0])
        said = replacing.place_of(REPLACE)
        plan.findings.warn(
            CODE,
            f"{replacing} replaces the gate `{gate.id}`, but is not a gate, so nothing is denied there any more",
            said,
            path=f"stages.{replacing.id}.{REPLACE}",
            profile=profile_of(said),
            help="make it a gate; if you want no gate there, switch the gate off with `enabled: false` and write"
            f" `after: {gate.id}` instead",
            related=[Related("the gate", gate.where.file, gate.where.range)],
        )
