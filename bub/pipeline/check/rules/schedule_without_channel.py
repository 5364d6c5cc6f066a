"""The session of every schedule is one of a channel that can be there."""

from __future__ import annotations

from functools import cache, partial

from bub.pipeline.check import late
from bub.pipeline.plan.channels import channel_meant, known_channels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of, text_of
from bub.plugins.shipped import TERMINAL

CODE = "B243"


def check(plan: Plan) -> None:
    """Find schedules that speak to a channel which nobody brings, or which the profile does not open."""
    if plan.root.get("schedules") is None:
        return
    channels = cache(partial(known_channels, plan.root))
    for name, node in late.nodes_of(plan.root):
        session = node.get("session")
        said = text_of(session)
        if session is None or said is None or ":" not in said:
            continue
        channel, _, chat = said.partition(":")
        meant = channel_meant(channel, channels())
        if meant is not None:
            problem = f"schedule `{name}` speaks to channel `{channel}`, but Bub knows no channel of that name"
            advice = f"did you mean `{meant}:{chat}`?"
        elif channel == TERMINAL:
            problem = f"schedule `{name}` speaks to channel `{channel}`, but no gateway runs this channel"
            advice = "name a chat of a channel that a gateway runs, such as `telegram:4711`"
        elif not _opens(plan, channel):
            problem = f"schedule `{name}` speaks to channel `{channel}`, which profile `{plan.profile}` does not open"
            advice = f"list `{channel}` in the `channels` of the profile, or switch the schedule off there"
        else:
            continue
        plan.findings.warn(CODE, problem, session.place, path=f"schedules.{name}.session", help=advice)


def _opens(plan: Plan, channel: str) -> bool:
    """Whether a gateway of the profile runs a channel, as far as the profile says it."""
    profile = plan.effective.profile_node
    listed = profile.get("channels") if profile is not None else None
    if listed is None or any(text_of(item) is None for item in listed.elements()):
        return True
    names = [name for name, _ in names_of(listed)]
    return f"!{channel}" not in names and (channel in names or "all" in names)
