"""Every route, every schedule and whoever asks over HTTP leads to a profile that exists."""

from __future__ import annotations

from bub.pipeline.check import late
from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.channels import profiles_served
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.merge import DEFAULT_PROFILE

CODE = "B162"


def check(outline: Outline) -> None:
    """Find routes to profiles that do not exist; what a profile extends is looked up where it is merged."""
    section = outline.document.root.get("routes")
    for index, route in enumerate(section.elements() if section is not None else ()):
        target = route.get("profile")
        name = text_of(target)
        if target is not None and name is not None and name not in outline.profiles:
            outline.findings.add_unknown(
                CODE,
                f"route {index + 1} leads to profile `{name}`, which does not exist",
                target.place,
                name,
                outline.profiles,
                path=f"routes[{index}].profile",
                help=f"add `{name}` under `profiles:`, or lead to a profile that exists",
            )


def check_schedules(plan: Plan) -> None:
    """Find schedules whose turns profiles take that do not exist."""
    if plan.root.get("schedules") is None:
        return
    known = _profiles_of(plan)
    for schedule, node in late.nodes_of(plan.root):
        target = node.get("profile")
        name = text_of(target)
        if target is not None and name is not None and name not in known:
            plan.findings.add_unknown(
                CODE,
                f"schedule `{schedule}` is for profile `{name}`, which does not exist",
                target.place,
                name,
                known,
                path=f"schedules.{schedule}.profile",
                help=f"add `{name}` under `profiles:`, or name a profile that exists",
            )


def check_served(plan: Plan) -> None:
    """Find clients and webhooks of the channel `http` that reach profiles which do not exist."""
    if plan.root.get("settings", "http") is None:
        return
    known = _profiles_of(plan)
    for served in profiles_served(plan.root):
        if served.profile is not None and served.profile not in known:
            plan.findings.add_unknown(
                CODE,
                f"`{served.path}` is for profile `{served.profile}`, which does not exist",
                served.node.place,
                served.profile,
                known,
                path=served.path,
                help=f"add `{served.profile}` under `profiles:`, or name a profile that exists",
            )


def _profiles_of(plan: Plan) -> set[str]:
    profiles = plan.document.root.get("profiles")
    return {DEFAULT_PROFILE, *(name for name, _ in (profiles.items() if profiles is not None else ()))}
