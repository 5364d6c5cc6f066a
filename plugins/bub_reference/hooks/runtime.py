"""Calling the hooks of a plugin manager by name."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pluggy
from loguru import logger

from bub_reference.streaming import AsyncStreamEvents, StreamEvent


class HookRuntime:
    """Calls the implementations that a plugin manager has, the highest priority first."""

    def __init__(self, plugin_manager: pluggy.PluginManager) -> None:
        self._manager = plugin_manager

    async def call_first(self, hook_name: str, **kwargs: Any) -> Any:
        """The first answer that is not None."""
        for call in self._calls(hook_name, kwargs):
            value = await _settled(call())
            if value is not None:
                return value
        return None

    async def call_many(self, hook_name: str, **kwargs: Any) -> list[Any]:
        """All answers."""
        return [await _settled(call()) for call in self._calls(hook_name, kwargs)]

    def call_first_sync(self, hook_name: str, **kwargs: Any) -> Any:
        """The first answer that is not None, of those that need not be awaited."""
        return next((value for value in self.call_many_sync(hook_name, **kwargs) if value is not None), None)

    def call_many_sync(self, hook_name: str, **kwargs: Any) -> list[Any]:
        """All answers that need not be awaited; of one that has to be, the log tells."""
        values = []
        for call in self._calls(hook_name, kwargs):
            value = call()
            if not inspect.isawaitable(value):
                values.append(value)
                continue
            if inspect.iscoroutine(value):
                value.close()
            logger.warning("hook.async_not_supported hook={} plugin={}", hook_name, call.plugin)
        return values

    async def notify_error(self, *, stage: str, error: Exception, message: Any = None) -> None:
        """Tell all observers of errors; one that fails hides nothing."""
        for call in self._calls("on_error", {"stage": stage, "error": error, "message": message}):
            try:
                await _settled(call())
            except Exception as failure:  # noqa: BLE001 (an observer never hides what it is told about)
                logger.warning("hook.on_error_failed stage={} plugin={} error={!r}", stage, call.plugin, failure)

    async def run_model(self, prompt: Any, session_id: str, state: dict[str, Any]) -> str | None:
        """The answer of the first plugin that brings a model, as one text."""
        given = {"prompt": prompt, "session_id": session_id, "state": state}
        text = await self.call_first("run_model", **given)
        if text is None:
            events = await self.call_first("run_model_stream", **given)
            return None if events is None else "".join([part async for part in _texts(events)])
        if not isinstance(text, str):
            raise TypeError(f"hook.run_model must return a text, not {type(text).__name__}")
        return text

    async def run_model_stream(self, prompt: Any, session_id: str, state: dict[str, Any]) -> AsyncStreamEvents | None:
        """The answer of the first plugin that brings a model, as a stream; a text is a stream of one event."""
        given = {"prompt": prompt, "session_id": session_id, "state": state}
        events = await self.call_first("run_model_stream", **given)
        if events is not None:
            return events  # type: ignore[no-any-return]
        text = await self.call_first("run_model", **given)
        return None if text is None else AsyncStreamEvents(_of_text(text))

    def hook_report(self) -> dict[str, list[str]]:
        """The plugins of each hook that any implements."""
        report = {}
        for name, caller in sorted(vars(self._manager.hook).items()):
            if isinstance(caller, pluggy.HookCaller) and caller.get_hookimpls():
                report[name] = [found.plugin_name for found in caller.get_hookimpls()]
        return report

    def _calls(self, hook_name: str, kwargs: Mapping[str, Any]) -> Iterator[_Call]:
        caller = getattr(self._manager.hook, hook_name, None)
        for found in reversed(caller.get_hookimpls()) if caller is not None else ():
            yield _Call(found, {name: kwargs[name] for name in found.argnames if name in kwargs})


class _Call:
    """One implementation, and what it is given."""

    def __init__(self, found: pluggy.HookImpl, given: dict[str, Any]) -> None:
        self.plugin = found.plugin_name
        self._function, self._given = found.function, given

    def __call__(self) -> Any:
        return self._function(**self._given)


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _texts(events: AsyncIterator[StreamEvent]) -> AsyncIterator[str]:
    async for event in events:
        if event.kind == "text":
            yield str(event.data.get("delta", ""))


async def _of_text(text: str) -> AsyncIterator[StreamEvent]:
    yield StreamEvent("text", {"delta": text})
    yield StreamEvent("final", {"text": text, "ok": True})
