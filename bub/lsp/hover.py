"""What `bub explain` says of what the pointer is on."""

from __future__ import annotations

from bub.base.diagnostics import Position
from bub.base.json_schema import Steps, join_steps
from bub.errors import UsageError
from bub.lsp.places import Mention, find_spot, mention_at
from bub.lsp.reading import Open
from bub.pipeline.show.explain import explain
from bub.pipeline.show.pages import page

_WIDTH = 76
_SECTIONS = {"stage": "stages", "hook": "hooks", "profile": "profiles", "plugin": "plugins"}


def render_hover(pipeline: Open, at: Position) -> str | None:
    """Return Markdown about the value, stage or hook point at a position; None if there is nothing to say."""
    root = pipeline.root
    spot = find_spot(root, at) if root is not None else None
    if root is None or spot is None:
        return None
    steps: Steps = spot.steps
    mention = mention_at(root, at)
    if mention is not None and not spot.on_key:
        steps = _steps_of(mention)
    try:
        lines = page(explain(pipeline.lookup(steps), join_steps(steps), None), _WIDTH)
    except UsageError:
        return None
    text = "\n".join("".join(span.text for span in line).rstrip() for line in lines).strip("\n")
    return f"```text\n{text.replace('```', '` ` `')}\n```"


def _steps_of(mention: Mention) -> Steps:
    return (_SECTIONS[mention.thing], mention.name)
