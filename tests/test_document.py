"""Reading YAML: what values become, where they stand, and each refusal at its exact place."""

from __future__ import annotations

import json
import math
import time

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bub.base.diagnostics import Diagnostic
from bub.pipeline.source import yaml_reader
from bub.pipeline.source.document import Node, walk
from bub.pipeline.source.scalars import read_scalar
from bub.pipeline.source.yaml_reader import Parsed, parse

EITHER_PARSER = pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader], ids=["libyaml", "pure"])


def read(text: str | bytes) -> Parsed:
    data = text if isinstance(text, bytes) else text.encode()
    return parse(data, file="f.yaml", layer="f.yaml")


def root_of(text: str | bytes) -> Node:
    parsed = read(text)
    assert parsed.findings == ()
    assert parsed.root is not None
    return parsed.root


def found(text: str | bytes) -> list[str]:
    return [f"{item.code} {span(item)}" for item in read(text).findings]


def span(item: Diagnostic) -> str:
    start, end = item.range.start, item.range.end
    return f"{start.line}:{start.column}-{end.line}:{end.column}"


def place(node: Node | None) -> str:
    assert node is not None
    start, end = node.place.range.start, node.place.range.end
    return f"{start.line}:{start.column}-{end.line}:{end.column}"


# Values


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None),
        ("~", None),
        ("Null", None),
        ("nUll", "nUll"),
        ("true", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("no", "no"),
        ("on", "on"),
        ("12", 12),
        ("+12", 12),
        ("-0", 0),
        ("010", 10),
        ("0o17", 15),
        ("0xfF", 255),
        ("-0x1", "-0x1"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("0b1", "0b1"),
        ("1.", 1.0),
        (".5", 0.5),
        ("1.10", 1.1),
        ("-1e3", -1000.0),
        ("1e", "1e"),
        (".", "."),
        ("-", "-"),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("30s", "30s"),
        ("2024-01-01", "2024-01-01"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_scalar_is_read_as_yaml_1_2_has_it(written: str, value: object) -> None:
    read_value = read_scalar(written)
    assert (read_value, type(read_value)) == (value, type(value))


def test_not_a_number_is_a_number() -> None:
    assert math.isnan(read_scalar(".nan"))


def test_quotes_and_blocks_are_text() -> None:
    root = root_of("a: '1'\nb: \"true\"\nc: |\n  2\n")
    assert root.plain() == {"a": "1", "b": "true", "c": "2\n"}
    assert [node.quoted for _, node in root.items()] == [True, True, True]


def test_keys_that_are_no_text_become_their_text() -> None:
    assert root_of("{1: a, true: b, null: c, 1.50: d}").plain() == {"1": "a", "true": "b", "null": "c", "1.50": "d"}


def test_an_alias_stands_at_its_own_place_and_its_content_where_it_was_written() -> None:
    root = root_of("a: &x {b: 1}\nc: *x\n")
    assert root.plain() == {"a": {"b": 1}, "c": {"b": 1}}
    assert place(root.get("c")) == "2:4-2:6"
    assert place(root.get("c", "b")) == "1:11-1:12"


def test_walk_gives_dotted_paths() -> None:
    root = root_of("stages: {prompt: {needs: [a, b]}}")
    assert [path for path, _ in walk(root)] == [
        "",
        "stages",
        "stages.prompt",
        "stages.prompt.needs",
        "stages.prompt.needs[0]",
        "stages.prompt.needs[1]",
    ]


# Places


@EITHER_PARSER
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_columns_are_code_points_whatever_the_line_ends(
    loader: type, line_end: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_reader, "_LOADER", loader)
    root = root_of(f"{mark}日本: é😀 b{line_end}k:{line_end}  - [1, '語😀']{line_end}")
    assert place(root.get("日本")) == "1:5-1:9"
    assert place(root.get("k")) == "3:3-3:14"
    assert place(root.get("k", 0, 1)) == "3:9-3:13"


def test_line_ends_that_only_old_parsers_know_do_not_shift_lines() -> None:
    root = root_of("a: 'x\u2028y'\nb: 1\n")
    assert place(root.get("b")) == "2:4-2:5"


def test_a_block_ends_with_its_last_value() -> None:
    root = root_of("a:\n  b: 1\n  c: |\n    x\n    y\n\n# end\nd: 2\n")
    assert place(root.get("a")) == "2:3-5:6"
    assert place(root.get("a", "c")) == "3:6-5:6"
    assert place(root) == "1:1-8:5"


def test_an_anchor_is_no_part_of_the_value() -> None:
    assert place(root_of("a: &x text\n").get("a")) == "1:7-1:11"


def test_a_value_knows_its_key() -> None:
    node = root_of("a:\n  bc: 1\n").get("a", "bc")
    assert node is not None
    assert node.key is not None
    assert (node.key.range.start.line, node.key.range.start.column, node.key.range.end.column) == (2, 3, 5)
    assert node.origins == (node.place,)


# Refusals


@pytest.mark.parametrize(
    ("text", "expected", "message"),
    [
        ("a: b: c\n", "B001 1:4-1:8", "a value that contains `: ` must be in quotes"),
        ("a\nb: c\n", "B001 1:1-1:2", "this line has no `:` behind its key"),
        ("a: b\nc\nd: e\n", "B001 2:1-2:2", "this line has no `:` behind its key"),
        ("a:b\nc: d\n", "B001 1:1-1:4", "the `:` behind a key needs a space after it"),
        ("a: b\n  c: d\n", "B001 2:3-2:4", "this key is indented deeper than the line above"),
        ("a:\n    b: 1\n  c: 2\n", "B001 3:3-3:4", "this line is not indented like the entries it belongs to"),
        ("a: 1\n- b\n", "B001 2:1-2:2", "a key is expected here, not a list item"),
        ("a: - b\n", "B001 1:4-1:5", "a list cannot begin on the line of its key"),
        ("k: 'it's'\n", "B001 1:8-1:10", "`s'` follows a value that has ended already"),
        ("a: [b] c\n", "B001 1:8-1:9", "`c` follows a value that has ended already"),
        ("b:\n  - c\n  d: e", "B001 3:3-3:4", "a list item is expected here, not `d`"),
        ("a: @x\n", "B001 1:4-1:6", "a value cannot begin with `@`"),
        ("a: *\n", "B001 1:4-1:5", "text that begins with `*` must be in quotes"),
        ("a: [*.py, b]\n", "B001 1:5-1:9", "text that begins with `*` must be in quotes"),
        ("a: *x\n", "B001 1:4-1:6", "`*` refers to an anchor above, but no anchor has this name"),
        ('a: "x\nb: c\n', "B001 1:4-1:5", 'the quote " is opened here and never closed'),
        ("a: [1,\n", "B001 1:4-1:5", "the `[` opened here is not closed"),
        ("a: {b: 1\nc: 2\n", "B001 1:4-1:5", "the `{` opened here is not closed"),
        ("a: [b c}\n", "B001 1:8-1:9", "`,` or `]` is expected here, not `}`"),
        ("a: ]\n", "B001 1:4-1:5", "a value is expected here, not `]`"),
        ('a: "é\\q"\n', "B001 1:6-1:8", "`\\q` is not an escape that YAML knows here"),
        ("{a: b}\nc: d\n", "B001 2:1-2:2", "`c` follows the end of the document"),
        ("a: {{name}}\n", "B001 1:5-1:6", "a key must be text, not a list or a mapping"),
        ("a: é\x07\n", "B001 1:5-1:6", "the control character U+0007 is not allowed in YAML"),
        ("%FOO\n---\na: 1\n", "B001 1:1-1:5", "a line that begins with `%` is a YAML directive"),
        ("a: | x\n  y\n", "B001 1:6-1:7", "text cannot follow `|` on the same line"),
        ("a:\n\tb: 1\n", "B003 2:1-2:2", "a tab is used for indentation"),
        ("a:\n  \t b: 1\n", "B003 2:3-2:4", "a tab is used for indentation"),
        ("a: b\n\tc: d\n", "B003 2:1-2:2", "a tab is used for indentation"),
        ("a: {\n\tb: 1\n\t}\n", "B003 2:1-2:2", "a tab is used for indentation"),
        ("a:\n  <<: {b: 1}\n", "B004 2:3-2:5", "merge keys (`<<`) are not allowed"),
        ("a: &x !!str b\n", "B005 1:7-1:12", "YAML tags are not allowed"),
        ("a: !include other.yaml\n", "B005 1:4-1:12", "YAML tags are not allowed"),
        ("a: ![]\n", "B005 1:4-1:5", "YAML tags are not allowed"),
        ("a: 1\n---\nb: 2\n", "B006 2:1-2:4", "a second document begins here"),
        ("a: &x [*x]\n", "B007 1:8-1:10", "`*x` contains itself"),
        ("a: \xff".encode("latin-1"), "B010 1:4-1:5", "the byte 0xFF (number 4 of the file) is not valid UTF-8"),
        ("é\na: é".encode()[:-1], "B010 2:4-2:5", "the byte 0xC3 (number 7 of the file) is not valid UTF-8"),
        ("stages:\nversion: 1\n", "B011 1:1-1:7", "`stages` has nothing behind it"),
        ("profiles: {ci: {settings: ~}}\n", "B011 1:17-1:25", "`settings` has nothing behind it"),
        ("stages:\n  a:\n", "B011 2:3-2:4", "`a` has nothing behind it"),
        ("a: [yes, b]\n", "B012 1:5-1:8", "`yes` is text here, but other tools read it as true or false"),
        ("On: 1\n", "B012 1:1-1:3", "`On` is text here, but other tools read it as true or false"),
        ("", "B013 1:1-1:1", "the file is empty"),
        ("# only a comment\n", "B013 1:1-1:1", "the file is empty"),
        ("- a\n- b\n", "B013 1:1-2:4", "the file holds a list, not a mapping"),
        ("text\n", "B013 1:1-1:5", "the file holds a single value, not a mapping"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(text: str | bytes, expected: str, message: str) -> None:
    findings = read(text).findings
    assert [f"{item.code} {span(item)}" for item in findings] == [expected]
    assert findings[0].message.startswith(message)
    assert findings[0].help
    assert findings[0].severity == ("warning" if findings[0].code == "B012" else "error")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c\n", "B001 1:4-1:8"),
        ("a:\n    b: 1\n  c: 2\n", "B001 3:3-3:4"),
        ("a: @x\n", "B001 1:4-1:6"),
        ('a: "x\n', "B001 1:4-1:5"),
        ("a: [1,\n", "B001 1:4-1:5"),
        ("a: [b c}\n", "B001 1:8-1:9"),
        ("a: *\n", "B001 1:4-1:5"),
        ('a: "\\q"\n', "B001 1:5-1:7"),
        ("a:\n\tb: 1\n", "B003 2:1-2:2"),
        ('a: "\\U00110000"\n', "B001 1:5-1:7"),
    ],
)
def test_the_pure_parser_says_the_same(text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "_LOADER", yaml.SafeLoader)
    findings = read(text).findings
    assert [item.code for item in findings] == [expected[:4]]
    if "U0011" not in text:
        assert found(text) == [expected]


def test_duplicate_keys_name_both_places_and_the_first_one_counts() -> None:
    parsed = read("a:\n  b: 1\n  'b': 2\n")
    (finding,) = parsed.findings
    assert (finding.code, span(finding), finding.path) == ("B002", "3:3-3:6", "a.b")
    (first,) = finding.related
    assert (first.range.start.line, first.range.start.column) == (2, 3)
    assert parsed.root is not None
    assert parsed.root.plain() == {"a": {"b": 1}}


def test_the_word_other_tools_read_as_truth_can_be_fixed() -> None:
    (finding,) = read("a: off\n").findings
    assert finding.fix == '"off"'
    assert read('a: "off"\n"no": 1\n').findings == ()


def test_everything_but_a_syntax_error_is_reported_at_once() -> None:
    assert found("a: 1\na: 2\n<<: {}\nb: !x 1\nc: no\nstages:\n") == [
        "B002 2:1-2:2",
        "B004 3:1-3:3",
        "B005 4:4-4:6",
        "B012 5:4-5:6",
        "B011 6:1-6:7",
    ]


def test_an_empty_section_is_read_on_as_if_empty_on_purpose() -> None:
    parsed = read("stages:\nroutes:\nprofiles:\n  default:\n    plugins:\n")
    assert parsed.root is not None
    assert parsed.root.plain() == {"stages": {}, "routes": [], "profiles": {"default": {"plugins": []}}}
    assert [item.help for item in parsed.findings if item.path == "routes"] == [
        "write `routes: []` to say that it is empty on purpose, or remove the key"
    ]
    assert read("stages: {}\nroutes: []\nsettings: {model: }\n").findings == ()


def test_a_quoted_merge_key_is_a_key() -> None:
    assert root_of('"<<": 1\n').plain() == {"<<": 1}


def test_a_second_document_leaves_the_first() -> None:
    root = read("a: 1\n---\nb: 2\n").root
    assert root is not None
    assert root.plain() == {"a": 1}


def test_utf_16_is_named() -> None:
    (finding,) = read("a: 1\n".encode("utf-16")).findings
    assert finding.help == "this looks like UTF-16: save the file as UTF-8"


def test_a_tab_that_does_not_indent_is_fine() -> None:
    assert root_of("a:\tb\nc: d\t# comment\ne: |\n  x\n  \ty\n").plain() == {"a": "b", "c": "d", "e": "x\n\ty\n"}


# Limits


def nested(depth: int) -> str:
    return "a: " + "[" * (depth - 1) + "]" * (depth - 1)


def test_depth_ends_at_32() -> None:
    assert found(nested(32)) == []
    assert found(nested(33)) == ["B008 1:35-1:36"]


def test_depth_counts_what_aliases_add() -> None:
    chain = "".join(f"b{level}: &b{level} [*b{level - 1}]\n" for level in range(1, 40))
    assert found(f"b0: &b0 [1]\n{chain}") == ["B008 31:12-31:16"]


def test_the_size_ends_at_a_million_bytes() -> None:
    text = "a: " + "x" * (1_000_000 - 3)
    assert found(text) == []
    assert found(text + "x") == ["B009 1:1-1:1"]


def test_aliases_may_stand_for_a_hundred_thousand_values() -> None:
    thousand = "a: &a [" + "x," * 999 + "]\n"
    assert found(thousand + "b: [" + "*a," * 100 + "]\n") == []
    assert found(thousand + "b: [" + "*a," * 101 + "]\n") == ["B007 2:305-2:307"]


LAUGHS = "a0: &a0 [" + "x," * 10 + "]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 10}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (LAUGHS, "B007"),
        ("a: " + "[" * 900_000, "B008"),
        ("{a: " * 200_000, "B008"),
        ("- " * 400_000, "B008"),
        ("? " * 400_000, "B001"),
        ("\n".join("  " * level + "a:" for level in range(600)), "B008"),
        ("x" * 2_000_000, "B009"),
    ],
    ids=["laughs", "lists", "mappings", "items", "keys", "blocks", "size"],
)
def test_an_attack_is_refused_at_once(text: str, code: str) -> None:
    data = text.encode()
    start = time.process_time()
    findings = read(data).findings
    assert time.process_time() - start < 0.5  # about 10 ms
    assert [item.code for item in findings] == [code]


FRAGMENTS = [
    *"ab:-[]{},|>'\"#?%@!&*~\n\r\t\\ ",
    *("&x ", "*x", "- ", ": ", "---\n", "...\n", "<<: ", "no", "null", "stages:\n", "  ", "\\ud800", "\\U00110000"),
    *("é", "😀", "\u2028", "\ufeff", "\x00"),
]


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(lambda parts: "".join(parts).encode()),
    ),
    st.sampled_from([yaml.CSafeLoader, yaml.SafeLoader]),
)
@example(b"a: \xed\xa0\x80", yaml.CSafeLoader)
@example(b'a: "\\UFFFFFFFF"', yaml.SafeLoader)
def test_no_bytes_raise_and_every_finding_points_into_the_text(data: bytes, loader: type) -> None:
    original = yaml_reader._LOADER
    yaml_reader._LOADER = loader
    try:
        parsed = read(data)
    finally:
        yaml_reader._LOADER = original
    assert parsed.root is not None or parsed.findings
    lines = parsed.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for item in parsed.findings:
        assert item.range.start <= item.range.end
        for position in (item.range.start, item.range.end):
            assert 1 <= position.line <= len(lines)
            assert 1 <= position.column <= len(lines[position.line - 1]) + 2


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(max_size=5), PLAIN, min_size=1, max_size=4))
def test_json_is_read_as_json_reads_it(value: dict[str, object]) -> None:
    parsed = read(json.dumps({"x-data": value}))
    if not parsed.findings:
        assert parsed.root is not None
        assert parsed.root.plain() == {"x-data": value}
    else:  # an escape for half a character is JSON, but no text; a key may not be longer than YAML allows
        assert {item.code for item in parsed.findings} <= {"B001"}


@pytest.mark.parametrize(
    "text",
    ["x-a: [\t" + "1," * 100_000 + "]", "x-a:\n" + " " * 100_000 + "[" + "1, " * 100_000 + "\t]", "x: \t" + "a" * 9],
)
def test_a_tab_in_a_line_of_thousands_of_values_costs_no_more_than_the_values(text: str) -> None:
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 10  # about 2 s; looking along the line for each value took minutes


def test_a_tab_is_found_whatever_stands_before_it_in_the_file() -> None:
    assert found("a: [1, 2]\nb: [1,\n\t2, 3]\n") == ["B003 3:1-3:2"]
