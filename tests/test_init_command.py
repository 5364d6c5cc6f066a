"""`bub init`: a file to begin with, whose remarks are true, and nothing of anybody's is written over."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
from pathlib import Path

import pytest
from fakes.checking import check_file
from fakes.command_line import bub

from bub.base.resources import shipped_pipelines
from bub.errors import BubError, UsageError
from bub.pipeline.edit.starter import start, starter
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import load_document

SHIPPED = shipped_pipelines()
EXAMPLE = re.compile(r"#(?! \S)(?=.)")
"""The sign before a line of an example; a remark has one blank behind it."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def findings(folder: Path, text: str) -> list[str]:
    file = folder / "pipelines.yaml"
    file.write_text(text, encoding="utf-8")
    environment, _ = read_environment(folder, {"OPENROUTER_API_KEY": "x"})
    return [str(finding) for finding in check_file(file, environment=environment).diagnostics]


def examples(text: str) -> list[list[int]]:
    """The numbers of the lines of each example: those that stand together."""
    numbers = [number for number, line in enumerate(text.splitlines()) if EXAMPLE.match(line)]
    grouped = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    return [[number for _, number in group] for _, group in grouped]


def without_signs(text: str, numbers: list[int]) -> str:
    lines = text.splitlines()
    return "".join(f"{EXAMPLE.sub('', line) if at in numbers else line}\n" for at, line in enumerate(lines))


def test_what_it_writes_is_fine_and_runs(folder: Path) -> None:
    done = bub(folder, "init")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 3
    assert sorted(path.name for path in folder.iterdir()) == ["pipeline.schema.json", "pipelines.yaml"]
    assert bub(folder, "validate", "--strict").returncode == 0
    tested = bub(folder, "test")  # finds the file by itself, so the folder is trusted
    assert (tested.returncode, tested.stderr) == (0, "")
    assert "1 passed" in tested.stdout


@pytest.mark.parametrize("parent", SHIPPED)
def test_every_example_is_right_by_itself_and_with_all_others(folder: Path, parent: str) -> None:
    text = starter(parent)
    found = examples(text)
    assert len(found) >= 3
    assert findings(folder, text) == []
    for numbers in found:
        assert findings(folder, without_signs(text, numbers)) == []
    assert findings(folder, without_signs(text, [number for numbers in found for number in numbers])) == []


def test_the_examples_do_what_their_remarks_say(folder: Path) -> None:
    text = starter("default")
    whole = without_signs(text, [number for numbers in examples(text) for number in numbers])
    (folder / "pipelines.yaml").write_text(whole, encoding="utf-8")
    root = load_document(folder / "pipelines.yaml").root
    assert {"stages", "profiles", "routes", "settings", "tests"} <= {name for name, _ in root.items()}


@pytest.mark.parametrize("parent", SHIPPED)
def test_the_parent_may_be_named_with_bub_or_without(folder: Path, parent: str) -> None:
    assert f"\nextends: bub:{parent}\n" in starter(parent)
    assert starter(parent) == starter(f"bub:{parent}")


def test_an_unknown_parent_is_refused_before_anything_is_written(folder: Path) -> None:
    done = bub(folder, "init", "--from", "bub:ethoss", "new")
    assert done.returncode == 2
    assert "did you mean `bub:ethos`?" in done.stderr
    assert list(folder.iterdir()) == []


def test_editors_find_the_schema_by_the_first_line(folder: Path) -> None:
    bub(folder, "init")
    first = (folder / "pipelines.yaml").read_text("utf-8").splitlines()[0]
    name = first.removeprefix("# yaml-language-server: $schema=")
    assert "settings" in json.loads((folder / name).read_text("utf-8"))["properties"]
    assert bub(folder, "schema", "--write").stdout.endswith("pipelines.yaml has it already\n")


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_nothing_is_written_over(folder: Path, make: object) -> None:
    make(folder / "pipelines.yaml")  # type: ignore[operator]
    with pytest.raises(UsageError, match="is there already") as refused:
        start(folder / "pipelines.yaml", "default", "{}")
    assert refused.value.help is not None
    assert "`bub validate` checks it" in refused.value.help
    assert [path.name for path in folder.iterdir()] == ["pipelines.yaml"]


def test_the_second_time_is_refused_and_says_what_to_do(folder: Path) -> None:
    bub(folder, "init")
    before = (folder / "pipelines.yaml").read_bytes()
    done = bub(folder, "init")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is there already, and is not written over" in done.stderr
    assert (folder / "pipelines.yaml").read_bytes() == before


def test_a_foreign_file_with_the_name_of_the_schema_is_left_alone(folder: Path) -> None:
    (folder / "pipeline.schema.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BubError, match="Bub has not written it"):
        start(folder / "pipelines.yaml", "default", '{"title": "x"}')
    assert not (folder / "pipelines.yaml").exists()


def test_a_folder_that_cannot_be_made_is_an_error_that_says_why(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(BubError, match="cannot be written: "):
        start(folder / "file" / "pipelines.yaml", "default", "{}")


def test_a_missing_folder_is_made_and_named_in_what_to_do_next(folder: Path) -> None:
    done = bub(folder, "init", "an agent/here")
    assert done.returncode == 0
    assert "`bub -w 'an agent/here' run hello`" in done.stdout
    assert bub(folder, "-w", "an agent/here", "test").returncode == 0


def test_only_a_folder_whose_own_file_was_written_is_trusted(folder: Path, tmp_path: Path) -> None:
    done = bub(folder, "init", "other.yaml")
    assert "trusted" not in done.stdout
    assert not (tmp_path / "home" / "trusted.json").exists()
    assert "`bub --config other.yaml run hello`" in done.stdout


def test_the_file_has_the_usual_mode_since_it_is_shared(folder: Path) -> None:
    before = os.umask(0o022)
    try:
        start(folder / "pipelines.yaml", "default", "{}")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "pipelines.yaml").stat().st_mode) == 0o644


def test_config_is_no_way_to_say_where(folder: Path) -> None:
    done = bub(folder, "init", "--config", "x.yaml")
    assert done.returncode == 2
    assert "type `bub init FILE`" in done.stderr
