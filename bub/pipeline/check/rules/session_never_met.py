"""A condition asks for the id of a session that belongs to the channel and the chat it asks for."""

from __future__ import annotations

from bub.base.globs import may_meet
from bub.hooks.facts import BUILTIN, SESSION
from bub.pipeline.plan.offers import Offers
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.plan.stages import StagePlan

CODE = "B224"

_RESOLVE = "resolve_session"
"""The hook at which `builtin` says the channel and the chat of a message, or the session that it names itself."""


def check(plan: Plan, offers: Offers) -> None:
    """Find a `when` whose `session_id` contradicts its `channel` or `chat_id`, if no plugin makes other ids."""
    if offers.are_broken or not _is_usual(plan, offers):
        return
    for stage in plan.stages:
        when = stage.node.get("when")
        if when is None or not stage.enabled or stage.each is not None or _is_remade_above(plan, stage):
            continue
        asked, channel, chat = (text_of(when.get(field)) for field in (SESSION, "channel", "chat_id"))
        if asked is None or ":" not in asked or _may_be_called(asked, channel or "*", chat or "*"):
            continue
        others = " and ".join(f"{name} `{glob}`" for name, glob in (("channel", channel), ("chat_id", chat)) if glob)
        plan.findings.warn(
            CODE,
            f"{stage} asks for session_id `{asked}` and {others}, but Bub names a session `CHANNEL:CHAT_ID`",
            when.get(SESSION).place,  # type: ignore[union-attr]  # asked was read from it
            path=f"stages.{stage.id}.when.{SESSION}",
            help=f"take `{SESSION}` out, or let a plugin name the sessions in `{_RESOLVE}`",
        )


def _may_be_called(asked: str, channel: str, chat: str) -> bool:
    """Whether a glob may match a channel, a colon and a chat; the name of a channel has no colon."""
    if "[" in asked:
        return True  # which cannot be told
    for at, sign in enumerate(asked):
        if sign in ":*?":
            rest = sign if sign == "*" else ""
            first, last = asked[:at] + rest, rest + asked[at + 1 :]
            if ":" not in first and may_meet(first, channel) and may_meet(last, chat):
                return True
    return False


def _is_usual(plan: Plan, offers: Offers) -> bool:
    """Whether ids are made of channel and chat; that a message may name its session itself is left aside."""
    makers = [stage for stage in plan.flow.makers.get(SESSION, ()) if stage.enabled]
    if len(makers) != 1 or makers[0].hook.point.name != _RESOLVE:
        return False
    return all(one.plugin == BUILTIN for one in offers.implementing(makers[0].hook.point)) and text_of(
        makers[0].node.get("default")
    ) in (None, "{channel}:{chat_id}")


def _is_remade_above(plan: Plan, stage: StagePlan) -> bool:
    """Whether the message may have another channel or chat than when its session was found."""
    above = plan.above(stage)[len(plan.arrival) :]
    return any("message" in other.makes for other in above)
