"""Every route can be the first to match a message."""

from __future__ import annotations

import msgspec

from bub.base.diagnostics import Related
from bub.base.globs import GlobIndex, covers
from bub.pipeline.check.outline import Outline
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.source.document import Node

CODE = "B166"

SESSION_STATE = "session"
"""What `match` may ask about but no route can know: the profile is chosen before the session is found."""


class _Asked(msgspec.Struct, frozen=True):
    """What one route asks for, as it is written and by field; a glob that cannot be read is None."""

    number: int
    match: Node
    globs: dict[str, str | None]


def check(outline: Outline) -> None:
    """Find routes that an earlier one hides, and those that ask for what is not known yet."""
    section = outline.document.root.get("routes")
    seen: list[_Asked] = []
    for number, route in enumerate(section.elements() if section is not None else (), 1):
        match = route.get("match")
        if match is None or not match.is_mapping:
            continue
        unknowable = match.get(SESSION_STATE)
        if unknowable is not None:
            outline.findings.add(
                CODE,
                f"route {number} can never match: Bub chooses the profile before it knows the session",
                unknowable.where,
                path=f"routes[{number - 1}].match.{SESSION_STATE}",
                help=f"take `{SESSION_STATE}` out; a stage can ask for it in its `when`",
            )
            continue
        seen.append(_Asked(number, match, {name: text_of(glob) for name, glob in match.items()}))
    possible = GlobIndex(asked.globs for asked in seen)
    for at, asked in enumerate(seen):
        earlier = (seen[other] for other in possible.find(asked.globs.get) if other < at)
        hiding = next((other.match.place for other in earlier if _covers(other, asked)), None)
        if hiding is not None:
            outline.findings.add(
                CODE,
                f"route {asked.number} can never match: an earlier route takes every message it asks for",
                asked.match.where,
                path=f"routes[{asked.number - 1}].match",
                help="put the narrower route first, or take this one out",
                related=[Related("the earlier route", hiding.file, hiding.range)],
            )


def _covers(wide: _Asked, narrow: _Asked) -> bool:
    """Whether every message that `narrow` matches is one that `wide` matches."""
    for name, glob in wide.globs.items():
        other = narrow.globs.get(name)
        if glob is None or other is None or not covers(glob, other):
            return False
    return True
