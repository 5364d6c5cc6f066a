"""What Bub tells people to type if the packages of an extra are not there."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from bub.base.installing import extras
from bub.base.installing.extras import install_command
from bub.cli.exits import exit_code
from bub.cli.root import command_line

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
EXTRAS = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["optional-dependencies"]


def names(requirements: list[str]) -> list[str]:
    return sorted(one.partition(">")[0].partition("<")[0] for one in requirements)


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_command_names_the_packages_of_the_extra_and_the_python_that_runs_bub(extra: str) -> None:
    words = shlex.split(install_command(extra))
    begins = [sys.executable, "-m", "pip", "install"] if find_spec("pip") else ["uv", "pip", "install", "--python"]
    assert words[: len(begins)] == begins
    assert names(words[-len(EXTRAS[extra]) :]) == names(EXTRAS[extra])
    assert not any("bub-pipelines" in word for word in words), "no index has to have it"


@pytest.mark.skipif(find_spec("pip") is None, reason="this environment has no pip")
def test_pip_takes_the_command(tmp_path: Path) -> None:
    command = f"{install_command('web')} --dry-run --no-index --no-deps"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "already satisfied: hypercorn" in done.stdout) == (0, True), done.stderr


def test_bub_studio_without_its_packages_prints_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "starlette" or name.startswith("bub.studio")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setattr("bub.cli.studio.require_person", lambda: None)
    monkeypatch.setenv("BUB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BUB_MODEL", "ollama:none")
    monkeypatch.chdir(tmp_path)
    assert exit_code(lambda: command_line(["studio"])) == 1
    said = capsys.readouterr().err
    assert said.startswith("bub: `bub studio` needs the package `starlette")
    assert said.endswith(f"(run `{install_command('web')}`)\n")


def test_without_pip_the_command_is_one_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "executable", "/opt/my tools/python")
    assert install_command("web").startswith("uv pip install --python '/opt/my tools/python' 'hypercorn")


def test_what_no_metadata_knows_is_named_as_the_extra() -> None:
    assert install_command("nothing").endswith("install 'bub-pipelines[nothing]'")
