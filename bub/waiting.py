"""Waiting for what implementations return: what has to be awaited, and for how long it may take."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, TypeAlias, TypeVar

import trio

from bub.log import log_warning

_T = TypeVar("_T")
_Given = TypeVar("_Given")

Wait: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]
"""Awaits something, within a limit."""

PLAIN = frozenset((type(None), str, dict, list, tuple, int, float, bool))
"""Types whose values need not be awaited: nearly every answer, so they are told apart without a call."""


def is_awaitable(value: Any) -> bool:
    """Whether a returned value has to be awaited (BEHAVIOURS H9); quick for plain values."""
    kind = type(value)
    return kind is CoroutineType or (kind not in PLAIN and inspect.isawaitable(value))


async def settled(value: Any) -> Any:
    """The value itself, or what it comes to when it has to be awaited."""
    return await value if is_awaitable(value) else value


def one_at_a_time(function: Callable[[_Given], Awaitable[_T]]) -> Callable[[_Given], Awaitable[_T]]:
    """The function, called by whoever calls it while another call is under way when that one is over."""
    lock = trio.Lock()

    async def in_turn(given: _Given) -> _T:
        async with lock:
            return await function(given)

    return in_turn


def skip_awaitable(hook: str, plugin: str, value: Any) -> None:
    """Drop what an async implementation of a sync-only call returned: closed, and said in the log (BEHAVIOURS H11)."""
    close = getattr(value, "close", None)
    if close is not None:
        close()
    log_warning("hook.async_not_supported", hook=hook, adapter=plugin)


class Expired(BaseException):
    """The time of a whole stage is up.

    Not an Exception, so that no policy for a failing implementation takes it: the stage's own policy does.
    """


@dataclass(frozen=True, slots=True)
class Until:
    """Waits until one deadline for all that is awaited through it; raises `Expired` when that passes."""

    deadline: float

    async def __call__(self, awaitable: Awaitable[Any]) -> Any:
        with trio.CancelScope(deadline=self.deadline):
            return await awaitable
        raise Expired


@dataclass(frozen=True, slots=True)
class Within:
    """Waits up to `seconds` for each thing awaited through it; with `shield`, whatever else is cancelled meanwhile."""

    seconds: float
    shield: bool = False

    async def __call__(self, awaitable: Awaitable[Any]) -> Any:
        with trio.CancelScope(deadline=trio.current_time() + self.seconds, shield=self.shield):
            return await awaitable
        raise trio.TooSlowError(f"took longer than {self.seconds:g} seconds")


async def unlimited(awaitable: Awaitable[Any]) -> Any:
    """Waits as long as it takes."""
    return await awaitable
