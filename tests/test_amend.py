"""Changing values in a pipeline file: what is named is changed, and not one other byte."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.base.diagnostics import PipelineError
from bub.base.resources import shipped_pipeline
from bub.configure import merge
from bub.errors import BubError
from bub.pipeline.edit.amend import amend
from bub.pipeline.edit.paths import REMOVED, Keys
from bub.pipeline.source.document import Node
from bub.pipeline.source.line_index import LineIndex
from bub.pipeline.source.yaml_reader import parse

Case = tuple[str, Mapping[Keys, Any], str]


def root_of(text: str) -> Node:
    parsed = parse(text.encode(), file="p", layer="p")
    assert parsed.root is not None and not [found for found in parsed.findings if found.severity == "error"], text
    return parsed.root


# One value


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("a: old  # remark", "new", "a: new  # remark"),
        ('a: "old"', "new", 'a: "new"'),
        ("a: 'old'", "it's new", "a: 'it''s new'"),
        ("a: 'old'", "two\nlines", 'a: "two\\nlines"'),
        ("a: old", "no", 'a: "no"'),
        ("a: old", "true", 'a: "true"'),
        ("a: old", "Null", 'a: "Null"'),
        ("a: old", "12", 'a: "12"'),
        ("a: old", "a: b", 'a: "a: b"'),
        ("a: old", "a #b", 'a: "a #b"'),
        ("a: old", " x ", 'a: " x "'),
        ("a: old", "", 'a: ""'),
        ("a: old", "2026-11-22", 'a: "2026-11-22"'),
        ("a: old", "${env:X}", 'a: "${env:X}"'),
        ("a: openai:one", "openai:two", "a: openai:two"),
        ("a: 30s", "2m", "a: 2m"),
        ("a: old", "漢 é", "a: 漢 é"),
        ("a: old", "\u2028\x85\xa0", 'a: "\\u2028\\x85\\xa0"'),
        ("a: old", 'say "hi" \\', 'a: "say \\"hi\\" \\\\"'),
        ('a: "1"', 1, "a: 1"),
        ("a: 1", True, "a: true"),
        ("a: 1", None, "a: null"),
        ("a: 1", 1.5, "a: 1.5"),
        ("a: 1", -math.inf, "a: -.inf"),
        ("a: x", ["b", 1, "no"], 'a: [b, 1, "no"]'),
        ("a: x", {}, "a: {}"),
        ("a:", "x", "a: x"),
        ("a:   # remark", "x", "a: x   # remark"),
        ("a: >-\n  long\n  text\nb: 1", "x", "a: x\nb: 1"),
        ("a: long\n  text  # remark\nb: 1", "x", "a: x  # remark\nb: 1"),
        ("a:\n  x", "new", "a:\n  new"),
        ("a: &anchor x", "new", "a: &anchor new"),
        ("a: &anchor  # remark\n  b: 1  # one\nc: 2", "new", "a: &anchor new  # remark\nc: 2"),
        ("a:  # remark\n- b  # one\nc: 2", {"k": 1}, "a: {k: 1}  # remark\nc: 2"),
    ],
)
def test_a_value_is_written_so_that_it_reads_back_with_the_quotes_it_had(old: str, value: Any, new: str) -> None:
    assert amend(old, {("a",): value}) == new
    assert root_of(new).get("a") is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "a: 1"), ("1", "a: '1'"), (True, "a: True"), (None, "a: ~"), (["x"], "a:\n- x"), ({"b": 1}, "a: {b: 0x1}")],
)
def test_what_is_so_already_is_not_touched(value: Any, text: str) -> None:
    assert amend(text, {("a",): value}) == text


def test_one_and_true_are_two_values() -> None:
    assert amend("a: 1", {("a",): True}) == "a: true"
    assert amend("a: 1", {("a",): 1.0}) == "a: 1.0"


def test_a_mapping_is_laid_over_what_is_there_key_by_key() -> None:
    text = "a:\n  b: 1  # one\n  c: {d: 2, e: 3}\n"
    assert amend(text, {("a",): {"c": {"e": 4, "d": REMOVED}, "f": 5}}) == "a:\n  b: 1  # one\n  c: {e: 4}\n  f: 5\n"
    assert amend(text, {("a",): {}}) == text


# New values

PAGE = """\
# head
version: 1

settings:
    model: a   # the model
    # api_base: b

    telegram: {token: x}   # t
    empty: {}   # e
    nothing:
    wide: {
      a: 1,   # one
      b: 2   # two
    }
    last:
      inner: 1
      # inside
    # behind

