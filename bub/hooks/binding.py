"""Binding: an implementation becomes a call that needs no reflection."""

from __future__ import annotations

import operator
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec
import trio
from msgspec.structs import replace

from bub.base.backoff import Backoff
from bub.base.waiting import is_awaitable, settled, skip_awaitable
from bub.errors import HookTypeError
from bub.hooks.facts import BUILTIN, RESERVED_STATE
from bub.hooks.frozen import freeze
from bub.hooks.implementations import Implementation
from bub.hookspecs import Form, HookPoint
from bub.log import log_warning
from bub.streaming import AsyncStreamEvents

Values: TypeAlias = Any
"""What arguments are fetched from: the slots of a turn (a list), or a mapping by name."""


class Call(msgspec.Struct, frozen=True):
    """An implementation that is ready to be called with the arguments of its `signature`, by position.

    `stage` is whom it is called for, `on_failure` what a failure of it does there.
    """

    hook: str
    plugin: str
    function: Callable[..., Any]
    signature: int
    returns: tuple[type, ...] | None = None
    form: Form = "either"
    stage: str = ""
    on_failure: str = "propagate"

    def check(self, value: Any) -> Any:
        """Return the value if its point allows it, else raise HookTypeError (BEHAVIOURS H31)."""
        if self.returns is not None and not isinstance(value, self.returns):
            expected = " or ".join(kind.__name__ for kind in self.returns)
            raise HookTypeError(self.hook, self.plugin, f"{expected} or None", value)
        if type(value) is dict and self.plugin != BUILTIN:
            for key in value:
                if type(key) is str and key.startswith(RESERVED_STATE):
                    return self._without_reserved(value)
        return value

    def _without_reserved(self, value: dict[str, Any]) -> dict[str, Any]:
        """Leave out what a plugin may not say in the runtime's name (BEHAVIOURS T8)."""
        log_warning("hook.reserved_keys_left_out", hook=self.hook, adapter=self.plugin, prefix=RESERVED_STATE)
        return {key: item for key, item in value.items() if not str(key).startswith(RESERVED_STATE)}


Fetch: TypeAlias = Callable[[Values], tuple[Any, ...]]
"""Takes the arguments of one signature out of the values."""


class Calls(msgspec.Struct, frozen=True):
    """The implementations of a point in call order; `arguments` fetches those of every signature, each once."""

    items: tuple[Call, ...] = ()
    arguments: Callable[[Values], Sequence[tuple[Any, ...]]] = lambda values: ()

    @classmethod
    def of(cls, items: Iterable[Call], fetchers: Sequence[Fetch], *, frozen: bool = False) -> Calls:
        """Put calls together with what fetches their arguments, which are read-only if `frozen`."""
        if frozen:
            return cls(
                tuple(items), lambda values: [tuple([freeze(one) for one in fetch(values)]) for fetch in fetchers]
            )
        if not fetchers:  # nobody to be called
            return cls(tuple(items))
        if len(fetchers) == 1:
            (fetch,) = fetchers
            return cls(tuple(items), lambda values: (fetch(values),))
        return cls(tuple(items), lambda values: [fetch(values) for fetch in fetchers])


class Manner(msgspec.Struct, frozen=True):
    """How implementations are called beside their kind: read-only, in a thread, again after a failure, for whom.

    `idle` is how long, in seconds, a stream may be silent.
    """

    frozen: bool = False
    thread: bool = False
    retries: int = 0
    backoff: float = 0.0
    stage: str = ""
    on_failure: str = "propagate"
    idle: float | None = None


AS_THEY_ARE = Manner()


