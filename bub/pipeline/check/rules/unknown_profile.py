"""Every route leads to a profile that exists."""

from __future__ import annotations

from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.scalars import text_of

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
                help=f"add `{name}` under `profiles:`, or lead to one that is there",
            )
