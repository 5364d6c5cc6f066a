"""A `BUB_…` variable that sets nothing is told, with its place and what was probably meant; others are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Write
from fakes.command_line import bub

from bub import BubFramework
from bub.base.diagnostics import Diagnostic
from bub.pipeline.check.variables import check_variables
from bub.pipeline.source.interpolate import read_environment
from bub.pipeline.source.merge import load_document

FILE = """
    version: 1
    extends: bub:default
    plugins:
      greeter: {path: greeter.py, optional: true}
    profiles:
      default: {plugins: []}
      second: {plugins: [lamp]}
    settings:
      api_key: "${env:BUB_KEY_OF_THE_TEAM:-}"
      providers: {My-Own: {api_base: "http://localhost/v1"}}
      shop: {}
"""


@pytest.fixture
def file(write: Write) -> Path:
    return write("work/pipelines.yaml", FILE)


def found(file: Path, **environ: str) -> tuple[Diagnostic, ...]:
    environment, _ = read_environment(file.parent, environ)
    return check_variables(load_document(file), environment, environ)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("BUB_MODLE", "BUB_MODEL"),
        ("BUB_PROFIL", "BUB_PROFILE"),
        ("BUB_LOCAL_MODEL_THREAD", "BUB_LOCAL_MODEL_THREADS"),
        ("BUB_PROVIDERS_MY_OWN_API_KEYS", "BUB_PROVIDERS_MY_OWN_API_KEY"),
        ("BUB_BASE_URL", "BUB_API_BASE"),
        ("BUB_PROVIDERS_OPENAI_BASE_URL", "BUB_PROVIDERS_OPENAI_API_BASE"),
        ("BUB_PROVIDERS_OPENAI_KEY", "BUB_PROVIDERS_OPENAI_API_KEY"),
    ],
)
def test_a_slip_in_a_variable_is_a_warning_with_what_was_meant(file: Path, variable: str, meant: str) -> None:
    (finding,) = found(file, **{variable: "hush"})
    assert (finding.code, finding.severity, finding.file) == ("B035", "warning", "the environment")
    assert finding.message == f"the environment variable `{variable}` sets nothing"
    assert finding.help == f"did you mean `{meant}`?"
    assert "hush" not in repr(finding)


def test_one_that_stands_in_env_is_told_with_its_line(file: Path) -> None:
    file.with_name(".env").write_text("# ours\nBUB_MODLE=x\n", encoding="utf-8")
    (finding,) = found(file)
    assert (Path(finding.file).name, finding.range.start.line) == (".env", 2)
    (finding,) = found(file, BUB_MODLE="another")
    assert finding.file == "the environment"


@pytest.mark.parametrize(
    "variable",
    [
        "BUB_MODEL",
        "BUB_HOME",
        "BUB_ONBOARD_MODEL_KEY",
        "BUB_ACTION_PATHS",
        "BUB_KEY_OF_THE_TEAM",
        "BUB_GREETER_NAME",
        "BUB_LAMP_COLOR",
        "BUB_SHOP_TILL",
        "BUB_PROVIDERS_OTHER_API_KEY",
        "MODLE",
    ],
)
def test_what_sets_something_or_may_be_anothers_is_left_alone(file: Path, variable: str) -> None:
    assert found(file, **{variable: "x"}) == ()


def test_an_empty_variable_is_as_good_as_none(file: Path) -> None:
    assert found(file, BUB_MODLE="") == ()


def test_validate_a_start_and_the_doctor_tell_of_it_and_it_stops_nothing(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("work/pipelines.yaml", "version: 1\nextends: bub:default\n")
    validated = bub(file.parent, "validate", BUB_MODLE="hush")
    assert (validated.returncode, "B035" in validated.stdout, "hush" in validated.stdout) == (0, True, False)
    assert bub(file.parent, "validate", "--strict", BUB_MODLE="hush").returncode == 1
    doctor = bub(file.parent, "--config", str(file), "doctor", "--offline", BUB_MODLE="hush")
    assert "has 1 warning" in " ".join(doctor.stdout.split())
    monkeypatch.setenv("BUB_MODLE", "hush")
    framework = BubFramework(file)
    framework.load_hooks()
    assert [(warning.code, warning.help) for warning in framework.warnings] == [("B035", "did you mean `BUB_MODEL`?")]


def test_a_wrong_type_in_env_is_told_with_its_line(write: Write) -> None:
    file = write("work/pipelines.yaml", "version: 1\nextends: bub:default\n")
    file.with_name(".env").write_text("\nexport BUB_MAX_TOKENS=lots\n", encoding="utf-8")
    ended = bub(file.parent, "--config", str(file), "run", "hi")
    assert ended.returncode == 1
    assert ".env:2:1: error[B034] the environment variable `BUB_MAX_TOKENS` is not a whole number" in ended.stderr
    assert "lots" not in ended.stderr
