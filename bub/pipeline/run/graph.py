"""A pipeline compiled for one profile: frozen, with everything resolved that can be resolved before a turn."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from bub.base.diagnostics import Diagnostic
from bub.base.waiting import Wait, unlimited
from bub.envelope import ADDRESS, NO_ADDRESS, content_of, field_of
from bub.hooks.binding import Calls, Manner, bind
from bub.hooks.combining import Combining
from bub.hooks.facts import ANSWER
from bub.hooks.implementations import Implementation
from bub.hooks.kinds.runnable import RunnableKind
from bub.hookspecs import HookPoint
from bub.pipeline.plan.conditions import When
from bub.pipeline.plan.templates import TEMPLATE_NAME
from bub.pipeline.run.provided import BroughtTool
from bub.tools import Tool

_ABSENT = object()
_NAME_OR_ESCAPED = re.compile(r"\{\{([a-z_][a-z0-9_]*)\}\}|" + TEMPLATE_NAME.pattern)


Fill: TypeAlias = Callable[[list[Any]], Any]
"""Makes a value out of the slots of a turn."""


def template(pattern: Any, sources: Mapping[str, int], message: int, *, in_words: bool = False) -> Fill:
    """Compile a `default`: any YAML value, in whose strings `{name}` stands for a value or a field of the message.

    `sources` are the slots of the values that can be seen, `message` that of the current message. A lone `{name}`
    keeps its type; if it is absent (or None) its key or list item is dropped, and it is "" by itself. The address
    of a message that came without one is "", too: a reply to it has none. `{{name}}` stands for `{name}`. If the value
    has to be `in_words`, the text of the message is taken for a prompt that is a list of parts (BEHAVIOURS T12).
    """
    fill = _template(pattern, sources, message)

    def fill_whole(values: list[Any]) -> Any:
        filled = fill(values)
        if in_words and isinstance(filled, list):
            return content_of(values[message])
        return "" if filled is _ABSENT else filled

    return fill_whole


def _template(pattern: Any, sources: Mapping[str, int], message: int) -> Fill:
    if isinstance(pattern, str):
        lone = TEMPLATE_NAME.fullmatch(pattern)
        return _lone(lone[1], sources, message) if lone is not None else _text(pattern, sources, message)
    if isinstance(pattern, dict):
        names = {key: TEMPLATE_NAME.fullmatch(item) for key, item in pattern.items() if isinstance(item, str)}
        if len(names) == len(pattern) and all(names.values()):
            return _lone_entries({key: found[1] for key, found in names.items() if found}, sources, message)
        entries = tuple((key, _item(item, sources, message)) for key, item in pattern.items())
        return lambda values: {key: value for key, fill in entries if (value := fill(values)) is not _ABSENT}
    if isinstance(pattern, list):
        items = tuple(_item(item, sources, message) for item in pattern)
        return lambda values: [value for fill in items if (value := fill(values)) is not _ABSENT]
    return lambda values: pattern


def _item(pattern: Any, sources: Mapping[str, int], message: int) -> Fill:
    """Compile what is in a mapping or a list, which is left out if it is the address of a message without one."""
    fill = _template(pattern, sources, message)
    lone = TEMPLATE_NAME.fullmatch(pattern) if isinstance(pattern, str) else None
    if lone is None or lone[1] not in ADDRESS or lone[1] in sources:
        return fill
    name, inbound = lone[1], sources.get("inbound", message)

    def fill_own_address(values: list[Any]) -> Any:
        value = fill(values)
        return _ABSENT if value == NO_ADDRESS and field_of(values[inbound], name) is None else value

    return fill_own_address


def _lone(name: str, sources: Mapping[str, int], message: int) -> Fill:
    slot = sources.get(name)
    if slot is not None:
        return lambda values: _ABSENT if values[slot] is None else values[slot]

    def field(values: list[Any]) -> Any:
        value = field_of(values[message], name)
        return _ABSENT if value is None else value

    return field


def _lone_entries(names: Mapping[str, str], sources: Mapping[str, int], message: int) -> Fill:
    """A mapping of lone names, as most replies are: one loop instead of a call for each."""
    entries = tuple((key, sources.get(name), name) for key, name in names.items())
    inbound = sources.get("inbound", message)

    def fill(values: list[Any]) -> dict[str, Any]:
        mapping = {}
        for key, slot, name in entries:
            value = values[slot] if slot is not None else field_of(values[message], name)
            if value is None:
                continue
            if slot is None and name in ADDRESS and value == NO_ADDRESS and field_of(values[inbound], name) is None:
                continue
            mapping[key] = value
        return mapping

    return fill


def _text(pattern: str, sources: Mapping[str, int], message: int) -> Fill:
    pieces: list[str | Fill] = []
    end = 0
    for match in _NAME_OR_ESCAPED.finditer(pattern):
        pieces += [pattern[end : match.start()], f"{{{match[1]}}}" if match[1] else _lone(match[2], sources, message)]
        end = match.end()
    pieces.append(pattern[end:])

    def text(values: list[Any]) -> str:
        filled = (piece if isinstance(piece, str) else piece(values) for piece in pieces)
        return "".join(str(piece) for piece in filled if piece is not _ABSENT)

    return text


class Step(msgspec.Struct, frozen=True):
    """A stage, ready to run. `sources` says in which slot of the turn each value is that the stage can see.

    `offered` are those of them that its hook may name, `allowed` the plugins whose handlers, registered at
    run time, are called too. `into` is the slot of its result, `changes` the values a modifying stage may set as (name,
    slot to read, slot to write), `makes` all that it makes as (name, slot). `fire` is the slot of its own `fire`,
    where an implementation names it.
    """

    id: str
    hook: str
    kind: RunnableKind
    calls: Calls
    manner: Manner
    sources: Mapping[str, int]
    offered: Mapping[str, int]
    allowed: frozenset[str]
    message: int
    call: Callable[..., Awaitable[Any]]
    """The function of its kind."""
    into: int | None = None
    changes: tuple[tuple[str, int, int], ...] = ()
    makes: tuple[tuple[str, int], ...] = ()
    fire: int | None = None
    combine: Combining | None = None
    default: Fill | None = None
    falsy: bool = False
    when: When | None = None
    enabled: bool = True
    timeout: float | None = None
    waits: bool = False
    """Whether one of its implementations surely has to be awaited."""
    on_failure: str = "propagate"
    cleanup_for: frozenset[str] = frozenset()
    """The stages that it cleans up for, by id: none if it is no clean-up."""
    patience: Wait = unlimited
    """For a clean-up: waits for each implementation within its time, whatever is cancelled meanwhile."""
    has_cleanup: bool = False
    tells: bool = True
    """Whether the words of a stream are shown as they come; what else happens in it always is."""
    guarded: bool = False
    """Whether there is something to look at or to note before it starts."""
    direct: bool = True
    """Whether calling it takes no more than its kind: no stream, no time-out, no clean-up."""
    marks: bool = False
    """Whether it makes what the turn itself looks at: the message, or the session's id."""
    joins: int | None = None
    """For the stage that makes the session's id: the slot of the message that carries it from then on."""

    @property
    def has_default(self) -> bool:
        """Whether the pipeline file says what it yields when nobody answered."""
        return self.default is not None

    def put(self, values: list[Any], value: Any, each: bool) -> None:
        """Keep its result, in its list if it runs for `each` item of one."""
        if self.into is None:
            return
        if each:
            values[self.into].append(value)
        else:
            values[self.into] = value

    def yield_nothing(self, values: list[Any], each: bool) -> None:
        """Keep what it yields if it is off, skipped or unanswered: its `default`, else its `combine`'s empty value."""
        for _, before, after in self.changes:
            values[after] = values[before]
        if self.into is not None:
            value = None if self.default is None else self.default(values)
            if value is None and self.combine is not None:
                value = self.combine.empty()
            self.put(values, value, each)


