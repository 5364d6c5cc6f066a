"""A pipeline has stages."""

from __future__ import annotations

from bub.base.diagnostics import Place
from bub.pipeline.plan.plan import Plan

CODE = "B127"


def check(plan: Plan) -> None:
    """Find a pipeline in which a message would go nowhere: mostly one that forgot what it extends.

    `stages: {}` says it on purpose, and where something else is wrong already, that may be why.
    """
    if plan.root.get("stages") is None and not plan.findings.has_errors:
        plan.findings.add(
            CODE,
            "this pipeline has no stages, so Bub does nothing with a message",
            Place(plan.document.file),
            help="add `extends: bub:default`, or stages of your own",
        )
