"""People who write to the bot at random moments, each in a chat of their own, and what they were answered so far."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from fakes.telegram import BotServer, private

from cluster.model import ANSWER, MARK

FIRST_CHAT = 1000


@dataclass
class Crowd:
    """`sessions` people send `messages` each, `rate` a second in all, in a thread of their own."""

    bots: BotServer
    chance: random.Random
    sessions: int
    messages: int
    rate: float
    asked: dict[int, list[str]] = field(default_factory=dict)
    """The marks of what was written, by chat."""
    asked_at: dict[str, float] = field(default_factory=dict)
    answered_at: dict[str, float] = field(default_factory=dict)
    """When the first whole answer to a mark arrived."""
    seen: int = 0
    """The last call of the bot that was looked at."""
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.asked = {FIRST_CHAT + number: [] for number in range(self.sessions)}

    @property
    def total(self) -> int:
        return self.sessions * self.messages

    @property
    def sent(self) -> int:
        return len(self.asked_at)

    def begin(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        left = [chat for chat in self.asked for _ in range(self.messages)]
        self.chance.shuffle(left)
        waits = [self.chance.expovariate(self.rate) for _ in left]
        for number, (chat, wait) in enumerate(zip(left, waits, strict=True)):
            time.sleep(wait)
            self.say(chat, f"#{number}#")

    def say(self, chat: int, mark: str) -> None:
        """Let the person of a chat write now."""
        user: dict[str, Any] = {"id": chat, "is_bot": False, "first_name": f"P{chat}"}
        self.asked.setdefault(chat, []).append(mark)
        self.asked_at[mark] = time.time()
        self.bots.say(f"what about {mark}?", chat=private(user), user=user)

    def wait_until_sent(self, count: int) -> None:
        while self.sent < count:
            time.sleep(0.02)

    def look(self) -> None:
        """See what was answered since the last look."""
        for call in self.bots.calls("sendMessage", after=self.seen):
            self.seen = call["n"]
            if ANSWER.fullmatch(text := call["params"].get("text", "")):
                for mark in MARK.findall(text):
                    self.answered_at.setdefault(mark, call["at"])

    @property
    def unanswered(self) -> list[str]:
        """The marks that no answer was about at the last look."""
        return [mark for mark in [*self.asked_at] if mark not in self.answered_at]

    def wait_for_answers(self, marks: list[str], seconds: float) -> list[str]:
        """Wait until these are answered; return those that are not by then."""
        deadline = time.monotonic() + seconds
        while True:
            self.look()
            waiting = [mark for mark in marks if mark not in self.answered_at]
            if not waiting or time.monotonic() > deadline:
                return waiting
            time.sleep(0.2)

    @property
    def latencies(self) -> list[float]:
        """How long each answer took, from when its message was written; shortest first."""
        return sorted(at - self.asked_at[mark] for mark, at in self.answered_at.items())

    def slowest_since(self, moment: float, seconds: float) -> float:
        """How long the slowest answer took to what was written within so many seconds behind a moment."""
        took = [
            self.answered_at[mark] - at
            for mark, at in self.asked_at.items()
            if mark in self.answered_at and moment - 1 <= at <= moment + seconds
        ]
        return max(took, default=0.0)
