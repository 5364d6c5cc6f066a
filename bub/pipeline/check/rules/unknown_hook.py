"""Every stage calls a hook that exists."""

from __future__ import annotations

from bub.base.diagnostics import ask_for
from bub.hookspecs import HOOK_POINTS
from bub.pipeline.plan.order import anchor_of
from bub.pipeline.plan.plan import Plan, known_stages
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.stages import NAME

CODE = "B150"


def check(plan: Plan) -> None:
    """Find stages whose hook is neither one of Bub's nor declared under `hooks:`."""
    known = {name for name, point in HOOK_POINTS.items() if not point.bootstrap} | set(plan.hooks)
    names = known | known_stages(plan)
    for stage in plan.stages:
        name, said = stage.hook.point.name, stage.node.get("hook")
        if said is not None and text_of(said) is None:
            continue  # a reference, or no text at all: which hook is meant cannot be told
        if said is None and NAME.fullmatch(name) is None:
            continue  # what a stage cannot be called is the schema's to report
        if not stage.hook.known and name not in plan.hooks:
            declare = f"declare it: `hooks: {{{name}: {{kind: …, takes: […]}}}}`"
            message, path = f"{stage} calls the hook `{name}`, which does not exist", f"stages.{stage.id}.hook"
            if said is not None:
                plan.findings.add_unknown(CODE, message, said.place, name, known, path=path, help=declare)
            else:
                # The stage's own name: others may refer to it, so it is not repaired by itself.
                is_new = anchor_of(stage.node)[0] is not None  # and no inherited one that is misspelt
                meant = plan.findings.suggest(name, (known if is_new else names) - {name})
                advice = ask_for(f"hook: {meant}" if meant and is_new else meant) or declare
                likely = None if is_new else meant
                plan.findings.add(CODE, message, stage.where, path=path, help=advice, likely=likely)
