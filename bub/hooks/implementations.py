"""The implementations that plugins bring for a hook point, in call order, and the arguments that each takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pluggy


class Implementation(msgspec.Struct, frozen=True):
    """One function of one plugin for one hook point.

    `required` and `optional` are the arguments it names, without and with a default; `everything` says that it
    takes `**kwargs`. `positional` are those that can be passed by position, in order. `rank` sorts into call
    order: `tryfirst` ones, then the last registered plugin first, then `trylast` ones (BEHAVIOURS H3, H4).
    """

    hook: str
    plugin: str
    function: Callable[..., Any]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    positional: tuple[str, ...]
    everything: bool
    rank: tuple[int, int]
    wrapper: bool = False
    is_optional: bool = False
    """Whether its point need not be declared: who declares it gets it, and nobody else misses it."""

    @property
    def is_async(self) -> bool:
        """Whether calling it surely gives something to await."""
        return inspect.iscoroutinefunction(self.function) or inspect.isasyncgenfunction(self.function)

    @property
    def source(self) -> tuple[str, int] | None:
        """The file and line it is written at, or None when Python does not know."""
        function = inspect.unwrap(self.function)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        return (code.co_filename, code.co_firstlineno) if code is not None else None


def implementations_of(manager: pluggy.PluginManager, hook: str) -> tuple[Implementation, ...]:
    """What the registered plugins bring for `hook`, in the order they are asked; () when there is nothing."""
    caller = getattr(manager.hook, hook, None)
    if caller is None:
        return ()
    return _implementations(caller, _order_in(manager))


def all_implementations(manager: pluggy.PluginManager) -> Mapping[str, tuple[Implementation, ...]]:
    """What the registered plugins bring for every hook, each read once, in the order they are asked."""
    order = _order_in(manager)
    return {hook: _implementations(caller, order) for hook, caller in vars(manager.hook).items()}


def in_call_order(found: Iterable[Implementation]) -> tuple[Implementation, ...]:
    """Implementations of one point, or of a point and its twin, sorted into the order they are asked."""
    return tuple(sorted(found, key=lambda implementation: implementation.rank))


def _order_in(manager: pluggy.PluginManager) -> Mapping[str, int]:
    return {name: index for index, (name, _) in enumerate(manager.list_name_plugin())}


def _implementations(caller: pluggy.HookCaller, order: Mapping[str, int]) -> tuple[Implementation, ...]:
    return in_call_order(_read(caller.name, impl, order) for impl in reversed(caller.get_hookimpls()))


def _read(hook: str, impl: Any, order: Mapping[str, int]) -> Implementation:
    required: list[str] = []
    optional: list[str] = []
    positional: list[str] = []
    everything = False
    for name, parameter in inspect.signature(impl.function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            everything = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            (required if parameter.default is parameter.empty else optional).append(name)
            if parameter.kind is not parameter.KEYWORD_ONLY:
                positional.append(name)
    age = order.get(impl.plugin_name, 0)
    # pluggy's own order, which is asked from its end: trylast ones stand first, the latest of them at the front.
    rank = (1, -age)
    if impl.tryfirst:
        rank = (0, -age)
    elif impl.trylast:
        rank = (2, age)
    return Implementation(
        hook=hook,
        plugin=impl.plugin_name,
        function=impl.function,
        required=tuple(required),
        optional=tuple(optional),
        positional=tuple(positional),
        everything=everything,
        rank=rank,
        wrapper=bool(impl.wrapper or impl.hookwrapper),
        is_optional=bool(impl.optionalhook),
    )
