"""A turn as a row of the page: what is known of it in a line, while it runs and when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import msgspec

from bub.base.trace import Trace
from bub.base.tracing.activity import Activity
from bub.envelope import content_of, field_of
from bub.runtime.message_turn import MessageTurn
from bub.secrets.redactor import Redactor

_TEXT = 80
_COVERED_WITH_IT = 400
"""How far behind its end a text is looked through, so that no secret is cut in two before it is covered."""
_NAME = 200
_MOST_ACTIVITIES = 300
"""Of a turn that is over."""
_ERROR = 4_000
_SIMPLE = (str, int, float)
"""The types of what is kept of the facts about an activity."""


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What does not change of a turn: its text as it came, secrets included."""

    id: str
    at: float
    began: float
    channel: str
    chat: str
    sender: str
    text: str
    above: str


class PastActivity(msgspec.Struct, frozen=True, gc=False):
    """Something that a turn has done; times are seconds since the turn began, None for the end of what never ended."""

    id: str
    parent: str
    kind: str
    name: str
    stage: str
    start: float
    seconds: float | None
    outcome: str
    data: Mapping[str, Any]


class PastTurn(msgspec.Struct, frozen=True, gc=False):
    """A turn that is over, without anything that would keep its values alive."""

    facts: Facts
    session: str
    profile: str
    outcome: str
    held_at: float | None
    seconds: float
    stages: Trace
    activities: tuple[PastActivity, ...]
    tokens: tuple[int, int]
    tools: int
    error: str

    @property
    def ended(self) -> float:
        """When it ended, as a Unix time."""
        return self.facts.at + self.seconds

    @property
    def weight(self) -> int:
        """About how much room it takes, in activities."""
        return 4 + len(self.stages) + len(self.activities)


def facts_of(turn: MessageTurn) -> Facts:
    """Return what does not change of a turn."""
    message = turn.message
    above = turn.above
    return Facts(
        turn.id,
        turn.at,
        turn.began,
        str(field_of(message, "channel", ""))[:_NAME],
        str(field_of(message, "chat_id", ""))[:_NAME],
        str(field_of(message, "sender_id", ""))[:_NAME],
        str(content_of(message))[: _TEXT + _COVERED_WITH_IT],
        above.id if isinstance(above, MessageTurn) else "",
    )


def past_of(turn: MessageTurn) -> PastTurn:
    """Return a turn that is over as it is kept."""
    activities = turn.activities.all
    return PastTurn(
        facts_of(turn),
        turn.session_id,
        turn.profile.name,
        turn.outcome,
        turn.held_at,
        perf_counter() - turn.began,
        turn.trace,
        tuple(activities_of(activities[:_MOST_ACTIVITIES], turn.began)) if activities else (),
        tokens_in(activities),
        sum(one.kind == "tool" for one in activities),
        describe_error(turn.error)[:_ERROR] if turn.error is not None else "",
    )


def activities_of(activities: Iterable[Activity], began: float) -> Iterable[PastActivity]:
    """Return activities as they are kept and shown."""
    for one in activities:
        seconds = one.ended - one.began if one.ended is not None else None
        facts = {name: value for name, value in one.data.items() if isinstance(value, _SIMPLE)}
        parent = one.parent.id if one.parent is not None else ""
        yield PastActivity(
            one.id, parent, one.kind, one.name, one.stage, one.began - began, seconds, one.outcome, facts
        )


def tokens_in(activities: Iterable[Activity]) -> tuple[int, int]:
    """Return the tokens that models were sent and have made."""
    sent = received = 0
    for one in activities:
        if one.kind == "model":
            sent += _number(one.data.get("input"))
            received += _number(one.data.get("output"))
    return sent, received


def describe_error(error: BaseException) -> str:
    """Return what an error says, with the help of one for people."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe_error(one) for one in error.exceptions[:8])
    help_ = getattr(error, "help", None)
    return f"{type(error).__name__}: {error}" + (f" ({help_})" if help_ else "")


def row_of_past(past: PastTurn, mask: Redactor) -> dict[str, Any]:
    """Return the row of a turn that is over."""
    return {
        **_row(past.facts, mask),
        "session": mask.text(past.session[:_NAME]),
        "profile": past.profile,
        "phase": "over",
        "outcome": past.outcome,
        "stages_now": [],
        "done": len(past.stages),
        "seconds": past.seconds,
        "tokens": past.tokens,
        "tools": past.tools,
    }


def row_of_live(turn: MessageTurn, mask: Redactor) -> dict[str, Any]:
    """Return the row of a turn that is not over."""
    activities = turn.activities.all
    return {
        **_row(facts_of(turn), mask),
        "session": mask.text(turn.session_id[:_NAME]),
        "profile": turn.profile.name,
        "phase": turn.phase,
        "outcome": turn.outcome,
        "stages_now": list(turn.stages_now),
        "done": len(turn.trace),
        "seconds": perf_counter() - turn.began,
        "tokens": tokens_in(activities),
        "tools": sum(one.kind == "tool" for one in activities),
    }


def _row(facts: Facts, mask: Redactor) -> dict[str, Any]:
    return {
        "id": facts.id,
        "at": facts.at,
        "channel": mask.text(facts.channel),
        "chat": mask.text(facts.chat),
        "sender": mask.text(facts.sender),
        "text": " ".join(mask.text(facts.text)[:_TEXT].split()),
    }


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0
