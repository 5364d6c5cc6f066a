"""A turn at a glance: from the message to its replies, the stage that asks the model with all that it fires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bub.pipeline.show.drawing import Box, Drawing, Point

from .paper import box, sheet, words

_LETTER, _SMALL = 7.8, 6.6
_MARGIN, _ARROW, _CARD, _CHIP, _GAP = 16, 24, 44, 22, 22
_WIDTH, _END = 640, 70
"""The width of the picture, and of the room for the message and the replies."""


def draw_turn(drawing: Drawing) -> str:
    """Draw the stages in their order, three to a row; the one that fires hook points has a row of its own."""
    (model,) = {point.stage for point in drawing.points} - {None}
    at = next(index for index, stage in enumerate(drawing.boxes) if stage.id == model)
    before, asking, behind = drawing.boxes[:at], drawing.boxes[at], drawing.boxes[at + 1 :]
    chips = list(_rows_of([point for point in drawing.points if point.stage == model]))
    y = _MARGIN
    body = [*_draw_row(["message", *before], y)]
    y += _CARD + _GAP
    height = _CARD + (_CHIP + 6) * len(chips) + 4
    body += [_fall(y - _GAP), *_draw_model(asking, chips, y, height), _fall(y + height)]
    y += height + _GAP
    body += _draw_row([*behind, "replies"], y)
    names = ", ".join(stage.id for stage in drawing.boxes)
    return sheet(f"A turn, from the message to its replies: {names}", _WIDTH, y + _CARD + _MARGIN, body)


def _draw_row(items: Sequence[Box | str], y: float) -> Iterator[str]:
    """Draw stages and ends of the turn side by side, with arrows between."""
    stages = sum(isinstance(item, Box) for item in items)
    free = _WIDTH - 2 * _MARGIN - _ARROW * (len(items) - 1) - _END * (len(items) - stages)
    x = float(_MARGIN)
    for number, item in enumerate(items):
        room = free / stages if isinstance(item, Box) else _END
        if isinstance(item, Box):
            style = item.kind if item.kind in ("gate", "stream") else "card"
            yield box(style, x, y, room, _CARD)
            yield words("ink strong", x + 10, y + 19, item.id, _LETTER * len(item.id))
            yield _small(x + 10, y + 35, item.kind)
        else:
            yield words("ink", x + (room - _LETTER * len(item)) / 2, y + _CARD / 2 + 5, item, _LETTER * len(item))
        if number:
            yield _arrow(f"M{x - _ARROW + 4:g} {y + _CARD / 2:g}h{_ARROW - 10}", x - 4, y + _CARD / 2, across=True)
        x += room + _ARROW


def _draw_model(stage: Box, chips: Sequence[Sequence[Point]], y: float, height: float) -> Iterator[str]:
    """Draw the stage that asks the model over the whole width, and the hook points that it fires in it."""
    yield box(stage.kind if stage.kind in ("gate", "stream") else "card", _MARGIN, y, _WIDTH - 2 * _MARGIN, height)
    yield words("ink strong", _MARGIN + 10, y + 19, stage.id, _LETTER * len(stage.id))
    said = f"{stage.kind}; the model and its tools, with a hook before and after each call; yellow is a gate"
    yield _small(_MARGIN + 10, y + 35, said)
    for number, row in enumerate(chips):
        x, top = _MARGIN + 10.0, y + _CARD + (_CHIP + 6) * number
        for point in row:
            yield box("gate" if point.kind == "gate" else "paper", x, top, _wide(point), _CHIP, 11)
            yield words("ink", x + 10, top + 15, point.name, _SMALL * len(point.name))
            x += _wide(point) + 6


def _rows_of(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Yield as many hook points at a time as fit side by side."""
    row: list[Point] = []
    for point in points:
        if row and sum(_wide(one) + 6 for one in [*row, point]) > _WIDTH - 2 * _MARGIN - 14:
            yield row
            row = []
        row.append(point)
    if row:
        yield row


def _wide(point: Point) -> float:
    return _SMALL * len(point.name) + 20


def _small(x: float, y: float, text: str) -> str:
    return words("faint small", x, y, text, 6.3 * len(text))


def _fall(y: float) -> str:
    return _arrow(f"M{_WIDTH / 2:g} {y + 3:g}v{_GAP - 10}", _WIDTH / 2, y + _GAP - 4, across=False)


def _arrow(path: str, x: float, y: float, *, across: bool) -> str:
    head = f"M{x - 6:g} {y - 4:g}l6 4l-6 4" if across else f"M{x - 4:g} {y - 6:g}l4 6l4 -6"
    return f'<path class="line" d="{path}{head}"/>'
