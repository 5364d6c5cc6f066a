"""Remarks that silence warnings: where they hold, what they never silence, and those that do nothing."""

from __future__ import annotations

import importlib
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.pipeline.report.handbook import codes
from bub.pipeline.report.start_codes import needs_plugins
from bub.pipeline.run.compiler import PLUGIN_RULES

Write = Callable[[str, str], Path]
HEAD = "version: 1\nextends: bub:default\n"
WORD = "B012"
"""The warning about `no` in place of a text: of a file, and so of every machine."""


class Told:
    """What a command line came to."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def found(self) -> list[str]:
        """Each finding of a JSON report as `CODE line`."""
        return [f"{item['code']} {item['range']['start']['line']}" for item in json.loads(self.out)["diagnostics"]]


Bub = Callable[..., Told]


@pytest.fixture
def bub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bub:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BUB_HOME", str(tmp_path / "home"))

    def run(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        return Told(exit_code(lambda: command_line(list(arguments))), *capsys.readouterr())

    return run


@pytest.fixture
def found(bub: Bub, write: Write) -> Callable[..., list[str]]:
    """What is found in a file, as `CODE line`; the two lines of its head count."""

    def find(text: str, *options: str) -> list[str]:
        write("pipelines.yaml", HEAD + text)
        return bub("validate", "--format", "json", *options, "pipelines.yaml").found

    return find


Find = Callable[..., list[str]]


def test_a_remark_silences_its_line_and_no_other(found: Find) -> None:
    assert found("description: no\nx-a: yes\n") == ["B012 3", "B012 4"]
    assert found("description: no  # bub: ignore[B012] a name\nx-a: yes\n") == ["B012 4"]
    assert found("#bub:ignore[ B012 ]\n\n# it is Norway\ndescription: no\nx-a: yes\n") == ["B012 7"]
    assert found("x-a: [no, yes, on]   # bub: ignore[B012]\n") == []


def test_a_remark_silences_only_the_codes_it_names(found: Find) -> None:
    text = "settings: {{providers: {{openrouter: {{api_key: no}}}}}}  # bub: ignore[{}]\n"
    assert found(text.format("B040")) == ["B012 3"]
    assert found(text.format("B012, B040")) == []
    assert found(text.format("B012 B040")) == []


@pytest.mark.parametrize(
    "text",
    [
        'description: "no # bub: ignore[B012]"\nx-a: no\n',
        "description: |\n  # bub: ignore[B012]\nx-a: no\n",
        "description: |\n  a\n\n  # bub: ignore[B012]\nx-a: no\n",
        "description: 'a\n  # bub: ignore[B012]'\nx-a: no\n",
        "description: a#bub:ignore[B012]\nx-a: no\n",
        '"# bub: ignore[B012]": 1\n',
    ],
)
def test_what_stands_in_a_text_is_no_remark(found: Find, text: str) -> None:
    codes = {one.split()[0] for one in found(text)}
    assert "B041" not in codes
    assert codes == ({"B100"} if text.startswith('"#') else {"B012"})


def test_a_remark_may_stand_where_a_block_opens(found: Find) -> None:
    assert found("description: |  # bub: ignore[B012]\n  a\n") == ["B041 3"]


def test_an_error_is_never_silenced(found: Find, bub: Bub) -> None:
    assert found("stages: {run_modle: {timeout: 5s}}  # bub: ignore[B150] later\n") == ["B150 3", "B041 3"]
    told = bub("validate", "pipelines.yaml")
    assert told.code == 1
    assert "`B150` is an error here: a comment cannot ignore an error" in told.out
    assert bub("--config", "pipelines.yaml", "run", "hello").code == 1


def test_one_that_silences_nothing_is_a_warning_and_strict_lets_it_fail(found: Find, bub: Bub) -> None:
    assert found("description: fine  # bub: ignore[B012]\n") == ["B041 3"]
    told = bub("validate", "pipelines.yaml")
    assert (told.code, bub("validate", "--strict", "pipelines.yaml").code) == (0, 1)
    assert "this comment ignores nothing: there is no `B012` on line 3" in told.out
    assert found("description: no  # bub: ignore[B012, B040]\n") == ["B041 3"]
    assert "there is no `B040` to ignore on line 3" in bub("validate", "pipelines.yaml").out
    assert found("description: fine\n# bub: ignore[B012]\n") == ["B041 4"]


def test_fix_takes_away_one_that_silences_nothing(found: Find, bub: Bub) -> None:
    assert found("description: fine  # bub: ignore[B012] why not\nx-a: 1  # kept\n") == ["B041 3"]
    assert bub("validate", "--fix", "pipelines.yaml").code == 0
    assert Path("pipelines.yaml").read_text(encoding="utf-8") == f"{HEAD}description: fine\nx-a: 1  # kept\n"


@pytest.mark.parametrize(
    "remark", ["# bub: ignore", "# bub: ignore B012", "# bub: ignore[] all of it", "# bub: ignore[ ]"]
)
def test_one_for_everything_silences_nothing(found: Find, remark: str) -> None:
    assert found(f"description: no  {remark}\n") == ["B012 3", "B042 3"]


def test_a_code_that_there_is_not_is_told_with_the_one_that_was_meant(found: Find, bub: Bub) -> None:
    assert found("description: no  # bub: ignore[b012]\n") == ["B012 3", "B042 3"]
    assert "Bub has no finding `b012`" in bub("validate", "pipelines.yaml").out
    assert found("description: no  # bub: ignore[b012]\n", "--fix") == []
    assert found("description: no  # bub: ignore[E501]\n") == ["B012 3", "B042 3"]


def test_what_only_another_machine_or_the_plugins_can_tell_is_not_called_unused(found: Find) -> None:
    assert found("description: fine  # bub: ignore[B031, B035, B209]\n") == []
    assert found("description: fine  # bub: ignore[B209]\n", "--plugins") == ["B041 3"]
    assert found("description: fine  # bub: ignore[B012]\n", "--profile", "default") == []


@pytest.mark.parametrize("code", ["B199", "B231", "B233", "B241", "B244", "B253"])
def test_what_a_check_of_the_file_finds_is_called_unused_without_the_plugins(found: Find, code: str) -> None:
    assert found(f"description: fine  # bub: ignore[{code}]\n") == ["B041 3"]


@pytest.mark.parametrize("code", ["B189", "B211", "B212", "B239", "B240", "B243", "B250"])
def test_what_may_be_found_only_with_the_plugins_is_called_unused_only_with_them(found: Find, code: str) -> None:
    assert found(f"description: fine  # bub: ignore[{code}]\n") == []
    assert found(f"description: fine  # bub: ignore[{code}]\n", "--plugins") == ["B041 3"]


@pytest.mark.parametrize("code", ["B225", "B226", "B228", "B237"])
def test_what_no_check_finds_is_not_called_unused(found: Find, code: str) -> None:
    assert found(f"description: fine  # bub: ignore[{code}]\n", "--plugins") == []


def codes_in(module: str) -> set[str]:
    """The codes of the findings that a module makes, as it writes them down."""
    return set(re.findall(r'"(B\d{3})"', Path(str(importlib.import_module(module).__file__)).read_text("utf-8")))


def test_the_codes_that_need_plugins_are_those_that_are_found_with_them() -> None:
    with_plugins = {rule.__module__ for rule in PLUGIN_RULES} | {"bub.pipeline.run.provided", "bub.plugins.loading"}
    found = set[str]().union(*map(codes_in, with_plugins)) - {"B161"}  # of the machine, and found without them, too
    partly = {"B189", "B211", "B239", "B243", "B247"}  # a rule about the file and one about plugins share the code
    only_elsewhere = {"B225", "B226", "B227", "B228", "B229", "B237"}  # a start or a proof finds them
    assert {code for code in codes() if needs_plugins(code)} == found | partly | only_elsewhere


def test_a_note_is_silenced_too(found: Find) -> None:
    text = 'settings: {model: "${env:NOBODY_SET_IT}"}'
    assert found(f"{text}\n", "--pedantic") == ["B031 3"]
    assert found(f"{text}  # bub: ignore[B031] CI has none\n", "--pedantic") == []


def test_a_start_is_silent_about_it_too(bub: Bub, write: Write) -> None:
    write("pipelines.yaml", f"{HEAD}description: no\n")
    assert "warning[B012]" in bub("--config", "pipelines.yaml", "run", ",help").err
    write("pipelines.yaml", f"{HEAD}description: no  # bub: ignore[B012]\n")
    assert bub("--config", "pipelines.yaml", "run", ",help").err == ""
    write("pipelines.yaml", f"{HEAD}description: no  # bub: ignore[B012]\nstages: {{run_modle: {{}}}}\n")
    refused = bub("--config", "pipelines.yaml", "run", ",help").err
    assert ("error[B150]" in refused, "B012" in refused) == (True, False)


def test_a_remark_in_a_parent_holds_in_its_children(bub: Bub, write: Write) -> None:
    write("base.yaml", f"{HEAD}description: no  # bub: ignore[B012]\n")
    for name in ("a", "b"):
        write(f"{name}.yaml", "version: 1\nextends: base.yaml\n")
    told = bub("validate", "--strict", ".")
    assert (told.code, told.out) == (0, "3 files are fine\n")


def test_a_remark_in_a_plugin_silences_what_is_found_there(bub: Bub, write: Write) -> None:
    plugin = "from bub import hookimpl\n\n\n@hookimpl{}\ndef agent_done(session_id):{}\n    return None\n"
    text = f"{HEAD}plugins: {{own: {{path: own.py}}}}\nprofiles: {{default: {{plugins: [own]}}}}\n"
    write("pipelines.yaml", text)
    write("own.py", plugin.format("", ""))
    (told,) = bub("validate", "--plugins", "--format", "json", "pipelines.yaml").found
    code, line = told.split()
    remark = f"  # bub: ignore[{code}] for another pipeline"
    write("own.py", plugin.format(*((remark, "") if line == "4" else ("", remark))))
    assert bub("validate", "--plugins", "--format", "json", "pipelines.yaml").found == []
    assert bub("--config", "pipelines.yaml", "run", ",help").err == ""
