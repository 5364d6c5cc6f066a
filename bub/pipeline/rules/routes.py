"""Every route leads somewhere and can be reached (B162, B166), and so can every profile (B167)."""

from __future__ import annotations

from fnmatch import fnmatchcase

from bub.diagnostics import Related
from bub.pipeline.document import Node
from bub.pipeline.merge import DEFAULT_PROFILE
from bub.pipeline.plan import Plan, text_of

SESSION_STATE = "session"
"""What `match` may ask about but no route can know: the profile is chosen before the session is found."""


def check(plan: Plan) -> None:
    """Find routes to profiles that do not exist, routes that never match, and profiles that no route leads to."""
    section = plan.document.root.get("routes")
    profiles = plan.document.root.get("profiles")
    known = {name for name, _ in profiles.items()} if profiles is not None else set()
    seen: list[Node] = []
    for index, route in enumerate(section.elements() if section is not None else ()):
        path = f"routes[{index}]"
        target = route.get("profile")
        name = text_of(target)
        if target is not None and name is not None and name not in {*known, DEFAULT_PROFILE}:
            plan.findings.add(
                "B162",
                f"route {index + 1} leads to profile `{name}`, which does not exist",
                target.place,
                path=f"{path}.profile",
                help=plan.findings.did_you_mean(name, known),
            )
        match = route.get("match")
        unknowable = route.get("match", SESSION_STATE)
        if unknowable is not None:
            plan.findings.add(
                "B166",
                f"route {index + 1} can never match: its profile is chosen before the session is known",
                unknowable.where,
                path=f"{path}.match.{SESSION_STATE}",
                help=f"take `{SESSION_STATE}` out; a stage can ask for it in its `when`",
            )
            continue
        hiding = next((other for other in seen if match is not None and _covers(other, match)), None)
        if hiding is not None and match is not None:
            plan.findings.add(
                "B166",
                f"route {index + 1} can never match: an earlier route takes every message it asks for",
                match.where,
                path=f"{path}.match",
                help="put the narrower route first, or take this one out",
                related=[Related("the earlier route", hiding.place.file, hiding.place.range)],
            )
        if match is not None and match.is_mapping:
            seen.append(match)
    _check_reached(plan)


def _check_reached(plan: Plan) -> None:
    """Find profiles that nothing leads to, in a file that has routes; without any, profiles are chosen at start."""
    root = plan.document.root
    routes, profiles, tests = (root.get(name) for name in ("routes", "profiles", "tests"))
    if routes is None or profiles is None or not routes.elements():
        return
    used = [route.get("profile") for route in routes.elements()]
    used += [profile.get("extends") for _, profile in profiles.items()]
    used += [test.get("profile") for _, test in tests.items()] if tests is not None else []
    reached = {DEFAULT_PROFILE, *(text_of(node) for node in used)}
    if any(node is not None and text_of(node) is None for node in used):
        return  # a reference may lead anywhere
    for name, node in profiles.items():
        if name not in reached and node.where.file == plan.document.file:
            plan.findings.warn(
                "B167",
                f"no route leads to profile `{name}`",
                node.where,
                path=f"profiles.{name}",
                help=f"add a route, or choose it at start with `--profile {name}`",
            )


def _covers(wide: Node, narrow: Node) -> bool:
    """Whether every message that `narrow` matches is one that `wide` matches."""
    asked = {name: text_of(node) for name, node in narrow.items()}
    for name, node in wide.items():
        glob, other = text_of(node), asked.get(name)
        if glob is None or other is None or not _glob_covers(glob, other):
            return False
    return True


def _glob_covers(wide: str, narrow: str) -> bool:
    if wide == narrow or wide == "*":
        return True
    # A pattern read as a text matches a wider one only where its own wildcards meet a `*`: right, if not complete.
    return "?" not in narrow and "[" not in narrow and fnmatchcase(narrow, wide)
