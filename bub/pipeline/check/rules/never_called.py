"""What a plugin implements is called by the pipeline."""

from __future__ import annotations

from bub.hooks.facts import BUILTIN
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan

CODE = "B209"


def check(plan: Plan, offers: Offers) -> None:
    """Find implementations of hooks that this pipeline leaves out: an error for a gate, else a warning."""
    for implementation, point in offers.fitting():
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
            help="use a pipeline that has it, or declare it: a stage, or an entry under `hooks:`",
        )