# the end
tests: {}
# really"""


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        ("settings.new", 1, "    # behind\n", "    # behind\n    new: 1\n"),
        ("settings.new", ["a"], "    # behind\n", "    # behind\n    new: [a]\n"),
        ("settings.new.x", 1, "    # behind\n", "    # behind\n    new:\n        x: 1\n"),
        ("settings.last.new", 1, "      # inside\n", "      # inside\n      new: 1\n"),
        ("settings.telegram.new", 1, "{token: x}", "{token: x, new: 1}"),
        ("settings.telegram.new.x", 1, "{token: x}", "{token: x, new: {x: 1}}"),
        ("settings.empty.new", 1, "empty: {}   # e\n", "empty:   # e\n        new: 1\n"),
        ("settings.nothing.new", 1, "nothing:\n", "nothing:\n        new: 1\n"),
        ("settings.model.new", 1, "model: a   # the model\n", "model:   # the model\n        new: 1\n"),
        ("settings.wide.c", 3, "b: 2   # two\n", "b: 2,   # two\n      c: 3\n"),
        ("tests.new", 1, "tests: {}\n", "tests:\n    new: 1\n"),
        ("profiles.p.plugins", ["a"], "# really", "# really\n\nprofiles:\n    p:\n        plugins: [a]"),
        ("on_failure", "skip", "# really", "# really\n\non_failure: skip"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_new_key_goes_behind_the_last_one_of_its_mapping(
    path: str, value: Any, old: str, new: str, ending: str, bom: str
) -> None:
    assert PAGE.count(old) == 1
    text, expected = (bom + page.replace("\n", ending) for page in (PAGE, PAGE.replace(old, new)))
    assert amend(text, {tuple(path.split(".")): value}) == expected


def test_sections_are_indented_as_the_file_does_it_else_by_two() -> None:
    assert amend("version: 1", {("a", "b", "c"): 1}) == "version: 1\n\na:\n  b:\n    c: 1"
    assert amend("version: 1\na:\n   b: {}\n", {("c", "d", "e"): 1}).endswith("\n\nc:\n   d:\n      e: 1\n")


def test_a_key_that_would_not_be_text_elsewhere_is_quoted() -> None:
    assert amend("a: {b: 1}", {("a", "on"): 1, ("a", "c: d"): 2}) == 'a: {b: 1, "on": 1, "c: d": 2}'


# Values that go


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("settings.model", "    model: a   # the model\n", ""),
        ("settings.telegram", "    telegram: {token: x}   # t\n", ""),
        ("settings.telegram.token", "{token: x}", "{}"),
        ("settings.wide.a", "      a: 1,   # one\n", ""),
        ("settings.wide.b", "      b: 2   # two\n", ""),
        ("settings.last.inner", "last:\n      inner: 1\n", "last: {}\n"),
        ("settings.last", "    last:\n      inner: 1\n", ""),
        ("tests", "tests: {}\n", ""),
        ("settings.unheard.of", "", ""),
    ],
)
def test_a_value_that_goes_takes_its_lines_along_and_leaves_every_other_remark(path: str, old: str, new: str) -> None:
    assert amend(PAGE, {tuple(path.split(".")): REMOVED}) == PAGE.replace(old, new)


def test_a_file_without_a_last_line_end_has_none_when_its_last_line_goes() -> None:
    assert amend("a: 1\nb: 2\nc: 3", {("b",): REMOVED, ("c",): REMOVED}) == "a: 1"


@pytest.mark.parametrize(
    ("old", "gone", "new"),
    [
        ("{b: 1, c: 2, d: 3}", "b", "{c: 2, d: 3}"),
        ("{b: 1, c: 2, d: 3}", "c", "{b: 1, d: 3}"),
        ("{b: 1, c: 2, d: 3}", "d", "{b: 1, c: 2}"),
        ("{b: 1,  # one\n  c: 2}", "c", "{b: 1,  # one\n  }"),
        ("{\n  b: 1  # one\n}", "b", "{}"),
        ("{\n  # all\n  b: 1  # one\n  # more\n}", "b", "{\n  # all\n  # more\n}"),
    ],
)
def test_an_entry_goes_from_between_braces_with_its_comma(old: str, gone: str, new: str) -> None:
    assert amend(f"a: {old}", {("a", gone): REMOVED}) == f"a: {new}"


# Lists

BLOCK = "a:  # list\n- x   # first\n# between\n- y   # second\n  # - z\nb: 1\n"


