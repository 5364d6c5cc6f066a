"""A gate guards something."""

from __future__ import annotations

from bub.pipeline.plan.order import Move, find_move
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.source.merge import is_own
from bub.pipeline.source.profiles import profile_of

CODE = "B140"


def check(plan: Plan) -> None:
    """Find gates with no stage behind them that would run."""
    last = next((stage for stage in reversed(plan.stages) if _can_be_stopped(stage)), None)
    for index, stage in enumerate(plan.stages):
        if stage.kind is None or stage.kind.name != "gate" or not stage.enabled or stage.id in plan.adrift:
            continue
        if stage.each is None:
            guards = last is not None and plan.position[last.id] > index
        else:
            takers = plan.flow.takers[stage.each]
            guards = any(_can_be_stopped(other) and plan.position[other.id] > index for other in takers)
        if not guards:
            fault = _find_fault(plan, stage)
            plan.findings.add(
                CODE,
                f"{stage} is a gate, but there is no stage after it that it can stop",
                fault.place if fault is not None else stage.where,
                path=fault.path if fault is not None else f"stages.{stage.id}",
                profile=profile_of(fault.place if fault is not None else stage.where),
                help=f"take `{fault.key}` out; or move the gate, too"
                if fault is not None
                else "move it above the stages that it has to guard, with `before: STAGE`",
            )


def _can_be_stopped(stage: StagePlan) -> bool:
    """Whether a stage runs, and only if the gates above allow it: a clean-up runs in any case."""
    return stage.enabled and stage.cleanup_for is None


def _find_fault(plan: Plan, gate: StagePlan) -> Move | None:
    """What a layer above that of the gate says of another stage: it was moved in front of the gate, or is off."""
    moves = (find_move(plan.layers, stage.id, gate.id) for stage in plan.above(gate))
    faults = [move for move in moves if move is not None and move.stage != gate.id]
    behind = plan.stages[plan.position[gate.id] + 1 :]
    faults += [Move(stage.id, "enabled", stage.place_of("enabled")) for stage in behind if not stage.enabled]
    return next((fault for fault in faults if is_own(fault.place) and fault.place.layer != gate.where.layer), None)
