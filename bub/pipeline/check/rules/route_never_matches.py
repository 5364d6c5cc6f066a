"""Every route can be the first to match a message."""

from __future__ import annotations

from bub.base.diagnostics import Related
from bub.base.globs import covers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.document import Node

CODE = "B166"

SESSION_STATE = "session"
"""What `match` may ask about but no route can know: the profile is chosen before the session is found."""


def check(plan: Plan) -> None:
    """Find routes that an earlier one hides, and those that ask for what is not known yet."""
    section = plan.document.root.get("routes")
    seen: list[Node] = []
    for index, route in enumerate(section.elements() if section is not None else ()):
        match, unknowable = route.get("match"), route.get("match", SESSION_STATE)
        if match is None or not match.is_mapping:
            continue
        if unknowable is not None:
            plan.findings.add(
                CODE,
                f"route {index + 1} can never match: its profile is chosen before the session is known",
                unknowable.where,
                path=f"routes[{index}].match.{SESSION_STATE}",
                help=f"take `{SESSION_STATE}` out; a stage can ask for it in its `when`",
            )
            continue
        hiding = next((other for other in seen if _covers(other, match)), None)
        if hiding is not None:
            plan.findings.add(
                CODE,
                f"route {index + 1} can never match: an earlier route takes every message it asks for",
                match.where,
                path=f"routes[{index}].match",
                help="put the narrower route first, or take this one out",
                related=[Related("the earlier route", hiding.place.file, hiding.place.range)],
            )
        seen.append(match)


def _covers(wide: Node, narrow: Node) -> bool:
    """Whether every message that `narrow` matches is one that `wide` matches."""
    asked = {name: text_of(node) for name, node in narrow.items()}
    for name, node in wide.items():
        glob, other = text_of(node), asked.get(name)
        if glob is None or other is None or not covers(glob, other):
            return False
    return True