class Hold(msgspec.Struct, frozen=True):
    """What the words of a stream wait for, and what is left of them then.

    `checks` are the stages below that judge them, each with whether it runs for each item of a list. `said` is the slot
    of what the stream makes once all of them have spoken, `replies` that of the replies if one of them judges those.
    """

    checks: tuple[tuple[Step, bool], ...]
    said: int
    replies: int | None = None


class GraphNode(msgspec.Struct, frozen=True):
    """What is scheduled as one: a step, or neighbouring steps that run item by item over one list.

    `items`, `item` and `kept` are the slots of the list, of the item as `message`, and of what is left of the list: the
    list itself if nothing takes items out or changes them. An `idle` node has nothing to call but what may be
    registered at run time.
    """

    steps: tuple[Step, ...]
    each: str | None = None
    items: int = -1
    item: int = -1
    kept: int = -1
    idle: bool = False

    @property
    def sifts(self) -> bool:
        """Whether it leaves another list than it found."""
        return self.kept != self.items


class Chain(msgspec.Struct, frozen=True):
    """Steps that run one after another, each waiting for all above it."""

    steps: tuple[Step, ...]


class SideBySide(msgspec.Struct, frozen=True):
    """Nodes, by index, that run at the same time, each once those it waits for are over."""

    nodes: tuple[int, ...]


