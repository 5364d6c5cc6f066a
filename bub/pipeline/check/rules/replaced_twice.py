"""What one file or profile has replaced, another replaces by naming what is there now."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.pipeline.check.words import join_names
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.swaps import REPLACE
from bub.pipeline.source.profiles import profile_of

CODE = "B180"


def check(plan: Plan) -> None:
    """Find stages that replace one which a layer below has replaced; those of one layer stand in for it together."""
    for stage in plan.stages:
        said_in = {name: plan.layer_saying(name, REPLACE) for name in stage.replaced_by}
        first = min(said_in.values(), default=0)
        before = [name for name, layer in said_in.items() if layer == first]
        for name in (name for name in stage.replaced_by if name not in before):
            said = plan.stage(name).node.get(REPLACE)
            earlier = plan.stage(before[-1]).node.get(REPLACE)
            if said is None or earlier is None:
                continue
            others = f"{join_names(before, 'and')} {'replaces' if len(before) == 1 else 'replace'}"
            plan.findings.add(
                CODE,
                f"stage `{name}` replaces `{stage.id}`, but {others} `{stage.id}` already",
                said.place,
                path=f"stages.{name}.{REPLACE}",
                profile=profile_of(said.place),
                help=f"replace {join_names(before)}",
                fix=before[0] if len(before) == 1 else None,
                related=[Related(f"`{stage.id}` is replaced here", earlier.place.file, earlier.place.range)],
            )
