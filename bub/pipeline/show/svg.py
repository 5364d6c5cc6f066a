"""A drawing as an SVG: a stage a card, rails on the left for what waits for what; light and dark, 400 pixels wide.

It uses no font, script or address of others, so that a README, a page and an editor show it alike.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import NamedTuple

from bub.base.layout import cells
from bub.pipeline.show.drawing import NOBODY, Box, Drawing, Edge, Point, keep_printable

_NARROWEST, _WIDEST = 384, 720
_MARGIN, _RAIL, _DOT = 14, 16, 6
_CARD, _GAP, _INSET = 42, 14, 8
_LINE, _SMALL_LINE = 18, 15
_NAME, _SMALL = 7.9, 6.3
"""How wide a letter of a name and one of the small print is at most, in pixels."""
_NUMBERS = 20
"""How many letters of the small print a page may write into a stage."""
_XMLNS = "http://www.w3.org/2000/svg"

_STYLE = """
svg{font:11px ui-sans-serif,system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
.paper{fill:#fff;stroke:#d1d9e0}.ink{fill:#1f2328}.faint{fill:#59636e}
.name{font:600 13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}
.point{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}
.title{font-size:12px;font-weight:600;fill:#1f2328}
.rail{fill:none;stroke:#818b98;stroke-width:1.6}.cleanup{stroke-dasharray:3 3}
.card{fill:#f6f8fa;stroke:#d1d9e0}.dot{fill:#818b98;stroke:#fff;stroke-width:2}
.group{fill:none;stroke:#818b98;stroke-dasharray:5 4}
.stream .card{fill:#ddf4ff;stroke:#54aeff}.stream .dot{fill:#0969da}
.gate .card,.points .gate{fill:#fff8c5;stroke:#d4a72c}.gate .dot{fill:#9a6700}
.claiming .card{fill:#fbefff;stroke:#c297ff}.claiming .dot{fill:#8250df}
.off .card{fill:none;stroke-dasharray:4 3}.off .dot{fill:#fff;stroke:#818b98}
.off text,.nobody text{opacity:.55}.nobody .card{fill:none}.off .name{text-decoration:line-through}
@media(prefers-color-scheme:dark){
.paper{fill:#0d1117;stroke:#3d444d}.ink,.name,.point,.title{fill:#f0f6fc}.faint{fill:#9198a1}
.rail,.group{stroke:#656c76}.card{fill:#151b23;stroke:#3d444d}.dot{fill:#9198a1;stroke:#0d1117}
.stream .card{fill:#0c1d33;stroke:#1f6feb}.stream .dot{fill:#4493f8}
.gate .card,.points .gate{fill:#272115;stroke:#9e6a03}.gate .dot{fill:#d29922}
.claiming .card{fill:#1e1630;stroke:#8957e5}.claiming .dot{fill:#ab7df8}
.off .card,.nobody .card{fill:none}.off .dot{fill:#0d1117;stroke:#9198a1}}
"""


def svg(drawing: Drawing, *, live: bool = False) -> str:
    """Return the graph as an SVG document; ends with a line break. Each stage is a group with the id `stage-NAME`.

    A `live` one is for a page that styles it by its classes and writes numbers into it: it has no style of its own,
    each stage is a button with its name in `data-stage` and an empty text of the class `live`, each wait says in
    `data-from` and `data-to` which stages it joins.
    """
    rails = lay_rails(drawing)
    left = _MARGIN + _RAIL * rails.number + _INSET
    page = _Page(left, min(max(_NARROWEST, left + _room(drawing)), _WIDEST), live)
    body = [*page.draw_title(drawing.title)]
    places: dict[str, _Spot] = {}
    for each, boxes in drawing.groups:
        top = page.open_group(each)
        for box in boxes:
            places[box.id] = _Spot(_x(rails.of_stage[box.id]), page.y + _CARD / 2)
            body += page.draw_stage(box, places[box.id], [point for point in drawing.points if point.stage == box.id])
        body += page.close_group(each, top)
    body += page.draw_loose_points([point for point in drawing.points if point.stage is None])
    body += page.draw_words(_legend(drawing), "faint")
    body += page.draw_words([drawing.bound], "ink")
    wires = [_wire(edge, rails, places, live) for edge in drawing.edges]
    paper = _rect("paper", 0.5, 0.5, page.width - 1, page.y - 1, 8)
    size = f'width="{page.width}" height="{page.y}" viewBox="0 0 {page.width} {page.y}"'
    if live:  # what is in a picture (`img`) cannot be a button
        opened = [f'<svg xmlns="{_XMLNS}" {size} role="group" aria-label="{_text(drawing.title)}">']
    else:
        said = f"{drawing.title}: {', '.join(box.id for box in drawing.boxes)}"
        opened = [
            f'<svg xmlns="{_XMLNS}" {size} role="img" aria-labelledby="what">',
            f'<title id="what">{_text(said)}</title>',
            f"<style>{_STYLE}</style>",
        ]
    return "\n".join([*opened, paper, *wires, *body, "</svg>\n"])


def id_of_stage(name: str) -> str:
    """Return the id of a stage's group: its name, with anything in it that has no place in an id as a number."""
    return "stage-" + re.sub(r"[^A-Za-z0-9_.-]", lambda one: f":{ord(one[0]):x}:", name)


# Rails


@dataclass(frozen=True, slots=True)
class Rails:
    """Which rail each stage is on, and which one leads from one stage to another; the first one is 0."""

    of_stage: Mapping[str, int]
    of_edge: Mapping[Edge, int]
    number: int


def lay_rails(drawing: Drawing) -> Rails:
    """Lay a rail for each wait: no two share a stretch of one, and each is the first from the left that is free."""
    of_stage: dict[str, int] = {}
    of_edge: dict[Edge, int] = {}
    order = {box.id: index for index, box in enumerate(drawing.boxes)}
    leaving: dict[str, list[Edge]] = {box.id: [] for box in drawing.boxes}
    for edge in sorted(drawing.edges, key=lambda edge: (edge.cleanup, order[edge.end])):
        leaving[edge.start].append(edge)
    used: dict[int, str] = {}
    for box in drawing.boxes:
        arriving = [rail for rail, end in used.items() if end == box.id]
        own = of_stage[box.id] = min(arriving, default=_first_free(used))
        for rail in arriving:
            del used[rail]
        for edge in leaving[box.id]:
            rail = own if own not in used else _first_free(used)
            of_edge[edge] = rail
            used[rail] = edge.end
    return Rails(of_stage, of_edge, 1 + max((*of_stage.values(), *of_edge.values()), default=0))


def _first_free(used: Container[int]) -> int:
    return next(rail for rail in count() if rail not in used)


class _Spot(NamedTuple):
    x: float
    y: float


def _x(rail: int) -> int:
    return _MARGIN + _RAIL * rail + _DOT


def _wire(edge: Edge, rails: Rails, places: Mapping[str, _Spot], live: bool) -> str:
    """Draw a wait: away from its stage, down its rail, and to the stage that waits."""
    start, end, rail = places[edge.start], places[edge.end], _x(rails.of_edge[edge])
    bend = (_CARD + _GAP) / 2
    way = f"M{start.x} {start.y}"
    if rail != start.x:
        way += f"C{start.x} {start.y + bend} {rail} {start.y} {rail} {start.y + bend}"
    way += f"V{end.y - (bend if rail != end.x else 0)}"
    if rail != end.x:
        way += f"C{rail} {end.y} {end.x} {end.y - bend} {end.x} {end.y}"
    joined = f' data-from="{_text(edge.start)}" data-to="{_text(edge.end)}"' if live else ""
    return f'<path class="rail{" cleanup" if edge.cleanup else ""}"{joined} d="{way}"/>'


# Cards


class _Page:
    """What is drawn from top to bottom; `y` is where the next thing goes."""

    def __init__(self, left: int, width: int, live: bool) -> None:
        self.left = left
        self.width = width
        self.live = live
        self.y = _MARGIN

    @property
    def right(self) -> int:
        return self.width - _MARGIN - _INSET

    @property
    def _room(self) -> int:
        return self.right - self.left

    def draw_title(self, title: str) -> Iterator[str]:
        for words in _wrap(title, (self.width - 2 * _MARGIN) / _SMALL):
            yield f'<text class="title" x="{_MARGIN}" y="{self.y + 11}">{_text(words)}</text>'
            self.y += _LINE
        self.y += _GAP - 4

    def open_group(self, each: str | None) -> int:
        if each is not None:
            self.y += _LINE
        return self.y

    def close_group(self, each: str | None, top: int) -> Iterator[str]:
        if each is None:
            return
        y = top - _LINE
        yield _rect("group", self.left - _INSET + 1, y, self._room + 2 * _INSET - 2, self.y - y - 4, 8)
        yield f'<text class="faint" x="{self.left + 4}" y="{y + 13}">for each of {_text(each)}</text>'
        self.y += _GAP

    def draw_stage(self, box: Box, spot: _Spot, points: list[Point]) -> Iterator[str]:
        height = _CARD + (len(points) * _LINE + 6 if points else 0)
        states = [box.kind or "none", *(["off"] if box.off else []), *(["nobody"] if box.nobody else [])]
        full = ", ".join((box.id, box.facts, *box.marks))
        button = f' tabindex="0" role="button" data-stage="{_text(box.id)}" aria-label="{_text(full)}"'
        opened = f'<g id="{id_of_stage(box.id)}" class="stage {_text(" ".join(states))}"{button if self.live else ""}>'
        yield f"{opened}<title>{_text(full)}</title>"
        yield self._card(self.y, height)
        yield self._glyph(box, spot)
        kind = box.kind or "no kind"
        yield self._words(box.id, "name", self.y + 18, _NAME, beside=kind)
        yield self._beside(kind, self.y + 18)
        small = "; ".join([*([box.timeout] if box.timeout else ["no time-out"]), *box.marks])
        yield self._words(small, "faint", self.y + 34, _SMALL, beside=" " * _NUMBERS if self.live else "")
        if self.live:
            yield f'<text class="live" x="{self.right - 10}" y="{self.y + 34}" text-anchor="end"/>'
        yield from self._points(points, self.y + _CARD)
        yield "</g>"
        self.y += height + _GAP

    def draw_loose_points(self, points: list[Point]) -> Iterator[str]:
        """Draw points that are fired inside a stage, nobody knows which."""
        if not points:
            return
        height = _LINE * len(points) + _LINE + 10
        yield f'<g class="stage none">{self._card(self.y, height)}'
        yield f'<text class="faint" x="{self.left + 10}" y="{self.y + 16}">fired inside stages</text>'
        yield from self._points(points, self.y + _LINE + 4)
        yield "</g>"
        self.y += height + _GAP

    def draw_words(self, texts: Iterable[str], tone: str) -> Iterator[str]:
        for text in texts:
            for words in _wrap(text, (self.width - 2 * _MARGIN) / _SMALL):
                yield f'<text class="{tone}" x="{_MARGIN}" y="{self.y + 8}">{_text(words)}</text>'
                self.y += _SMALL_LINE

    def _card(self, top: int, height: int) -> str:
        return _rect("card", self.left, top, self._room, height, 6)

    def _glyph(self, box: Box, spot: _Spot) -> str:
        x, y = spot
        if box.kind in ("gate", "claiming"):
            corners = f"{x},{y - 8} {x + 8},{y} {x},{y + 8} {x - 8},{y}"
            return f'<polygon class="dot" points="{corners}"/>'
        return f'<circle class="dot" cx="{x}" cy="{y}" r="{_DOT}"/>'

    def _words(self, text: str, tone: str, y: int, letter: float, beside: str = "") -> str:
        room = self._room - 20 - (len(beside) + 2) * _SMALL * bool(beside)
        return f'<text class="{tone}" x="{self.left + 10}" y="{y}">{_text(_cut(text, int(room / letter)))}</text>'

    def _beside(self, text: str, y: int) -> str:
        return f'<text class="faint" x="{self.right - 10}" y="{y}" text-anchor="end">{_text(text)}</text>'

    def _points(self, points: Iterable[Point], top: int) -> Iterator[str]:
        for index, point in enumerate(points):
            y = top + index * _LINE
            told = _text(f"{point.name}, {point.kind}{f', {NOBODY}' if point.nobody else ''}")
            yield f'<g class="points{" nobody" if point.nobody else ""}"><title>{told}</title>'
            if point.kind == "gate":
                yield _rect("gate", self.left + 6, y - 2, self._room - 12, _LINE, 4)
            yield self._words(point.name, "point", y + 11, _NAME, beside=point.kind)
            yield self._beside(point.kind or "no kind", y + 11) + "</g>"


def _rect(name: str, x: float, y: float, width: float, height: float, round_by: int) -> str:
    return f'<rect class="{name}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{round_by}"/>'


def _room(drawing: Drawing) -> int:
    """Return how wide cards should be for what is written on them."""
    names = max((cells(box.id) for box in drawing.boxes), default=0)
    marks = max((cells("; ".join(box.marks)) + 12 for box in drawing.boxes), default=0)
    return int(max(names * _NAME + 12 * _SMALL, marks * _SMALL)) + 20 + _MARGIN + _INSET


def _legend(drawing: Drawing) -> list[str]:
    kinds = {box.kind for box in drawing.boxes}
    said = [words for kind, words in (("gate", "◆ yellow: a gate"), ("claiming", "◆ violet: a claim")) if kind in kinds]
    if any(edge.cleanup for edge in drawing.edges):
        said.append("┄ clean-up")
    if any(box.nobody for box in drawing.boxes) or any(point.nobody for point in drawing.points):
        said.append(f"pale: {NOBODY}")
    return [", ".join(said)] if said else []


def _wrap(text: str, letters: float) -> list[str]:
    return textwrap.wrap(text, max(int(letters), 20)) or [""]


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: max(letters - 1, 1)]}…"


def _text(text: str) -> str:
    return escape(keep_printable(text))
