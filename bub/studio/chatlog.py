"""What the page's chats got lately: one bounded record for all browsers, each of which reads on at its own place.

A browser that does not keep up loses the middle, and reads the chat's tape instead; nothing is kept for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

_MOST_EVENTS = 4_000
_MOST_LETTERS = 1_000_000
"""How much is kept; a longer text is a part of it by itself, so an event may be as long as that."""

RELOAD = "reload"
"""The kind of the event that says that some were missed."""

_PIECES = ("text", "reasoning")


class ChatEvent(msgspec.Struct, frozen=True):
    """Something that came for the answer to a message."""

    chat: str
    message_id: str
    kind: str
    data: Mapping[str, Any]

    @property
    def letters(self) -> int:
        """About how much room it takes."""
        return len(self.message_id) + sum(len(str(value)) for value in self.data.values())


class ChatLog:
    """The last events of all chats, each with a number of its own."""

    def __init__(self) -> None:
        self._events: deque[ChatEvent] = deque()
        self._letters = 0
        self.end = 0
        """The number that the next event gets."""

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: ChatEvent) -> None:
        """Keep an event, and forget the oldest ones beyond the bound."""
        self._events.append(event)
        self._letters += event.letters
        self.end += 1
        while len(self._events) > _MOST_EVENTS or (self._letters > _MOST_LETTERS and len(self._events) > 1):
            self._letters -= self._events.popleft().letters

    def since(self, number: int) -> list[dict[str, Any]]:
        """Return what came from a number on, the pieces of a text put together; if some is lost, say so first."""
        lost = self.end - len(self._events) - number
        wanted = [*self._events][max(-lost, 0) :]
        chats = dict.fromkeys(event.chat for event in wanted) if lost > 0 else ()
        told = [{"chat": chat, "message_id": "", "events": [{"kind": RELOAD, "data": {}}]} for chat in chats]
        return [*told, *_by_message(wanted)] if lost <= 0 else told


def _by_message(events: Sequence[ChatEvent]) -> Iterator[dict[str, Any]]:
    """Yield the events of each message in the order they were told, pieces that follow each other as one."""
    told: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in events:
        of_message = told.setdefault((event.chat, event.message_id), [])
        last = of_message[-1] if of_message else None
        if last is not None and event.kind in _PIECES and last["kind"] == event.kind:
            last["data"]["delta"].append(str(event.data.get("delta") or ""))
        elif event.kind in _PIECES:
            of_message.append({"kind": event.kind, "data": {"delta": [str(event.data.get("delta") or "")]}})
        else:
            of_message.append({"kind": event.kind, "data": dict(event.data)})
    for (chat, message_id), of_message in told.items():
        for one in of_message:
            if one["kind"] in _PIECES:
                one["data"]["delta"] = "".join(one["data"]["delta"])
        yield {"chat": chat, "message_id": message_id, "events": of_message}
