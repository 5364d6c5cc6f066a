"""What a stage makes has the name that is taken."""

from __future__ import annotations

from bub.base.diagnostics import sure_repair
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import NAME

CODE = "B133"


def check(plan: Plan) -> None:
    """Find values that nobody takes, while a hook takes a missing one that is spelt almost alike."""
    for stage in plan.stages:
        meant, into = plan.flow.slips.get(stage.id), stage.node.get("into")
        # What cannot be a name is the schema's to report.
        if meant is not None and into is not None and NAME.fullmatch(into.value):
            repair = sure_repair(into.value, [meant])
            plan.findings.add(
                CODE,
                f"{stage} makes `{into.value}`, which no stage takes; stages take `{meant}`, which no stage makes",
                into.place,
                path=f"stages.{stage.id}.into",
                help=f"did you mean `{meant}`?",
                fix=repair,
                likely=meant if repair is None else None,
            )
