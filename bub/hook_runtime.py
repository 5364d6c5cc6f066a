"""Calling hooks on a plugin manager by name, outside a compiled pipeline: the face that plugins and tests use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pluggy

from bub.base.waiting import is_awaitable, skip_awaitable, unlimited
from bub.errors import HookError
from bub.hooks.binding import Call, bind
from bub.hooks.implementations import Implementation, implementations_of, in_call_order
from bub.hooks.kinds.broadcast import broadcast
from bub.hooks.kinds.firstresult import firstresult
from bub.hooks.kinds.stream import Pulled, as_events, stream, stream_error
from bub.hookspecs import ERROR_POINT, HOOK_POINTS, HookPoint, own_point
from bub.log import log_warning
from bub.streaming import AsyncStreamEvents


class HookRuntime:
    """Calls the implementations that are registered on `plugin_manager`, in Bub's order and with Bub's rules.

    Implementations run from the highest priority to the lowest: `tryfirst` ones, then the last registered plugin
    first, then `trylast` ones (BEHAVIOURS H3, H4). Each gets the keyword arguments that it names (H13, H14). What
    one raises leaves the call (H18); a hook name that no plugin implements has no implementations (H7).
    """

    def __init__(self, plugin_manager: pluggy.PluginManager) -> None:
        self._manager = plugin_manager

    async def call_first(self, hook_name: str, **kwargs: Any) -> Any:
        """Return the first result that is not None; None if there is none (BEHAVIOURS H6, H7)."""
        value, _ = await firstresult(*self._bind(hook_name, kwargs), unlimited, _raise)
        return value

    async def call_many(self, hook_name: str, **kwargs: Any) -> list[Any]:
        """Return the results of all implementations in call order, None included (BEHAVIOURS H8)."""
        return await broadcast(*self._bind(hook_name, kwargs), unlimited, _raise)

    def call_first_sync(self, hook_name: str, **kwargs: Any) -> Any:
        """Like `call_first`, without waiting: an async implementation is skipped with a warning (H11)."""
        for _, value in self._sync_results(hook_name, kwargs):
            if value is not None:
                return value
        return None

    def call_many_sync(self, hook_name: str, **kwargs: Any) -> list[Any]:
        """Like `call_many`, without waiting: an async implementation is skipped with a warning (H11)."""
        return [value for _, value in self.call_each_sync(hook_name, **kwargs)]

    def call_each_sync(self, hook_name: str, **kwargs: Any) -> list[tuple[str, Any]]:
        """Like `call_many_sync`, each result with the plugin that gave it."""
        return list(self._sync_results(hook_name, kwargs))

    async def notify_error(self, *, stage: str, error: Exception, message: Any = None) -> None:
        """Tell every `on_error` observer; one that fails is logged and hides neither the rest nor the error (H19)."""
        calls, values = self._bind(ERROR_POINT, {"stage": stage, "error": error, "message": message})

        async def log(call: Call, failure: Exception) -> None:
            log_warning("hook.on_error_failed", stage=stage, adapter=call.plugin, error=failure)

        await broadcast(calls, values, unlimited, log)

    def notify_error_sync(self, *, stage: str, error: Exception, message: Any = None) -> None:
        """Like `notify_error`, for callers that cannot await; async observers are skipped with a warning."""
        calls, values = self._bind(ERROR_POINT, {"stage": stage, "error": error, "message": message})
        arguments = calls.arguments(values)
        for call in calls.items:
            try:
                value = call.function(*arguments[call.signature])
            except Exception as failure:  # noqa: BLE001 (an observer never hides what it is told about)
                log_warning("hook.on_error_failed", stage=stage, adapter=call.plugin, error=failure)
                continue
            if is_awaitable(value):
                skip_awaitable(call.hook, call.plugin, value)

    async def run_model(self, prompt: Any, session_id: str, state: dict[str, Any], **more: Any) -> str | None:
        """Return the model's answer as one text, from `run_model` or `run_model_stream`: the one that answers first.

        Both points are asked together in priority order (BEHAVIOURS H25); a stream is collected into its text, and
        its `error` events are passed to `on_error` (H27). None when nobody answered.
        """
        kwargs = {"prompt": prompt, "session_id": session_id, "state": state, **more}
        calls, values = self._bind("run_model", kwargs, twin="run_model_stream")

        async def tell(event: Any) -> None:
            if event.kind == "error":
                error = stream_error(event.data)
                await self.notify_error(stage="run_model", error=error, message=more.get("message"))

        text, _ = await stream(calls, values, unlimited, _raise, tell, Pulled([]))
        return text

    async def run_model_stream(
        self, prompt: Any, session_id: str, state: dict[str, Any], **more: Any
    ) -> AsyncStreamEvents | None:
        """Return the model's answer as a stream, a plain text as a stream of one event; None if nobody answered.

        The caller closes the stream.
        """
        kwargs = {"prompt": prompt, "session_id": session_id, "state": state, **more}
        calls, values = self._bind("run_model_stream", kwargs, twin="run_model")
        arguments = calls.arguments(values)
        for call in calls.items:
            value = call.function(*arguments[call.signature])
            if is_awaitable(value):
                value = await value
            if value is not None:
                return as_events(call, value)
        return None

    def hook_report(self) -> dict[str, list[str]]:
        """Return each implemented hook with its plugins in the order they are asked (BEHAVIOURS H23)."""
        names = {caller.name for _, plugin in self._manager.list_name_plugin() for caller in self._callers(plugin)}
        return {
            name: [implementation.plugin for implementation in implementations_of(self._manager, name)]
            for name in sorted(names)
        }

    def _callers(self, plugin: object) -> list[pluggy.HookCaller]:
        return self._manager.get_hookcallers(plugin) or []

    def _bind(self, hook_name: str, kwargs: Mapping[str, Any], twin: str | None = None) -> tuple[Any, dict[str, Any]]:
        point = _point_of(hook_name, kwargs)
        found = self._implementations(hook_name)
        if twin is not None:
            found = in_call_order((*found, *self._implementations(twin)))
        # An argument that the point knows and nobody gave is None; one it does not know keeps its default.
        named = {name for implementation in found for name in implementation.required}
        values = {**{name: None for name in point.takes if name in named}, **kwargs}
        keys = {name: name for name in values}
        return bind(found, point, keys, twin=HOOK_POINTS.get(twin or "")), values

    def _implementations(self, hook_name: str) -> tuple[Implementation, ...]:
        found = implementations_of(self._manager, hook_name)
        for implementation in found:
            if implementation.wrapper:
                raise HookError(
                    f"plugin `{implementation.plugin}` implements {hook_name} as a wrapper, but Bub has no wrappers",
                    hook=hook_name,
                    plugin=implementation.plugin,
                    help="write it as a plain function",
                )
        return found

    def _sync_results(self, hook_name: str, kwargs: Mapping[str, Any]) -> Any:
        calls, values = self._bind(hook_name, kwargs)
        arguments = calls.arguments(values)
        for call in calls.items:
            value = call.function(*arguments[call.signature])
            if is_awaitable(value):
                skip_awaitable(call.hook, call.plugin, value)
            else:
                yield call.plugin, value if value is None else call.check(value)


async def _raise(call: Call, error: Exception) -> None:
    try:
        raise error
    finally:
        del error  # its traceback names this frame: the two would keep each other


def _point_of(hook_name: str, kwargs: Mapping[str, Any]) -> HookPoint:
    return HOOK_POINTS.get(hook_name) or own_point(hook_name, "broadcast", tuple(kwargs))
