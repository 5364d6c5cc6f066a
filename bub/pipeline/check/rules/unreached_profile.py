"""In a file with routes, something leads to every profile, or sessions may choose theirs."""

from __future__ import annotations

from bub.hookspecs import PERSONALITY_POINT
from bub.pipeline.check import late
from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.channels import profiles_served
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.merge import DEFAULT_PROFILE

CODE = "B167"


def check(outline: Outline) -> None:
    """Find profiles that nothing leads to; in a file without routes, they are chosen at start."""
    root = outline.document.root
    routes, profiles, tests = (root.get(name) for name in ("routes", "profiles", "tests"))
    if routes is None or profiles is None or not routes.elements():
        return
    used = [route.get("profile") for route in routes.elements()]
    used += [profile.get("extends") for _, profile in profiles.items()]
    used += [test.get("profile") for _, test in tests.items()] if tests is not None else []
    if root.get("schedules") is not None:
        used += [schedule.get("profile") for _, schedule in late.nodes_of(root)]
    used += [served.node for served in profiles_served(root)]
    reached = {DEFAULT_PROFILE, *(text_of(node) for node in used)}
    if any(route.get("profile") is None for route in routes.elements()):
        return  # where it leads is still to be said
    if not outline.profiles.issuperset(text_of(node) for node in used if node is not None):
        return  # a reference may lead anywhere, and a name that is misspelt to any of them
    declaring = [root, *(node for name, node in profiles.items() if name in reached)]
    if any(node.get("hooks", PERSONALITY_POINT) is not None for node in declaring):
        return  # sessions may choose every profile
    for name, node in profiles.items():
        if name not in reached and node.where.file == outline.document.file:
            outline.findings.warn(
                CODE,
                f"no route leads to profile `{name}`",
                node.where,
                path=f"profiles.{name}",
                help=f"add a route, or choose it at start with `--profile {name}`",
            )
