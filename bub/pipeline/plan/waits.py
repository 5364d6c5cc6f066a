"""Which stages a stage waits for, at once and in the end, and which run beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from bub.pipeline.plan.plan import Plan


class Waits(msgspec.Struct, frozen=True):
    """For each stage, by id: what it waits for `directly`, what must be over `before` it, and what may run `beside` it.

    Directly is what it waits for without anything in between. What it names and cannot wait for (a stage below, one
    that does not exist) is left out. Ids are in run order.
    """

    directly: Mapping[str, tuple[str, ...]]
    before: Mapping[str, tuple[str, ...]]
    beside: Mapping[str, tuple[str, ...]]


def waits_of(plan: Plan) -> Waits:
    """The waits of every stage of a plan."""
    ids = [stage.id for stage in plan.stages]
    number = {name: index for index, name in enumerate(ids)}
    # Sets of stages are numbers with a bit for each, since a pipeline may have a thousand of them.
    reached: list[int] = []
    direct: list[int] = []
    for index, stage in enumerate(plan.stages):
        named = [number[name] for name in plan.waits_for(stage) if number.get(name, index) < index]
        behind = 0
        for other in named:
            behind |= reached[other]
        waited = sum(1 << other for other in named)
        reached.append(waited | behind)
        direct.append(waited & ~behind)
    beside = [0] * len(ids)
    for index in range(len(ids)):
        beside[index] |= ((1 << index) - 1) & ~reached[index]
        for other in _bits(beside[index]):
            beside[other] |= 1 << index

    def by_id(sets: list[int]) -> dict[str, tuple[str, ...]]:
        return {name: tuple(ids[other] for other in _bits(sets[index])) for index, name in enumerate(ids)}

    return Waits(by_id(direct), by_id(reached), by_id(beside))


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
