"""A home folder that cannot be written: every command that would write there names `BUB_HOME` as the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes.command_line import bub

WAY_OUT = "or set BUB_HOME to a folder that you can write to"


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home folder in which nobody can make `.bub`, not even root."""
    (tmp_path / "home").write_text("no folder", encoding="utf-8")
    return str(tmp_path / "home")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "hello"),
        ("tape", "list"),
        ("config", "set", "model", "openai:gpt-5"),
        ("onboard", "--non-interactive"),
        ("trust",),
        ("init",),
    ],
    ids=" ".join,
)
def test_a_home_that_cannot_be_written_names_the_way_out(tmp_path: Path, home: str, arguments: tuple[str, ...]) -> None:
    (tmp_path / "work").mkdir()
    failed = bub(tmp_path / "work", *arguments, HOME=home, BUB_HOME="")
    *_, problem = failed.stderr.splitlines()
    assert failed.returncode == 1
    assert problem.startswith("bub: ")
    assert f"{home}/.bub/" in problem
    assert WAY_OUT in problem
    assert all("BUB_HOME" in line for line in failed.stderr.splitlines() if "no log" in line)


def test_what_init_wrote_is_said_and_the_way_out_works(tmp_path: Path, home: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    failed = bub(folder, "init", HOME=home, BUB_HOME="")
    assert failed.stderr.startswith(f"bub: wrote {folder}/pipelines.yaml and ")
    assert failed.stderr.endswith("; then `bub trust` lets it run)\n")
    elsewhere = {"HOME": home, "BUB_HOME": str(tmp_path / "elsewhere")}
    assert bub(folder, "trust", **elsewhere).returncode == 0
    assert "fs.read" in bub(folder, "run", ",help", **elsewhere).stdout
