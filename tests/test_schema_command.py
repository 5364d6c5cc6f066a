"""`bub schema`: what editors get, with the settings of installed plugins, and how they find it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import jsonschema
import pytest
from fakes.command_line import SOURCES
from hypothesis import given
from hypothesis import strategies as st

from bub.base.resources import shipped_pipeline
from bub.errors import BubError
from bub.pipeline.edit.modeline import SCHEMA_FILE, with_modeline, write_schema
from bub.pipeline.source.schemas import pipeline_schema
from bub.pipeline.source.yaml_reader import parse

MODELINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"
PIPELINE = "version: 1\nextends: bub:default\n"

Bub = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "work"
    found.mkdir()
    return found


@pytest.fixture
def bub(tmp_path: Path, folder: Path) -> Bub:
    """Run `bub` in a folder, where two packages bring schemas for settings: a good one and a broken one."""
    site = tmp_path / "site"
    settings: dict[str, Any] = {
        "properties": {"units": {"$ref": "#/$defs/units"}},
        "additionalProperties": False,
        "$defs": {"units": {"enum": ["metric", "imperial"], "description": "Ünits \x9b[31m"}},
    }
    for package, text in (("bub_weather", json.dumps(settings)), ("bub_storm", "{")):
        metadata = site / f"{package}-1.2.dist-info"
        metadata.mkdir(parents=True)
        entry = f"[bub.schema]\n{package.removeprefix('bub_')} = {package}:settings.schema.json\n"
        (metadata / "entry_points.txt").write_text(entry, encoding="utf-8")
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n", encoding="utf-8")
        (site / package).mkdir()
        (site / package / "__init__.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
        (site / package / "settings.schema.json").write_text(text, encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bub", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([SOURCES, str(site)])},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
        )

    return run


def test_the_settings_of_installed_and_of_shipped_plugins_are_in_it(bub: Bub) -> None:
    done = bub("schema")
    assert done.returncode == 0
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    editor = jsonschema.Draft202012Validator(schema)

    def accepted(settings: Any) -> bool:
        return all(
            editor.is_valid({"version": 1, **place})
            for place in ({"settings": settings}, {"profiles": {"p": {"settings": settings}}})
        )

    assert accepted({"weather": {"units": "metric"}, "local_model": {"threads": 2}, "unheard_of": {"a": 1}})
    assert not accepted({"weather": {"units": "other"}})
    assert not accepted({"weather": {"unit": "metric"}})
    assert not accepted({"weather": "metric"})
    assert not accepted({"local_model": {"thread": 2}})


def test_a_schema_that_cannot_be_used_is_told_and_the_rest_is_printed(bub: Bub) -> None:
    done = bub("schema")
    assert done.stderr == (
        "bub: the schema does not check the settings of plugin `storm`: bub_storm 1.2 brings settings.schema.json, "
        "which cannot be read: it is not JSON\n"
    )
    assert "storm" not in json.loads(done.stdout)["$defs"]["settings"]["properties"]


def test_what_packages_say_cannot_steer_the_terminal(bub: Bub) -> None:
    assert bub("schema").stdout.isascii()


def test_it_is_the_same_every_time_and_needs_no_other_file(bub: Bub) -> None:
    first, second = bub("schema").stdout, bub("schema").stdout
    assert first == second
    sections = list(json.loads(first)["$defs"]["settings"]["properties"])
    assert sections[-3:] == ["local_model", "telegram", "weather"]
    references = {line.strip() for line in first.splitlines() if '"$ref"' in line}
    assert references and all('"$ref": "#/' in line for line in references)


def test_all_else_is_the_published_schema(bub: Bub) -> None:
    defs = {**pipeline_schema()["$defs"], "settings": ANY}
    assert json.loads(bub("schema").stdout) == {**pipeline_schema(), "$defs": defs}


# --write


def test_it_is_written_beside_the_file_that_then_names_it(bub: Bub, folder: Path) -> None:
    (folder / "pipelines.yaml").write_text(PIPELINE, encoding="utf-8")
    done = bub("schema", "--write")
    assert done.stdout == f"wrote {SCHEMA_FILE} and pipelines.yaml (as it was: pipelines.yaml.bak)\n"
    assert (folder / "pipelines.yaml").read_text(encoding="utf-8") == f"{MODELINE}\n{PIPELINE}"
    assert (folder / SCHEMA_FILE).read_text(encoding="utf-8") == bub("schema").stdout
    assert bub("validate").returncode == 0


def test_a_second_time_nothing_is_written(bub: Bub, folder: Path) -> None:
    (folder / "pipelines.yaml").write_text(PIPELINE, encoding="utf-8")
    bub("schema", "--write")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    done = bub("schema", "--write")
    assert (done.returncode, done.stdout) == (0, "pipelines.yaml has it already\n")
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_named_file_is_written_in_its_own_folder(bub: Bub, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "mine.yaml").write_text(PIPELINE, encoding="utf-8")
    assert bub("--config", "sub/mine.yaml", "schema", "--write").returncode == 0
    assert (folder / "sub" / SCHEMA_FILE).exists()
    assert (folder / "sub" / "mine.yaml").read_text(encoding="utf-8").startswith(MODELINE)


@pytest.mark.parametrize("arguments", [[], ["--config", "bub:default"], ["--config", str(shipped_pipeline("default"))]])
def test_a_shipped_file_is_not_written(bub: Bub, folder: Path, arguments: list[str]) -> None:
    done = bub(*arguments, "schema", "--write")
    assert done.returncode == 2
    assert "of your own" in done.stderr and done.stdout == ""
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("text", ["", "a: [", "- a\n"])
def test_nothing_is_written_for_a_file_that_cannot_be_read(folder: Path, text: str) -> None:
    file = folder / "pipelines.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BubError, match="cannot be read as a pipeline file"):
        write_schema(file, "{}\n")
    assert [path.read_text(encoding="utf-8") for path in folder.iterdir()] == [text]


def test_a_file_of_somebody_else_is_not_overwritten(folder: Path) -> None:
    file, other = folder / "pipelines.yaml", folder / SCHEMA_FILE
    file.write_text(PIPELINE, encoding="utf-8")
    other.write_text('{"title": "Pipelines of another program"}', encoding="utf-8")
    with pytest.raises(BubError, match="Bub has not written it"):
        write_schema(file, "{}\n")
    assert file.read_text(encoding="utf-8") == PIPELINE


def test_an_older_schema_of_bub_is_replaced(folder: Path) -> None:
    file, older = folder / "pipelines.yaml", folder / SCHEMA_FILE
    file.write_text(f"{MODELINE}\n{PIPELINE}", encoding="utf-8")
    older.write_text(json.dumps({"title": pipeline_schema()["title"]}), encoding="utf-8")
    assert write_schema(file, "{}\n").backup is None
    assert older.read_text(encoding="utf-8") == "{}\n"


# The modeline


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version: 1\n", f"{MODELINE}\nversion: 1\n"),
        ("\ufeffversion: 1\r\n", f"\ufeff{MODELINE}\r\nversion: 1\r\n"),
        ("---\nversion: 1\n", f"{MODELINE}\n---\nversion: 1\n"),
        ("%YAML 1.2\n---\nversion: 1\n", f"{MODELINE}\n%YAML 1.2\n---\nversion: 1\n"),
        ("version: 1", f"{MODELINE}\nversion: 1"),
        ("# mine\n\n# yaml-language-server: $schema=../old.json\nversion: 1\n", f"# mine\n\n{MODELINE}\nversion: 1\n"),
        ("---\n  #yaml-language-server:   $schema=x\r\nversion: 1\n", f"---\n  {MODELINE}\r\nversion: 1\n"),
        ("--- # yaml-language-server: $schema=x\nversion: 1\n", f"--- {MODELINE}\nversion: 1\n"),
        (
            "# see yaml-language-server: $schema=x\nversion: 1\n",
            f"{MODELINE}\n# see yaml-language-server: $schema=x\nversion: 1\n",
        ),
        (
            "version: 1\n# yaml-language-server: $schema=x\n",
            f"{MODELINE}\nversion: 1\n# yaml-language-server: $schema=x\n",
        ),
    ],
)
def test_the_first_line_names_the_schema_and_nothing_else_changes(text: str, expected: str) -> None:
    assert with_modeline(text, SCHEMA_FILE) == expected
    assert with_modeline(expected, SCHEMA_FILE) == expected


LINES = [
    "# a",
    "# yaml-language-server: $schema=x",
    "---",
    "%YAML 1.2",
    "",
    "  ",
    "version: 1",
    "b: |",
    "  # c",
    "d: 漢",
]
ENDINGS = st.sampled_from(["\n", "\r\n", "\r", "\u2028", ""])


@given(st.lists(st.tuples(st.sampled_from(LINES), ENDINGS)), st.sampled_from(["", "\ufeff"]))
def test_whatever_a_file_looks_like_it_says_the_same_afterwards(lines: list[tuple[str, str]], bom: str) -> None:
    text = bom + "".join(line + ending for line, ending in lines)
    before = parse(text.encode(), file="p", layer="p").root
    named = with_modeline(text, SCHEMA_FILE)
    assert with_modeline(named, SCHEMA_FILE) == named
    if before is not None:
        after = parse(named.encode(), file="p", layer="p").root
        assert after is not None and after.plain() == before.plain()
