"""Who gets what a stage yields by default, and what is put into it."""

from __future__ import annotations

from collections.abc import Iterator

from bub.envelope import ADDRESS
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import references
from bub.secrets.verdict import is_named

_TO_WHO_ASKED = tuple(f"{{{name}}}" for name in ADDRESS)
"""The address of a reply that goes back to where its message came from."""

_ELSEWHERE = "replies go to another chat as well, or only to another chat"
_SECRET = "a secret or a file of this machine becomes a part of the turn"


def opens_default(was: StagePlan | None, now: StagePlan, old: Plan) -> bool | str:
    """Return why another `default` of a stage lets out more than before, if it does; `was` is None for a new stage."""
    before, after = was.node.get("default") if was is not None else None, now.node.get("default")
    if _sends(now) and set(_addresses(after)) - {_TO_WHO_ASKED, *_known_addresses(old)}:
        return _ELSEWHERE
    return bool(set(_put_in(after)) - set(_put_in(before))) and _SECRET


def _sends(stage: StagePlan) -> bool:
    """Return whether it makes replies, or the message that they answer."""
    into = stage.node.get("into")
    return into is not None and into.value in (OUTBOUNDS, "message")


def _known_addresses(plan: Plan) -> Iterator[tuple[str, ...]]:
    for stage in plan.stages:
        if _sends(stage):
            yield from _addresses(stage.node.get("default"))


def _addresses(node: Node | None) -> Iterator[tuple[str, ...]]:
    """Yield the addresses in a default; a part that is left out is that of the message."""
    if node is None:
        return
    if node.is_mapping:
        channel, chat = (node.get(name) for name in ADDRESS)
        parts = (node.get("output_channel") or channel, chat)
        said = (part.plain() if part is not None else None for part in parts)
        yield tuple(usual if text is None else str(text) for text, usual in zip(said, _TO_WHO_ASKED, strict=True))
    for child in node.elements():
        yield from _addresses(child)


def _put_in(node: Node | None) -> Iterator[str]:
    """Yield the references to files, and to variables that are called like secrets, in a default."""
    if node is None:
        return
    if isinstance(node.value, str):
        for reference in references(node.value):
            if reference.kind == "file" or is_named((reference.name,)):
                yield f"{reference.kind}:{reference.name}"
    for child in (*node.elements(), *(item for _, item in node.items())):
        yield from _put_in(child)
