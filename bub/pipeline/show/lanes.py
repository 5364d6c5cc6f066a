"""A drawing as text for a terminal: a stage a line, with lanes for what waits for what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bub.base.layout import EMPTY, Line, Span, Tone, cells, indent_text, line, pad_text, widest
from bub.pipeline.show.drawing import OFF, Box, Drawing


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
        """Return the first lane that leads nowhere, a new one if need be."""
        if None not in self.wires:
            self.wires.append(None)
        return self.wires.index(None)

    def drop(self, lane: int) -> None:
        self.wires[lane] = None
        while self.wires and self.wires[-1] is None:
            self.wires.pop()

    def row(self, glyph: str = "", at: int = -1) -> str:
        """Return the lanes as they pass a line, with a stage standing on one of them."""
        marks = [_draw_lane(wire) for wire in self.wires]
        if glyph:
            marks += [" "] * (at + 1 - len(marks))
            marks[at] = glyph
        return " ".join(marks)

    def joint(self, start: int, end: int, cleanup: bool, corners: str) -> str:
        """Return a line from one lane to another; `corners` are what it leaves and meets there."""
        low, high = sorted((start, end))
        dash = "┄" if cleanup else "─"
        marks = [_draw_lane(wire) for wire in self.wires] + [" "] * (high + 1 - len(self.wires))
        gaps = [" "] * high
        for lane in range(low, high):
            gaps[lane] = dash
            if low < lane:
                marks[lane] = dash if marks[lane] == " " else "┼"
        marks[start], marks[end] = corners[0], corners[1]
        return "".join(mark + gap for mark, gap in zip(marks, [*gaps, *[" "] * len(marks)], strict=False)).rstrip()


def _draw_lane(wire: _Wire | None) -> str:
    if wire is None:
        return " "
    return "┊" if wire.cleanup else "│"


def text_lines(drawing: Drawing, width: int) -> list[Line]:
    """Return the graph for a terminal: a stage a line, in run order, with lines for what waits for what."""
    rows = list(_rows(drawing))
    lanes = widest(row.lanes for row in rows) + 2
    inset = 2 if any(box.group is not None for box in drawing.boxes) else 0
    names = widest(box.id for box in drawing.boxes) + inset + 2
    kinds = widest(box.kind or "no kind" for box in drawing.boxes) + 2
    timeouts = min(max(6, widest(_in_short(box) for box in drawing.boxes)), 10)
    lines: list[Line] = [*indent_text(drawing.title, width, 0, "strong"), EMPTY]
    for row in rows:
        head = Span(pad_text(row.lanes, lanes), "")
        if row.box is None:
            lines.append((head, Span(row.frame, "faint")))
            continue
        box, tone = row.box, _tone(row.box)
        unread = [f"time-out {box.timeout}"] if "${" in box.timeout else []
        said = "; ".join([*([OFF] if box.off else []), *unread, *box.marks, *([box.shown] if box.shown else [])])
        facts = f"{pad_text(box.kind or 'no kind', kinds)}{pad_text(_in_short(box), timeouts)}"
        first = (
            head,
            Span(pad_text("│ ", inset) if box.group is not None else " " * inset, "faint"),
            Span(pad_text(box.id, names - inset), tone),
        )
        fits = lanes + names + cells(facts) + 2 + cells(said) <= width
        lines.append((*first, Span(f"{facts}  {said}" if fits else facts, tone)))
        if not fits and said:
            down = Span(pad_text(row.below, lanes + 2))
            lines += [(down, *part) for part in indent_text(said, max(width - lanes - 2, 1), 0, "faint")]
    if not drawing.boxes:
        lines.append(line("(no stages)", "faint"))
    lines += [EMPTY, *_legend(drawing, width), *indent_text(drawing.bound, width, 0)]
    return lines


def _in_short(box: Box) -> str:
    """Return the time-out of a stage in its column; a reference has no room there."""
    return "${…}" if "${" in box.timeout else box.timeout or "-"


def _tone(box: Box) -> Tone:
    if box.off or box.nobody:
        return "faint"
    return "warn" if box.kind in ("gate", "claiming") else ""


def _legend(drawing: Drawing, width: int) -> list[Line]:
    words = {"◆": "gate", "◇": "claim", "○": "off"}
    there = {box.glyph for box in drawing.boxes}
    said = [f"{glyph} {word}" for glyph, word in words.items() if glyph in there]
    if any(edge.cleanup for edge in drawing.edges):
        said.append("┊ clean-up")
    return indent_text(", ".join(said), width, 0, "faint")


class _Row(NamedTuple):
    """One line of the drawing: its lanes, and the stage or the frame of a group that is behind them."""

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
            yield from (_Row(row, frame=frame if index else "") for row in _join_lanes(lanes, box.id))
            (at, *_) = lanes.leading_to(box.id) or [lanes.free()]
            wires = sorted(leaving.get(box.id, ()), key=lambda wire: order[wire.end])
            shown = lanes.row(box.glyph, at)
            lanes.wires[at : at + 1] = [None]
            below = list(_split_lanes(lanes, at, wires))
            yield _Row(shown, box, below=lanes.row())
            last = index == len(boxes) - 1
            frame = "" if each is None or last else "│"
            if each is not None and last:
                yield _Row(below.pop(0) if below else lanes.row(), frame="└")
            yield from (_Row(row, frame=frame) for row in below)
            if not below and not (each is not None and last) and any(lanes.wires):
                yield _Row(lanes.row(), frame=frame)


def _join_lanes(lanes: _Lanes, end: str) -> Iterator[str]:
    """Lead every lane to a stage into the first of them."""
    first, *others = lanes.leading_to(end) or [0]
    for lane in reversed(others):
        wire = lanes.wires[lane]
        yield lanes.joint(lane, first, wire is not None and wire.cleanup, "╯├")
        lanes.drop(lane)
    if others:
        lanes.wires[first] = _Wire(end, False)


def _split_lanes(lanes: _Lanes, at: int, wires: Sequence[_Wire]) -> Iterator[str]:
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
        if goes_on and lane < at:
            leaves = "┤"
        elif goes_on:
            leaves = "├"
        else:
            leaves = "╰" if lane > at else "╯"
        yield lanes.joint(at, lane, met is not None and met.cleanup, leaves + ("┤" if lane > at else "├"))
    if not new:
        lanes.drop(at)
