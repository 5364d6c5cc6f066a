"""A baseline lets old warnings pass, wherever they move to, and no error; what is new is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.installed import install_section

from bub.base.diagnostics import Diagnostic, Position, Range
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.pipeline.report.baseline import sift, write_baseline

Write = Callable[[str, str], Path]
HEAD = "version: 1\nextends: bub:default\n"
OLD = f"{HEAD}description: no\nx-a: [yes, a, on]\n"


class Told:
    """What a command line came to."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Validate = Callable[..., Told]


@pytest.fixture
def validate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Validate:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: Told(exit_code(lambda: command_line(["validate", *arguments])), *capsys.readouterr())


@pytest.fixture
def old(validate: Validate, write: Write) -> Validate:
    """Validates with a baseline that knows the three warnings of a file."""
    write("pipelines.yaml", OLD)
    told = validate("--baseline", "known.json", "--write-baseline", "--strict", ".")
    assert (told.code, told.out, told.err) == (0, "1 file is fine\n", "known.json knows 3 warnings\n")
    return lambda *arguments: validate("--baseline", "known.json", "--strict", *arguments, ".")


def test_old_warnings_pass_and_a_new_one_is_told(old: Validate, write: Write) -> None:
    assert old().code == 0
    write("pipelines.yaml", f"{OLD}x-b: off\n")
    told = old("--format", "json")
    assert (told.code, [item["path"] for item in json.loads(told.out)["diagnostics"]]) == (1, ["x-b"])


def test_moved_lines_and_items_stay_known(old: Validate, write: Write) -> None:
    write("pipelines.yaml", f"# moved\n\n{HEAD}x-0: 1\nx-a: [b, yes, a,\n  on]\ndescription:   no\n")
    assert (old().code, old().err) == (0, "")


def test_one_more_profile_does_not_bring_old_warnings_back(tmp_path: Path) -> None:
    def found(*profiles: str) -> list[Diagnostic]:
        span = Range(Position(3, 1), Position(3, 5))
        text = "stage `x` does nothing in profile `{}`"
        return [Diagnostic("B199", "warning", text.format(one), "p.yaml", span, "stages.x", one) for one in profiles]

    baseline = tmp_path / "known.json"
    write_baseline(baseline, found("b"))
    for profiles in (("b",), ("a", "b"), ("b", "c"), ("c", "d", "e", "f")):
        assert sift(baseline, found(*profiles), ()).told == ()


def test_one_more_of_the_same_is_new(old: Validate, write: Write) -> None:
    write("pipelines.yaml", OLD.replace("[yes, a, on]", "[yes, a, yes, on]"))
    assert old("--format", "github").out.count("::warning ") == 1


def test_an_error_is_no_part_of_it(validate: Validate, write: Write) -> None:
    write("pipelines.yaml", f"{OLD}stages: {{run_modle: {{timeout: 5s}}}}\n")
    told = validate("--baseline", "known.json", "--write-baseline", ".")
    assert (told.code, "error[B150]" in told.out, "B012" in told.out) == (1, True, False)
    assert "B150" not in Path("known.json").read_text(encoding="utf-8")


def test_what_is_mended_is_told_and_a_new_baseline_forgets_it(old: Validate, validate: Validate, write: Write) -> None:
    write("pipelines.yaml", OLD.replace("description: no", "description: none"))
    assert (old().code, old().err) == (0, "1 warning is mended: --write-baseline takes them out of known.json\n")
    assert old("--write-baseline").err == "known.json knows 2 warnings\n"
    write("other.yaml", HEAD)
    assert validate("--baseline", "known.json", "other.yaml").err == "", "it says nothing of files that are not checked"


def test_a_warning_that_needs_no_plugins_is_mended_without_them(validate: Validate, write: Write) -> None:
    tools = "{allow: [fs.raed*], unasked: {bash: [ls]}}"
    write("pipelines.yaml", f"{HEAD}profiles: {{default: {{plugins: [], tools: {tools}}}}}\n")
    assert validate("--baseline", "known.json", "--write-baseline", ".").err == "known.json knows 2 warnings\n"
    assert [one["code"] for one in json.loads(Path("known.json").read_text())["findings"]] == ["B211", "B234"]
    write("pipelines.yaml", HEAD)
    mended = "1 warning is mended: --write-baseline takes them out of known.json\n"
    assert validate("--baseline", "known.json", ".").err == mended, "a plugin may still lack the tool"


def test_a_baseline_counts_paths_from_where_it_lies(
    old: Validate, validate: Validate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert validate("--baseline", "../known.json", "--strict", str(tmp_path / "pipelines.yaml")).code == 0


def test_only_a_baseline_is_read_and_written_over(validate: Validate, write: Write) -> None:
    file = write("pipelines.yaml", OLD)
    assert validate("--baseline", "gone.json", ".").code == 2
    assert validate("--write-baseline", ".").code == 2
    assert validate("--baseline", "pipelines.yaml", "--write-baseline", ".").code == 2
    assert file.read_text(encoding="utf-8") == OLD
    write("other.json", '{"version": 2, "findings": []}')
    assert "is of a newer version" in validate("--baseline", "other.json", ".").err


@pytest.mark.parametrize("options", [("--severity", "error"), ("--severity", "error", "--strict")])
def test_what_is_below_the_severity_is_neither_shown_nor_fails(
    validate: Validate, write: Write, options: tuple[str, ...]
) -> None:
    write("pipelines.yaml", OLD)
    told = validate(*options, ".")
    assert (told.code, told.out) == (0, "1 file is fine\n")
    write("pipelines.yaml", f"{OLD}stage: {{}}\n")
    assert validate(*options, ".").code == 1


def test_the_severity_of_notes_is_pedantic(validate: Validate, write: Write) -> None:
    write("pipelines.yaml", f'{HEAD}settings: {{model: "${{env:NOBODY_SET_IT}}"}}\n')
    assert validate(".").out == "1 file is fine\n"
    noted = validate("--severity", "note", "--strict", ".")
    assert (noted.code, noted.out) == (0, validate("--pedantic", ".").out)
    assert "note[B031]" in noted.out


def test_a_secret_stays_covered_when_what_tells_of_it_is_not_shown(
    validate: Validate, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the schema of the package says that it is one.
    schema = {"type": "object", "properties": {"place": {"type": "string", "writeOnly": True}}}
    monkeypatch.syspath_prepend(install_section(tmp_path / "site", {**schema, "additionalProperties": False}))
    text = f"{HEAD}profiles: {{default: {{plugins: [weather]}}}}\nsettings: {{weather: {{place: hush-hush, x y: 1}}}}"
    for hidden in (f"{text}\n", f"{text}  # bub: ignore[B040] of a test\n"):
        write("pipelines.yaml", hidden)
        told = validate("--severity", "error", "pipelines.yaml")
        assert (told.code, "hush-hush" in told.out, "*********" in told.out) == (1, False, True)
    validate("--baseline", "known.json", "--write-baseline", "pipelines.yaml")
    write("pipelines.yaml", f"{text}\n")
    assert "hush-hush" not in validate("--baseline", "known.json", "pipelines.yaml").out
    assert "hush-hush" not in Path("known.json").read_text(encoding="utf-8")
