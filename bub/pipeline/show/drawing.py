"""The stage graph as a drawing: boxes, the waits between them, and how long a turn may take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from bub.base.duration import parse_duration
from bub.pipeline.plan.checks import describe_showing
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.shown import plan_to_show
from bub.pipeline.plan.stages import StagePlan
from bub.pipeline.plan.waits import waits_of
from bub.pipeline.show.facts import Implementers
from bub.pipeline.source.document import Node

OFF = "off"
"""What a stage that is switched off is marked with."""

NOBODY = "nobody implements it"
"""What a stage is marked with that no plugin implements."""

_MOST_NAMED = 3
_AGENT = ("run_model", "run_model_stream")
"""The hook points behind which the agent runs, and fires its own."""


class Edge(NamedTuple):
    """One stage waits for another; a clean-up's edge to its target is `cleanup`."""

    start: str
    end: str
    cleanup: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """What is drawn for one stage. `timeout` is as it is written, "" for none; `group` the list it runs for each of.

    `nobody` says that no plugin implements it, so far as plugins are loaded.
    """

    id: str
    kind: str
    timeout: str
    off: bool
    group: str | None
    marks: tuple[str, ...]
    nobody: bool = False
    shown: str = ""
    """When the words of a stream are shown."""

    @property
    def glyph(self) -> str:
        return "○" if self.off else {"gate": "◆", "claiming": "◇"}.get(self.kind, "●")

    @property
    def facts(self) -> str:
        """Kind and time-out in one line, that it is off, and whom its words wait for."""
        said = (self.kind or "no kind", self.timeout, OFF if self.off else "", self.shown)
        return ", ".join(part for part in said if part)


@dataclass(frozen=True, slots=True)
class Point:
    """A hook point that is fired inside a stage: the `stage` that is known to fire it, else None."""

    name: str
    kind: str
    stage: str | None
    nobody: bool = False


@dataclass(frozen=True, slots=True)
class Drawing:
    """A pipeline to draw: its stages in run order, the direct waits between them, and how long it may take.

    `points` are those that are fired inside its stages.
    """

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    bound: str
    points: tuple[Point, ...] = ()

    @property
    def groups(self) -> list[tuple[str | None, list[Box]]]:
        """Neighbours that run item by item over one list, together; every other stage under None."""
        return [(each, list(boxes)) for each, boxes in groupby(self.boxes, key=lambda box: box.group)]


def drawing_of(plan: Plan, implementers: Implementers | None = None) -> Drawing:
    """Return what there is to draw of a plan, as far as it can be read; who implements what, if plugins are loaded."""
    plan = plan_to_show(plan)
    waits = waits_of(plan)
    cleanups = [
        Edge(target, stage.id, True)
        for stage in plan.stages
        if stage.cleanup_for is not None and stage.cleanup_for in plan.position
        for target in plan.standing_for(stage.cleanup_for)
    ]
    told = {(edge.start, edge.end) for edge in cleanups}
    edges = [Edge(other, stage.id) for stage in plan.stages for other in waits.directly[stage.id]]
    return Drawing(
        title=f"{plan.document.file}, profile {plan.profile}",
        boxes=tuple(_box(plan, stage, implementers) for stage in plan.stages),
        edges=(*(edge for edge in edges if (edge.start, edge.end) not in told), *cleanups),
        bound=describe_longest_path(plan),
        points=tuple(_points(plan, implementers)),
    )


def _points(plan: Plan, implementers: Implementers | None) -> Iterator[Point]:
    """Yield the declared points that no stage calls; known ones are fired by the agent, in the stage that runs it."""
    agent = agent_of(plan)
    for name, hook in plan.hooks.items():
        if hook.node is not None and name not in plan.callers and not hook.point.bootstrap:
            nobody = implementers is not None and not implementers.hooks.get(name)
            yield Point(name, hook.kind.name if hook.kind is not None else "", agent if hook.known else None, nobody)


def agent_of(plan: Plan) -> str | None:
    """Return the stage in which the agent runs; None if there is none."""
    return next((stage.id for stage in plan.stages if stage.enabled and stage.hook.point.name in _AGENT), None)


