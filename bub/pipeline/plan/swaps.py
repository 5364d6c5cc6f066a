"""Swaps: which stages stand in for others that are replaced or off, and what they take over from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from bub.base.diagnostics import Place
from bub.hooks.facts import HANDED_ON_KEYS, START_VALUES, Kind
from bub.pipeline.plan.order import circles_in, last_of
from bub.pipeline.plan.scalars import flag_of, text_of
from bub.pipeline.source.document import Node

REPLACE = "replace"
"""The key by which a stage takes the place of another."""


class Stage(Protocol):
    """What of a stage tells whether it stands in for another one."""

    @property
    def id(self) -> str: ...

    @property
    def enabled(self) -> bool: ...

    @property
    def into(self) -> str | None: ...

    @property
    def taken(self) -> tuple[str, ...]: ...

    @property
    def replaced_by(self) -> tuple[str, ...]: ...


def circles_of_replaced(stages: Mapping[str, Node]) -> list[list[str]]:
    """Stages that replace each other in a circle, or themselves, as paths that end where they began."""
    return circles_in({name: [target] for name, target in _targets(stages)})


def find_replacing(stages: Mapping[str, Node]) -> dict[str, tuple[str, ...]]:
    """For each stage that is replaced, by its id, those that replace it, as they are written.

    One that is off replaces nothing, and none of a circle does.
    """
    lost = {name for circle in circles_of_replaced(stages) for name in circle}
    found: dict[str, tuple[str, ...]] = {}
    for name, target in _targets(stages):
        if flag_of(stages[name].get("enabled")) is not False and name not in lost:
            found[target] = (*found.get(target, ()), name)
    return found


def _targets(stages: Mapping[str, Node]) -> Iterator[tuple[str, str]]:
    for name, node in stages.items():
        target = text_of(node.get(REPLACE))
        if target is not None and target in stages:
            yield name, target


def hand_on(
    stages: Mapping[str, Node], replacing: Mapping[str, tuple[str, ...]], kinds: Mapping[str, Kind | None]
) -> dict[str, Node]:
    """The stages, each with the keys that it takes over from the one it replaces, said at its own `replace`."""
    done = dict(stages)

    def fill(target: str) -> None:
        for name in replacing.get(target, ()):
            done[name] = _take_over(done[name], done[target], kinds[name])
            fill(name)

    for target in replacing:
        if not any(target in names for names in replacing.values()):
            fill(target)
    return done


def _take_over(node: Node, replaced: Node, kind: Kind | None) -> Node:
    said, own = node.get(REPLACE), dict(node.items())
    assert said is not None
    for key in HANDED_ON_KEYS:
        inherited = replaced.get(key)
        if inherited is not None and key not in own and (kind is None or kind.knows(key)):
            own[key] = _said_at(inherited, said.place)
    return replace(node, value=own)


def _said_at(node: Node, place: Place) -> Node:
    value: Any = node.value
    if node.is_sequence:
        value = tuple(_said_at(child, place) for child in node.elements())
    return replace(node, value=value, place=place, key=None)


def find_heirs(stages: Iterable[Stage]) -> dict[str, tuple[str, ...]]:
    """For each stage that is off, those that stand in for it: what replaces it, else who makes its value.

    Who takes a value makes a new version of it, and stands in for nobody.
    """
    stages = list(stages)
    makers: dict[str, tuple[str, ...]] = {}
    for stage in stages:
        if stage.enabled and stage.into is not None and stage.into not in stage.taken:
            makers[stage.into] = (*makers.get(stage.into, ()), stage.id)
    replacing = {stage.id: stage.replaced_by for stage in stages if stage.replaced_by}
    heirs = {}
    for stage in stages:
        if stage.id in replacing:
            heirs[stage.id] = last_of(replacing, stage.id)
        elif not stage.enabled and stage.into in makers and stage.into not in stage.taken:
            heirs[stage.id] = makers[stage.into]
    return heirs


def made_without(stages: Iterable[Stage]) -> set[str]:
    """The stages, by id, that are off and whose value is there without them: they make nothing."""
    stages = list(stages)
    made = {*START_VALUES, *(stage.into for stage in stages if stage.enabled and stage.into not in stage.taken)}
    return {stage.id for stage in stages if not stage.enabled and stage.into is not None and stage.into in made}
