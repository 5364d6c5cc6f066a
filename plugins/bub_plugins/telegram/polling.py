"""Getting updates by long polling: none is confirmed before it was taken, and only a token refused for good ends it."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode

import trio
from telegram import Bot
from telegram.error import Conflict, InvalidToken, RetryAfter, TelegramError
from telegram.request import BaseRequest

from bub.errors import BubError
from bub.log import log_info, log_warning
from bub_plugins.telegram.writing import seconds_of

T = TypeVar("T")

HOLD_SECONDS = 30
"""How long Telegram holds a request when there is nothing new."""

MOST_REFUSALS = 5
"""How often in a row, over some seconds, a token is refused before that is believed."""

LONGEST_PAUSE = 30.0
_FIRST_PAUSE = 0.5
_CONFLICT_PAUSE = 5.0
_LEAST_HOLD = 0.5
_MOST = 100
_LATE = 10.0
_KINDS = ("message", "edited_message", "callback_query")


class Trouble:
    """What goes wrong again and again: how long to wait, and a line in the log only when it begins, changes or ends."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._said = ""
        self._since = 0.0
        self._pause = 0.0

    async def wait(self, error: Exception) -> None:
        """Tell of a failure and wait until it may be tried again."""
        said = f"{type(error).__name__}: {error}"
        if not self._said:
            self._since = trio.current_time()
        if said != self._said:
            self._said = said
            log_warning(f"telegram.{self._what}", error=said)
        self._pause = min(self._pause * 2 or _FIRST_PAUSE, LONGEST_PAUSE)
        least = _CONFLICT_PAUSE if isinstance(error, Conflict) else 0.0
        await trio.sleep(max(pause_of(error), least, self._pause * random.uniform(0.7, 1.0)))

    def over(self) -> None:
        """Tell that it works again."""
        if self._said:
            log_info(f"telegram.{self._what}_is_over", after=round(trio.current_time() - self._since, 1))
        self._said, self._pause = "", 0.0

    async def outlast(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call until it works. Raises `InvalidToken` when the token is refused again and again."""
        refusals = 0
        while True:
            try:
                value = await call()
            except TelegramError as error:
                refusals = refusals + 1 if is_refusal(error) else 0
                if refusals == MOST_REFUSALS:
                    raise
                await self.wait(error)
            else:
                self.over()
                return value


def is_refusal(error: Exception) -> bool:
    """Return whether the token is refused. The library says so of each status 404, too, which a proxy may answer.

    A page of a proxy is no JSON, which is then the cause of the error.
    """
    return isinstance(error, InvalidToken) and error.__cause__ is None and "unauthorized" in error.message.lower()


def pause_of(error: Exception) -> float:
    """Return how many seconds Telegram wants to be left alone; 0 if it does not say."""
    return seconds_of(error) if isinstance(error, RetryAfter) else 0.0


class Polling:
    """Brings every update to `take`, one after another, as JSON.

    Telegram forgets an update when a later call asks for those after it: an update is confirmed like that once `take`
    has returned for it and for all before it. When `take` raises, the same update comes again after a pause.
    """

    def __init__(
        self, bot: Bot, request: BaseRequest, take: Callable[[dict[str, Any]], Awaitable[None]], *, hold: int
    ) -> None:
        self._url = f"{bot.base_url}/getUpdates"
        self._request = request
        self._take = take
        self._hold = hold
        self._offset: int | None = None

    async def run(self) -> NoReturn:
        """Poll until cancelled. Raises `InvalidToken` when Telegram does not know the token any more."""
        trouble, untaken = Trouble("trouble"), Trouble("update_not_taken")
        while True:
            asked_at = trio.current_time()
            updates = await trouble.outlast(self._fetch)
            if not updates:
                await trio.sleep_until(asked_at + _LEAST_HOLD)  # there are servers that do not wait for news
                # All before the offset are confirmed now. It is not sent again: after a quiet week the numbers may
                # start anywhere, and what comes then could lie below it.
                self._offset = None
            try:
                for update in updates:
                    await self._take(update)
                    self._offset = update["update_id"] + 1
                    untaken.over()
            except (BubError, OSError) as error:
                await untaken.wait(error)

    async def _fetch(self) -> Sequence[dict[str, Any]]:
        """Fetch the next updates as raw JSON: the library would refuse them all for one that it does not understand."""
        asked: dict[str, Any] = {"timeout": self._hold, "limit": _MOST, "allowed_updates": json.dumps(_KINDS)}
        if self._offset is not None:
            asked["offset"] = self._offset
        found: Any = await self._request.post(f"{self._url}?{urlencode(asked)}", read_timeout=self._hold + _LATE)
        if not isinstance(found, list) or not all(_is_update(one) for one in found):
            raise TelegramError("the answer holds no updates")
        return found


def _is_update(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("update_id"), int)
