"""`bub config`: one value is read or changed, of the right type, in the right place, and nothing else."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pexpect
import pytest
from fakes.command_line import SOURCES
from hypothesis import given, settings
from hypothesis import strategies as st

from bub.base.diagnostics import PipelineError
from bub.base.resources import shipped_pipeline
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.errors import BubError, UsageError
from bub.pipeline.edit.dotenv import keep_secrets, with_variable
from bub.pipeline.edit.own_file import check_change, new_own, read_own, write_change
from bub.pipeline.source.interpolate import parse_dotenv

FILE = """\
# mine
version: 1
extends: bub:default

settings:
  model: "openai:one"  # the best
  retries: 3
  telegram: {token: "${env:TELEGRAM}"}

profiles:
  default: {plugins: [telegram, house]}
  work:
    settings: {model: openai:two}

plugins:
  telegram: {path: telegram.py}
  house: {path: house.py}
"""


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Config = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "work"
    found.mkdir()
    for name in ("telegram.py", "house.py"):
        (found / name).touch()
    monkeypatch.chdir(found)
    return found


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "pipelines.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
def config(folder: Path, capsys: pytest.CaptureFixture[str]) -> Config:
    """Run `bub config …` in the folder."""

    def run(*arguments: str) -> Done:
        code = exit_code(lambda: command_line(["config", *arguments]))
        return Done(code, *capsys.readouterr())

    return run


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# set


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        (["settings.model", "openai:new"], '"openai:one"', '"openai:new"'),
        (["model", "openai:new"], '"openai:one"', '"openai:new"'),
        (["retries", "5"], "retries: 3", "retries: 5"),
        (["retries", "${env:N}"], "retries: 3", 'retries: "${env:N}"'),
        (["reasoning", "low"], '"${env:TELEGRAM}"}\n', '"${env:TELEGRAM}"}\n  reasoning: low\n'),
        (["reasoning", "2000"], '"${env:TELEGRAM}"}\n', '"${env:TELEGRAM}"}\n  reasoning: 2000\n'),
        (["timeout", "2m"], '"${env:TELEGRAM}"}\n', '"${env:TELEGRAM}"}\n  timeout: 2m\n'),
        (["fallback_models", "a:b,c:d"], '"${env:TELEGRAM}"}\n', '"${env:TELEGRAM}"}\n  fallback_models: [a:b, c:d]\n'),
        (["telegram.token", "--env", "OTHER"], "{env:TELEGRAM}", "{env:OTHER}"),
        (["telegram.allow_chats", "--", "-100", "5", "*"], 'TELEGRAM}"', 'TELEGRAM}", allow_chats: ["-100", "5", "*"]'),
        (["profiles.default.plugins", "house,telegram"], "[telegram, house]", "[house, telegram]"),
        (["profiles.default.plugins", "house", "telegram"], "[telegram, house]", "[house, telegram]"),
        (["profiles.default.plugins", "telegram"], "[telegram, house]", "[telegram]"),
        (["profiles.work.settings.model", "a:b"], "openai:two", "a:b"),
        (["--profile", "work", "model", "a:b"], "openai:two", "a:b"),
        (["plugins.house.optional", "yes"], "{path: house.py}", "{path: house.py, optional: true}"),
    ],
)
def test_O14_a_value_is_set_where_it_belongs_and_nothing_else_of_the_file_changes(
    config: Config, file: Path, arguments: list[str], old: str, new: str
) -> None:
    done = config("set", *arguments)
    assert done.code == 0, done.err
    assert file.read_text(encoding="utf-8") == FILE.replace(old, new)
    assert file.with_name("pipelines.yaml.bak").read_text(encoding="utf-8") == FILE
    assert done.out.endswith(" in pipelines.yaml (as it was: pipelines.yaml.bak)\n")


def test_the_same_again_changes_no_byte_and_says_so(config: Config, file: Path) -> None:
    assert config("set", "model", "openai:one") == (0, "settings.model has this value already in pipelines.yaml\n", "")
    assert file.read_text(encoding="utf-8") == FILE
    assert not file.with_name("pipelines.yaml.bak").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["modle", "x"], "have no `modle` (did you mean `model`?)"),
        (["settings.tapes.stroe", "x"], "`settings.tapes` has no `stroe` (did you mean `settings.tapes.store`?)"),
        (["providers.openai.base_url", "x"], "(did you mean `settings.providers.openai.api_base`?)"),
        (["settings.telegarm.token", "x"], "has no `telegarm` (did you mean `settings.telegram.token`?)"),
        (["model.x", "y"], "`settings.model` has no `x`"),
        (["profiles.work.setings.model", "x"], "(did you mean `profiles.work.settings.model`?)"),
        (["retries", "many"], "what was given for `settings.retries` is not a whole number"),
        (["reasoning", "lo"], "must be `off`, `low`, `medium`, `high` or a number of tokens\n"),
        (["retries", "11"], "`settings.retries` must be a whole number from 0 to 10"),
        (["plugins.house.optional", "maybe"], "is not true or false"),
        (["model", "a", "b"], "`settings.model` is one value"),
        (["tapes", "x"], "such as `settings.tapes.store`"),
        (["routes[0].profile", "x"], "a list is read and set as a whole (say `routes`)"),
        (["settings..model", "x"], "is not a path"),
        (["", "x"], "is not a path"),
        (["model"], "give VALUE, --secret or --env NAME"),
        (["model", "x", "--env", "NAME"], "give VALUE, --secret"),
        (["model", "--env", "A-B"], "`A-B` is not the name of a variable"),
        (["--profile", "wrok", "model", "x"], "there is no profile `wrok` (did you mean `work`?)"),
        (["--profile", "work", "description", "x"], "`description` is the same for every profile"),
        (["--config", "bub:default", "model", "x"], "is one of Bub's own files, which are not changed"),
        (["--config", "nowhere.yaml", "model", "x"], "nowhere.yaml does not exist"),
    ],
)
def test_O8_what_cannot_be_meant_is_refused_with_what_can_be(
    config: Config, file: Path, arguments: list[str], said: str
) -> None:
    done = config("set", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert file.read_text(encoding="utf-8") == FILE


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["tapes.store", "redis"], "B102"), (["timeout", "5"], "B104"), (["profiles.default.plugins", "nobody"], "B160")],
)
def test_a_change_that_would_break_the_file_is_refused_with_the_findings(
    config: Config, file: Path, arguments: list[str], code: str
) -> None:
    done = config("set", *arguments)
    assert done.code == 1
    assert "Bub changes nothing, because pipelines.yaml would get errors:" in done.err
    assert f"error[{code}]" in done.err
    assert file.read_text(encoding="utf-8") == FILE


def test_that_a_profile_is_new_is_told(config: Config, file: Path) -> None:
    assert config("set", "profiles.wrok.plugins", "house").err == "bub: profile `wrok` is new (did you mean `work`?)\n"
    assert config("set", "profiles.wrok.plugins", "telegram").err == ""


def test_a_file_with_a_mistake_elsewhere_can_be_changed(config: Config, file: Path) -> None:
    broken = FILE + "stages: {run_modle: {timeout: 5s}}\n"
    file.write_text(broken, encoding="utf-8")
    done = config("set", "retries", "1")
    assert done.code == 0 and "`bub validate` lists" in done.err
    assert file.read_text(encoding="utf-8") == broken.replace("retries: 3", "retries: 1")


def test_a_file_that_cannot_be_read_is_never_touched(config: Config, file: Path) -> None:
    file.write_text(FILE + "x-a: [\n", encoding="utf-8")
    for arguments in (["set", "retries", "1"], ["unset", "retries"]):
        done = config(*arguments)
        assert done.code != 0 and done.err
        assert file.read_text(encoding="utf-8") == FILE + "x-a: [\n"


def test_what_counts_before_a_value_that_was_set_is_told(
    config: Config, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config("set", "model", "a:b").err == ""
    monkeypatch.setenv("BUB_MODEL", "c:d")
    assert config("set", "model", "e:f").err == "bub: BUB_MODEL in the environment counts before it\n"
    monkeypatch.delenv("BUB_MODEL")
    monkeypatch.setenv("BUB_PROFILE", "work")
    assert config("set", "model", "g:h").err == "bub: pipelines.yaml:13:23 counts before it\n"


def test_without_a_file_one_is_made_in_bubs_own_folder_for_nobody_else_to_read(config: Config, tmp_path: Path) -> None:
    done = config("set", "model", "local:smollm2")
    own = tmp_path / "home" / "pipelines.yaml"
    assert (done.code, done.out) == (0, f"set settings.model in {own} (a new file)\n")
    assert own.read_text(encoding="utf-8") == "version: 1\nextends: bub:default\n\nsettings:\n  model: local:smollm2\n"
    assert mode(own) == 0o600
    assert config("get", "model").out == "local:smollm2\n"


# Secrets


@pytest.mark.parametrize("key", ["telegram.token", "api_key", "providers.openai.api_key"])
def test_a_secret_is_not_written_as_plain_text_and_never_shown(config: Config, file: Path, key: str) -> None:
    done = config("set", key, "hush-hush-123")
    assert done.code == 2
    assert f"`bub config set settings.{key} --secret`" in done.err and "--env NAME" in done.err
    assert "hush" not in done.err
    assert file.read_text(encoding="utf-8") == FILE


@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (["api_key"], "OPENAI_API_KEY"),
        (["providers.open-router.api_key"], "OPEN_ROUTER_API_KEY"),
        (["telegram.token"], "TELEGRAM"),  # the one that the file refers to already
        (["profiles.work.settings.telegram.token"], "WORK_TELEGRAM_TOKEN"),
        (["api_key", "--env", "MINE"], "MINE"),
    ],
)
def test_a_secret_that_is_piped_in_is_kept_in_dotenv_and_referred_to(
    config: Config, file: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], variable: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hush-1\n"))
    done = config("set", *arguments, "--secret")
    assert done.code == 0
    assert "hush" not in done.out + done.err
    dotenv = file.with_name(".env")
    assert dotenv.read_text(encoding="utf-8") == f"{variable}=hush-1\n"
    assert mode(dotenv) == 0o600
    text = file.read_text(encoding="utf-8")
    assert f"${{env:{variable}}}" in text and "hush" not in text


def test_without_a_secret_nothing_is_changed(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    done = config("set", "api_key", "--secret")
    assert done.code == 2 and "no secret was given" in done.err
    assert file.read_text(encoding="utf-8") == FILE
    assert not file.with_name(".env").exists()


def test_a_variable_of_the_environment_that_counts_before_dotenv_is_told(
    config: Config, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hush-1"))
    monkeypatch.setenv("OPENAI_API_KEY", "hush-2")
    done = config("set", "api_key", "--secret")
    assert "OPENAI_API_KEY has another value in the environment, which counts before .env" in done.err
    assert "hush" not in done.err


def test_a_secret_is_asked_for_without_showing_it(file: Path) -> None:
    process = pexpect.spawn(
        sys.executable,
        ["-m", "bub", "config", "set", "api_key", "--secret"],
        cwd=str(file.parent),
        env={**os.environ, "PYTHONPATH": SOURCES, "TERM": "xterm"},
        encoding="utf-8",
        timeout=20,
    )
    process.expect("settings.api_key")
    process.sendline("hush-2")
    process.expect("set settings.api_key in pipelines.yaml")
    process.expect(pexpect.EOF)
    process.close()
    assert process.exitstatus == 0
    assert file.with_name(".env").read_text(encoding="utf-8") == "OPENAI_API_KEY=hush-2\n"


def test_a_secret_of_a_profile_leaves_the_variable_of_its_parent_alone(
    config: Config, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FILE.replace("  work:\n", "  night: {extends: work}\n  work:\n").replace(
        "model: openai:two}", 'model: openai:two, api_key: "${env:WORK}"}'
    )
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO("hush-1"))
    assert config("set", "--profile", "night", "api_key", "--secret").code == 0
    assert file.with_name(".env").read_text(encoding="utf-8") == "NIGHT_OPENAI_API_KEY=hush-1\n"


def test_a_variable_that_is_set_nowhere_is_told(config: Config, file: Path) -> None:
    assert "NOWHERE is not set yet" in config("set", "telegram.token", "--env", "NOWHERE").err
    file.with_name(".env").write_text("HERE=x\n", encoding="utf-8")
    assert config("set", "telegram.token", "--env", "HERE").err == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "A=new\n"),
        ("B=1", "B=1\nA=new\n"),
        ("A=old\nB=1\n", "A=new\nB=1\n"),
        ("# A=x\n export A = 'old'  # remark\r\nB=1", "# A=x\n export A =new\r\nB=1"),
        ("A=one\nA=two\n", "A=one\nA=new\n"),
        ("what is this?\n", "what is this?\nA=new\n"),
    ],
)
def test_a_variable_is_set_on_its_line_of_dotenv_and_the_others_stay(text: str, expected: str) -> None:
    assert with_variable(text, "A", "new") == expected
    assert with_variable(expected, "A", "new") == expected


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["", "\ufeff", "B='x'\r\n", "export A=1\nB=2"])
)
def test_whatever_dotenv_holds_reads_back_or_is_refused(value: str, text: str) -> None:
    try:
        after = with_variable(text, "A", value)
    except BubError:
        assert "\r" in value or not value.isprintable()
        return
    values, _ = parse_dotenv(after, file=".env")
    assert values == {**parse_dotenv(text, file=".env")[0], "A": value}


def test_dotenv_is_closed_to_others_and_a_broken_one_is_left_alone(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("A=1\n", encoding="utf-8")
    dotenv.chmod(0o644)
    assert keep_secrets(tmp_path, {"A": "1"}) == dotenv
    assert mode(dotenv) == 0o600
    dotenv.write_bytes(b"\xff")
    with pytest.raises(BubError, match=r"\.env cannot be read: it is not UTF-8"):
        keep_secrets(tmp_path, {"A": "hush"})
    assert dotenv.read_bytes() == b"\xff"


# get, unset, path


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["model"], "openai:one\n"),
        (["model", "--profile", "work"], "openai:two\n"),
        (["retries"], "3\n"),
        (["profiles.default.plugins"], "[telegram, house]\n"),
        (["telegram.token"], "${env:TELEGRAM}\n"),
        (["profiles.work"], "profiles.work.settings.model: openai:two\n"),
        (["stages.run_model.kind"], "stream\n"),
        (["model", "--json"], '"openai:one"\n'),
        (["retries", "--json"], "3\n"),
        (["plugins.house", "--json"], '{"path": "house.py"}\n'),
    ],
)
def test_the_value_that_counts_is_printed(config: Config, file: Path, arguments: list[str], printed: str) -> None:
    assert config("get", *arguments) == (0, printed, "")


def test_a_secret_is_printed_as_its_source(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(FILE.replace("${env:TELEGRAM}", "hush:123456"), encoding="utf-8")
    assert config("get", "telegram.token").out == "a literal in pipelines.yaml:8:21\n"
    monkeypatch.setenv("BUB_API_KEY", "hush")
    assert config("get", "api_key", "--json").out == '"the variable BUB_API_KEY"\n'
    assert json.loads(config("get", "settings", "--json").out)["api_key"] == "the variable BUB_API_KEY"


def test_what_is_not_set_is_told_with_exit_code_1(config: Config, file: Path) -> None:
    assert config("get", "max_tokens") == (
        1,
        "",
        "bub: `settings.max_tokens` is not set (`bub explain settings.max_tokens` says what holds then)\n",
    )


def test_a_value_is_taken_out_once(config: Config, file: Path) -> None:
    done = config("unset", "retries")
    assert (done.code, done.err) == (0, "")
    assert file.read_text(encoding="utf-8") == FILE.replace("  retries: 3\n", "")
    assert config("unset", "retries") == (0, "settings.retries is not set in pipelines.yaml\n", "")
    assert config("unset", "--profile", "work", "model").code == 0
    assert "work:\n    settings: {}\n" in file.read_text(encoding="utf-8")


def test_nothing_can_be_taken_out_of_a_file_that_is_not_there(config: Config) -> None:
    assert config("unset", "model").code == 2


def test_the_file_that_is_used_is_named_and_why(
    config: Config, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, nearby, named = tmp_path / "home" / "pipelines.yaml", folder / "pipelines.yaml", folder / "named.yaml"
    assert config("path").out == "bub:default\n"
    own.parent.mkdir()
    for path, why in ((own, "your own, since the workspace has none"), (nearby, "the workspace's")):
        path.write_text("version: 1\n", encoding="utf-8")
        assert config("path") == (0, f"{path}\n", f"bub: {why}\n")
    named.write_text("version: 1\n", encoding="utf-8")
    monkeypatch.setenv("BUB_CONFIG", str(named))
    assert config("path") == (0, f"{named}\n", "bub: named in BUB_CONFIG\n")
    assert config("path", "--config", str(nearby)) == (0, f"{nearby}\n", "bub: named with --config\n")


# edit


def editing(folder: Path, editor: str) -> pexpect.spawn[str]:
    """`bub config edit` at a terminal, with a shell command for an editor, whose `$1` is the file."""
    script = folder / "editor.sh"
    script.write_text(f"#!/bin/sh\n{editor}\n", encoding="utf-8")
    script.chmod(0o755)
    environment = {**os.environ, "PYTHONPATH": SOURCES, "TERM": "xterm", "VISUAL": str(script)}
    return pexpect.spawn(
        sys.executable,
        ["-m", "bub", "config", "edit"],
        cwd=str(folder),
        env=environment,
        encoding="utf-8",
        timeout=20,
        dimensions=(40, 120),
    )


def ended(process: pexpect.spawn[str]) -> int | None:
    process.expect(pexpect.EOF)
    process.close()
    return process.exitstatus


def test_what_is_edited_is_checked_and_written_with_a_backup(file: Path) -> None:
    process = editing(file.parent, "sed -i 's/retries: 3/retries: 4/' \"$1\"")
    process.expect("wrote what you changed to pipelines.yaml")
    assert ended(process) == 0
    assert file.read_text(encoding="utf-8") == FILE.replace("retries: 3", "retries: 4")
    assert file.with_name("pipelines.yaml.bak").read_text(encoding="utf-8") == FILE
    assert not list(file.parent.glob(".bub-*"))


WRONG = "sed -i 's/retries: x/retries: y/; s/retries: 3/retries: x/' \"$1\""


def test_what_is_wrong_can_be_edited_again_and_kept_all_the_same(file: Path) -> None:
    process = editing(file.parent, WRONG)
    process.expect("error.B101")
    process.expect("What now")
    process.send("\r")
    process.expect("error.B101")
    process.expect("What now")
    process.send("\x1b[B\x1b[B\r")
    assert ended(process) == 1
    assert file.read_text(encoding="utf-8") == FILE.replace("retries: 3", "retries: y")


def test_what_is_wrong_can_be_given_up(file: Path) -> None:
    process = editing(file.parent, WRONG)
    process.expect("What now")
    process.send("\x1b[B\r")
    assert ended(process) == 1
    assert file.read_text(encoding="utf-8") == FILE
    assert not list(file.parent.glob(".bub-*"))


def test_an_editor_that_fails_changes_nothing(file: Path) -> None:
    process = editing(file.parent, 'echo x > "$1"; exit 3')
    process.expect("ended with 3")
    assert ended(process) == 1
    assert file.read_text(encoding="utf-8") == FILE


def test_without_a_terminal_nothing_is_edited(config: Config, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITOR", "true")
    done = config("edit")
    assert done.code == 2 and "there is no terminal" in done.err


# Writing


def test_a_file_that_was_changed_meanwhile_is_left_as_the_other_wrote_it(file: Path) -> None:
    own = read_own(file)
    file.write_text(FILE + "# theirs\n", encoding="utf-8")
    with pytest.raises(BubError, match="changed by somebody else meanwhile") as caught:
        write_change(own, own.text.replace("retries: 3", "retries: 4"))
    assert caught.value.help is not None and "it holds what they wrote, and nothing of this change" in caught.value.help
    assert file.read_text(encoding="utf-8") == FILE + "# theirs\n"


def test_a_file_that_was_made_meanwhile_is_left_as_the_other_wrote_it(tmp_path: Path) -> None:
    own = new_own(tmp_path / "home" / "pipelines.yaml")
    own.path.parent.mkdir()
    own.path.write_text("theirs", encoding="utf-8")
    with pytest.raises(BubError, match="changed by somebody else meanwhile"):
        write_change(own, own.text)
    assert own.path.read_text(encoding="utf-8") == "theirs"


def test_a_change_that_takes_a_key_out_says_that_the_backup_holds_it(config: Config, file: Path) -> None:
    file.write_text(FILE.replace("  retries: 3\n", "  retries: 3\n  api_key: sk-0123456789\n"), encoding="utf-8")
    done = config("set", "api_key", "--env", "OWN_KEY")
    assert done.out.endswith(
        "(as it was, with the old key in plain text: pipelines.yaml.bak, which only you can read; "
        "delete it in the end)\n"
    )
    assert mode(file.with_name("pipelines.yaml.bak")) == 0o600
    assert config("set", "retries", "9").out.endswith("(as it was: pipelines.yaml.bak)\n")


@pytest.mark.parametrize("was", [0o600, 0o644, 0o664])
def test_a_file_keeps_its_mode(file: Path, was: int) -> None:
    file.chmod(was)
    own = read_own(file)
    assert write_change(own, own.text + "x-a: 1\n") == file.with_name("pipelines.yaml.bak")
    assert mode(file) == was


def test_only_new_errors_stand_in_the_way_of_a_change(file: Path) -> None:
    file.write_text(FILE + "stages: {run_modle: {}}\n", encoding="utf-8")
    own = read_own(file)
    check_change(own, own.text + "x-a: 1\n")
    with pytest.raises(PipelineError) as caught:
        check_change(own, own.text.replace("retries: 3", "retries: x"))
    assert [found.code for found in caught.value.diagnostics] == ["B101"]


def test_shipped_and_broken_files_are_not_read_for_a_change(file: Path) -> None:
    shipped = shipped_pipeline("default")
    assert shipped is not None
    with pytest.raises(UsageError, match="bub:default is shipped with Bub, so it is not changed"):
        read_own(shipped)
    file.write_bytes(b"a: [")
    with pytest.raises(PipelineError):
        read_own(file)
    assert read_own(file, even_broken=True).text == "a: ["
    file.write_bytes(b"\xff")
    with pytest.raises(PipelineError):
        read_own(file, even_broken=True)
