"""What a kind is to the engine: one frozen value that holds how it is called, its result, and how it ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from bub.hooks.binding import Call, Calls, Values
from bub.hooks.combining import Combining
from bub.hooks.facts import Kind
from bub.hooks.kinds.verdicts import Denial

Failed: TypeAlias = Callable[[Call, Exception], Awaitable[None]]
"""Told of an implementation that failed: raises, or returns so that the kind goes on without it."""

Verdict: TypeAlias = Denial | Mapping[str, Any] | None
"""What a gate or claim says against what follows; None if it may go on."""

Outcome: TypeAlias = tuple[Verdict, str, str]
"""What became of a stage: the verdict, the plugin that decided, and the word for the record."""

DONE: Outcome = (None, "", "ok")
DEFAULTED: Outcome = (None, "", "default")
LATE: Outcome = (None, "", "timeout")


class Stage(Protocol):
    """What a kind needs to know of the stage that it finishes; `changes` are (name, slot to read, slot to write)."""

    @property
    def id(self) -> str: ...
    @property
    def hook(self) -> str: ...
    @property
    def has_default(self) -> bool: ...
    @property
    def falsy(self) -> bool: ...
    @property
    def combine(self) -> Combining | None: ...
    @property
    def changes(self) -> tuple[tuple[str, int, int], ...]: ...

    def put(self, values: list[Any], value: Any, each: bool) -> None:
        """Keep the stage's result, in its list if it runs for `each` item of one."""

    def yield_nothing(self, values: list[Any], each: bool) -> None:
        """Keep what the stage yields if nobody answered: its `default`, else its `combine`'s empty value."""


Finish: TypeAlias = Callable[[Stage, list[Any], Any, bool], Outcome]
Late: TypeAlias = Callable[[Stage, list[Any], bool], Outcome]
Shielded: TypeAlias = Callable[[Calls, Values, float, Failed], Awaitable[Any]]


def no_part(stage: Stage, values: list[Any], each: bool) -> Outcome:
    """Finish a stage whose time is up by going on without it."""
    return LATE


def nothing_yielded(stage: Stage, values: list[Any], each: bool) -> Outcome:
    """Finish a stage whose time is up with what it yields when nobody answered."""
    stage.yield_nothing(values, each)
    return LATE


def as_it_is(came: Any) -> Any:
    """Hand on the result of a call."""
    return came


def none() -> None:
    """Stand for what nobody answered."""


class RunnableKind(msgspec.Struct, frozen=True):
    """A kind with its behaviour, beside the `facts` about it.

    `call` takes the calls, the values, what waits and what failures go to. `finish` keeps the result for the stage and
    says how the stage ended; `late` does so when the stage's time was up and its policy goes on. `fired` makes of the
    result what the caller that fires a point of this kind gets; `unanswered` is what that caller gets if nobody
    implements the point, and `late_fired` if its time was up. `shielded` calls a clean-up whose implementations may
    share a scope. `pulls`: the call reads a stream, and also takes who gets its events, what was pulled, and the
    manner.
    """

    facts: Kind
    call: Callable[..., Awaitable[Any]]
    finish: Finish
    late: Late = nothing_yielded
    fired: Callable[[Any], Any] = as_it_is
    unanswered: Callable[[], Any] = none
    late_fired: Callable[[], Any] = none
    shielded: Shielded | None = None
    pulls: bool = False

    @property
    def name(self) -> str:
        """What a pipeline file calls it."""
        return self.facts.name