Part: TypeAlias = Chain | GraphNode | SideBySide
"""What runs before or after other parts of its graph, never beside them."""


@dataclass(frozen=True, slots=True)
class FiredPoint:
    """A hook point that implementations fire themselves, through `fire`; `allowed` is as for a `Step`."""

    name: str
    kind: RunnableKind
    point: HookPoint
    implementations: tuple[Implementation, ...]
    offered: tuple[str, ...]
    allowed: frozenset[str]
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
            calls = bind(
                self.implementations, self.point, keys, manner=self.manner, twin=self.twin, skip_awaitables=True
            )
            self._bound[names] = calls
        return calls


class Graph(msgspec.Struct, frozen=True):
    """A compiled pipeline. Nothing in it changes; one graph runs any number of turns at once.

    `nodes` are in run order, `waits` says for each which nodes (by index) it waits for. What runs one after another
    (chains, steps that run item by item, and nodes side by side) is `arriving` up to the stage that makes the session's
    id, and `answering` from there on; `arrival` are the nodes of `arriving`. `slots` is how many values a turn has room
    for, `start` the slots of its first values, `arrived` the slot of each value when the session is known, and
    `values` the slots at the end.
    """

    profile: str
    nodes: tuple[GraphNode, ...]
    arriving: tuple[Part, ...]
    answering: tuple[Part, ...]
    arrival: tuple[GraphNode, ...]
    arrived: Mapping[str, int]
    looks_early: bool
    """Whether a plugin is called above the session except to find it, or a `default` makes another message there."""
    risks_early: bool
    """Whether code that is not Bub's own is called above the session."""
    waits: tuple[frozenset[int], ...]
    cleanups: tuple[Step, ...]
    joins: bool
    """Whether a stage makes the session's id, so that a turn has its place in a session."""
    slots: int
    results: Fill
    """Takes the values that `RESULTS` names out of the slots at the end, None for one that nobody makes."""
    start: Mapping[str, int]
    values: Mapping[str, int]
    fired: Mapping[str, FiredPoint]
    observers: Calls
    bootstrap: Mapping[str, tuple[Implementation, ...]]
    nothing: int
    """The slot that nobody makes."""
    holds: Mapping[str, Hold]
    """What the words of each stream wait for, by its stage; none for one that nothing below judges."""
    judged: tuple[tuple[int, int], ...]
    """The slots of the replies before and after each node that may keep one back or change it."""
    allowlist: tuple[str, ...]
    """The plugins that the profile lists, lowest priority first."""
    brought: Mapping[str, BroughtTool]
    """Every tool that the plugins provide by its name, with who brings it."""
    warnings: tuple[Diagnostic, ...] = ()
    """What was found and keeps nothing from running."""

    def is_looked_at_early(self, registered: Container[str] = ()) -> bool:
        """Whether a stage above the session looks at the message, or makes another one; what finds the session aside.

        `registered` are the hooks with handlers that came at run time.
        """
        return self.looks_early or any(step.hook in registered for node in self.arrival for step in node.steps)

    def is_risked_early(self, registered: Container[str] = ()) -> bool:
        """Whether a stage above the session calls code that is not Bub's own, which may end the process.

        `registered` are the hooks with handlers that came at run time.
        """
        return self.risks_early or any(step.hook in registered for node in self.arrival for step in node.steps)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every tool that the plugins provide, by its name."""
        return {name: one.tool for name, one in self.brought.items()}

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every stage in run order."""
        return tuple(step for node in self.nodes for step in node.steps)

    def judges_messages(self, registered: Container[str] = ()) -> bool:
        """Whether a plugin may keep a message back or change it, between what finds its session and what answers it.

        `registered` are the hooks with handlers that came at run time.
        """
        steps = self.steps[sum(len(node.steps) for node in self.arrival) :]
        made = next((at for at, step in enumerate(steps) if any(name == ANSWER for name, _ in step.makes)), len(steps))
        above = (step for step in steps[:made] if step.enabled and step.kind.facts.can_object)
        return any(step.hook in registered or step.calls.items for step in above)

    @property
    def judges_answers(self) -> bool:
        """Whether a plugin may keep back or change what the model said, in a stage below."""
        steps = self.steps
        made = next((at for at, step in enumerate(steps) if any(name == ANSWER for name, _ in step.makes)), len(steps))
        below = (step for step in steps[made + 1 :] if step.enabled and step.kind.facts.can_object)
        return any(step.calls.items for step in below)
