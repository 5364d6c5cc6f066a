"""Each entry of `unasked` is how some commands begin, and not how all do."""

from __future__ import annotations

from bub.pipeline.check import late
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.plugins.shipped import BY_NAME

CODE = "B233"


def check(plan: Plan) -> None:
    """Find entries that no command begins with, or that let every command through."""
    said = plan.tools.get("unasked", BY_NAME) if plan.tools is not None else None
    for entry, place in names_of(said):
        problem = late.explain_entry(entry) if "${" not in entry else None
        if problem is not None:
            path = f"profiles.{plan.profile}.tools.unasked.{BY_NAME}"
            plan.findings.add(CODE, problem[0], place, path=path, profile=plan.profile, help=problem[1])
