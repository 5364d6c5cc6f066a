"""The stage graph as a drawing: lanes of text for a terminal, Mermaid, DOT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from bub.duration import parse_duration
from bub.pipeline.document import Node
from bub.pipeline.layout import EMPTY, Line, Span, Tone, cells, indented, line, padded, widest
from bub.pipeline.plan import Plan, StagePlan
from bub.pipeline.waits import waits_of

_MOST_NAMED = 3
_OFF = "off"


class Edge(NamedTuple):
    """One stage waits for another; a clean-up's edge to its target is `cleanup`."""

    start: str
    end: str
    cleanup: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """What is drawn for one stage. `timeout` is as it is written, "" for none; `group` the list it runs for each of."""

    id: str
    kind: str
    timeout: str
    off: bool
    group: str | None
    marks: tuple[str, ...]

    @property
    def glyph(self) -> str:
        return "○" if self.off else {"gate": "◆", "claiming": "◇"}.get(self.kind, "●")

    @property
    def facts(self) -> str:
        """Kind and time-out in one line, and that it is off."""
        return ", ".join(part for part in (self.kind or "no kind", self.timeout, _OFF if self.off else "") if part)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A pipeline to draw: its stages in run order, the direct waits between them, and how long it may take."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    bound: str

    @property
    def groups(self) -> list[tuple[str | None, list[Box]]]:
        """Neighbours that run item by item over one list, together; every other stage under None."""
        return [(each, list(boxes)) for each, boxes in groupby(self.boxes, key=lambda box: box.group)]


def drawing_of(plan: Plan) -> Drawing:
    """What there is to draw of a plan, as far as it can be read."""
    waits = waits_of(plan)
    ids = {stage.id for stage in plan.stages}
    cleanups = [Edge(stage.cleanup_for, stage.id, True) for stage in plan.stages if stage.cleanup_for in ids]
    told = {(edge.start, edge.end) for edge in cleanups}
    edges = [Edge(other, stage.id) for stage in plan.stages for other in waits.directly[stage.id]]
    return Drawing(
        title=f"{plan.document.file}, profile {plan.profile}",
        boxes=tuple(_box(stage) for stage in plan.stages),
        edges=(*(edge for edge in edges if (edge.start, edge.end) not in told), *cleanups),
        bound=longest(plan),
    )


def _box(stage: StagePlan) -> Box:
    marks = []
    if stage.hook.point.name != stage.id:
        marks.append(f"calls {stage.hook.point.name}")
    if stage.node.get("when") is not None:
        marks.append("conditional")
    if stage.cleanup_for is not None:
        marks.append(f"cleans up after {stage.cleanup_for}")
    kind = stage.kind.name if stage.kind is not None else ""
    return Box(stage.id, kind, _timeout(stage), not stage.enabled, stage.each, tuple(marks))


def _timeout(stage: StagePlan) -> str:
    """The time-out of a stage as it is written: its own, else its hook point's."""
    node: Node | None = stage.node.get("timeout")
    if node is None and stage.hook.node is not None:
        node = stage.hook.node.get("timeout")
    if node is None:
        return ""
    return str(node.value) if isinstance(node.value, str | int | float) else "?"


# How long it may take


def longest(plan: Plan) -> str:
    """The sum of the time-outs along the longest path in words, or which stages have none.

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
        return f"unknown: the time-out of {unread[0]} cannot be told from the file alone"
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
    return f"at most {_written(total)}: {way}" + (f" (counted once: {'; '.join(often)})" if often else "")


def _written(seconds: float) -> str:
    """A sum of durations as people say it: `2m 35s`, `1.5s`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if rest or not (hours or minutes):
        parts.append(f"{rest * 1000:g}ms" if rest < 1 and not (hours or minutes) else f"{round(rest, 3):g}s")
    return " ".join(part for part in parts if part)


# Text


class _Wire(NamedTuple):
    """What a lane leads to, and how it is drawn."""

    end: str
    cleanup: bool


