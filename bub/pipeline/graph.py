"""A pipeline compiled for one profile: frozen, with everything resolved that can be resolved before a turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any

from bub.calling import Calls, Manner, bind
from bub.envelope import Envelope, field_of
from bub.hookspecs import HookPoint
from bub.implementations import Implementation
from bub.pipeline.plan import TEMPLATE_NAME, Plan


@dataclass(frozen=True, slots=True)
class When:
    """A condition on the current message: each field must match its glob."""

    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def of(cls, globs: Mapping[str, str]) -> When:
        """The condition that a `when` or `match` mapping says; no expressions, only globs."""
        return cls(tuple((name, re.compile(translate(glob))) for name, glob in globs.items()))

    def matches(self, message: Envelope, session: str | None = None) -> bool:
        """Whether the message has every field and each matches; `session` is what `session:` is held against."""
        for name, pattern in self.patterns:
            value = session if name == "session" else field_of(message, name)
            if value is None or pattern.match(str(value)) is None:
                return False
        return True


_ABSENT = object()
_NAME_OR_ESCAPED = re.compile(r"\{\{([a-z_][a-z0-9_]*)\}\}|" + TEMPLATE_NAME.pattern)


@dataclass(frozen=True, slots=True)
class Template:
    """A `default`: any YAML value, in whose strings `{name}` stands for a value or a field of the current message."""

    pattern: Any

    def fill(self, lookup: Callable[[str], Any]) -> Any:
        """The value with every `{name}` looked up (None: absent).

        A lone `{name}` keeps its type; a mapping's key or a list's item whose lone `{name}` is absent is dropped.
        """
        filled = self._fill(self.pattern, lookup)
        return "" if filled is _ABSENT else filled

    def _fill(self, pattern: Any, lookup: Callable[[str], Any]) -> Any:
        if isinstance(pattern, str):
            lone = TEMPLATE_NAME.fullmatch(pattern)
            if lone is not None:
                value = lookup(lone[1])
                return _ABSENT if value is None else value
            return _NAME_OR_ESCAPED.sub(
                lambda match: f"{{{match[1]}}}" if match[1] else _text(lookup(match[2])), pattern
            )
        if isinstance(pattern, dict):
            items = ((key, self._fill(item, lookup)) for key, item in pattern.items())
            return {key: item for key, item in items if item is not _ABSENT}
        if isinstance(pattern, list):
            return [item for item in (self._fill(part, lookup) for part in pattern) if item is not _ABSENT]
        return pattern


def _text(value: Any) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Step:
    """A stage, ready to run. `sources` says in which slot of the turn each value stands that the stage can see.

    `into` is the slot of its result, `changes` the values a modifying stage may set as (name, slot to read, slot to
    write). `fire` is the slot of its own `fire`, where an implementation names it.
    """

    id: str
    hook: str
    kind: str
    calls: Calls
    manner: Manner
    sources: Mapping[str, int]
    message: int
    into: int | None = None
    changes: tuple[tuple[str, int, int], ...] = ()
    fire: int | None = None
    combine: str | None = None
    default: Template | None = None
    falsy: bool = False
    when: When | None = None
    enabled: bool = True
    timeout: float | None = None
    on_failure: str = "propagate"
    cleanup_for: str | None = None
    has_cleanup: bool = False
    tells: bool = True
    """Whether the events of a stream are told as they come."""
    makes_message: bool = False
    joins: int | None = None
    """For the stage that makes the session's id: the slot of the message that carries it from then on."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """What is scheduled as one: a step, or neighbouring steps that run item by item over one list.

    `items`, `item` and `kept` are the slots of the list, of the item as `message`, and of what is left of the list.
    """

    steps: tuple[Step, ...]
    each: str | None = None
    items: int = -1
    item: int = -1
    kept: int = -1


@dataclass(frozen=True, slots=True)
class FiredPoint:
    """A hook point that implementations fire themselves, through `fire`."""

    name: str
    kind: str
    point: HookPoint
    implementations: tuple[Implementation, ...]
    offered: tuple[str, ...]
    manner: Manner
    timeout: float | None
    on_failure: str
    twin: HookPoint | None = None
    _bound: dict[frozenset[str], Calls] = field(default_factory=dict, repr=False, compare=False)

    def calls_for(self, given: Iterable[str]) -> Calls:
        """The implementations, bound to the arguments that are given; each set of names is bound once."""
        names = frozenset(given)
        calls = self._bound.get(names)
        if calls is None:
            keys = {name: name for name in self.offered if name in names}
            missing = {name for implementation in self.implementations for name in implementation.required}
            keys.update({name: name for name in missing})
            calls = bind(self.implementations, self.point, keys, manner=self.manner, twin=self.twin)
            self._bound[names] = calls
        return calls


@dataclass(frozen=True, slots=True)
class Graph:
    """A compiled pipeline. Nothing in it changes; one graph runs any number of turns at once.

    `groups` holds the nodes in run order: a group of one runs by itself, the nodes of a larger one run side by
    side, each once the nodes in `waits` (by index) are over. `slots` is how many values a turn has room for, `start`
    where the values of its beginning stand, `values` where each value stands at the end.
    """

    profile: str
    nodes: tuple[GraphNode, ...]
    groups: tuple[tuple[int, ...], ...]
    waits: tuple[frozenset[int], ...]
    cleanups: tuple[Step, ...]
    slots: int
    start: Mapping[str, int]
    values: Mapping[str, int]
    fired: Mapping[str, FiredPoint]
    observers: Calls
    bootstrap: Mapping[str, tuple[Implementation, ...]]
    plan: Plan

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every stage in run order."""
        return tuple(step for node in self.nodes for step in node.steps)
