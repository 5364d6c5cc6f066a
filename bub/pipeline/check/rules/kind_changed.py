"""A child file or a profile leaves the kind of what it inherits as it is."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.pipeline.plan.plan import Plan

CODE = "B112"


def check(plan: Plan) -> None:
    """Find inherited stages and hooks whose kind is changed: whoever reads the parent relies on it."""
    for path, changes in plan.kind_changes.items():
        section, _, name = path.partition(".")
        who, advice = (
            (f"stage `{name}`", f"take it out, and put a stage of your own in its place with `replace: {name}`")
            if section == "stages"
            else (f"hook `{name}`", "declare a hook of another name")
        )
        for change in changes:
            plan.findings.add(
                CODE,
                f"{who} is of kind `{change.kind}`, which `{change.layer}` cannot change to `{change.other}`",
                change.place,
                path=f"{path}.kind",
                help=advice,
                related=[Related(f"`{change.kind}` is set here", change.first.file, change.first.range)],
            )