def _box(plan: Plan, stage: StagePlan, implementers: Implementers | None) -> Box:
    marks = list(swap_marks(stage))
    if stage.hook.point.name != stage.id:
        marks.append(f"calls {stage.hook.point.name}")
    if stage.node.get("when") is not None:
        marks.append("conditional")
    if stage.cleanup_for is not None:
        marks.append(f"cleans up after {', '.join(plan.standing_for(stage.cleanup_for))}")
    kind = stage.kind.name if stage.kind is not None else ""
    nobody = implementers is not None and stage.enabled and not implementers.stages.get(stage.id)
    if nobody:
        marks.append(NOBODY)
    return Box(
        stage.id,
        kind,
        _timeout(stage),
        not stage.enabled,
        stage.each,
        tuple(marks),
        nobody,
        describe_showing(plan, stage, implementers.stages if implementers is not None else None),
    )


def swap_marks(stage: StagePlan) -> Iterator[str]:
    """Yield which stage one replaces, and which replace it."""
    if stage.replaces is not None:
        yield f"replaces {stage.replaces}"
    if stage.replaced_by:
        yield f"replaced by {', '.join(stage.replaced_by)}"


def _timeout(stage: StagePlan) -> str:
    """Return the time-out of a stage as it is written: its own, else its hook point's."""
    node: Node | None = stage.node.get("timeout")
    if node is None and stage.hook.node is not None:
        node = stage.hook.node.get("timeout")
    if node is None:
        return ""
    return str(node.value) if isinstance(node.value, str | int | float) else "?"


# How long it may take


def describe_longest_path(plan: Plan) -> str:
    """Return the sum of the time-outs along the longest path in words, or which stages have none.

    A stage's time-out covers its retries (DESIGN §2). For each of a list it counts for every item, and that of a
    clean-up for each of its implementations: both are said, and count once.
    """
    running = [stage for stage in plan.stages if stage.enabled]
    endless = [stage.id for stage in running if not _timeout(stage)]
    if endless:
        more = f" and {len(endless) - _MOST_NAMED} more" if len(endless) > _MOST_NAMED else ""
        have = "has" if len(endless) == 1 else "have"
        return f"unbounded: {', '.join(endless[:_MOST_NAMED])}{more} {have} no time-out"
    unread = [stage.id for stage in running if parse_duration(_timeout(stage)) is None]
    if unread:
        return f"unknown: the time-out of {unread[0]} cannot be read from the file alone"
    waits = waits_of(plan).before
    best: dict[str, tuple[float, tuple[str, ...]]] = {}
    for stage in plan.stages:
        seconds, path = max((best[other] for other in waits[stage.id]), default=(0.0, ()), key=lambda way: way[0])
        own = parse_duration(_timeout(stage)) or 0.0 if stage.enabled else 0.0
        best[stage.id] = (seconds + own, (*path, stage.id) if own else path)
    total, path = max(best.values(), default=(0.0, ()), key=lambda way: way[0])
    if not path:
        return "no stage runs"
    on_path = [stage for stage in plan.stages if stage.id in path]
    often = [f"{stage.id} for each of {stage.each}" for stage in on_path if stage.each is not None]
    often += [f"{stage.id} for each implementation" for stage in on_path if stage.cleanup_for is not None]
    way = " → ".join(path) if len(path) <= 2 * _MOST_NAMED else f"{path[0]} → … → {path[-1]}"
    return f"at most {_duration_in_words(total)}: {way}" + (f" (counted once: {'; '.join(often)})" if often else "")


def _duration_in_words(seconds: float) -> str:
    """Return a sum of durations as people say it: `2m 35s`, `1.5s`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if rest or not (hours or minutes):
        parts.append(f"{rest * 1000:g}ms" if rest < 1 and not (hours or minutes) else f"{round(rest, 3):g}s")
    return " ".join(part for part in parts if part)


def keep_printable(text: str) -> str:
    """Return a text without control characters, and without what the runner of a workflow takes for a command."""
    return "".join(one if one.isprintable() else "\ufffd" for one in text).replace("##[", "#\ufffd[")
