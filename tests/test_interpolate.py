"""References in string values: what they become, what is said when they cannot, and `.env`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bub.pipeline.source.interpolate import (
    Reference,
    check,
    lone_reference,
    parse_dotenv,
    read_environment,
    references,
    resolve,
)
from bub.pipeline.source.merge import load_text

ENVIRONMENT = {"NAME": "value", "EMPTY": "", "NUMBER": "42", "TRICKY": "${env:NAME} $$"}


def resolved(text: str, *, base: Path | None = None, typed: bool = False) -> object:
    plain, findings = resolve(load_text(text).root, ENVIRONMENT, base=base, typed=typed)
    assert findings == ()
    return plain


def findings_of(text: str, *, base: Path | None = None) -> list[str]:
    _, findings = resolve(load_text(text).root, ENVIRONMENT, base=base)
    return [f"{item.code} {item.range.start.column}-{item.range.end.column} {item.message}" for item in findings]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:NAME}", "value"),
        ("a ${env:NAME}, ${env:NAME}!", "a value, value!"),
        ("${env:GONE:-other}", "other"),
        ("${env:GONE:-}", ""),
        ("${env:EMPTY:-other}", "other"),
        ("${env:NAME:-other}", "value"),
        ("${env:GONE:-a: b :-c}", "a: b :-c"),
        ("costs $$5", "costs $5"),
        ("costs $5, $", "costs $5, $"),
        ("$${env:NAME}", "${env:NAME}"),
        ("$$${env:NAME}", "$value"),
        ("${env:NUMBER}", "42"),
        ("${env:TRICKY}", "${env:NAME} $$"),
    ],
)
def test_a_reference_is_replaced_once(text: str, value: str) -> None:
    assert resolved(f"a: '{text}'") == {"a": value}


def test_only_string_values_hold_references() -> None:
    assert resolved("{1: 2, '${env:NAME}': ['${env:NAME}', true, null]}") == {
        "1": 2,
        "${env:NAME}": ["value", True, None],
    }


def test_a_lone_reference_can_be_read_as_a_scalar() -> None:
    assert resolved("a: '${env:NUMBER}'\nb: '${env:X:-true}'\nc: n${env:NUMBER}\n", typed=True) == {
        "a": 42,
        "b": True,
        "c": "n42",
    }


def test_a_lone_reference_that_is_unset_is_absent_and_in_a_text_empty() -> None:
    plain, findings = resolve(
        load_text("a: '${env:GONE}'\nb: ['${env:GONE}', x]\nc: 'is ${env:EMPTY}.'\n").root, ENVIRONMENT, base=None
    )
    assert plain == {"b": ["x"], "c": "is ."}
    assert [(item.code, item.severity, item.path) for item in findings] == [
        ("B031", "warning", "a"),
        ("B031", "warning", "b[0]"),
        ("B031", "warning", "c"),
    ]
    assert findings[2].message == "the environment variable `EMPTY` is not set"
    lone = load_text("a: '${env:GONE}'").root.get("a")
    assert lone is not None
    assert resolve(lone, {}, base=None)[0] is None


@pytest.mark.parametrize(
    ("text", "expected", "help_"),
    [
        ("x ${HOME}", "B030 7-14 this `${…}` is not a reference", "write `${env:HOME}`"),
        ("${HOME:-a}", "B030 5-15 this `${…}` is not a reference", "write `${env:HOME:-…}`"),
        ("${}", "B030 5-8 this `${…}` is not a reference", "write `${env:NAME}` or `${file:PATH}`"),
        ("${env:}", "B030 5-12 this `${…}` is not a reference", "write `${env:NAME}`"),
        ("${env:A-B}", "B030 5-15 this `${…}` is not a reference", "write `${env:A}`"),
        ("${file:}", "B030 5-13 this `${…}` is not a reference", "write `${file:PATH}`"),
        ("${vault:x}", "B030 5-15 this `${…}` is not a reference", "write `${env:NAME}` or `${file:PATH}`"),
        ("a ${env:X", "B030 7-14 `${` is not closed", "close it with `}`"),
        ("${env:A:-${env:B}}", "B030 5-22 references do not nest", "write one reference"),
    ],
)
def test_what_is_no_reference_is_refused_at_its_place(text: str, expected: str, help_: str) -> None:
    document = load_text(f'a: "{text}"')
    (finding,) = check(document.root)
    assert f"{finding.code} {finding.range.start.column}-{finding.range.end.column} {finding.message}" == expected
    assert finding.severity == "error"
    assert (finding.help or "").startswith(help_)
    assert findings_of(f'a: "{text}"') == [expected]


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("${sk-or-SECRET}", "write `${env:NAME}` or `${file:PATH}`"),
        ("${skSECRET}", "write `${env:NAME}` or `${file:PATH}`"),
        ("${OPENROUTER_API_KEY:-sk-or-SECRET}", "write `${env:OPENROUTER_API_KEY:-…}`"),
        ("${env:KEY sk-SECRET}", "write `${env:KEY}`"),
        ("${env:sk-SECRET}", "write `${env:NAME}`"),
        ("${env:KEYskSECRET x}", "write `${env:NAME}`"),
        ("${vault:SECRET}", "write `${env:NAME}` or `${file:PATH}`"),
        ("${env:A:-${SECRET}}", "write one reference"),
        ("${env:SECRET", "close it"),
    ],
)
def test_what_stands_in_a_malformed_reference_is_not_repeated_for_it_may_be_a_secret(text: str, help_: str) -> None:
    (finding,) = check(load_text(f'a: "{text}"').root)
    assert finding.code == "B030"
    assert "SECRET" not in repr(finding)
    assert (finding.help or "").startswith(help_)


def test_a_place_inside_an_escaped_or_long_text_is_the_whole_value() -> None:
    (finding,) = check(load_text('a: "\\t${X}"').root)
    assert (finding.range.start.column, finding.range.end.column) == (4, 12)
    (finding,) = check(load_text("a: |\n  x\n  ${X}\n").root)
    assert (finding.range.start.line, finding.range.end.line) == (1, 3)


def test_validate_notes_unset_variables_only_when_it_knows_the_environment() -> None:
    root = load_text("a: {b: 'x${env:GONE}'}").root
    assert check(root) == ()
    (finding,) = check(root, {"SECRET": "hush"})
    assert (finding.code, finding.severity, finding.path, finding.range.start.column) == ("B031", "note", "a.b", 10)


def test_no_value_of_a_variable_is_ever_shown() -> None:
    root = load_text("a: '${env:SECRET} ${env:GONE} ${BAD} ${file:gone}'").root
    _, findings = resolve(root, {"SECRET": "hush"}, base=None)
    assert len(findings) == 3
    assert "hush" not in repr(findings)


# Files


def test_a_file_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(f"{name}\n\n")
    root = load_text("a: '${file:key}'", file="one.yaml").root
    folders = {"one.yaml": tmp_path / "one"}
    assert resolve(root, {}, base=tmp_path / "two", folders=folders)[0] == {"a": "one\n"}
    assert resolve(root, {}, base=tmp_path / "two")[0] == {"a": "two\n"}
    (tmp_path / "crlf").write_bytes(b"x\r\n")
    assert resolved(f"a: '${{file:{tmp_path / 'crlf'}}}'") == {"a": "x"}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gone", "it does not exist"),
        ("folder", "it is not a regular file"),
        ("binary", "it is not UTF-8"),
        ("large", "it is larger than 1 MB"),
        ("a\\0b", "the path is not valid"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xffsecret")
    (tmp_path / "large").write_bytes(b"x" * 1_000_001)
    plain, (finding,) = resolve(load_text(f'a: "${{file:{name}}}"').root, {}, base=tmp_path)
    assert plain == {}
    assert (finding.code, finding.severity, finding.path) == ("B032", "error", "a")
    assert finding.message.endswith(f"cannot be read: {why}")


# Scanning


def test_references_are_found_with_their_offsets() -> None:
    assert references("a ${env:X:-d} $$ ${file:p q}") == [
        Reference("env", "X", "d", 2, 13),
        Reference("file", "p q", None, 17, 28),
    ]
    assert lone_reference("${env:X}") == Reference("env", "X", None, 0, 8)
    assert lone_reference(" ${env:X}") is None
    assert lone_reference("${env:X}${env:X}") is None


@given(st.text(alphabet="${}:-envfileX /", max_size=40))
def test_scanning_never_raises_and_text_without_references_survives(text: str) -> None:
    for reference in references(text):
        assert text[reference.start : reference.start + 2] == "${"
        assert text[reference.end - 1] == "}"
    root = load_text("a: b").root
    node = root.get("a")
    assert node is not None
    escaped = type(node)(text.replace("$", "$$"), node.place, quoted=True)
    assert resolve(escaped, {}, base=None) == (text, ())


# .env


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("export A = b c ", "b c"),
        ("A=", ""),
        ("A= # nothing", ""),
        ("A=b#c", "b#c"),
        ("A=b # c", "b"),
        ("A='b # c' # d", "b # c"),
        ('A="b\\n\\"c\\" \\\\ \\$d"', 'b\n"c" \\ $d'),
        ("A='b\\n'", "b\\n"),
        ("A=${env:X} $Y", "${env:X} $Y"),
        ("A=b=c", "b=c"),
        ("A=b'c", "b'c"),
        ("A=#c", ""),
        ("A=b \t # c # d", "b"),
    ],
)
def test_a_line_of_dotenv_is_read(line: str, value: str) -> None:
    assert parse_dotenv(line, file=".env") == ({"A": value}, ())


@pytest.mark.parametrize(
    "line", ["A=b" + " " * 300_000 + "c", "A=" + " #" * 150_000, "A=" + " " * 300_000 + "'open", " " * 300_000 + "A"]
)
def test_a_line_full_of_blanks_is_read_at_once(line: str) -> None:
    started = time.process_time()
    parse_dotenv(line, file=".env")
    assert time.process_time() - started < 1


def test_bad_lines_of_dotenv_are_named_but_never_shown() -> None:
    values, findings = parse_dotenv("\ufeff# keys\r\n\r\nA=1\r\nsk-secret\r\nB='open\r\n2C=x\r\nA=2\r\n", file=".env")
    assert values == {"A": "2"}
    assert [(item.code, item.severity, item.range.start.line) for item in findings] == [
        ("B033", "warning", 4),
        ("B033", "warning", 5),
        ("B033", "warning", 6),
    ]
    assert "secret" not in repr(findings)


def test_the_real_environment_beats_dotenv_unless_it_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("A=file\nB=file\nC=file\nbad\n")
    values, findings = read_environment(tmp_path, {"A": "real", "B": "", "D": "real"})
    assert values == {"A": "real", "B": "file", "C": "file", "D": "real"}
    assert [(item.code, item.file) for item in findings] == [("B033", ".env")]
    assert read_environment(tmp_path / "gone", {"A": "x"}) == ({"A": "x"}, ())
    assert read_environment(None, {"A": "x"}) == ({"A": "x"}, ())


def test_a_dotenv_that_is_no_text_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"A=\xff")
    values, (finding,) = read_environment(tmp_path, {})
    assert values == {}
    assert finding.message == "`.env` cannot be read: it is not UTF-8"