@pytest.mark.parametrize(
    ("items", "old", "new"),
    [
        (["x", "new"], "- y ", "- new "),
        (["x"], "- y   # second\n", ""),
        (["y"], "- x   # first\n", ""),
        (["x", "y", "new"], "  # - z\n", "  # - z\n- new\n"),
        (["x", "new", "y"], "# first\n", "# first\n- new\n"),
        (["new", "x", "y"], "- x ", "- new\n- x "),
        (["x", {"k": "v"}], "- y ", "- {k: v} "),
    ],
)
def test_items_of_a_list_that_stay_keep_their_lines(items: list[Any], old: str, new: str) -> None:
    assert amend(BLOCK, {("a",): items}) == BLOCK.replace(old, new)


def test_a_remark_in_the_column_of_the_key_is_about_what_comes_next() -> None:
    text = "a:\n- x\n# about b\nb: 1\n"
    assert amend(text, {("a",): ["x", "z"]}) == text.replace("- x\n", "- x\n- z\n")


def test_a_value_within_an_item_goes_by_the_number_of_the_item() -> None:
    text = "a:\n  - b: 1  # one\n  - {b: 'x', c: 2}  # two\n"
    assert amend(text, {("a", "1", "b"): "y"}) == text.replace("'x'", "'y'")
    assert amend(text, {("a", "0", "b"): 1}) == text
    assert amend("version: 1\n", {("a",): [{"b": {"c": 1}, "d": 2}, {}]}) == (
        "version: 1\n\na:\n  - b: {c: 1}\n    d: 2\n  - {}\n"
    )


def test_an_item_that_is_a_mapping_is_written_in_one_line_and_its_neighbours_stay() -> None:
    text = "a:\n  - b: 1  # one\n    c: 2\n  # between\n  - b: 3\n    c: 4  # four\n"
    items = [{"b": 1, "c": 2}, {"b": 3, "c": 5}, {"b": 6}]
    assert amend(text, {("a",): items}) == text.replace("b: 3\n    c: 4  # four", "{b: 3, c: 5}  # four\n  - b: 6")
    assert amend(text, {("a",): items[:1]}) == text.replace("  - b: 3\n    c: 4  # four\n", "")


def test_a_list_that_is_empty_now_is_written_as_such() -> None:
    assert amend(BLOCK, {("a",): []}) == "a: []  # list\n  # - z\nb: 1\n"
    assert amend("a: [x, y]", {("a",): []}) == "a: []"
    assert amend("a:\n- x\n- w\n- z", {("a",): ["x"]}) == "a:\n- x"


@pytest.mark.parametrize(
    ("old", "items", "new"),
    [
        ("[x, y, z]", ["y"], "[y]"),
        ("[x, y, z]", ["x", "z"], "[x, z]"),
        ("[ 'x', y ]", ["n", "y", "m"], "[ 'n', y, m ]"),
        ("[]", ["x"], "[x]"),
        ("[\n  x,  # one\n  y  # two\n]", ["x", "y", "z"], "[\n  x,  # one\n  y,  # two\n  z\n]"),
        ("[\n  x,  # one\n  y,  # two\n]", ["x", "y", "z"], "[\n  x,  # one\n  y,  # two\n  z,\n]"),
        ("[\n  x,  # one\n  y,  # two\n]", ["y"], "[\n  y,  # two\n]"),
        ("[x, {k: v}]", ["x", {"k": "w"}], "[x, {k: w}]"),
    ],
)
def test_a_list_in_brackets_stays_in_brackets(old: str, items: list[Any], new: str) -> None:
    assert amend(f"a: {old}  # all", {("a",): items}) == f"a: {new}  # all"


# What cannot be done


@pytest.mark.parametrize("path", ["c", "c.b", "c.new"])
def test_what_comes_through_an_alias_is_not_changed_in_place(path: str) -> None:
    text = "a: &x {b: 1}\nc: *x\n"
    with pytest.raises(BubError, match=r"^mine\.yaml:2:4: `c` stands for a value that is written elsewhere") as caught:
        amend(text, {tuple(path.split(".")): 2}, file="mine.yaml")
    assert caught.value.help is not None and "by hand" in caught.value.help


@pytest.mark.parametrize(
    ("text", "path", "where"),
    [
        ("a: &x {b: 1}\nc: *x\n", ("a", "b"), "1:8"),
        ("a: &x one\nc: *x\n", ("a",), "1:1"),
        ("b: 1\na: |\n  kept", ("new",), "1:1"),
        ("? a\n: b\n", ("new",), "1:1"),
        ("a: &x\n  b: 1\nc: *x\n", ("a",), "1:1"),
    ],
)
def test_what_would_change_more_than_was_named_is_an_error_with_its_place(text: str, path: Keys, where: str) -> None:
    with pytest.raises(BubError, match=rf"^pipelines\.yaml:{where}: `.+` cannot be changed for sure") as caught:
        amend(text, {path: "other"})
    assert caught.value.help == "change it by hand"