def bind(
    implementations: Iterable[Implementation],
    point: HookPoint,
    keys: Mapping[str, Any],
    *,
    manner: Manner = AS_THEY_ARE,
    twin: HookPoint | None = None,
    absent: Any = None,
    skip_awaitables: bool = False,
) -> Calls:
    """Make implementations ready to be called with what `keys` finds: argument name → slot or name.

    `absent` is where a required argument that `keys` does not know is fetched from; without it such an argument is
    not passed. `twin` is the point whose implementations are among them too. With `skip_awaitables`, what an
    implementation of a sync-only point returns to be awaited counts as None.

    An implementation gets what it names and `keys` knows, parameters with defaults and `**kwargs` included
    (BEHAVIOURS H13, H14). That every required name is known is the compiler's business.
    """
    fetchers: dict[tuple[Any, ...], int] = {}
    calls = []
    for implementation in implementations:
        known = keys if absent is None else {**dict.fromkeys(implementation.required, absent), **keys}
        names, function = _adapt(implementation, known)
        signature = fetchers.setdefault(tuple(known[name] for name in names), len(fetchers))
        facts = point if implementation.hook == point.name or twin is None else twin
        if facts.sync_only and skip_awaitables:
            function = _synchronous(implementation, function)
        elif manner.thread and not implementation.is_async:
            function = _in_thread(function)
        if manner.retries:
            function = _retry(function, manner)
        who = (implementation.hook, implementation.plugin)
        told = (manner.stage, manner.on_failure)
        calls.append(Call(*who, function, signature, facts.returns, facts.form, *told))
    return Calls.of(calls, [_fetcher(key) for key in fetchers], frozen=manner.frozen)


def _adapt(implementation: Implementation, keys: Mapping[str, Any]) -> tuple[tuple[str, ...], Callable[..., Any]]:
    """Find the argument names to fetch, and make a function that takes exactly these by position."""
    named = (*implementation.required, *implementation.optional)
    wanted = [name for name in named if name in keys]
    if implementation.everything:
        wanted += [name for name in keys if name not in named]
    by_position = implementation.positional[: len(wanted)]
    if sorted(by_position) == sorted(wanted):
        return by_position, implementation.function
    names, function = tuple(wanted), implementation.function

    def by_keyword(*arguments: Any) -> Any:
        return function(**dict(zip(names, arguments, strict=True)))

    return names, by_keyword


def _fetcher(keys: tuple[Any, ...]) -> Fetch:
    if not keys:
        return lambda values: ()
    if len(keys) == 1:
        (key,) = keys
        return lambda values: (values[key],)
    return operator.itemgetter(*keys)


def _synchronous(implementation: Implementation, function: Callable[..., Any]) -> Callable[..., Any]:
    def skip_what_must_be_awaited(*arguments: Any) -> Any:
        value = function(*arguments)
        if is_awaitable(value):
            skip_awaitable(implementation.hook, implementation.plugin, value)
            return None
        return value

    return skip_what_must_be_awaited


def _in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> tuple[Any]:
        # In a tuple, since trio takes a coroutine that leaves a thread for a mistake.
        return (function(*arguments),)

    async def in_thread(*arguments: Any) -> Any:
        (value,) = await trio.to_thread.run_sync(partial(call, *arguments), abandon_on_cancel=True)
        return await settled(value)

    return in_thread


def in_words(call: Call) -> Call:
    """Make a call whose answer is always a text; None stays None, and what comes piece by piece stays as it is."""

    def put_into_words(value: Any) -> Any:
        return value if value is None or isinstance(value, str | AsyncIterator | AsyncStreamEvents) else str(value)

    async def later(value: Any) -> Any:
        return put_into_words(await value)

    def answer(*arguments: Any) -> Any:
        value = call.function(*arguments)
        return later(value) if is_awaitable(value) else put_into_words(value)

    return replace(call, function=answer)


def in_time(call: Call, seconds: float) -> Call:
    """Make a call that fails if a plain function returns after `seconds`: nothing can interrupt it.

    What has to be awaited is returned as it is, for whoever waits for it bounds that.
    """

    def answer(*arguments: Any) -> Any:
        read_clock = trio.lowlevel.current_clock().current_time
        began = read_clock()
        value = call.function(*arguments)
        if read_clock() - began > seconds and not is_awaitable(value):
            raise too_slow(call, seconds)
        return value

    return replace(call, function=answer)


def too_slow(call: Call, seconds: float) -> trio.TooSlowError:
    """The error of an implementation that took longer than it may."""
    return trio.TooSlowError(f"plugin `{call.plugin}` took longer than {seconds:g} seconds")


def _retry(function: Callable[..., Any], manner: Manner) -> Callable[..., Any]:
    async def call_again(*arguments: Any) -> Any:
        for attempt in range(manner.retries):
            try:
                return await settled(function(*arguments))
            except Exception as error:  # noqa: BLE001 (whatever fails is tried again; the last failure is raised below)
                log_warning("hook.retry", attempt=attempt + 1, error=error)
                await pause(manner, attempt)
        return await settled(function(*arguments))

    return call_again


async def pause(manner: Manner, attempt: int) -> None:
    await trio.sleep(Backoff(manner.backoff).pause_after(attempt + 1))
