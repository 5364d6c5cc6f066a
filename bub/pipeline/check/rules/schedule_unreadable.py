"""Every schedule says when, what and to whom, in words that can be read."""

from __future__ import annotations

from bub.pipeline.check import late
from bub.pipeline.check.words import join_names
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of

CODE = "B241"
NEVER = "B242"

_NEEDED = ("cron", "message", "session")


def check(plan: Plan) -> None:
    """Find schedules that lack something, whose moments nobody can read (B241), and that never come (B242)."""
    if plan.root.get("schedules") is None:
        return
    for name, node in late.nodes_of(plan.root):
        path = f"schedules.{name}"
        if missing := [key for key in _NEEDED if node.get(key) is None]:
            message = f"schedule `{name}` has no {join_names(missing)}"
            advice = "write when it fires (`cron`), which session gets the message (`session`), and the `message`"
            plan.findings.add(CODE, message, node.where, path=path, help=advice)
        cron, zone = node.get("cron"), node.get("timezone")
        said, place = text_of(cron), text_of(zone) if zone is not None else "UTC"
        if cron is None or said is None or place is None:
            continue
        try:
            late.check_moments(said, place)
        except late.NeverError as error:
            plan.findings.add(NEVER, f"schedule `{name}`: {error}", cron.place, path=f"{path}.cron", help=error.help)
        except late.MomentsError as error:
            at, key = (zone, "timezone") if error.is_about_zone and zone is not None else (cron, "cron")
            plan.findings.add(CODE, f"schedule `{name}`: {error}", at.place, path=f"{path}.{key}", help=error.help)