def test_a_text_that_cannot_be_read_is_told_as_its_findings() -> None:
    with pytest.raises(PipelineError) as caught:
        amend("a: [", {("a",): 1}, file="mine.yaml")
    assert [(found.code, found.file) for found in caught.value.diagnostics] == [("B001", "mine.yaml")]


# Laws

NAMES = st.sampled_from(["a", "b", "c", "x-y", "k.l", '"q"', "'on'", "漢"])
SPELLINGS = st.sampled_from(
    ["1", "-1.5", "true", "null", "~", "word", "two words", "5s", "a:b", '"a # b"', "'it''s'", '"${env:X}"', '"é 🎉"']
)
BLOCKS = st.sampled_from(["|\n{0}one\n{0}  two", ">-\n{0}folded\n{0}text", '"two\n{0}lines"', "plain\n{0}lines"])
REMARKS = st.sampled_from(["", "", "", "  # remark", " # - no: [item"])
BETWEEN = st.sampled_from(["", "", "", "\n", "{0}# own line\n", "\n{0}  # deeper\n\n"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(["no", "1", "a: b"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1), inner, max_size=2),
    max_leaves=5,
)


@st.composite
def flows(draw: st.DrawFn, depth: int = 2) -> str:
    """A value in brackets, on one line or several."""
    kind = draw(st.integers(0, 2 if depth else 0))
    if kind == 0:
        return draw(SPELLINGS)
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    items = [f"{name}: {draw(flows(depth - 1))}" if kind == 1 else draw(flows(depth - 1)) for name in names]
    opening, closing = "{}" if kind == 1 else "[]"
    if items and draw(st.booleans()):
        remarks = [draw(REMARKS) for _ in items]
        last = draw(st.sampled_from(["", ","]))
        commas = [","] * (len(items) - 1) + [last]
        lines = (
            f"{' ' * 9}{item}{comma}{remark}\n" for item, comma, remark in zip(items, commas, remarks, strict=True)
        )
        return f"{opening}\n{''.join(lines)}{' ' * 9}{closing}"
    return f"{opening}{', '.join(items)}{closing}"


@st.composite
def mappings(draw: st.DrawFn, indent: int = 0, depth: int = 3) -> str:
    """The lines of a mapping in block style."""
    lines = ""
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        pad = " " * indent
        lines += draw(BETWEEN).format(pad)
        kind = draw(st.integers(0, 5 if depth else 3))
        remark = draw(REMARKS)
        step = draw(st.integers(1, 4))
        if kind == 0:
            lines += f"{pad}{name}:{remark}\n"
        elif kind == 1:
            lines += f"{pad}{name}: {draw(SPELLINGS)}{remark}\n"
        elif kind == 2:
            lines += f"{pad}{name}: {draw(flows())}{remark}\n"
        elif kind == 3:
            lines += f"{pad}{name}: {draw(BLOCKS).format(' ' * (indent + step))}\n"
        elif kind == 4:
            lines += f"{pad}{name}:{remark}\n{draw(mappings(indent + step, depth - 1))}"
        else:
            lines += f"{pad}{name}:{remark}\n"
            for _ in range(draw(st.integers(1, 3))):
                lines += f"{' ' * (indent + step)}- {draw(flows(1))}{draw(REMARKS)}\n"
    return lines


@st.composite
def files(draw: st.DrawFn) -> str:
    """A commented file in whatever style."""
    text = f"version: 1{draw(REMARKS)}\n" + draw(mappings()) + draw(BETWEEN).format("")
    if draw(st.booleans()) and "|" not in text:
        text = text.removesuffix("\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def paths(node: Node, keys: Keys = ()) -> Iterator[tuple[Keys, Node]]:
    yield keys, node
    for name, inner in node.items():
        yield from paths(inner, (*keys, name))


@st.composite
def amended(draw: st.DrawFn) -> tuple[str, dict[Keys, Any]]:
    """A file, and changes of it of which none lies within another."""
    text = draw(files())
    there = list(paths(root_of(text)))
    changes: dict[Keys, Any] = {}
    for _ in range(draw(st.integers(1, 3))):
        keys, _ = draw(st.sampled_from(there))
        if not keys or draw(st.integers(0, 2)) == 0:
            names = st.text(min_size=1).filter(lambda name: not name.isdecimal())  # a number is an item of a list
            keys = (*keys, *draw(st.lists(names | st.just("new"), min_size=1, max_size=2)))
        if any(keys[: len(other)] == other or other[: len(keys)] == keys for other in changes):
            continue
        changes[keys] = draw(VALUES | st.just(REMOVED))
    return text, changes


HAS_BLOCK_TEXT = re.compile(r"[|>]-?\s*[\r\n]")


def laid(tree: dict[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    """A plain tree with one change laid over it."""
    if value is not REMOVED:
        for name in reversed(keys):
            value = {name: value}
        return merge(tree, value)
    below = tree.get(keys[0])
    if len(keys) > 1 and isinstance(below, dict):
        return {**tree, keys[0]: laid(below, keys[1:], REMOVED)}
    return {name: inner for name, inner in tree.items() if name != keys[0] or len(keys) > 1}


@settings(max_examples=60, deadline=None)
@given(amended())
def test_what_is_named_is_changed_and_all_else_survives(case: tuple[str, dict[Keys, Any]]) -> None:
    text, changes = case
    tree = root_of(text).plain()
    for keys, value in changes.items():
        tree = laid(tree, keys, value)
    try:
        after = amend(text, changes)
    except BubError:
        assert HAS_BLOCK_TEXT.search(text)  # a remark may become a part of it when what stands between them goes
        return
    assert repr(root_of(after).plain()) == repr(tree)
    assert amend(after, changes) == after


@settings(max_examples=60, deadline=None)
@given(files(), st.data())
def test_a_changed_value_changes_its_own_characters_only(text: str, data: st.DataObject) -> None:
    root = root_of(text)
    bare = text.removeprefix("\ufeff")
    keys, node = data.draw(st.sampled_from([found for found in paths(root) if not isinstance(found[1].value, dict)]))
    lines = LineIndex(bare)
    start, end = (lines.offset(point) for point in node.place.range)
    value = data.draw(SCALARS)
    after = amend(text, {keys: value}).removeprefix("\ufeff")
    if repr(value) == repr(node.plain()):
        assert after == bare
    elif isinstance(node.value, tuple) and bare[start] == "-":
        assert node.key is not None
        assert after.startswith(bare[: lines.offset(node.key.range.end) + 1])
        assert after.endswith(behind(bare, end))
    else:
        assert after.startswith(bare[:start]) and after.endswith(bare[end:])


def behind(text: str, offset: int) -> str:
    """What stands behind the line of an offset."""
    return text[offset:].partition("\n")[2]


@settings(max_examples=60, deadline=None)
@given(files(), st.data())
def test_a_value_that_goes_takes_nothing_along_but_its_lines(text: str, data: st.DataObject) -> None:
    bare = text.removeprefix("\ufeff")
    keys, node = data.draw(st.sampled_from([found for found in paths(root_of(text)) if found[0]]))
    start, end = (LineIndex(bare).offset(point) for point in (node.where.range.start, node.place.range.end))
    try:
        after = amend(text, {keys: REMOVED}).removeprefix("\ufeff")
    except BubError:
        assert HAS_BLOCK_TEXT.search(text)
        return
    holder = root_of(text).get(*keys[:-1])
    assert holder is not None
    if len(holder.value) > 1:
        assert after.startswith(bare[:start].rstrip(" \r\n,"))
        assert after.endswith(behind(bare, end))
    else:
        end = LineIndex(bare).offset(holder.place.range.end)
        letters = iter(after)
        assert all(letter in letters for letter in bare[:start].rstrip(" \r\n"))
        assert after.endswith(behind(bare, end))


@settings(max_examples=60, deadline=None)
@given(files(), st.data())
def test_a_new_key_takes_nothing_away(text: str, data: st.DataObject) -> None:
    keys, _ = data.draw(
        st.sampled_from([found for found in paths(root_of(text)) if found[1].value and found[1].is_mapping])
    )
    after = amend(text, {(*keys, "new"): data.draw(VALUES)})
    letters = iter(after)
    assert all(letter in letters for letter in text)


def test_every_value_of_a_shipped_file_can_be_changed_and_changed_back() -> None:
    path = shipped_pipeline("default")
    assert path is not None
    text = path.read_text(encoding="utf-8")
    for keys, node in paths(root_of(text)):
        if isinstance(node.value, str | int | float) and keys:
            there = amend(text, {keys: "something else"})
            back = amend(there, {keys: node.plain()})
            assert root_of(back).plain() == root_of(text).plain() != root_of(there).plain()
            number = node.place.range.start.line - 1
            for changed in (there, back):
                lines = changed.splitlines()
                assert [*lines[:number], *lines[number + 1 :]] == [
                    *text.splitlines()[:number],
                    *text.splitlines()[number + 1 :],
                ]
