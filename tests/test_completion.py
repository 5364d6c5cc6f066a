"""What may come next on a command line: the answer to a Tab, without a shell; what is kept for it; `bub completion`."""

from __future__ import annotations

import resource
import stat
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.command_line import bub

from bub.cli.completion.answer import answer
from bub.cli.completion.known import keep_commands, known_commands

Write = Callable[[str, str], Path]

PIPELINE = """
    version: 1
    extends: bub:default
    plugins: {w: {path: weather.py}}
    profiles: {default: {plugins: [w]}}
"""

WEATHER = """
    from pathlib import Path

    from bub import hookimpl

    Path("imported").touch()

    @hookimpl
    def register_cli_commands(app):
        @app.command()
        def weather():
            \"\"\"Say what the weather is like.\"\"\"
            print("sunny")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def completed(line: str) -> list[str]:
    """What bash gets for a line."""
    return list(answer("bash", [line]))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bub --prof", ["words", "--profile"]),
        ("bub run --profile x --str", ["words", "--stream"]),
        ("bub gateway --log-format ", ["words", "text", "json"]),
        ("bub validate --format=git", ["words", "github"]),
        ("bub validate --baseline ", ["files"]),
        ("bub -w ", ["folders"]),
        ("bub -wfolder tru", ["words", "trust"]),
        ("bub tape show -n 3 --js", ["words", "--json"]),
        ("bub tape nothing ", ["words", "--config", "--workspace", "--profile", "--agent", "--version", "--help"]),
        ("bub validate -- --str", ["files"]),
        ("bub help conf", ["words", "config"]),
        ("bub help config un", ["words", "unset"]),
        ("bub explain B12", ["words", "B120", "B121", "B122", "B123", "B124", "B125", "B126", "B127"]),
        ("bub graph --pipeline ", ["words", "bub:classic", "bub:default", "bub:ethos"]),
        ("bub graph bub:d", ["words", "default"]),  # bash begins a new word behind the colon
        ("bub run hel", ["words"]),
        ("bub config set telegram.al", ["words", "telegram.allow_users", "telegram.allow_chats"]),
        ("bub config get --json mo", ["words", "model"]),
        ("bub chat --session-id ", ["words"]),
        ("bub completion ", ["words", "bash", "zsh", "fish"]),
        ("'bub' \"run\" --tr", ["words", "--trace"]),
        ("cd x && bub run --tr", ["words", "--trace"]),
    ],
)
def test_what_may_come_next(line: str, words: list[str]) -> None:
    assert completed(line) == words


def test_zsh_and_fish_get_what_each_word_is(write: Write) -> None:
    write("work/pipelines.yaml", "{version: 1, extends: 'bub:default', profiles: {reader: {description: Reads only.}}}")
    assert list(answer("zsh", ["run", "--profile="])) == ["words", "default\t", "reader\tReads only."]
    assert list(answer("fish", ["run", "--profile="])) == [
        "words",
        "--profile=default\t",
        "--profile=reader\tReads only.",
    ]


def test_profiles_and_stages_are_those_of_the_pipeline_that_would_be_used(write: Write, tmp_path: Path) -> None:
    assert completed("bub --profile ") == ["words", "default"]
    write("home/pipelines.yaml", "{version: 1, extends: 'bub:default', profiles: {own: {}}}")
    assert completed("bub --profile ") == ["words", "default", "own"]
    write("work/base.yaml", "{version: 1, extends: 'bub:default', profiles: {base: {}}}")
    write("work/pipelines.yaml", "{version: 1, extends: base.yaml, profiles: {near: {stages: {late: {}}}}}")
    assert completed("bub --profile ") == ["words", "default", "base", "near"]
    assert completed("bub -w .. --profile ") == ["words", "default", "own"]
    assert completed("bub --config bub:default explain --profile ne") == ["words"]
    assert completed("bub explain --profile near la") == ["words", "late"]
    assert completed("bub explain la") == ["words"]


@pytest.mark.parametrize("text", ["version: [", "\0", "- a list", "profiles: {a: 1, b: [], 3: {}}", "extends: ../x"])
def test_a_file_with_mistakes_gives_what_can_be_read_and_no_word_of_them(write: Write, text: str) -> None:
    write("work/pipelines.yaml", text)
    assert completed("bub --profile ")[:2] == ["words", "default"]
    done = bub(Path.cwd(), "__complete", "bash", "bub explain ")
    assert (done.returncode, done.stderr) == (0, "")


def test_no_name_can_steer_a_terminal_or_run(write: Write) -> None:
    names = r""""$(x)": {}, "a\e[2J": {}, "b\nc": {}, "d e": {description: "f\e"}"""
    write("work/pipelines.yaml", f"{{version: 1, profiles: {{{names}}}}}")
    assert completed("bub --profile ") == ["words", "default", r"\$\(x\)", r"d\ e"]
    assert list(answer("zsh", ["--profile", ""])) == ["words", "default\t", "$(x)\t", "d e\tf\\x1b"]


def test_a_plugins_commands_are_known_from_its_last_load_and_it_is_not_imported(write: Write, here: Path) -> None:
    write("work/weather.py", WEATHER)
    write("work/pipelines.yaml", PIPELINE)
    assert completed("bub wea") == ["words"]
    assert bub(here, "weather", BUB_TRUST_WORKSPACE="1").stdout == "sunny\n"
    (here / "imported").unlink()
    assert completed("bub wea") == completed("bub help wea") == ["words", "weather"]
    assert list(answer("fish", ["w"]))[-1] == "weather\tSay what the weather is like."
    assert bub(here, "__complete", "bash", "bub wea").stdout == "words\nweather\n"
    assert not (here / "imported").exists()
    assert completed("bub --profile other wea") == ["words"]

    write("work/weather.py", WEATHER.replace("register_cli_commands(app)", "system_prompt(prompt)"))
    bub(here, "hooks", BUB_TRUST_WORKSPACE="1")
    assert completed("bub wea") == ["words"]


def test_a_command_of_a_plugin_can_be_explained_too(write: Write, here: Path) -> None:
    write("work/weather.py", WEATHER)
    write("work/pipelines.yaml", PIPELINE)
    assert "Say what the weather is like." in bub(here, "help", "weather", BUB_TRUST_WORKSPACE="1").stdout


def test_what_is_kept_is_for_its_owner_only_and_bounded(tmp_path: Path) -> None:
    home = tmp_path / "home"
    keep_commands(home, "bub:default", "default", {})
    assert not home.exists()  # nothing to keep
    for number in range(20):
        keep_commands(home, f"/p/{number}", "default", {f"command{at}": "x" * 1000 for at in range(120)})
    file = home / "commands.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert file.stat().st_size <= 100_000
    assert len(known_commands(home, "/p/19", "default")) == 50
    assert known_commands(home, "/p/0", "default") == {}
    written = file.stat().st_mtime_ns
    keep_commands(home, "/p/19", "default", {f"command{at}": "x" * 1000 for at in range(50)})
    assert file.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"version": 2}', '{"version": 1, "commands": {"bub:default": {"default": {"$(x)": ""}}}}'],
)
def test_a_list_that_somebody_else_wrote_gives_no_command(tmp_path: Path, write: Write, text: str) -> None:
    write("home/commands.json", text)
    assert known_commands(tmp_path / "home", "bub:default", "default") == {}
    keep_commands(tmp_path / "home", "bub:default", "default", {"fine": ""})
    assert list(known_commands(tmp_path / "home", "bub:default", "default")) == ["fine"]


def test_a_home_that_cannot_be_written_is_no_reason_to_complain(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    keep_commands(tmp_path / "home", "bub:default", "default", {"fine": ""})
    assert known_commands(tmp_path / "home", "bub:default", "default") == {}


def test_sessions_are_those_of_the_folder_and_their_file_stays_as_it_is(here: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for folder, chat in ((here, "one"), (here, "a b"), (tmp_path / "other", "elsewhere")):
        assert bub(folder, "run", ",help", "--chat-id", chat).returncode == 0
    kept = (tmp_path / "home" / "tapes" / "tapes.db").read_bytes()
    assert completed("bub tape show ") == ["words", "cli:a\\ b", "cli:one"]
    assert completed("bub -w ../other chat --session-id cli:e") == ["words", "elsewhere"]
    assert list(answer("fish", ["tape", "show", "cli:o"]))[1].startswith("cli:one\tbegan on 20")
    assert (tmp_path / "home" / "tapes" / "tapes.db").read_bytes() == kept
    took = [_time_of_a_tab(here, "bub tape show cli:o", "words\none\n") for _ in range(3)]
    assert statistics.median(took) < 0.2


def test_a_tab_is_answered_in_a_fifth_of_a_second(write: Write, here: Path) -> None:
    write("work/pipelines.yaml", "{version: 1, extends: 'bub:default', profiles: {reader: {}}}")
    took = [_time_of_a_tab(here, "bub --profile re", "words\nreader\n") for _ in range(5)]
    assert statistics.median(took) < 0.2


def _time_of_a_tab(folder: Path, line: str, printed: str) -> float:
    """The seconds of the processor that a Tab takes: what else the machine does does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert bub(folder, "__complete", "bash", line).stdout == printed
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# `bub completion` and `bub help`


