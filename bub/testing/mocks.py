"""Mocks: what stands in for the implementations of a stage or hook point while a test runs."""

from __future__ import annotations

import builtins
import copy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import msgspec
import trio

from bub import errors
from bub.base.diagnostics import Place
from bub.errors import BubError, HookError, HookTypeError, ModelError
from bub.hooks.frozen import freeze
from bub.hooks.implementations import Implementation
from bub.hookspecs import MODEL_POINT, HookPoint
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tools import Tool

PLUGIN = "mock"
"""The name of a mock in a trace."""

_TOOL = HookPoint("tool", (), ())
"""What a mocked tool answers as: whatever it says is the result."""

_PLAIN_WORDS = "the test raises this"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a mock does when it is called: it waits `delay` seconds, then fails as `error` says, else answers.

    In place of a model it may call tools, each with a name and arguments, and say what it used.
    """

    answer: Any = None
    error: str | None = None
    delay: float = 0.0
    tool_calls: Sequence[Mapping[str, Any]] = ()
    usage: Mapping[str, Any] | None = None

    async def give(self, point: HookPoint) -> Any:
        """Answer at a hook point, once the delay is over."""
        if self.delay:
            await trio.sleep(self.delay)
        return self.give_now(point)

    def give_now(self, point: HookPoint) -> Any:
        """Answer at a hook point at once."""
        answer = copy.deepcopy(self.answer)
        texts = [answer] if isinstance(answer, str) else answer
        is_model = point.name == MODEL_POINT
        if is_model and texts is None and (self.tool_calls or self.usage):
            texts = []
        if (is_model or ("stream" in point.kinds and point.form != "text")) and _are_texts(texts):
            return AsyncStreamEvents(self._events(texts))
        if self.error is not None:
            raise make_exception(self.error)
        if point.form == "stream" and answer is not None:
            raise HookTypeError(point.name, PLUGIN, "a string or a list of strings", answer)
        return answer

    async def _events(self, texts: list[str]) -> AsyncIterator[StreamEvent]:
        for text in texts:
            yield StreamEvent.text(text)
        for call in self.tool_calls:
            yield StreamEvent("tool_call", {"arguments": {}, **copy.deepcopy(dict(call))})
        if self.usage is not None:
            yield StreamEvent("usage", dict(self.usage))
        if self.error is not None:
            raise make_exception(self.error)


@dataclass(frozen=True, slots=True)
class Mock:
    """Stands in for a stage or hook point called `name`: gives its answers in turn, or its only one again and again.

    `place` is where the test says so. Called with a hook point it is the one implementation of that point, so kind,
    time-out, retries and policy hold for it as for any plugin. `calls` are the arguments of each call so far.
    """

    name: str
    answers: tuple[Answer, ...]
    place: Place
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
                f"the mock of `{point.name}` has a `delay`, but Bub calls that hook from code that cannot wait",
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

    def as_tool(self, tool: Tool) -> Tool:
        """Return a tool that answers as this mock does in place of the real one; what it is given is still checked."""

        async def answer(**arguments: Any) -> Any:
            return await self._take_call(arguments).give(_TOOL)

        return msgspec.structs.replace(tool, function=answer, takes_context=False)

    def _take_call(self, arguments: Mapping[str, Any]) -> Answer:
        """Keep what a call was made with, as it was then, and return its answer."""
        self.calls.append(freeze(dict(arguments)))
        if self.missing:
            raise BubError(f"the mock of `{self.name}` has no answer left", help="add one to its `answers`")
        return self.answers[len(self.calls) - 1 if self.in_turn else 0]


@dataclass(frozen=True, slots=True)
class Mocks:
    """What stands in for stages and hook points, and for tools, by name."""

    points: Mapping[str, Mock]
    tools: Mapping[str, Mock]

    def anew(self) -> Mocks:
        """Return the same mocks, none of them called yet."""
        points, tools = ({name: mock.anew() for name, mock in some.items()} for some in (self.points, self.tools))
        return Mocks(points, tools)


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
