"""The eight kinds at a glance: whom each asks, and what becomes of what they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .paper import box, sheet, words

_MARGIN, _ROW, _HIGH = 16, 40, 28
_PLUGINS, _WIDE, _BETWEEN, _RESULT, _WIDTH = 130, 84, 22, 452, 720


class Example(NamedTuple):
    """Three plugins asked by a kind: what each says (None: it is not asked), and what comes of it."""

    kind: str
    says: tuple[str | None, str | None, str | None]
    result: str


EXAMPLES = (
    Example("firstresult", ("None", '"tea"', None), 'the first answer: "tea"'),
    Example("broadcast", ("{a: 1}", "None", "{b: 2}"), "all, combined: {a: 1, b: 2}"),
    Example("observer", ("seen", "fails", "seen"), "nothing; the others still run"),
    Example("void", ("seen", "fails", "seen"), "nothing; all run at once"),
    Example("modifying", ("{a: 1}", "{a: 2}", "{b: 3}"), "first of each key: a 1, b 3"),
    Example("claiming", ("None", "handled", None), "the claim ends the turn"),
    Example("gate", ("None", "fails", None), "denied: the turn ends"),
    Example("stream", ("None", "events", None), "the text of its events"),
)


def draw_kinds() -> str:
    """Draw a row for each kind."""
    body: list[str] = []
    for number, example in enumerate(EXAMPLES):
        body += _draw(example, _MARGIN + number * _ROW)
    names = ", ".join(example.kind for example in EXAMPLES)
    return sheet(
        f"The kinds, each asking three plugins: {names}", _WIDTH, 2 * _MARGIN + _ROW * len(EXAMPLES) - 12, body
    )


def _draw(example: Example, y: float) -> Iterator[str]:
    middle = y + _HIGH / 2
    yield words("ink strong", _MARGIN, middle + 5, example.kind, 7.8 * len(example.kind))
    for number, said in enumerate(example.says):
        x = _PLUGINS + number * (_WIDE + _BETWEEN)
        if number and example.kind != "void":
            arrow = f"M{x - _BETWEEN + 4} {middle:g}h{_BETWEEN - 10}M{x - 10} {middle - 4:g}l6 4l-6 4"
            yield f'<path class="line" d="{arrow}"/>'
        text = said if said is not None else "not asked"
        style = "gate" if said == "fails" else "card" if said is not None else "paper"
        yield box(style, x, y, _WIDE, _HIGH)
        wide = 6.6 * len(text)
        yield words("ink small" if said is not None else "faint small", x + (_WIDE - wide) / 2, middle + 4, text, wide)
    yield words("ink small", _RESULT, middle + 4, example.result, 6.6 * len(example.result))