@pytest.mark.parametrize(
    ("shell", "file", "line"),
    [
        ("/bin/bash", "~/.bashrc", 'eval "$('),
        ("/usr/bin/zsh", "~/.zshrc", "source <("),
        ("/usr/bin/fish", "~/.config/fish/config.fish", " completion fish | source"),
    ],
)
def test_without_a_shell_it_says_what_to_type_for_the_one_in_use(here: Path, shell: str, file: str, line: str) -> None:
    done = bub(here, "completion", SHELL=shell)
    assert done.returncode == 0
    assert file in done.stdout
    assert line in done.stdout
    assert done.stdout.count("put this line") == 1


def test_for_a_shell_that_is_not_known_it_says_all_three(here: Path) -> None:
    assert bub(here, "completion", SHELL="/bin/dash").stdout.count("put this line") == 3
    assert bub(here, "completion", "tcsh").returncode == 2


@pytest.mark.parametrize("words", [[], ["run"], ["tape", "show"], ["help"]])
def test_help_is_what_the_option_prints(here: Path, words: list[str]) -> None:
    assert bub(here, "help", *words).stdout == bub(here, *words, "--help").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rum"], "there is no command `rum` (did you mean `run`?)"),
        (["tape", "shwo"], "there is no command `bub tape shwo` (did you mean `show`?)"),
        (["tape", "qqqqqq"], "there is no command `bub tape qqqqqq` (see `bub help tape`)"),
        (["run", "fast"], "`bub run` has no commands of its own (type `bub help run`)"),
    ],
)
def test_help_for_what_there_is_not_suggests_what_is_near(here: Path, words: list[str], said: str) -> None:
    done = bub(here, "help", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"bub: {said}\n")