@dataclass(slots=True)
class _Lanes:
    """The lines that lead down, as columns: each to a stage that is still to come."""

    wires: list[_Wire | None] = field(default_factory=list)

    def leading_to(self, end: str) -> list[int]:
        return [lane for lane, wire in enumerate(self.wires) if wire is not None and wire.end == end]

    def free(self) -> int:
        """The first lane that leads nowhere, a new one if need be."""
        if None not in self.wires:
            self.wires.append(None)
        return self.wires.index(None)

    def drop(self, lane: int) -> None:
        self.wires[lane] = None
        while self.wires and self.wires[-1] is None:
            self.wires.pop()

    def row(self, glyph: str = "", at: int = -1) -> str:
        """The lanes as they pass a line, with a stage standing on one of them."""
        marks = [_upright(wire) for wire in self.wires]
        if glyph:
            marks += [" "] * (at + 1 - len(marks))
            marks[at] = glyph
        return " ".join(marks)

    def joint(self, start: int, end: int, cleanup: bool, corners: str) -> str:
        """A line from one lane to another; `corners` are what it leaves and meets there."""
        low, high = sorted((start, end))
        dash = "┄" if cleanup else "─"
        marks = [_upright(wire) for wire in self.wires] + [" "] * (high + 1 - len(self.wires))
        gaps = [" "] * high
        for lane in range(low, high):
            gaps[lane] = dash
            if low < lane:
                marks[lane] = dash if marks[lane] == " " else "┼"
        marks[start], marks[end] = corners[0], corners[1]
        return "".join(mark + gap for mark, gap in zip(marks, [*gaps, *[" "] * len(marks)], strict=False)).rstrip()


def _upright(wire: _Wire | None) -> str:
    return " " if wire is None else "┊" if wire.cleanup else "│"


def text_lines(drawing: Drawing, width: int) -> list[Line]:
    """The graph for a terminal: a stage a line, in run order, with lines for what waits for what."""
    rows = list(_rows(drawing))
    lanes = widest(row.lanes for row in rows) + 2
    inset = 2 if any(box.group is not None for box in drawing.boxes) else 0
    names = widest(box.id for box in drawing.boxes) + inset + 2
    kinds = widest(box.kind or "no kind" for box in drawing.boxes) + 2
    timeouts = min(max(6, widest(_in_short(box) for box in drawing.boxes)), 10)
    lines: list[Line] = [*indented(drawing.title, width, 0, "strong"), EMPTY]
    for row in rows:
        head = Span(padded(row.lanes, lanes), "")
        if row.box is None:
            lines.append((head, Span(row.frame, "faint")))
            continue
        box, tone = row.box, _tone(row.box)
        unread = [f"time-out {box.timeout}"] if "${" in box.timeout else []
        said = "; ".join([*([_OFF] if box.off else []), *unread, *box.marks])
        facts = f"{padded(box.kind or 'no kind', kinds)}{padded(_in_short(box), timeouts)}"
        first = (
            head,
            Span(padded("│ ", inset) if box.group is not None else " " * inset, "faint"),
            Span(padded(box.id, names - inset), tone),
        )
        fits = lanes + names + cells(facts) + 2 + cells(said) <= width
        lines.append((*first, Span(f"{facts}  {said}" if fits else facts, tone)))
        if not fits and said:
            down = Span(padded(row.below, lanes + 2))
            lines += [(down, *part) for part in indented(said, max(width - lanes - 2, 1), 0, "faint")]
    if not drawing.boxes:
        lines.append(line("(no stages)", "faint"))
    lines += [EMPTY, *_legend(drawing, width), *indented(drawing.bound, width, 0)]
    return lines


def _in_short(box: Box) -> str:
    """The time-out of a stage in its column; a reference has no room there."""
    return "${…}" if "${" in box.timeout else box.timeout or "-"


