"""The words of a stream are shown once those who judge them have spoken."""

from __future__ import annotations

from bub.pipeline.check.words import join_names
from bub.pipeline.plan.checks import checks_of, shows_at_once
from bub.pipeline.plan.plan import Plan

CODE = "B179"


def check(plan: Plan) -> None:
    """Find streams whose words are let through unjudged, or said to be if nobody judges them."""
    for stream in plan.stages:
        show = stream.node.get("show")
        if show is None or not shows_at_once(stream):
            continue
        checks = [stage.id for stage in checks_of(plan, stream)]
        if checks:
            named = join_names(checks, "and")
            judge, have = ("judges", "has") if len(checks) == 1 else ("judge", "have")
            message = f"{stream} shows its words before {named} {judge} them"
            advice = f"leave `show` out: Bub then shows the words after {named} {have} judged them"
        else:
            message = f"`show: at_once` changes nothing: no stage below {stream} judges its words"
            advice = "leave `show` out"
        plan.findings.warn(CODE, message, show.place, path=f"stages.{stream.id}.show", help=advice, fix="checked")
