"""How fast the bot may write: one message a second to a chat, twenty a minute to a group, thirty a second in all."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from bub.channels import TryLaterError

PATIENCE = 5.0
"""How long, in seconds, a call waits while Telegram wants no more in a chat; beyond that it is to be tried later."""

_MANY_CHATS = 1_000
_EVERY = 1.0
_GROUP_COUNT, _GROUP_SECONDS = 20, 60.0
_OVERALL_COUNT, _OVERALL_SECONDS = 30, 1.0


@dataclass(frozen=True, slots=True)
class ChatAddress:
    """The place a message goes to: a chat, and a topic in it if the chat has some."""

    chat: str
    topic: int | None = None

    @classmethod
    def of(cls, chat_id: str) -> ChatAddress:
        """Return the address that a `chat_id` names: `CHAT`, or `CHAT:TOPIC`."""
        chat, _, topic = chat_id.partition(":")
        return cls(chat, int(topic) if topic.isdecimal() else None)

    @property
    def is_group(self) -> bool:
        """Whether it is no private chat: ids of groups and channels are negative, and names are of such."""
        return self.chat.startswith(("-", "@"))


class _Limit:
    """At most `count` calls in any `seconds`."""

    def __init__(self, count: int, seconds: float) -> None:
        self._times: deque[float] = deque(maxlen=count)
        self._seconds = seconds

    def next(self, now: float, *, keep: int = 0) -> float:
        """When the next call may go out, `keep` of the calls being left for others."""
        earlier = len(self._times) - ((self._times.maxlen or 0) - keep)
        return now if earlier < 0 else max(now, self._times[earlier] + self._seconds)

    def take(self, when: float) -> None:
        self._times.append(when)

    def is_idle(self, now: float) -> bool:
        return not self._times or self._times[-1] + self._seconds <= now


class _Chat:
    """One call at a time. Each limit comes with how many of its calls are left for those that cannot be left out."""

    def __init__(self, limits: Sequence[tuple[_Limit, int]]) -> None:
        self.limits = limits
        self.held_until = 0.0
        self.is_taken = trio.Lock()

    def next(self, now: float, *, spare: bool) -> float:
        times = [limit.next(now, keep=keep if spare else 0) for limit, keep in self.limits]
        return max(self.held_until, *times)

    def check_patience(self) -> None:
        left = self.held_until - trio.current_time()
        if left > PATIENCE:
            raise TryLaterError("Telegram wants a pause in this chat", seconds=left)

    def is_idle(self, now: float) -> bool:
        is_free = not self.is_taken.locked() and self.held_until <= now
        return is_free and all(limit.is_idle(now) for limit, _ in self.limits)


class Pace:
    """Gives each call its time. Chats do not wait for each other, except the limit over all, in the order they came.

    Times are those of trio's clock. Calls that can be left out are `spare`: they leave room for those that cannot.
    """

    def __init__(self) -> None:
        self._overall = _Limit(_OVERALL_COUNT, _OVERALL_SECONDS)
        self._chats: dict[str, _Chat] = {}

    @asynccontextmanager
    async def turn(self, where: ChatAddress, *, spare: bool = False) -> AsyncIterator[None]:
        """A block with one call to a chat, entered when that may go out. The time to the next one begins at its end.

        Raises `TryLaterError` if Telegram wants to wait longer than `PATIENCE`; a spare call waits for however long.
        """
        chat = self._chat(where)
        await (self._spare_turn(chat) if spare else self._turn(chat))
        try:
            yield
        finally:
            for limit, _ in chat.limits:
                limit.take(trio.current_time())
            chat.is_taken.release()

    async def _turn(self, chat: _Chat) -> None:
        await chat.is_taken.acquire()
        try:
            while (when := chat.next(now := trio.current_time(), spare=False)) > now:
                chat.check_patience()
                await trio.sleep_until(when)
            when = self._overall.next(now)
            self._overall.take(when)
            await trio.sleep_until(when)
        except BaseException:  # whoever waits behind is not to wait for one that has gone
            chat.is_taken.release()
            raise

    async def _spare_turn(self, chat: _Chat) -> None:
        while True:
            await chat.is_taken.acquire()
            now = trio.current_time()
            when = max(chat.next(now, spare=True), self._overall.next(now, keep=_OVERALL_COUNT // 3))
            if when <= now:
                self._overall.take(now)
                return
            chat.is_taken.release()
            await trio.sleep_until(when)

    def hold(self, where: ChatAddress, seconds: float) -> None:
        """Send nothing to a chat for so many seconds: Telegram said so."""
        chat = self._chat(where)
        chat.held_until = max(chat.held_until, trio.current_time() + seconds)

    def _chat(self, where: ChatAddress) -> _Chat:
        chat = self._chats.get(where.chat)
        if chat is None:
            now = trio.current_time()
            if len(self._chats) >= _MANY_CHATS:
                self._forget_idle(now)
            limits = [(_Limit(1, _EVERY), 0)]
            if where.is_group:
                limits.append((_Limit(_GROUP_COUNT, _GROUP_SECONDS), _GROUP_COUNT // 4))
            chat = self._chats[where.chat] = _Chat(limits)
        return chat

    def _forget_idle(self, now: float) -> None:
        for name, chat in list(self._chats.items()):
            if chat.is_idle(now):
                del self._chats[name]
