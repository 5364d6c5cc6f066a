"""`--profile P`: that profile takes the turn, and the plugins of no other one are imported, whatever the routes say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Write
from fakes.command_line import bub

from bub import BubFramework

FILE = """
    version: 1
    extends: bub:default
    plugins: {mine: {path: mine.py}, yours: {path: yours.py}}
    profiles:
      default: {plugins: [yours]}
      guests: {plugins: [yours]}
      mine: {plugins: [mine]}
    routes:
      - match: {channel: cli}
        profile: guests
"""
PLUGIN = """
    from pathlib import Path
    from bub import hookimpl

    Path(__file__).with_suffix(".imported").touch()

    @hookimpl
    def run_model(prompt):
        return "{name} answers"
"""


@pytest.fixture
def file(write: Write) -> Path:
    for name in ("mine", "yours"):
        write(f"{name}.py", PLUGIN.format(name=name))
    return write("pipelines.yaml", FILE)


def imported(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.imported"))


def test_without_the_option_the_routes_choose_and_every_profile_they_name_is_loaded(file: Path) -> None:
    done = bub(file.parent, "run", "hello", "--config", str(file), "--json")
    assert json.loads(done.stdout)["profile"] == "guests"
    assert imported(file.parent) == ["yours"]


@pytest.mark.parametrize("command", [["run", "hello"], ["chat", "hello"]], ids=["run", "chat"])
def test_the_profile_named_answers_and_its_plugins_alone_are_imported(file: Path, command: list[str]) -> None:
    done = bub(file.parent, *command, "--config", str(file), "--profile", "mine")
    assert "mine answers" in done.stdout, done.stderr
    assert imported(file.parent) == ["mine"]


def test_plugins_are_shown_by_profile(file: Path) -> None:
    shown = bub(file.parent, "plugins", "--config", str(file)).stdout.split("\n\n")
    assert [block.splitlines()[0] for block in shown] == ["profile default", "profile guests"]
    alone = bub(file.parent, "plugins", "--config", str(file), "--profile", "mine").stdout
    assert not alone.startswith("profile ")
    assert any(line.split()[:2] == ["mine", "loaded"] for line in alone.splitlines())
    told = json.loads(bub(file.parent, "plugins", "--config", str(file), "--json").stdout)
    assert {(one["profile"], one["name"]) for one in told if one["state"] == "loaded"} >= {
        ("default", "yours"),
        ("guests", "yours"),
    }


def test_no_session_leaves_the_profile_named(file: Path) -> None:
    framework = BubFramework(file, profile="mine", routed=False)
    framework.load_hooks()
    assert framework.profiles == ("mine",)


def test_a_profile_whose_sessions_may_choose_loads_itself_alone(write: Write) -> None:
    path = write(
        "pipelines.yaml", "version: 1\nextends: bub:ethos\nprofiles: {default: {plugins: []}, other: {plugins: []}}\n"
    )
    whole, alone = BubFramework(path), BubFramework(path, profile="other", routed=False)
    whole.load_hooks()
    alone.load_hooks()
    assert (whole.profiles, alone.profiles) == (("default", "other"), ("other",))


def test_a_profile_that_is_not_there_is_all_that_is_told_and_nothing_is_imported(write: Write) -> None:
    write("mine.py", PLUGIN.format(name="mine"))
    gate = "hooks: {moderate: {kind: gate, takes: [prompt]}}\nstages: {moderate: {before: run_model}}\n"
    text = f"version: 1\nextends: bub:default\n{gate}plugins: {{mine: {{path: mine.py}}}}\n"
    file = write("gated.yaml", f"{text}profiles: {{mine: {{plugins: [mine]}}}}\n")
    done = bub(file.parent, "run", "hello", "--config", str(file), "--profile", "mien")
    assert [line for line in done.stderr.splitlines() if "error[" in line] == [
        "gated.yaml:6:1: error[B162] there is no profile `mien`"
    ]
    assert "did you mean `mine`?" in done.stderr and imported(file.parent) == []
