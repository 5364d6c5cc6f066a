"""What a schedule becomes at a moment: a firing, and the message of that."""

from __future__ import annotations

from dataclasses import replace

from bub.channels.message import ChannelMessage
from bub.inbox.schedules.firing import Firing
from bub.inbox.schedules.own import OwnSchedule
from bub.pipeline.plan.schedules.schedule import Schedule


def firing_of(schedule: Schedule, moment: float) -> Firing:
    """Return the firing of a schedule at a moment."""
    return Firing(schedule.name, moment, schedule.profile, isinstance(schedule, OwnSchedule))


def message_of(schedule: Schedule) -> ChannelMessage:
    """Return what is said to the session, and that a schedule says it: nobody has written it just now."""
    context = {"schedule": schedule.name}
    message = ChannelMessage(schedule.channel, schedule.chat_id, schedule.message, context=context)
    if isinstance(schedule, OwnSchedule):
        return replace(message, session_id=schedule.session_id, sender_id=schedule.sender_id)
    return message
