"""Splicing changes what it was told to, and not one other byte."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bub.base.diagnostics import Position, Range
from bub.base.resources import shipped_pipeline, shipped_pipelines
from bub.pipeline.source.document import Node
from bub.pipeline.source.line_index import LineIndex
from bub.pipeline.source.splice import Edit, splice
from bub.pipeline.source.yaml_reader import parse

PIECES = ["a", "b: ", '"', "\n", "\r", "\r\n", "\t", "漢", "é", "\u0301", "🎉", "\u2028"]
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join)
BOMS = st.sampled_from(["", "\ufeff"])


def span(text: str, start: int, end: int) -> Range:
    return LineIndex(text).range(start, end)


def at(line: int, column: int, end: int) -> Range:
    return Range(Position(line, column), Position(line, end))


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, list[Edit], str]:
    """A text, edits of it that lie apart, and what is to come of it."""
    text = draw(TEXTS)
    count = draw(st.integers(0, 3))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), min_size=0, max_size=2 * count)))
    spans = [(start, end) for index, (start, end) in enumerate(pairwise(cuts)) if index % 2 == 0]
    fresh = [draw(TEXTS) for _ in spans]
    expected, done = "", 0
    for (start, end), new in zip(spans, fresh, strict=True):
        expected += text[done:start] + new
        done = end
    edits = [Edit(span(text, *each), new) for each, new in zip(spans, fresh, strict=True)]
    return text, draw(st.permutations(edits)), expected + text[done:]


@given(edited(), BOMS)
def test_what_is_named_is_changed_and_nothing_else(case: tuple[str, list[Edit], str], bom: str) -> None:
    text, edits, expected = case
    assert splice(bom + text, edits) == bom + expected


@given(TEXTS, BOMS, st.data())
def test_putting_back_what_stood_there_changes_nothing(text: str, bom: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert splice(bom + text, [Edit(span(text, start, end), text[start:end])]) == bom + text
    assert splice(bom + text, []) == bom + text


@given(TEXTS, st.data())
def test_an_edit_can_be_undone(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    fresh = data.draw(TEXTS)
    done = splice(text, [Edit(span(text, start, end), fresh)])
    assert splice(done, [Edit(span(done, start, start + len(fresh)), text[start:end])]) == text


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("ab\r\ncd", 2, 1, "ab\r\nXd"),
        ("ab\rcd\rx", 2, 2, "ab\rcX\rx"),
        ("\ufeffab", 1, 1, "\ufeffXb"),
        ("漢字🎉d", 1, 4, "漢字🎉X"),
        ("e\u0301d", 1, 3, "e\u0301X"),
        ("a\u2028d", 1, 3, "a\u2028X"),
    ],
    ids=["CRLF", "CR", "byte order mark", "wide", "combining", "line separator"],
)
def test_columns_are_code_points_of_the_lines_that_editors_show(
    text: str, line: int, column: int, expected: str
) -> None:
    assert splice(text, [Edit(at(line, column, column + 1), "X")]) == expected


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(at(1, 1, 3), "x"), Edit(at(1, 2, 4), "y")],
        [Edit(at(1, 1, 4), "x"), Edit(at(1, 2, 3), "y")],
        [Edit(at(1, 1, 3), "x"), Edit(at(1, 1, 3), "x")],
        [Edit(at(1, 2, 2), "x"), Edit(at(1, 2, 2), "y")],
    ],
    ids=["across", "within", "the same", "between the same two"],
)
def test_edits_that_overlap_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="overlap"):
        splice("abcd", edits)
    with pytest.raises(ValueError, match="overlap"):
        splice("abcd", edits[::-1])


def test_edits_that_touch_are_made() -> None:
    assert splice("abcd", [Edit(at(1, 3, 5), "y"), Edit(at(1, 1, 3), "x")]) == "xy"


@pytest.mark.parametrize(
    "wrong",
    [at(0, 1, 1), at(1, 0, 1), at(3, 1, 1), at(1, 1, 9), at(1, 3, 2), Range(Position(2, 1), Position(1, 1))],
)
def test_a_range_that_is_not_in_the_text_is_refused(wrong: Range) -> None:
    with pytest.raises(ValueError):
        splice("ab\ncd", [Edit(wrong, "x")])


@pytest.mark.parametrize(
    ("old", "word", "expected"),
    [
        ('"gat"', "gate", '"gate"'),
        ("'gat'", "gate", "'gate'"),
        ("gat", "gate", "gate"),
        ('"5 s"', "5s", '"5s"'),
        ('"yes"', "true", "true"),
        ("'1'", "1", "1"),
        ('"opnai:a/b"', "openai:a/b", '"openai:a/b"'),
        ("'!telegrm'", "!telegram", "'!telegram'"),
        ("no", '"no"', '"no"'),
        ("'", "gate", "gate"),
        ("'a'", "a b", "a b"),
    ],
)
def test_a_word_keeps_the_quotes_of_what_it_replaces(old: str, word: str, expected: str) -> None:
    assert splice(old, [Edit(at(1, 1, len(old) + 1), word, keep_quotes=True)]) == expected


def scalars(node: Node, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Node]]:
    if not node.is_mapping and not node.is_sequence:
        yield path, node
    for name, child in node.items():
        yield from scalars(child, (*path, name))
    for index, child in enumerate(node.elements()):
        yield from scalars(child, (*path, index))


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", shipped_pipelines())
def test_every_value_of_a_file_can_be_replaced_by_itself(name: str, ending: str) -> None:
    path = shipped_pipeline(name)
    assert path is not None
    text = "\ufeff" + path.read_text(encoding="utf-8").replace("\n", ending)
    root = parse(text.encode(), file="p", layer="p").root
    assert root is not None
    plain = root.plain()
    for steps, node in scalars(root):
        done = splice(text, [Edit(node.place.range, '"something else"')])
        changed = parse(done.encode(), file="p", layer="p").root
        assert changed is not None and changed.get(*steps) is not None
        expected = plain
        *above, last = steps
        for step in above:
            expected = expected[step]
        before, expected[last] = expected[last], "something else"
        assert changed.plain() == plain
        expected[last] = before
