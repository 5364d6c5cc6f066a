"""Implementations that take long have a span of their own: they are timed if telemetry is on, and not at all if not."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from bub.base.tracing.activity import Activity, begin
from bub.base.waiting import PLAIN, is_awaitable, split_cancelled
from bub.hooks.facts import BUILTIN
from bub.hooks.implementations import Implementation


def time_slow(slow: float, profile: str, stage: str, found: tuple[Implementation, ...]) -> tuple[Implementation, ...]:
    """Make others of the implementations of a stage that note when one of their calls has taken `slow` seconds.

    Bub's own are left alone: the stage says what they take, and what they do has spans itself. Of one that streams,
    what it does until its stream is there counts.
    """
    return tuple(one if _is_left_alone(one) else _timed(one, slow) for one in found)


def _is_left_alone(one: Implementation) -> bool:
    return one.plugin == BUILTIN or inspect.isasyncgenfunction(one.function)


def _timed(one: Implementation, slow: float) -> Implementation:
    function, name = one.function, f"{one.hook}:{one.plugin}"

    def note(began: float, outcome: str, error: BaseException | None = None) -> None:
        activity: Activity = begin("implementation", name, hook=one.hook, plugin=one.plugin)
        activity.began = began
        activity.end(outcome, **({"error": type(error).__name__} if error is not None else {}))

    async def later(value: Any, began: float) -> Any:
        try:
            came = await value
        except BaseException as error:
            if perf_counter() - began >= slow:
                note(began, *_ending_of(error))
            raise
        if perf_counter() - began >= slow:
            note(began, "ok")
        return came

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        began = perf_counter()
        try:
            value = function(*arguments, **named)
        except BaseException as error:
            if perf_counter() - began >= slow:
                note(began, *_ending_of(error))
            raise
        if type(value) not in PLAIN and is_awaitable(value):
            return later(value, began)
        if perf_counter() - began >= slow:
            note(began, "ok")
        return value

    @functools.wraps(function)
    async def call_later(*arguments: Any, **named: Any) -> Any:
        # The same again, since another coroutine for each call costs more than all else here.
        began = perf_counter()
        try:
            came = await function(*arguments, **named)
        except BaseException as error:
            if perf_counter() - began >= slow:
                note(began, *_ending_of(error))
            raise
        if perf_counter() - began >= slow:
            note(began, "ok")
        return came

    timed: Callable[..., Any] = call_later if inspect.iscoroutinefunction(function) else call
    return replace(one, function=timed)


def _ending_of(error: BaseException) -> tuple[str, BaseException | None]:
    _, failure = split_cancelled(error)
    return ("failed", failure) if failure is not None else ("cancelled", None)
