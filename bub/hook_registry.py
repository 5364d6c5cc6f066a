"""Handlers that come and go while a program runs, on hook points that are called as their kinds say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec.structs import replace

from bub.base.diagnostics import did_you_mean
from bub.base.waiting import unlimited
from bub.errors import HookError, HookTypeError
from bub.hooks.binding import AS_THEY_ARE, Call, Calls, Manner, Values
from bub.hooks.facts import BUILTIN
from bub.hooks.frozen import freeze
from bub.hooks.kinds.claiming import claiming
from bub.hooks.kinds.modifying import modifying
from bub.hooks.kinds.void import void
from bub.log import log_exception, log_warning

_BY_KIND = {
    "void": (
        "session_start before_llm_call after_llm_call after_tool_call tool_end_with_path agent_done message_received"
        " message_sent subagent_spawned subagent_ended"
    ),
    "modifying": "before_prompt_build before_tool_call message_sending personality_switched subagent_spawning",
    "claiming": "inbound_claim before_dispatch",
}

ETHOS_POINTS: Mapping[str, str] = MappingProxyType(
    {name: kind for kind, names in _BY_KIND.items() for name in names.split()}
)
"""The points that every registry knows, each with its kind (BEHAVIOURS E1)."""

HANDLER_KINDS = tuple(_BY_KIND)
"""The kinds of point that handlers can be registered on."""

Handler: TypeAlias = Callable[[Any], Any]
"""Takes the payload; a `def` or an `async def`."""

Remove: TypeAlias = Callable[[], None]
"""Takes one registration back; calling it again does nothing."""


class HookRegistry:
    """Calls the handlers that are registered on it, in order of registration, as the kind of their point says.

    `points` are points beside those of Ethos, or in their place: name → `void`, `modifying` or `claiming`. A handler
    belongs to a `plugin`, or to nobody, which makes it a built-in one. Who fires a point says with `allowed_plugins`
    whose handlers are called; built-in ones always are, and without a word (None) no others (BEHAVIOURS E11, E12).

    A fire calls those that were registered when it began, whatever they register and remove. What a handler raises,
    or returns against its kind, is logged and counted in `failures`, and the others go on. For the thread of the event
    loop.
    """

    def __init__(self, points: Mapping[str, str] | None = None) -> None:
        self.failures: Counter[tuple[str, str]] = Counter()
        """How often handlers failed, by point and plugin."""
        self._own = dict(ETHOS_POINTS)
        for name, kind in (points or {}).items():
            self._own[name] = _possible(name, kind)
        self._kinds = dict(self._own)
        self._closed: Mapping[str, str] = {}
        self._handlers: dict[str, tuple[Call, ...]] = {}
        self.registered: Mapping[str, tuple[Call, ...]] = self._handlers
        """What is registered now, by point; a point without handlers is not in it. To be looked at only: that it is
        the dict itself, and no view of it, makes a turn cheaper."""

    # Points.

    @property
    def points(self) -> Mapping[str, str]:
        """Every point by name, with its kind."""
        return MappingProxyType(self._kinds)

    def add_point(self, name: str, kind: str) -> None:
        """Let this registry know one more point; HookError if it knows it with another kind (BEHAVIOURS E1)."""
        self._open(name, "")
        if self._kinds.setdefault(name, _possible(name, kind)) != kind:
            raise HookError(
                f"`{name}` is a {self._kinds[name]} point, and the kind of a point does not change",
                hook=name,
                plugin="",
                help="choose another name",
            )
        self._own.setdefault(name, kind)

    def learn(self, points: Mapping[str, str], closed: Mapping[str, str]) -> None:
        """Learn the points of a pipeline, by name with their kinds, in place of those of the pipeline before it.

        `closed` are points that take no handlers, each with the reason. If handlers are registered on a point
        that would be closed or of another kind, raises HookError and forgets nothing.
        """
        kept = {name: self._kinds[name] for name in tuple(self._handlers)}
        for name, kind in kept.items():
            if name in closed or points.get(name, kind) != kind:
                raise HookError(
                    f"`{name}` would not be a {kind} point any more, and handlers are registered on it",
                    hook=name,
                    plugin="",
                    help="take them back first, or leave the point as it is in the pipeline file",
                )
        known = {**self._own, **points, **kept}
        self._kinds = {name: kind for name, kind in known.items() if name not in closed}
        self._closed = dict(closed)

    # Registering.

    def register_void(self, name: str, handler: Handler, plugin: str | None = None) -> Remove:
        """Call `handler` when the void point `name` fires.

        Returns what takes this one registration back. Raises HookError for a point that is not there, with a
        suggestion, or that is of another kind.
        """
        return self._register(name, "void", handler, plugin)

    def register_modifying(self, name: str, handler: Handler, plugin: str | None = None) -> Remove:
        """Let `handler` say what it wants changed, in a dict, when the modifying point `name` fires.

        Returns and raises what `register_void` does.
        """
        return self._register(name, "modifying", handler, plugin)

    def register_claiming(self, name: str, handler: Handler, plugin: str | None = None) -> Remove:
        """Let `handler` take over, with `{"handled": True, …}`, what the claiming point `name` fires for.

        Returns and raises what `register_void` does.
        """
        return self._register(name, "claiming", handler, plugin)

    def _register(self, name: str, kind: str, handler: Handler, plugin: str | None) -> Remove:
        self._expect(name, kind, "register", plugin)
        if not callable(handler):
            raise HookError(
                f"the handler for `{name}` is {type(handler).__name__}, which cannot be called",
                hook=name,
                plugin=plugin or BUILTIN,
                help="register a function that takes the payload",
            )
        entry = Call(name, plugin or BUILTIN, handler, signature=-1)
        self._handlers[name] = (*self._handlers.get(name, ()), entry)

        def remove() -> None:
            self._keep(name, lambda one: one is not entry)

        return remove

    def unregister_plugin(self, plugin: str) -> None:
        """Remove all that a plugin has registered (BEHAVIOURS E15); built-in handlers belong to no plugin and stay."""
        if plugin not in _NOBODY:
            for name in tuple(self._handlers):
                self._keep(name, lambda one: one.plugin != plugin)

    def _keep(self, name: str, wanted: Callable[[Call], bool]) -> None:
        kept = tuple(one for one in self._handlers.get(name, ()) if wanted(one))
        if kept:
            self._handlers[name] = kept
        else:
            self._handlers.pop(name, None)

    def has_handlers(self, name: str) -> bool:
        """Whether anything is registered on a point, even by plugins that are not allowed (BEHAVIOURS E15)."""
        self._find_kind(name, "")
        return name in self._handlers

    # Firing.

    async def fire_void(self, name: str, payload: Any, allowed_plugins: Collection[str] | None = None) -> None:
        """Tell every handler, all at once, and return when all have ended (BEHAVIOURS E2, E3)."""
        self._expect(name, "void", "fire")
        await void(_wrap_handlers(self.handlers(name, allowed_plugins)), payload, unlimited, self._log_failure)

    async def fire_modifying(
        self, name: str, payload: Any, allowed_plugins: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return what the handlers want changed: for each key the first value that is not None (BEHAVIOURS E5-E8).

        Each gets the same payload, whose dicts and lists cannot be changed.
        """
        self._expect(name, "modifying", "fire")
        handlers = self.handlers(name, allowed_plugins)
        return await modifying(
            _wrap_handlers(handlers), _frozen(payload) if handlers else payload, unlimited, self._log_failure
        )

    async def fire_claiming(
        self, name: str, payload: Any, allowed_plugins: Collection[str] | None = None
    ) -> Mapping[str, Any]:
        """Return the first claim as a whole, or `{"handled": False}` if nobody claims (BEHAVIOURS E9)."""
        self._expect(name, "claiming", "fire")
        claim, _ = await claiming(
            _wrap_handlers(self.handlers(name, allowed_plugins)), payload, unlimited, self._log_failure
        )
        return claim

    async def _log_failure(self, call: Call, error: Exception) -> None:
        self.failures[call.hook, call.plugin] += 1
        if isinstance(error, HookTypeError):
            log_warning("hook.handler_failed", hook=call.hook, adapter=call.plugin, error=error)
        else:
            log_exception("hook.handler_failed", error, hook=call.hook, adapter=call.plugin)

    # Together with the implementations of a pipeline.

    def handlers(self, name: str, allowed_plugins: Collection[str] | None) -> tuple[Call, ...]:
        """Return the handlers of a point that would be called now, in order of registration.

        If the caller does not say which plugins are allowed, the log names the handlers of plugins that are left out:
        a caller that forgets them leaves guards out (BEHAVIOURS E13).
        """
        found = self._handlers.get(name, ())
        if not found:
            return ()
        if isinstance(allowed_plugins, str):
            raise TypeError("allowed_plugins are names of plugins, such as a list; this is one text")
        allowed = _NOBODY.union(allowed_plugins or ())
        chosen = tuple(one for one in found if one.plugin in allowed)
        if allowed_plugins is None and len(chosen) < len(found):
            left_out = dict.fromkeys(one.plugin for one in found if one.plugin not in allowed)
            log_warning("hook.plugins_not_asked", hook=name, adapters=", ".join(left_out), reason="no allowed_plugins")
        return chosen

    def in_front_of(
        self,
        calls: Calls,
        name: str,
        payload: Callable[[Values], Mapping[str, Any]],
        *,
        allowed_plugins: Collection[str],
        manner: Manner = AS_THEY_ARE,
    ) -> Calls:
        """Put the handlers of a point before the implementations that plugins bring for it.

        The kind that these are called with counts for all, and `manner` says, as for `bind`, whether they may only
        look, for which stage they are called and what a failure does. `payload` makes, of the values that arguments
        are fetched from, what a handler is given. If no handler is registered, `calls` themselves come back; a
        point that this registry does not know has none.
        """
        handlers = self.handlers(name, allowed_plugins)
        if not handlers:
            return calls
        mine = [replace(one, stage=manner.stage, on_failure=manner.on_failure) for one in handlers]

        def arguments(values: Values) -> Sequence[tuple[Any, ...]]:
            told = payload(values)
            return (*calls.arguments(values), (_frozen(told) if manner.frozen else told,))

        return Calls((*mine, *calls.items), arguments)

    # Refusing.

    def _open(self, name: str, plugin: str | None) -> None:
        if name in self._closed:
            advice = "implement it in a plugin, with @hookimpl"
            raise HookError(self._closed[name], hook=name, plugin=plugin or BUILTIN, help=advice)

    def _find_kind(self, name: str, plugin: str | None) -> str:
        self._open(name, plugin)
        kind = self._kinds.get(name)
        if kind is None:
            advice = did_you_mean(name, self._kinds) or "add_point makes a point of your own"
            raise HookError(f"there is no hook point `{name}`", hook=name, plugin=plugin or BUILTIN, help=advice)
        return kind

    def _expect(self, name: str, kind: str, verb: str, plugin: str | None = None) -> None:
        known = self._find_kind(name, plugin)
        if known != kind:
            raise HookError(
                f"`{name}` is a {known} point, not a {kind} one",
                hook=name,
                plugin=plugin or BUILTIN,
                help=f"use {verb}_{known}",
            )


_NOBODY = frozenset(("", BUILTIN))
"""Whom built-in handlers belong to."""


def _possible(name: str, kind: str) -> str:
    if kind not in _BY_KIND:
        raise HookError(
            f"`{name}` cannot be a {kind} point here",
            hook=name,
            plugin="",
            help=did_you_mean(kind, _BY_KIND) or f"handlers are called as {', '.join(_BY_KIND)}",
        )
    return kind


def _wrap_handlers(handlers: tuple[Call, ...]) -> Calls:
    """Handlers, ready to be called with a payload: it is the last, and only, signature there is."""
    return Calls(handlers, lambda payload: ((payload,),))


def _frozen(payload: Any) -> Any:
    return freeze(dict(payload) if isinstance(payload, Mapping) else payload)
