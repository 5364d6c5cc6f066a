"""Keeps messages for turns that run, as long as the process lives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from bub_reference.envelope import Envelope
from bub_reference.turn import TurnState


class InMemorySteeringInbox:
    """One queue for each thread of a conversation, or for each session that has none."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Hashable, list[Envelope]] = defaultdict(list)

    async def enqueue_message(self, message: Envelope, state: TurnState) -> None:
        """Keep a message."""
        self._waiting[_key(state)].append(message)

    async def drain_messages(self, state: TurnState) -> list[Envelope]:
        """Hand over what was kept."""
        return self._waiting.pop(_key(state), [])

    def message_count(self, state: TurnState) -> int:
        """How many are kept."""
        return len(self._waiting.get(_key(state), ()))


def _key(state: TurnState) -> Hashable:
    return state.get("_runtime_thread_id") or state.get("session_id") or "default"
