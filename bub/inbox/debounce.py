"""Which messages of a session are answered as one, and when (BEHAVIOURS C7-C13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Timing:
    """How long to wait for more, in seconds.

    `debounce` after a message that asks for an answer, at most `max_wait` after the first of a batch. For
    `active_window` after a message that asks, those that do not ask are listened to.
    """

    debounce: float = 1.0
    max_wait: float = 10.0
    active_window: float = 60.0


class Debounce(Generic[_T]):
    """The messages of one session that wait to be answered together; whoever owns it looks at the clock."""

    __slots__ = ("_asked_at", "_began_at", "_items", "_timing", "deadline")

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._items: list[_T] = []
        self._asked_at: float | None = None
        self._began_at = 0.0
        self.deadline: float | None = None
        """When the batch is to be answered; None while nothing waits."""

    def add(self, item: _T, now: float, *, is_active: bool, is_heard: bool = False) -> bool:
        """Take a message in; False where it is none of the agent's business, and is left out (C8).

        One that `is_heard` had been listened to before, by a process that is no more.
        """
        if not is_active and not is_heard and not self.listens(now):
            self._asked_at = None
            return False
        if not self._items:
            self._began_at = now
        self._items.append(item)
        if is_active:
            self._asked_at = now  # what is overheard does not keep the window open (C12)
            # Who goes on writing is answered all the same, once `max_wait` is over (C13).
            self.deadline = min(now + self._timing.debounce, self._began_at + self._timing.max_wait)
        elif self.deadline is None:
            self.deadline = now + self._timing.max_wait  # C10
        return True

    def listens(self, now: float) -> bool:
        """Whether somebody has asked for an answer lately."""
        return bool(self._items) or (self._asked_at is not None and now - self._asked_at <= self._timing.active_window)

    @property
    def waiting(self) -> Sequence[_T]:
        """The batch so far."""
        return self._items

    def take(self) -> list[_T]:
        """The batch, in the order it came; the buffer is empty behind it."""
        batch, self._items, self.deadline = self._items, [], None
        return batch
