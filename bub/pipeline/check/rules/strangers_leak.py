"""Strangers cannot make the agent leak what is private."""

from __future__ import annotations

from bub.base.diagnostics import Related, Severity
from bub.pipeline.check import late
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import mappings_in, names_of
from bub.pipeline.source.merge import DEFAULT_PROFILE
from bub.plugins.shipped import BY_NAME

CODE = "B232"


def check(plan: Plan) -> None:
    """Find ways on which strangers get at what is private: one finding for each channel that they write in."""
    for ways in _ways_by_start(plan):
        if _is_leak(ways[0]):
            _tell(plan, ways, "warning")


def note(plan: Plan) -> None:
    """Note ways that may be there, and those that begin with a page that the agent reads."""
    for ways in _ways_by_start(plan):
        if not _is_leak(ways[0]):
            _tell(plan, ways, "note")


def _ways_by_start(plan: Plan) -> list[list[late.Way]]:
    """The ways that nothing cuts, those with one beginning together, the surest first."""
    ways = [way for way in late.find_ways(plan) if way.is_open] if _may_leak(plan) else []
    # If strangers write to the agent, that says more than that it reads their pages.
    told = [way for way in ways if way.begins_outside] or ways
    starts = dict.fromkeys(way.start for way in told)
    return [sorted((way for way in told if way.start == start), key=_rank) for start in starts]


def _is_leak(way: late.Way) -> bool:
    return way.is_sure and way.begins_outside


def _rank(way: late.Way) -> tuple[bool, bool]:
    """Sure ways come first, and of those the ones that lead out in one call."""
    return not way.is_sure, way.outlet is None


def _tell(plan: Plan, ways: list[late.Way], severity: Severity) -> None:
    """Tell the first of some ways, and how many more there are."""
    way, *others = ways
    first, *steps = way.steps
    more = f" ({len(others)} more way{'s' if others[1:] else ''})" if others else ""
    judged = "".join(f", unless {cut.words}" for cut in way.cuts)
    plan.findings.add(
        CODE,
        f"{way.words} in profile `{plan.profile}`{judged}{more}",
        first.place,
        severity=severity,
        path=f"profiles.{plan.profile}.tools",
        profile=plan.profile,
        help=way.help,
        related=[Related(step.words, step.place.file, step.place.range) for step in steps],
    )


def _may_leak(plan: Plan) -> bool:
    """Whether it is worth looking: most files let nobody in whom they do not name, and ask before commands."""
    tools = plan.tools
    allow, ask = (tools.get(key) if tools is not None else None for key in ("allow", "ask"))
    if any(name == BY_NAME for name, _ in names_of(allow)) and not any(name == BY_NAME for name, _ in names_of(ask)):
        return True
    if any(plugin.get("labels") is not None for _, plugin in mappings_in(plan.root.get("plugins"))):
        return True
    if any(plan.root.get("plugins", name, "path") is None and not plan.is_shipped(name) for name, _ in plan.allowlist):
        return True
    # Messages come to the profile itself, or over the routes of the default one.
    settings = (plan.root.get("settings"), plan.document.root.get("profiles", DEFAULT_PROFILE, "settings"))
    return any(
        section.get(key) is not None
        for each in settings
        for _, section in mappings_in(each)
        for key in ("allow_users", "allow_chats", "listen")
    )
