"""Every route leads somewhere and can be reached (B162, B166), and so can every profile (B167)."""

from __future__ import annotations

from fnmatch import fnmatchcase

from bub.diagnostics import Related, did_you_mean
from bub.pipeline.document import Node
from bub.pipeline.plan import Plan, text_of


def check(plan: Plan) -> None:
    """Find routes to profiles that do not exist, and routes that an earlier one hides."""
    section = plan.document.root.get("routes")
    profiles = plan.document.root.get("profiles")
    known = {name for name, _ in profiles.items()} if profiles is not None else set()
    seen: list[Node] = []
    for index, route in enumerate(section.elements() if section is not None else ()):
        path = f"routes[{index}]"
        target = route.get("profile")
        name = text_of(target)
        if target is not None and name is not None and name not in {*known, "default"}:
            plan.findings.add(
                "B162",
                f"route {index + 1} leads to profile `{name}`, which does not exist",
                target.place,
                path=f"{path}.profile",
                help=did_you_mean(name, known),
            )
        match = route.get("match")
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
