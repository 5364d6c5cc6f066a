"""Completion in the shells themselves: a person types, presses Tab and Enter, and `bub` gets the words meant."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from fakes.command_line import SOURCES

SHELLS = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
    "fish": ["--no-config", "-i"],
}
"""The shells, without the settings of a person."""

ECHO = {
    "bash": "bub() { printf got; printf '<%s>' \"$@\"; echo; }; PS1='ready> '; bind 'set enable-bracketed-paste off'",
    "zsh": "bub() { printf got; printf '<%s>' \"$@\"; echo }; unsetopt prompt_sp; unset zle_bracketed_paste",
    "fish": "function bub; printf got; printf '<%s>' $argv; echo; end; function fish_prompt; echo -n 'ready> '; end",
}
"""A `bub` that prints its words, so that what Enter would run is seen."""

SOURCE = {
    "bash": 'eval "$({} completion bash)"',
    "zsh": "source <({} completion zsh)",
    "fish": "{} completion fish | source",
}

PIPELINE = r"""
version: 1
extends: bub:default
hooks:
  moderate: {kind: gate, takes: [prompt]}
stages:
  moderate: {before: run_model}
profiles:
  my profile: {plugins: []}
  "it's": {plugins: []}
  "$(touch pwned)": {plugins: []}
  "esc\x1b]0;aped": {plugins: []}
"""


class Shell:
    """A shell in a folder, which has read the script of `bub completion`."""

    def __init__(self, name: str, folder: Path, home: Path) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BUB_")},
            "HOME": str(home),
            "BUB_HOME": str(home / ".bub"),
            "PYTHONPATH": SOURCES,
            "TERM": "xterm",
        }
        self.process = pexpect.spawn(
            shutil.which(name) or name, SHELLS[name], cwd=str(folder), env=environment, encoding="utf-8", timeout=20
        )
        self.process.setwinsize(40, 200)
        self.process.delaybeforesend = None
        for line in (SOURCE[name].format(f"{sys.executable} -P -m bub"), ECHO[name], "echo so far, so' 'good"):
            self.process.send(f"{line}\r")
        self.process.expect("so far, so good")

    def press(self, keys: str) -> list[str]:
        """The words that `bub` gets when a person has pressed these keys, and Enter."""
        self.process.send(keys + "\r")
        self.process.expect(r"got((?:<[^>\n]*>)+)\r*\n")
        return [word.removesuffix("/") for word in re.findall("<([^>]*)>", self.process.match[1])]

    def look(self, keys: str, seen: str) -> None:
        """Wait until the terminal shows something, and forget the line."""
        self.process.send(keys)
        self.process.expect_exact(seen)
        self.process.send("\x03")

    def end(self) -> None:
        self.process.close(force=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    (folder / "pipelines.yaml").write_text(PIPELINE.lstrip(), encoding="utf-8")
    other = "version: 1\nextends: bub:default\nprofiles: {friends: {plugins: []}}\n"
    for name in ("a file.yaml", "--odd.yaml", "other.yaml"):
        (folder / name).write_text(other, encoding="utf-8")
    (folder / "sub dir").mkdir()
    (folder / "sub dir" / "pipelines.yaml").write_text(other.replace("friends", "far away"), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=list(SHELLS))
def shell(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    name = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed here, so nobody knows whether completion works in it")
    opened = Shell(name, folder, tmp_path_factory.mktemp("person"))
    yield opened
    opened.end()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("bub vali\t", ["validate"]),
        ("bub tape sh\t", ["tape", "show"]),
        ("bub help tape sh\t", ["help", "tape", "show"]),
        ("bub validate --form\tsari\t", ["validate", "--format", "sarif"]),
        ("bub validate --format=sari\t", ["validate", "--format=sarif"]),
        ("bub --profile my\trun", ["--profile", "my profile", "run"]),
        ("bub run --profile=my\t", ["run", "--profile=my profile"]),
        ('bub --profile "my\t', ["--profile", "my profile"]),
        ("bub --profile it\t", ["--profile", "it's"]),
        ("bub explain moder\t", ["explain", "moderate"]),
        ("bub graph bub:eth\t", ["graph", "bub:ethos"]),
        ("bub graph --pipeline=bub:eth\t", ["graph", "--pipeline=bub:ethos"]),
        ("bub validate a\\ f\t", ["validate", "a file.yaml"]),
        ("bub onboard --answers a\\ f\t", ["onboard", "--answers", "a file.yaml"]),
        ("bub onboard --answers=a\\ f\t", ["onboard", "--answers=a file.yaml"]),
        ("bub validate -- --od\t", ["validate", "--", "--odd.yaml"]),
        ("bub --config other.yaml run --profile fri\t", ["--config", "other.yaml", "run", "--profile", "friends"]),
        ("bub -w sub\t --profile far\t", ["-w", "sub dir", "--profile", "far away"]),
        ("true; FOO=1 bub vali\t", ["validate"]),
    ],
)
def test_a_tab_completes_what_is_meant(shell: Shell, keys: str, words: list[str]) -> None:
    assert shell.press(keys) == words


def test_a_file_is_offered_only_if_one_is_taken(shell: Shell) -> None:
    assert shell.press("bub run oth\t") == ["run", "oth"]
    assert shell.press("bub run --channel oth\t") == ["run", "--channel", "oth"]


def test_a_name_of_a_strangers_file_is_never_run(shell: Shell, folder: Path) -> None:
    assert shell.press("bub --profile \\$\t") == ["--profile", "$(touch pwned)"]
    assert shell.press("bub --profile esc\t") == ["--profile", "esc"]  # a terminal would obey what cannot be seen
    assert not (folder / "pwned").exists()


def test_all_that_fits_is_listed(shell: Shell) -> None:
    shell.look("bub explain build_pr\t\x15bub p\t\t", "profiles")
