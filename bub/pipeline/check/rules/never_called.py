"""What a plugin implements is called by the pipeline."""

from __future__ import annotations

from bub.hooks.facts import BUILTIN
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B209"


def check(plan: Plan, offers: Offers) -> None:
    """Find implementations of hooks that this pipeline leaves out: an error for a gate, else a warning.

    That a gate is switched off is a note: the file says so.
    """
    for implementation, point in offers.fitting():
        callers = plan.callers.get(point.name, ())
        if callers and offers.is_gate(point.name) and not any(stage.enabled for stage in callers):
            plan.findings.add(
                CODE,
                f"{callers[0]} is off, so plugin `{implementation.plugin}`, which implements the gate, guards nothing",
                callers[0].place_of("enabled"),
                severity="note",
                path=f"stages.{callers[0].id}.enabled",
                profile=plan.profile,
                help="to make the gate guard again, take `enabled: false` out",
            )
        called = point.name in offers.hooks or point.twin in offers.hooks
        # A sync-only point of the turn is one that the framework calls by itself where no stage does.
        # Nobody listed `builtin`, so nobody expects all of it to be used.
        if called or point.bootstrap or point.sync_only or implementation.plugin == BUILTIN:
            continue
        is_gate = "gate" in point.kinds
        plan.findings.add(
            CODE,
            f"plugin `{implementation.plugin}` implements `{point.name}`, which this pipeline never calls"
            + (", so it guards nothing" if is_gate else ""),
            offers.place_of(implementation),
            severity="error" if is_gate else "warning",
            help="use a pipeline that calls this hook, or add a stage or an entry under `hooks:` for it",
        )
