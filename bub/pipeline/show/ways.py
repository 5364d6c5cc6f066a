"""The ways from strangers to the outside as a person reads them: its beginning, what it passes, what cuts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from bub.base.diagnostics import Place
from bub.base.layout import EMPTY, Line, Span, Tone, cells, indent_text, label_text
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.cuts import Cut
from bub.pipeline.plan.ways.ways import Step, Way, find_ways

State = Literal["open", "may be open", "cut"]

_STATES: tuple[State, ...] = ("open", "may be open", "cut")
_TONES: Mapping[State, Tone] = MappingProxyType({"open": "bad", "may be open": "warn", "cut": "good"})
_ANSWER = "the answer"


@dataclass(frozen=True, slots=True)
class WayFacts:
    """Ways that differ in the tool that reads alone: the names from beginning to end, each step, and what cuts them."""

    state: State
    names: tuple[str, ...]
    steps: tuple[Step, ...]
    cuts: tuple[Cut, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "names": list(self.names),
            "steps": [{"words": step.words, "place": _place(step.place)} for step in self.steps],
            "cuts": [{"words": cut.words, "certain": cut.is_certain, "place": _place(cut.place)} for cut in self.cuts],
        }


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """What strangers can get at in a profile."""

    file: str
    profile: str
    ways: tuple[WayFacts, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"file": self.file, "profile": self.profile, "ways": [way.as_dict() for way in self.ways]}


def flow_of(plan: Plan) -> FlowFacts:
    """Find the ways of a profile, the open ones first."""
    groups: dict[tuple[Any, ...], list[Way]] = {}
    for way in find_ways(plan):
        outlet = way.outlet.name if way.outlet is not None else ""
        alone = way.reader.name if way.outlet == way.reader else ""
        groups.setdefault((_state(way), way.start_name, alone, outlet, way.cuts), []).append(way)
    facts = [_facts(ways) for ways in groups.values()]
    return FlowFacts(plan.document.file, plan.profile, tuple(sorted(facts, key=lambda each: _STATES.index(each.state))))


def _state(way: Way) -> State:
    return "open" if way.is_sure else "may be open" if way.is_open else "cut"


def _facts(ways: list[Way]) -> WayFacts:
    first = ways[0]
    readers = ", ".join(way.reader.name for way in ways)
    names = [first.start_name]
    names += [readers] if first.start_name != readers else []
    if first.outlet is None:
        names.append(_ANSWER)
    elif first.outlet != first.reader:
        names.append(first.outlet.name)
    steps = dict.fromkeys(step for way in ways for step in way.steps)
    ends = dict.fromkeys(way.steps[-1] for way in ways)
    inner = [step for step in steps if step not in ends]
    return WayFacts(_state(first), tuple(names), (*inner, *ends), first.cuts)


def flow_page(facts: FlowFacts, width: int) -> list[Line]:
    """Return the ways in lines of at most `width` cells."""
    return list(_page(facts, width))


def _page(facts: FlowFacts, width: int) -> Iterator[Line]:
    yield from label_text("file", facts.file, width, 9)
    yield from label_text("profile", facts.profile, width, 9)
    yield from label_text("ways", _count(facts.ways), width, 9)
    for way in facts.ways:
        yield EMPTY
        label, *more = label_text(way.state, " → ".join(way.names), width, len(way.state) + 2)
        yield (Span(label[0].text, _TONES[way.state]), *label[1:])
        yield from more
        for step in way.steps:
            yield from _with_place(step.words, step.place, width)
        for cut in way.cuts:
            yield from _with_place(f"{'cut' if cut.is_certain else 'perhaps cut'}: {cut.words}", cut.place, width)


def _count(ways: Iterable[WayFacts]) -> str:
    states = [way.state for way in ways]
    said = [f"{states.count(state)} {state}" for state in _STATES if state in states]
    return ", ".join(said) or "none from strangers past something private to the outside"


def _with_place(words: str, place: Place | None, width: int) -> Iterator[Line]:
    """Yield a sentence, and its place behind it or below."""
    where = str(place) if place is not None else ""
    lines = indent_text(words, width, 2)
    if where and cells(lines[-1][0].text) + 2 + cells(where) <= width:
        lines[-1] = (*lines[-1], Span(f"  {where}", "faint"))
    elif where:
        lines += indent_text(where, width, 4, "faint")
    yield from lines


def _place(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    start = place.range.start
    return {"file": place.file, "line": start.line, "column": start.column}
