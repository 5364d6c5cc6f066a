"""Mocks: what stands in for the implementations of a stage or hook point while a test runs."""

from __future__ import annotations

import builtins
import copy
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import trio

from bub import errors
from bub.errors import BubError, HookError, HookTypeError, ModelError
from bub.hooks.frozen import freeze
from bub.hooks.implementations import Implementation
from bub.hookspecs import HookPoint
from bub.streaming import AsyncStreamEvents, StreamEvent

PLUGIN = "mock"
"""The name under which a mock stands in a trace."""

_PLAIN_WORDS = "the test raises this"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a mock does when it is called: it waits `delay` seconds, then fails as `error` says, else answers."""

    answer: Any = None
    error: str | None = None
    delay: float = 0.0

    async def give(self, point: HookPoint) -> Any:
        """Answer at a hook point, once the delay is over."""
        if self.delay:
            await trio.sleep(self.delay)
        return self.give_now(point)

    def give_now(self, point: HookPoint) -> Any:
        """Answer at a hook point at once."""
        answer = copy.deepcopy(self.answer)
        texts = [answer] if isinstance(answer, str) else answer
        if "stream" in point.kinds and point.form != "text" and _are_texts(texts):
            return AsyncStreamEvents(self._events(texts))
        if self.error is not None:
            raise make_exception(self.error)
        if point.form == "stream" and answer is not None:
            raise HookTypeError(point.name, PLUGIN, "a text or a list of texts", answer)
        return answer

    async def _events(self, texts: list[str]) -> AsyncIterator[StreamEvent]:
        for text in texts:
            yield StreamEvent.text(text)
        if self.error is not None:
            raise make_exception(self.error)


@dataclass(frozen=True, slots=True)
class Mock:
    """Stands in for a stage or hook point called `name`: gives its answers in turn, or its only one again and again.

    Called with a hook point it is the one implementation of that point, so kind, time-out, retries and policy hold
    for it as for any plugin. `calls` are the arguments of each call so far.
    """

    name: str
    answers: tuple[Answer, ...]
    in_turn: bool = False
    calls: list[Mapping[str, Any]] = field(default_factory=list)

    def anew(self) -> Mock:
        """Return the same mock, not called yet."""
        return replace(self, calls=[])

    @property
    def missing(self) -> int:
        """How many calls found no answer left."""
        return max(0, len(self.calls) - len(self.answers)) if self.in_turn else 0

    def __call__(self, point: HookPoint) -> Implementation:
        """Return the implementation that answers at `point`; `BubError` if it would have to wait and cannot."""
        if point.sync_only and any(answer.delay for answer in self.answers):
            raise BubError(
                f"the mock of `{point.name}` has a `delay`, but that hook is called where nothing can wait",
                help="take the `delay` out",
            )
        function = partial(self._answer_now, point) if point.sync_only else partial(self._answer, point)
        # `fire` is left out: a stage that hands it over is laid out otherwise.
        offered = tuple(name for name in point.takes if name != "fire")
        return Implementation(point.name, PLUGIN, function, (), offered, (), everything=False, rank=(0, 0))

    async def _answer(self, point: HookPoint, **arguments: Any) -> Any:
        return await self._take_call(arguments).give(point)

    def _answer_now(self, point: HookPoint, **arguments: Any) -> Any:
        return self._take_call(arguments).give_now(point)

    def _take_call(self, arguments: Mapping[str, Any]) -> Answer:
        """Keep what a call was made with, as it was then, and return its answer."""
        self.calls.append(freeze(dict(arguments)))
        if self.missing:
            raise BubError(f"the mock of `{self.name}` has no answer left", help="add one to its `answers`")
        return self.answers[len(self.calls) - 1 if self.in_turn else 0]


def _are_texts(answer: Any) -> bool:
    return isinstance(answer, list) and all(isinstance(item, str) for item in answer)


def make_exception(said: str) -> Exception:
    """Make the exception that `raise` means: `NAME` or `NAME: text` of Python, trio or Bub, else a RuntimeError.

    A class that is not made from a text alone is none that can be named.
    """
    name, _, text = said.partition(":")
    kind = _find_class(name.strip())
    if kind is None:
        return RuntimeError(said)
    make: Callable[[str], Exception] = _MAKERS.get(kind, kind)
    try:
        return make(text.strip() or _PLAIN_WORDS)
    except TypeError:
        return RuntimeError(said)


_MAKERS: Mapping[type[Exception], Callable[[str], Exception]] = MappingProxyType(
    {
        HookError: partial(HookError, hook=PLUGIN, plugin=PLUGIN),
        ModelError: partial(ModelError, kind="server", provider=PLUGIN),
    }
)
"""How the classes are made that want to know more than a text."""


def _find_class(name: str) -> type[Exception] | None:
    for home in (builtins, trio, errors):
        found = getattr(home, name, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None