def _tone(box: Box) -> Tone:
    if box.off:
        return "faint"
    return "warn" if box.kind in ("gate", "claiming") else ""


def _legend(drawing: Drawing, width: int) -> list[Line]:
    words = {"◆": "gate", "◇": "claim", "○": "off"}
    there = {box.glyph for box in drawing.boxes}
    said = [f"{glyph} {word}" for glyph, word in words.items() if glyph in there]
    if any(edge.cleanup for edge in drawing.edges):
        said.append("┊ clean-up")
    return indented(", ".join(said), width, 0, "faint")


class _Row(NamedTuple):
    """One line of the drawing: its lanes, and the stage or the frame of a group that stands behind them."""

    lanes: str
    box: Box | None = None
    frame: str = ""
    below: str = ""
    """The lanes as they go on below a stage."""


def _rows(drawing: Drawing) -> Iterator[_Row]:
    lanes = _Lanes()
    leaving: dict[str, list[_Wire]] = {}
    for edge in drawing.edges:
        leaving.setdefault(edge.start, []).append(_Wire(edge.end, edge.cleanup))
    order = {box.id: index for index, box in enumerate(drawing.boxes)}
    for each, boxes in drawing.groups:
        if each is not None:
            yield _Row(lanes.row(), frame=f"┌ for each of {each}")
        for index, box in enumerate(boxes):
            frame = "│" if each is not None else ""
            yield from (_Row(row, frame=frame if index else "") for row in _arriving(lanes, box.id))
            (at, *_) = lanes.leading_to(box.id) or [lanes.free()]
            wires = sorted(leaving.get(box.id, ()), key=lambda wire: order[wire.end])
            shown = lanes.row(box.glyph, at)
            lanes.wires[at : at + 1] = [None]
            below = list(_leaving(lanes, at, wires))
            yield _Row(shown, box, below=lanes.row())
            last = index == len(boxes) - 1
            frame = "" if each is None or last else "│"
            if each is not None and last:
                yield _Row(below.pop(0) if below else lanes.row(), frame="└")
            yield from (_Row(row, frame=frame) for row in below)
            if not below and not (each is not None and last) and any(lanes.wires):
                yield _Row(lanes.row(), frame=frame)


def _arriving(lanes: _Lanes, end: str) -> Iterator[str]:
    """Lead every lane to a stage into the first of them."""
    first, *others = lanes.leading_to(end) or [0]
    for lane in reversed(others):
        wire = lanes.wires[lane]
        yield lanes.joint(lane, first, wire is not None and wire.cleanup, "╯├")
        lanes.drop(lane)
    if others:
        lanes.wires[first] = _Wire(end, False)


def _leaving(lanes: _Lanes, at: int, wires: Sequence[_Wire]) -> Iterator[str]:
    """Lead lanes from a stage to those that wait for it; the first goes straight down, no clean-up if it can be."""
    new = sorted((wire for wire in wires if wire not in lanes.wires), key=lambda wire: wire.cleanup)
    joined = [lanes.wires.index(wire) for wire in wires if wire in lanes.wires]
    if new:
        lanes.wires[at] = new[0]
    for wire in new[1:]:
        lane = next(
            (index for index in range(at + 1, len(lanes.wires)) if lanes.wires[index] is None), len(lanes.wires)
        )
        yield lanes.joint(at, lane, wire.cleanup, "├╮")
        lanes.wires += [None] * (lane + 1 - len(lanes.wires))
        lanes.wires[lane] = wire
    for index, lane in enumerate(joined):
        goes_on = bool(new) or index < len(joined) - 1
        met = lanes.wires[lane]
        leaves = "├" if goes_on else ("╰" if lane > at else "╯")
        if lane < at and goes_on:
            leaves = "┤"
        yield lanes.joint(at, lane, met is not None and met.cleanup, leaves + ("┤" if lane > at else "├"))
    if not new:
        lanes.drop(at)


# Mermaid


