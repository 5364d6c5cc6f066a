"""Older names of what `envelope`, `turn` and `channels.contracts` have."""

from bub_reference.channels.contracts import MessageHandler as MessageHandler
from bub_reference.envelope import Envelope as Envelope
from bub_reference.turn import TurnState as State

__all__ = ["Envelope", "MessageHandler", "State"]
