"""A clean-up runs once, not for each item of a list."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan

CODE = "B126"


def check(plan: Plan) -> None:
    """Find stages with both `cleanup_for` and `for_each`."""
    for stage in plan.stages:
        if stage.cleanup_for is not None and stage.each is not None:
            # One of the two may be inherited: told is the one that the user's own file says.
            own = [key for key in ("for_each", "cleanup_for") if stage.place_of(key).file == plan.document.file]
            key = own[0] if own else "for_each"
            plan.findings.add(
                CODE,
                f"{stage} is a clean-up and runs for each of `{stage.each}`; a stage cannot be both",
                stage.place_of(key),
                path=f"stages.{stage.id}.{key}",
                help="take one of the two keys out",
            )
