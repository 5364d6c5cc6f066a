"""Implementations of a plugin that runs on asyncio: called from trio like all others, they run on its island."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from bub.envelope import Envelope, field_of
from bub.hooks.loops import ON_NO_LOOP
from bub.hookspecs import HOOK_POINTS
from bub.island.guest import Guest
from bub.island.island import Island
from bub.island.manager import IslandManager
from bub.island.stream import IslandStream
from bub.streaming import AsyncStreamEvents

_IN_A_TURN = frozenset(("system_prompt", "build_tape_context"))
"""What is called in turns and may not be awaited, so that other turns wait for it, too."""

_QUICKLY, _AT_THE_START = 0.5, 8.0
"""How long, in seconds, a plain function may take that the whole process waits for."""


class Customs(Protocol):
    """Turns values into what the other side can use."""

    def bring_in(self, hook: str, value: Any) -> Any:
        """An argument of an implementation, as the plugin gets it."""

    def bring_out(self, hook: str, value: Any) -> Any:
        """What an implementation returned, as Bub gets it."""


def move(hook: str, function: Callable[..., Any], island: Island, customs: Customs) -> Callable[..., Any]:
    """An implementation as Bub calls it: it runs on an island, and is awaited unless nothing is at its point."""
    point = HOOK_POINTS.get(hook)
    is_sync = point is not None and point.sync_only
    if hook in ON_NO_LOOP or (is_sync and inspect.iscoroutinefunction(function)):
        return function

    def prepare(arguments: tuple[Any, ...], named: dict[str, Any]) -> Callable[[], Any]:
        given = [customs.bring_in(hook, value) for value in arguments]
        return functools.partial(function, *given, **{key: customs.bring_in(hook, named[key]) for key in named})

    if is_sync:
        patience = _QUICKLY if hook in _IN_A_TURN else _AT_THE_START

        @functools.wraps(function)
        def wait(*arguments: Any, **named: Any) -> Any:
            return customs.bring_out(hook, island.call_now(prepare(arguments, named), patience=patience))

        return wait

    @functools.wraps(function)
    async def cross(*arguments: Any, **named: Any) -> Any:
        return customs.bring_out(hook, await island.call(prepare(arguments, named)))

    return cross


def as_seen_there(island: Island, value: Any) -> Any:
    """A value as code on an island can use it: what can be called and has to be awaited runs in trio."""
    if not callable(value) or isinstance(value, type):
        return value
    return island.back(value) if inspect.iscoroutinefunction(value) else Guest(island, value)


def lend_lifespan(island: Island, message: Envelope) -> Envelope:
    """A message whose `lifespan`, if it has one, is opened on an island."""
    lifespan = field_of(message, "lifespan")
    if lifespan is None or isinstance(lifespan, IslandManager):
        return message
    if isinstance(message, Mapping):
        return {**message, "lifespan": IslandManager(island, lifespan)}
    return dataclasses.replace(message, lifespan=IslandManager(island, lifespan))


def as_seen_here(island: Island, value: Any) -> Any:
    """A value from an island as trio can use it: a stream produces there."""
    if isinstance(value, AsyncStreamEvents):
        return AsyncStreamEvents(IslandStream(island, aiter(value)), value.state)
    return IslandStream(island, value) if isinstance(value, AsyncIterator) else value
