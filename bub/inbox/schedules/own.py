"""A schedule that the agent has made in a turn: it belongs to that turn's session and profile for good."""

from __future__ import annotations

from bub.pipeline.plan.schedules.schedule import Schedule


class OwnSchedule(Schedule, frozen=True):
    """A schedule of the agent. Its `name` is a number, which no schedule of a file has for a name.

    `session_id` and `sender_id` are those of the message whose turn has made it: who was not let in any more gets no
    turn by it either. One that is for `once` is over when it has fired.
    """

    session_id: str = ""
    sender_id: str = ""
    once: bool = False
