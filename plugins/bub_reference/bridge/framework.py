"""The framework that an adopted plugin is made with: hooks of its own, everything else is Bub's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any

from bub_reference.bridge.beside import Beside
from bub_reference.bridge.messages import to_bub
from bub_reference.bridge.stores import ReferenceStore
from bub_reference.builtin.context import default_tape_context
from bub_reference.builtin.steering import InMemorySteeringInbox
from bub_reference.envelope import Envelope
from bub_reference.framework import BubFramework
from bub_reference.hooks.specs import hookimpl
from bub_reference.model_selection import ModelChoice, ModelOptions
from bub_reference.streaming import StreamEvent
from bub_reference.tape import TapeContext
from bub_reference.turn import TurnResult

_BUB = "bub"
"""The name of Bub itself in the plugin's manager."""


class AdoptedFramework(BubFramework):
    """Has the hooks of one plugin in its manager; `view` is what Bub shows it, `within` where its code runs."""

    def __init__(self, view: Any, within: Callable[[], AbstractContextManager[Any]]) -> None:
        self._view = view
        self._within = within
        super().__init__(view.home / "config.yml")
        self.workspace = view.workspace
        self._plugin_manager.register(_BubItself(view), name=_BUB)
        self._inbox: Callable[[Envelope], Awaitable[None]] | None = None
        self._own_channels: frozenset[str] = frozenset()
        self._lent: ExitStack | None = None
        self._beside: Beside | None = None

    def take_inbox(self, inbox: Callable[[Envelope], Awaitable[None]], own_channels: Iterable[str]) -> None:
        """Remember what takes messages that come in, and which channels are the plugin's own."""
        self._inbox, self._own_channels = inbox, frozenset(own_channels)

    def _read_settings(self) -> None:
        """The settings are the profile's: nothing is read here."""

    def implementations(self, hook: str) -> Iterator[Any]:
        """What the plugin has for a hook, the highest priority first."""
        caller = getattr(self._plugin_manager.hook, hook, None)
        found = reversed(caller.get_hookimpls()) if caller is not None else ()
        return (one for one in found if one.plugin_name != _BUB)

    def own_hooks(self) -> dict[str, Any]:
        """The hooks that the plugin has, each with its priority."""
        names = [name for name, _ in vars(self._plugin_manager.hook).items() if not name.startswith("_")]
        found = ((name, next(self.implementations(name), None)) for name in names)
        return {name: {"tryfirst": one.tryfirst, "trylast": one.trylast} for name, one in found if one is not None}

    @contextmanager
    def lending_store(self) -> Iterator[None]:
        """Have Bub's own tape store for those who ask within the block, if nothing runs."""
        with ExitStack() as stack:
            self._lent = stack
            try:
                yield
            finally:
                self._lent = None

    def get_tape_store(self) -> ReferenceStore | None:
        """Bub's tape store while it runs, or while a command does."""
        store = self._view.get_tape_store()
        if store is not None:
            return ReferenceStore(store)
        own = _BubItself(self._view).provide_tape_store() if self._lent is not None else None
        return self._lent.enter_context(contextmanager(lambda: own)()) if own is not None and self._lent else None

    def build_tape_context(self) -> TapeContext:
        """What of a tape a model reads."""
        return default_tape_context()

    async def get_model_options(self, *, session_id: str, workspace: Any = None) -> ModelOptions:
        """The model of the profile, and what the plugin adds."""
        own = await super().get_model_options(session_id=session_id, workspace=workspace)
        model = self._view.settings.get("model")
        known = [ModelChoice(str(model))] if model and all(choice.id != model for choice in own.models) else []
        return ModelOptions([*known, *own.models], own.current_model or model)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[AsyncExitStack]:
        """Bub runs already, except a command; the plugin's inbox for steering is open as long as the block lasts."""
        async with AsyncExitStack() as stack:
            if self._lent is not None:
                self._beside = await stack.enter_async_context(Beside(self._view))
            self._steering_inbox = self._hook_runtime.call_first_sync("provide_steering_inbox")
            try:
                yield stack
            finally:
                self._steering_inbox = self._beside = None

    async def process_inbound(self, inbound: Envelope, stream_output: bool = False) -> TurnResult:
        """Carry a message through the pipeline to its replies, which go to the router if there is one.

        A message for a channel of another plugin goes through the inbox, as if that channel had brought it: its replies
        are sent there, and not known here.
        """
        message = await to_bub(inbound, is_active=True)
        if self._channel_router is None and self._inbox is not None and message.channel not in self._own_channels:
            await self._inbox(message)
            return TurnResult(message.origin, message.content, "")
        events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()

        async def hear(event: StreamEvent, _: Envelope) -> None:
            events.put_nowait(event)

        router, listening = self._channel_router, None
        more: dict[str, Any] = {"dispatch": router.dispatch_output} if router is not None else {}
        if router is not None and stream_output and hasattr(router, "wrap_stream"):
            listening = asyncio.ensure_future(_run_out(router.wrap_stream(inbound, _until_none(events))))
            more["on_event"] = hear
        try:
            runtime = self._view if self._beside is None else self._beside
            result = await runtime.process_inbound(message, stream_output, **more)
        finally:
            events.put_nowait(None)
            if listening is not None:
                await asyncio.gather(listening, return_exceptions=True)
        return TurnResult(
            result.session_id or message.origin,
            getattr(result, "prompt", None) or message.content,
            result.model_output or "",
            list(result.outbounds or ()),
            dict(getattr(result, "state", None) or {}),
        )


class _BubItself:
    """What Bub provides if the plugin looks for the one behind it."""

    def __init__(self, view: Any) -> None:
        self._view = view

    @hookimpl(trylast=True)
    def provide_tape_store(self) -> Any:
        """Bub's next tape store, opened as long as the iterator runs."""
        for implementation in self._view.implementations("provide_tape_store"):
            if implementation.plugin == "builtin":
                manager = implementation.function()
                # What several gateways share is asked in trio only: it is there while Bub runs.
                return _opened(manager) if hasattr(manager, "__enter__") else None
        return None

    @hookimpl(trylast=True)
    def provide_steering_inbox(self) -> InMemorySteeringInbox:
        """An inbox that forgets."""
        return InMemorySteeringInbox()


def _opened(manager: Any) -> Iterator[ReferenceStore]:
    with manager as store:
        yield ReferenceStore(store)


async def _until_none(events: asyncio.Queue[StreamEvent | None]) -> AsyncIterator[StreamEvent]:
    while (event := await events.get()) is not None:
        yield event


async def _run_out(events: Any) -> None:
    async for _ in events:
        pass
