"""What becomes of a message while its session is being answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from bub_reference.envelope import Envelope
from bub_reference.turn import TurnState

TurnAdmissionAction: TypeAlias = Literal["process", "drop", "follow_up", "steer"]


@dataclass(frozen=True)
class AdmitDecision:
    """What becomes of it, and why."""

    action: TurnAdmissionAction
    reason: str | None = None


@dataclass(frozen=True)
class TurnSnapshot:
    """What is going on in a session."""

    session_id: str
    is_running: bool
    running_count: int
    pending_count: int
    steering_count: int = 0


class SteeringInbox(Protocol):
    """Keeps messages for the turn that runs."""

    async def enqueue_message(self, message: Envelope, state: TurnState) -> None: ...

    async def drain_messages(self, state: TurnState) -> list[Envelope]: ...

    def message_count(self, state: TurnState) -> int: ...
