"""A reply that a default makes says where it goes."""

from __future__ import annotations

from bub.envelope import ADDRESS
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.templates import TEMPLATE_NAME
from bub.pipeline.source.document import Node

CODE = "B186"

_TEXTS = ("content", "prompt", "model_output", "session_id")
"""The values and fields that are a text, and no reply."""


def check(plan: Plan) -> None:
    """Find replies in a default that lack a channel or a chat: they go to nobody."""
    for stage in plan.stages:
        default = stage.node.get("default")
        if default is None or text_of(stage.node.get("into")) != OUTBOUNDS:
            continue
        for reply in default.elements() if default.is_sequence else (default,):
            missing = _missing(reply)
            if missing:
                plan.findings.warn(
                    CODE,
                    f"the default of {stage} makes a reply without {' and '.join(missing)}, so it goes to nobody",
                    reply.where,
                    path=f"stages.{stage.id}.default",
                    help=_advise(reply, missing),
                )


def _advise(reply: Node, missing: list[str]) -> str:
    named = [f'{name}: "{{{name}}}"' for name in missing]
    if reply.is_mapping:
        return "write " + ", ".join(f"`{name}`" for name in named) + " beside its `content`"
    import json  # only where one is found

    content = json.dumps(str(reply.value), ensure_ascii=False)
    return f"write a whole reply: `{{content: {content}, {', '.join(named)}}}`"


def _missing(reply: Node) -> list[str]:
    """What a reply lacks to be delivered; nothing of what another stage has made."""
    if reply.is_mapping:
        named = {name for name, _ in reply.items()}
        return [] if "output_channel" in named else [name for name in ADDRESS if name not in named]
    text = text_of(reply)
    lone = TEMPLATE_NAME.fullmatch(text) if text is not None else None
    return list(ADDRESS) if text is not None and (lone is None or lone[1] in _TEXTS) else []
