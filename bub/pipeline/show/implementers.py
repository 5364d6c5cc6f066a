"""Who implements the stages and hook points of a graph, in the order in which a turn asks them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from bub.hooks.implementations import Implementation
from bub.pipeline.run.graph import Graph, Step
from bub.pipeline.show.facts import Implementer, Implementers


def implementers_in(graph: Graph, found: Mapping[str, tuple[Implementation, ...]], here: Path) -> Implementers:
    """Return who implements the stages of a graph, and every hook point: also those that it does not call.

    `found` is what its plugins bring (`all_implementations`). Files below the folder `here` are named as seen from
    there.
    """
    points = {
        **{name: ones for name, ones in found.items() if ones},
        **graph.bootstrap,
        **{name: fired.implementations for name, fired in graph.fired.items()},
    }
    return Implementers(
        {step.id: _implementers(_called_by(step, found), here) for step in graph.steps},
        {name: _implementers(ones, here) for name, ones in points.items()},
    )


def _called_by(step: Step, found: Mapping[str, tuple[Implementation, ...]]) -> Iterable[Implementation]:
    """Return the implementations behind the calls of a stage, which may belong to two points: a hook and its twin."""
    return (one for call in step.calls.items for one in found.get(call.hook, ()) if one.plugin == call.plugin)


def _implementers(found: Iterable[Implementation], here: Path) -> tuple[Implementer, ...]:
    return tuple(_implementer(one, here) for one in found)


def _implementer(implementation: Implementation, here: Path) -> Implementer:
    file, line = implementation.source or (None, None)
    if file is not None:
        path = Path(file)
        file = str(path.relative_to(here)) if path.is_relative_to(here) else os.path.normpath(file)
    return Implementer(implementation.plugin, implementation.hook, file, line)
