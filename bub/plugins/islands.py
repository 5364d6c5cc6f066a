"""What a plugin brings that runs on asyncio, and what it is handed: its tools, its bus, and the framework."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from bub.base.waiting import settled
from bub.hooks.islands import lend_lifespan
from bub.island.guest import Guest
from bub.island.island import Island
from bub.island.manager import IslandManager
from bub.plugins.tool_arguments import CONTEXT
from bub.streaming import AsyncStreamEvents
from bub.tools import Tool, ToolContext


def tool_from(island: Island, tool: Tool) -> Tool:
    """The same tool, whose function runs on an island; a plain one runs on its loop, too."""

    @functools.wraps(tool.function)
    async def cross(*given: Any, **arguments: Any) -> Any:
        if isinstance(arguments.get(CONTEXT), ToolContext):
            arguments[CONTEXT] = _context_there(island, arguments[CONTEXT])
        return await island.call(functools.partial(tool.function, *given, **arguments))

    return replace(tool, function=cross)


def _context_there(island: Island, context: ToolContext) -> ToolContext:
    fire, tape, turn = (
        Guest(island, one) if one is not None else None for one in (context.fire, context.tape, context.turn)
    )
    return replace(context, fire=fire, tape=tape, turn=turn)


class IslandBus:
    """A bus that lives on an island."""

    def __init__(self, island: Island, bus: Any) -> None:
        self._island = island
        self._bus = bus
        for name in ("requeue_inbound", "set_aside"):
            if hasattr(bus, name):
                setattr(self, name, functools.partial(island.call, getattr(bus, name)))

    async def publish_inbound(self, message: Any) -> None:
        """Hand over a message that wants a turn."""
        await self._island.call(self._bus.publish_inbound, message)

    async def publish_outbound(self, message: Any) -> None:
        """Hand over a reply that is to be sent."""
        await self._island.call(self._bus.publish_outbound, message)

    async def next_inbound(self, timeout_seconds: float | None = None) -> Any:
        """The next message."""
        return await self._island.call(self._bus.next_inbound, timeout_seconds)

    async def next_outbound(self, timeout_seconds: float | None = None) -> Any:
        """The next reply."""
        return await self._island.call(self._bus.next_outbound, timeout_seconds)


class IslandFramework(Guest):
    """The framework as a plugin on an island sees it: what it hands over runs there, and what it awaits in trio."""

    async def process_inbound(
        self, message: Any, stream_output: bool = False, on_event: Any = None, **more: Any
    ) -> Any:
        """Carry one message through the pipeline to its replies."""
        there = {name: self._from_there(more.pop(name, None)) for name in ("ask", "dispatch")}
        carry = self._island.back(self._host.process_inbound)
        message, on_event = lend_lifespan(self._island, message), self._from_there(on_event)
        return await carry(message, stream_output, on_event, **there, **more)

    async def shared(self, factory: Callable[[], Any]) -> Any:
        """What `factory` opens on the island, opened once for everybody and closed with the runtime."""
        return await self._island.back(self._host.shared)(_Factory(self._island, factory))

    async def call_model(self, request: Any, session_id: str) -> AsyncStreamEvents | None:
        """The answer of the first plugin that brings the model itself."""
        stream = await self._island.back(self._host.call_model)(request, session_id)
        return AsyncStreamEvents(_Pulled(self._island, stream), stream.state) if stream is not None else None

    def seen_by(self, profile: str) -> IslandFramework:
        """The same runtime as the plugins of another of its profiles see it."""
        return IslandFramework(self._island, self._host.seen_by(profile))

    def get_tape_store(self) -> Any:
        """The tape store while the runtime is open."""
        return self._guest(self._host.get_tape_store())

    @property
    def registry(self) -> Any:
        """Registers handlers that come and go while it runs."""
        return _Registry(self._island, self._host.registry)

    @property
    def ask(self) -> Any:
        """Puts a question to the person who started the turn under way."""
        return self._guest(self._host.ask)

    @property
    def steering(self) -> Any:
        """Holds what comes for the turn under way while it runs."""
        return self._guest(self._host.steering)

    def _guest(self, value: Any) -> Any:
        return Guest(self._island, value) if value is not None else None

    def _from_there(self, function: Any) -> Any:
        return _from_there(self._island, function)


def _from_there(island: Island, function: Any) -> Any:
    """A function of a plugin as trio can call it."""
    return functools.partial(island.call, function) if function is not None else None


class _Registry(Guest):
    """The registry: handlers that a plugin on an island registers are called there."""

    def register_void(self, name: str, handler: Any, plugin: str | None = None) -> Any:
        return self._host.register_void(name, _from_there(self._island, handler), plugin)

    def register_modifying(self, name: str, handler: Any, plugin: str | None = None) -> Any:
        return self._host.register_modifying(name, _from_there(self._island, handler), plugin)

    def register_claiming(self, name: str, handler: Any, plugin: str | None = None) -> Any:
        return self._host.register_claiming(name, _from_there(self._island, handler), plugin)


class _Factory:
    """A factory of a plugin, as the same one each time: equal ones open one thing."""

    def __init__(self, island: Island, factory: Callable[[], Any]) -> None:
        self._island = island
        self._factory = factory
        self.__module__ = getattr(factory, "__module__", "")
        self.__self__ = getattr(factory, "__self__", None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Factory) and self._factory == other._factory

    def __hash__(self) -> int:
        return hash(self._factory)

    def __call__(self) -> IslandManager:
        return IslandManager(self._island, self._factory)


class _Pulled:
    """A stream that trio makes, pulled on an island."""

    def __init__(self, island: Island, stream: AsyncStreamEvents) -> None:
        self._next = island.back(_next_of(stream))
        self.aclose = island.back(stream.aclose)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        return await self._next()


def _next_of(stream: AsyncStreamEvents) -> Callable[[], Awaitable[Any]]:
    iterator = aiter(stream)

    async def pull() -> Any:
        return await settled(anext(iterator))

    return pull