_CLASSES = (
    ("guard", "◆◇", "fill:#fff3cd,stroke:#b58900,color:#000000"),
    (_OFF, "○", "fill:#eeeeee,stroke:#bbbbbb,color:#999999,stroke-dasharray:3"),
)
"""What stages of some glyphs look like."""


def mermaid(drawing: Drawing) -> str:
    """The graph as a Mermaid flowchart, as GitHub and many editors draw it; ends with a line break."""
    names = {box.id: f"s{index}" for index, box in enumerate(drawing.boxes)}
    lines = ["---", f"title: {_yaml(f'{drawing.title} - {drawing.bound}')}", "---", "flowchart TD"]
    for number, (each, boxes) in enumerate(drawing.groups):
        inset = "  " if each is None else "    "
        if each is not None:
            lines.append(f'  subgraph each{number}["{_entities(f"for each of {each}")}"]')
        lines += [f"{inset}{names[box.id]}{_shape(box)}" for box in boxes]
        if each is not None:
            lines.append("  end")
    for edge in drawing.edges:
        arrow = "-. clean-up .->" if edge.cleanup else "-->"
        lines.append(f"  {names[edge.start]} {arrow} {names[edge.end]}")
    for name, glyphs, style in _CLASSES:
        members = [names[box.id] for box in drawing.boxes if box.glyph in glyphs]
        if members:
            lines += [f"  classDef {name} {style}", f"  class {','.join(members)} {name}"]
    return "\n".join(lines) + "\n"


def _shape(box: Box) -> str:
    label = f'"{_entities(box.id)}<br/>{_entities(box.facts)}"'
    opening, closing = {"gate": ("{{", "}}"), "claiming": ("{", "}")}.get(box.kind, ("[", "]"))
    return f"{opening}{label}{closing}"


def _entities(text: str) -> str:
    """A text inside Mermaid's quotes: what could end it, or be read as its markup, as an entity."""
    return "".join(one if one.isalnum() or one in " _.,-:" else f"#{ord(one)};" for one in _visible(text))


def _yaml(text: str) -> str:
    escaped = _visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# DOT


def dot(drawing: Drawing) -> str:
    """The graph in the DOT language of Graphviz; ends with a line break."""
    lines = [
        "digraph pipeline {",
        f"  label={_quoted(f'{drawing.title} - {drawing.bound}')}; labelloc=t; rankdir=TB;",
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
    ]
    for number, (each, boxes) in enumerate(drawing.groups):
        inset = "  " if each is None else "    "
        if each is not None:
            lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(f'for each of {each}')}; labelloc=t;"]
        lines += [f"{inset}{_quoted(box.id)} [{_attributes(box)}];" for box in boxes]
        if each is not None:
            lines.append("  }")
    for edge in drawing.edges:
        style = ' [style=dashed, label="clean-up"]' if edge.cleanup else ""
        lines.append(f"  {_quoted(edge.start)} -> {_quoted(edge.end)}{style};")
    return "\n".join([*lines, "}"]) + "\n"


def _attributes(box: Box) -> str:
    attributes: dict[str, str] = {"label": _quoted(box.id, box.facts)}
    if box.kind in ("gate", "claiming"):
        attributes |= {"shape": "hexagon" if box.kind == "gate" else "diamond", "style": "solid"}
    if box.off:
        attributes |= {"color": "gray", "fontcolor": "gray", "style": "dashed"}
    return ", ".join(f"{name}={value}" for name, value in attributes.items())


def _quoted(*lines: str) -> str:
    """Lines of text in DOT's quotes; `&` begins an entity there, and a backslash an escape."""
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})
    return '"' + "\\n".join(_visible(line).translate(escapes) for line in lines) + '"'


def _visible(text: str) -> str:
    # `##[` begins a command to the runner of a GitHub workflow, in whose log the graph may stand.
    return "".join(one if one.isprintable() else "�" for one in text).replace("##[", "#�[")
