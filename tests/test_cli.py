"""The command line as a person or a script meets it: a process with arguments, two streams and an exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest
from fakes.command_line import SOURCES

from bub.cli import exits, prompts
from bub.errors import BubError, UsageError
from bub.hookspecs import HOOK_POINTS

BUB = [sys.executable, "-m", "bub"]

PIPELINE = """
    version: 1
    extends: bub:default
    plugins: {parrot: {path: parrot.py}}
    profiles:
      default: {plugins: [parrot]}
"""

PARROT = """
    from bub import hookimpl

    @hookimpl
    def run_model(prompt):
        return f"you said {prompt}"
"""


@pytest.fixture(autouse=True)
def the_checkout_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # output is buffered, as it is for everybody


@pytest.fixture
def folder(write: Callable[[str, str], Path]) -> Path:
    """A workspace with a pipeline whose model repeats what it hears."""
    write("work/parrot.py", PARROT)
    return write("work/pipelines.yaml", PIPELINE).parent


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")


def bub(folder: Path, *arguments: str, said: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `bub` in a folder, with `said` on standard input."""
    return subprocess.run(
        [*BUB, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        input=said,
        capture_output=True,
        text=True,
        timeout=60,
    )


@contextmanager
def under_way(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `bub` with pipes to its three streams; what has not ended after half a minute is killed, so no read lasts."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*BUB, *arguments], cwd=folder, **pipes) as process:
        watchdog = threading.Timer(30, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def plugin(folder: Path, text: str) -> None:
    """Put another plugin in the parrot's place."""
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    (folder / "parrot.py").write_text("\n".join(line[indent:] for line in lines) + "\n", encoding="utf-8")


# bub


def test_help_lists_every_command_of_bub(tmp_path: Path) -> None:
    done = bub(tmp_path, "--help")
    assert done.returncode == 0
    for name in ("run", "validate", "hooks", "plugins", "trust", "local"):
        assert re.search(rf"^  {name} +\w", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("command", [["run"], ["validate"], ["hooks"], ["plugins"], ["trust"], ["local", "install"]])
def test_every_command_explains_itself(tmp_path: Path, command: list[str]) -> None:
    done = bub(tmp_path, *command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: bub {' '.join(command)}")


def test_no_command_is_wrong_usage_and_shows_the_help(tmp_path: Path) -> None:
    done = bub(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: bub")


def test_version(tmp_path: Path) -> None:
    assert re.fullmatch(r"bub \d+\.\d+\.\d+\n", bub(tmp_path, "--version").stdout)


def test_a_misspelt_command_is_wrong_usage_with_a_suggestion(tmp_path: Path) -> None:
    done = bub(tmp_path, "valdate")
    assert done.returncode == 2
    assert done.stderr == "bub: there is no command `valdate` (did you mean `validate`?)\n"


def test_a_misspelt_command_in_a_folder_that_is_not_trusted_asks_nothing(folder: Path) -> None:
    process = at_a_terminal(folder, "valdate")
    assert exit_code(process) == 2
    assert str(process.before).strip() == "bub: there is no command `valdate` (did you mean `validate`?)"


def test_a_misspelt_option_is_wrong_usage_in_one_line(tmp_path: Path) -> None:
    done = bub(tmp_path, "run", "--strem", "hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"bub: no such option: --strem.*\(see `bub run --help`\)\n", done.stderr)


def test_a_missing_argument_is_wrong_usage_in_one_line(tmp_path: Path) -> None:
    done = bub(tmp_path, "run")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_a_workspace_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    for arguments in (["-w", "gone", "run", "hello"], ["run", "-w", "gone", "hello"], ["-w", "gone", "plugins"]):
        done = bub(tmp_path, *arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        assert "gone" in done.stderr


def test_a_config_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    done = bub(tmp_path, "--config", "gone.yaml", "run", "hello")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "gone.yaml" in done.stderr


# bub run


def test_O2_run_prints_where_a_reply_goes_and_what_it_says(folder: Path, trusted: None) -> None:
    done = bub(folder, "run", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[cli:local]\nyou said hello\n", "")


def test_run_says_where_the_message_comes_from(folder: Path, trusted: None) -> None:
    done = bub(folder, "run", "hello", "--channel", "telegram", "--chat-id", "-42")
    assert done.stdout == "[telegram:-42]\nyou said hello\n"


def test_O3_the_workspace_may_be_named_before_the_command_or_behind_it(
    folder: Path, tmp_path: Path, trusted: None
) -> None:
    before = bub(tmp_path, "--workspace", "work", "run", "hello")
    behind = bub(tmp_path, "run", "hello", "--workspace", "work")
    assert before.stdout == behind.stdout == "[cli:local]\nyou said hello\n"


def test_naming_the_file_is_consent(folder: Path, tmp_path: Path) -> None:
    assert bub(tmp_path, "--config", "work/pipelines.yaml", "run", "hello").stdout == "[cli:local]\nyou said hello\n"


def test_run_reads_a_message_from_standard_input(folder: Path, trusted: None) -> None:
    assert bub(folder, "run", "-", said="from a pipe").stdout == "[cli:local]\nyou said from a pipe\n"


@pytest.mark.parametrize("arguments", [["run", ""], ["run", "  "], ["run", "-"]])
def test_an_empty_message_is_wrong_usage(folder: Path, trusted: None, arguments: list[str]) -> None:
    done = bub(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the message is empty" in done.stderr


def test_run_as_json_prints_the_whole_result(folder: Path, trusted: None) -> None:
    done = bub(folder, "run", "hello", "--json", "--session-id", "s1")
    result = json.loads(done.stdout)
    made = ["session_id", "prompt", "model_output", "outbounds", "profile", "ended_by", "trace"]
    assert list(result) == [*made, "finish_reason", "usage", "steps", "plan"]
    assert result["session_id"] == "s1"
    assert result["model_output"] == "you said hello"
    assert result["outbounds"][0]["content"] == "you said hello"
    assert result["profile"] == "default"
    assert result["ended_by"] is None
    assert "run_model" in [record["stage"] for record in result["trace"]]
    assert all(record["duration"] >= 0 for record in result["trace"])


SECRETIVE = """
    from bub import hookimpl

    @hookimpl
    def run_model(prompt):
        return f"the secret is {prompt}"

    @hookimpl
    def allow(prompt):
        return {"deny": "withheld"} if prompt == "xyzzy" else None

    @hookimpl
    def judge(message):
        return {"deny": "withheld"} if "hunter2" in message["content"] else None

    @hookimpl
    def edit(message):
        content = message["content"].replace("swordfish", "[redacted]") + " (a machine wrote this)"
        return {"message": {**message, "content": content}}
"""


JUDGED = """
version: 1
extends: bub:default
plugins: {parrot: {path: parrot.py}}
profiles: {default: {plugins: [parrot]}}
hooks:
  allow: {kind: gate, takes: [prompt]}
  judge: {kind: gate, takes: [message]}
  edit: {kind: modifying, takes: [message]}
stages:
  allow: {before: run_model}
  judge: {before: dispatch_outbound, for_each: outbounds}
  edit: {before: dispatch_outbound, for_each: outbounds, changes: [message]}
"""


def test_json_holds_nothing_that_a_gate_kept_back_or_a_stage_took_out(folder: Path, trusted: None) -> None:
    plugin(folder, SECRETIVE)
    (folder / "pipelines.yaml").write_text(JUDGED, encoding="utf-8")

    def told(words: str) -> tuple[str, str | None, str | None]:
        printed = bub(folder, "run", words, "--json").stdout
        result = json.loads(printed)
        return printed, result["prompt"], result["model_output"]

    assert told("hello")[1:] == ("hello", "the secret is hello")
    for words, prompt, secret in (
        ("xyzzy", None, "xyzzy"),
        ("hunter2", "hunter2", "is hunter2"),
        ("swordfish", "swordfish", "is swordfish"),
    ):
        printed, *rest = told(words)
        assert rest == [prompt, None]
        assert secret not in printed


def test_json_can_be_read_whatever_the_model_says(folder: Path, trusted: None) -> None:
    plugin(folder, 'from bub import hookimpl\n@hookimpl\ndef run_model(prompt):\n    return "half \\ud83d, é, 水"\n')
    done = bub(folder, "run", "hello", "--json", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["model_output"] == "half \ud83d, é, 水"


def test_a_terminal_that_lacks_a_character_gets_its_escape(folder: Path, trusted: None) -> None:
    plugin(folder, 'from bub import hookimpl\n@hookimpl\ndef run_model(prompt):\n    return "half \\ud83d, 水"\n')
    done = bub(folder, "run", "hello", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "[cli:local]\nhalf \\ud83d, \\u6c34\n")


def test_trace_prints_one_line_a_stage_with_its_time(folder: Path, trusted: None) -> None:
    done = bub(folder, "run", "hello", "--trace")
    assert done.stdout == "[cli:local]\nyou said hello\n"
    assert re.search(r"^ *\d+\.\d\d ms  run_model +\w+", done.stderr, re.MULTILINE)
    assert len(re.findall(r"\d ms  run_model ", done.stderr)) == 1


STREAMING = """
    import sys
    import trio
    from bub import hookimpl
    from bub.streaming import AsyncStreamEvents, StreamEvent

    @hookimpl
    def run_model_stream(prompt):
        return AsyncStreamEvents(events())

    async def events():
        yield StreamEvent.text("one ")
        await trio.to_thread.run_sync(sys.stdin.readline)
        yield StreamEvent.text("two")
"""


def test_stream_prints_the_answer_while_it_is_made_and_once(folder: Path, trusted: None) -> None:
    plugin(folder, STREAMING)
    with under_way(folder, "run", "hello", "--stream") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"[cli:local]\n"
        assert process.stdout.read(4) == b"one "  # and not a word more before the model is told to go on
        rest, errors = process.communicate(b"go on\n", timeout=60)
    assert (process.returncode, rest, errors) == (0, b"two\n", b"")


ODD = """
    from bub import hookimpl

    @hookimpl
    def run_model(prompt):
        return "fine"

    @hookimpl
    def render_outbound():
        circle = []
        circle.append(circle)
        deep = []
        for _ in range(5000):
            deep = [deep]
        odd = {("a", 1): float("nan"), 2: float("inf"), float("nan"): circle, "deep": deep}
        return [{"content": "odd", "odd": odd}]
"""


def test_json_can_be_read_whatever_plugins_put_into_the_result(folder: Path, trusted: None) -> None:
    plugin(folder, ODD)
    done = bub(folder, "run", "hello", "--json")
    assert (done.returncode, done.stderr) == (0, "")

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    odd = json.loads(done.stdout, parse_constant=refuse)["outbounds"][0]["odd"]
    assert odd.pop("deep")
    assert odd == {"('a', 1)": None, "2": None, "nan": ["…"]}


def test_what_plugins_print_does_not_mix_with_json(folder: Path, trusted: None) -> None:
    plugin(folder, f"print('imported')\n{PARROT}".replace("\n    ", "\n"))
    with (folder / "parrot.py").open("a", encoding="utf-8") as file:
        file.write("\n@hookimpl\ndef build_prompt(message):\n    print('asked')\n    return 'hm'\n")
    for command in (["run", "hello"], ["plugins"], ["hooks"]):
        done = bub(folder, *command, "--json")
        assert json.loads(done.stdout), done
        assert done.stderr.splitlines() == (["imported", "asked"] if command[0] == "run" else ["imported"])
    assert bub(folder, "run", "hello").stdout == "asked\n[cli:local]\nyou said hm\n"


@pytest.mark.parametrize("message", ["-", b"a\xffb"], ids=["from standard input", "as an argument"])
def test_bytes_that_are_no_text_are_replaced(folder: Path, trusted: None, message: str | bytes) -> None:
    done = subprocess.run(
        [*BUB, "run", message, "--json"], cwd=folder, input=b"a\xffb", capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["model_output"] == "you said a\ufffdb"


def test_json_and_stream_exclude_each_other(folder: Path, trusted: None) -> None:
    assert bub(folder, "run", "hello", "--json", "--stream").returncode == 2


def test_a_denied_turn_prints_its_reply_and_fails(folder: Path, trusted: None) -> None:
    pipeline = (folder / "pipelines.yaml").read_text(encoding="utf-8")
    gate = "hooks:\n  may_i: {kind: gate, takes: [prompt]}\nstages:\n  may_i: {before: run_model}\n"
    (folder / "pipelines.yaml").write_text(pipeline + gate, encoding="utf-8")
    plugin(folder, 'from bub import hookimpl\n@hookimpl\ndef may_i(prompt):\n    return {"deny": "not today"}\n')
    with (folder / "parrot.py").open("a", encoding="utf-8") as file:
        file.write('@hookimpl\ndef run_model(prompt):\n    raise SystemExit("the model was asked")\n')
    done = bub(folder, "run", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (1, "[cli:local]\nnot today\n", "")


def test_a_pipeline_that_does_not_compile_is_shown_with_all_its_findings(folder: Path, trusted: None) -> None:
    (folder / "pipelines.yaml").write_text(
        "version: 1\nextends: bub:default\nstages:\n  run_modl: {timeout: 3s}\n  save_state: {timeout: soon}\n",
        encoding="utf-8",
    )
    done = bub(folder, "run", "hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert len(re.findall(r"^pipelines\.yaml:\d+:\d+: error\[\w+\]|pipelines.yaml:\d+:\d+: error", done.stderr)) >= 1
    assert "run_modl" in done.stderr
    assert "soon" in done.stderr
    assert "^^^" in done.stderr
    assert re.fullmatch(r"bub: \d+ errors .*", done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr


# Failures


CRASHING = """
    from bub import hookimpl

    @hookimpl
    def run_model(prompt):
        password = "correct horse"
        return password + 3
"""


def test_O3_a_failure_is_one_line_and_its_traceback_is_in_the_log(folder: Path, tmp_path: Path, trusted: None) -> None:
    plugin(folder, CRASHING)
    done = bub(folder, "run", "hello")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    found = re.search(r"the details are in (\S+bub\.log) under ([0-9a-f]{8})", done.stderr)
    assert found is not None, done.stderr
    log = Path(found[1]).read_text(encoding="utf-8")
    assert Path(found[1]) == tmp_path / "home" / "logs" / "bub.log"
    assert f"id={found[2]}" in log
    assert log.count("Traceback") == log.count(" ERROR ") > 0
    assert "parrot.py" in log


def test_the_log_never_shows_the_values_of_variables(folder: Path, tmp_path: Path, trusted: None) -> None:
    plugin(folder, CRASHING.replace('"correct horse"', '"".join(("correct", " ", "horse"))'))
    bub(folder, "run", "hello", BUB_DEBUG="1")
    log = (tmp_path / "home" / "logs" / "bub.log").read_text(encoding="utf-8")
    assert "Traceback" in log
    assert "correct horse" not in log


def test_the_log_is_for_its_owner_only(folder: Path, tmp_path: Path, trusted: None) -> None:
    plugin(folder, CRASHING)
    bub(folder, "run", "hello")
    for path in ("home", "home/logs", "home/logs/bub.log"):
        assert (tmp_path / path).stat().st_mode & 0o077 == 0, path


def test_what_a_plugin_writes_with_loguru_itself_is_in_the_log(folder: Path, tmp_path: Path, trusted: None) -> None:
    plugin(
        folder,
        """
        from bub import hookimpl
        from loguru import logger

        class Plugin:
            def __init__(self):
                logger.info("made")

            @hookimpl
            def run_model(self, prompt):
                logger.info("asked")
                return prompt

        plugin = Plugin
        """,
    )
    assert bub(folder, "run", "hello").stderr == ""
    log = (tmp_path / "home" / "logs" / "bub.log").read_text(encoding="utf-8")
    assert [line.rpartition(" ")[2] for line in log.splitlines()] == ["made", "asked"]


def test_with_bub_debug_the_traceback_is_shown_too(folder: Path, trusted: None) -> None:
    plugin(folder, CRASHING)
    assert "Traceback" in bub(folder, "run", "hello", BUB_DEBUG="1").stderr


@pytest.mark.parametrize("value", ["", "0", "no"])
def test_only_the_value_1_of_bub_debug_switches_it_on(folder: Path, trusted: None, value: str) -> None:
    plugin(folder, CRASHING)
    assert len(bub(folder, "run", "hello", BUB_DEBUG=value).stderr.splitlines()) == 1


def test_without_a_place_for_the_log_a_failure_is_still_one_line(folder: Path, trusted: None) -> None:
    plugin(folder, CRASHING)
    home = str(folder / "parrot.py")
    done = bub(folder, "run", "hello", BUB_HOME=home)
    no_log, failure = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert no_log.startswith("bub: no log is written: ")
    assert "TypeError" in failure
    assert "BUB_DEBUG=1" in failure
    assert "Traceback" in bub(folder, "run", "hello", BUB_HOME=home, BUB_DEBUG="1").stderr


@pytest.mark.parametrize("run_model", ["def run_model(prompt)", "async def run_model(prompt)"])
@pytest.mark.parametrize("code", ["0", "3", "'bye'"])
def test_a_plugin_cannot_end_the_program_in_a_turn(folder: Path, trusted: None, run_model: str, code: str) -> None:
    plugin(folder, f"import sys\nfrom bub import hookimpl\n@hookimpl\n{run_model}:\n    sys.exit({code})\n")
    done = bub(folder, "run", "hello")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    found = re.match(r"bub: a plugin ended the program in the middle of a turn \(.*see (\S+bub\.log)", done.stderr)
    assert found is not None, done.stderr
    log = Path(found[1]).read_text(encoding="utf-8")
    assert "parrot.py" in log
    assert "SystemExit" in log


def test_a_command_of_a_plugin_may_end_the_program(folder: Path, trusted: None) -> None:
    plugin(
        folder,
        """
        import sys
        from bub import hookimpl

        @hookimpl
        def register_cli_commands(app):
            @app.command()
            def squawk():
                sys.exit(3)
        """,
    )
    assert bub(folder, "squawk").returncode == 3


def test_ctrl_c_ends_a_turn_quietly(folder: Path, trusted: None) -> None:
    plugin(
        folder,
        """
        import trio
        from bub import hookimpl

        @hookimpl
        async def run_model(prompt):
            print("started", flush=True)
            await trio.sleep_forever()
        """,
    )
    with under_way(folder, "run", "hello") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (130, b"", b"")


def test_a_ctrl_c_while_the_program_is_being_loaded_ends_it_without_a_traceback(
    tmp_path: Path, write: Callable[[str, str], Path]
) -> None:
    write("early/typer.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-m", "bub", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "early"), SOURCES])},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_a_reader_that_leaves_is_no_error_worth_a_word(folder: Path, trusted: None) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*BUB, "hooks"], cwd=folder, stdout=writing, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (BaseExceptionGroup("", [ValueError(), BaseExceptionGroup("", [KeyboardInterrupt()])]), 130, ""),
        (ExceptionGroup("", [BubError("one", help="do this"), BubError("two")]), 1, "bub: one (do this)\nbub: two\n"),
        (UsageError("wrong\nhere"), 2, "bub: wrong here\n"),
        (UsageError("no \x1b[2J", help="not\x07 \u202e"), 2, "bub: no \\x1b[2J (not\\x07 \\u202e)\n"),
        (SystemExit(7), 7, ""),
    ],
)
def test_every_error_has_its_exit_code(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        raise error

    assert exits.exit_code(work) == code
    assert capsys.readouterr().err == said


# bub validate


def test_validate_accepts_a_good_file(folder: Path) -> None:
    done = bub(folder, "validate")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 file is fine\n", "")


def test_validate_shows_every_finding_of_every_file(folder: Path, write: Callable[[str, str], Path]) -> None:
    write("work/a.yaml", "version: 1\nstage: {}\n")
    write("work/b.yaml", "version: 1\nextends: bub:defalt\n")
    done = bub(folder, "validate", "a.yaml", "b.yaml", "pipelines.yaml")
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(r"^a\.yaml:2:1: error\[\w+\] .*`stage`", done.stdout, re.MULTILINE)
    assert re.search(r"^b\.yaml:2:10: error\[\w+\] ", done.stdout, re.MULTILINE)
    assert "did you mean" in done.stdout
    assert re.search(r"errors in 2 of 3 files$", done.stdout.rstrip())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("version: 1\nsettings: {modle: x}\n", "p.yaml:2:12: error"),
        ("version: 1\nsettings: {retries: many}\n", "p.yaml:2:21: error"),
        ("- version: 1\n", "p.yaml:1:1: error"),
        ("version: 1\nsettings: [\n", "p.yaml:2:11: error"),
    ],
)
def test_O8_a_mistake_in_the_file_is_told_with_its_place_and_never_as_a_traceback(
    folder: Path, write: Callable[[str, str], Path], text: str, told: str
) -> None:
    write("work/p.yaml", text)
    done = bub(folder, "run", "hello", "--config", "p.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert told in done.stderr and "Traceback" not in done.stderr
    assert "modle" not in text or "did you mean `model`?" in done.stderr


def test_validate_prints_json_for_programs(folder: Path, write: Callable[[str, str], Path]) -> None:
    write("work/a.yaml", "version: 1\nstage: {}\n")
    done = bub(folder, "validate", "--format", "json", "a.yaml")
    report = json.loads(done.stdout)
    assert (done.returncode, report["version"], report["ok"], report["files"]) == (1, 1, False, 1)
    assert report["diagnostics"][0]["range"]["start"] == {"line": 2, "column": 1}


def test_strict_lets_warnings_fail(folder: Path, write: Callable[[str, str], Path]) -> None:
    write("work/a.yaml", "version: 1\nextends: bub:default\ndescription: no\n")
    lenient, strict = bub(folder, "validate", "a.yaml"), bub(folder, "validate", "--strict", "a.yaml")
    assert "warning[" in lenient.stdout
    assert (lenient.returncode, strict.returncode) == (0, 1)


def test_validate_takes_a_folder_and_a_shipped_name(folder: Path, tmp_path: Path) -> None:
    assert bub(tmp_path, "validate", "work", "bub:default").stdout == "2 files are fine\n"


@pytest.mark.parametrize("path", ["a" * 300, "bub:" + "a" * 300, "gone\x1b[2J.yaml"])
def test_validate_says_in_one_line_that_no_file_can_have_this_name(tmp_path: Path, path: str) -> None:
    done = bub(tmp_path, "validate", path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert "details are in" not in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("path", ["gone.yaml", "bub:gone"])
def test_validate_says_when_there_is_no_such_file(tmp_path: Path, path: str) -> None:
    done = bub(tmp_path, "validate", path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert ("there is no shipped pipeline" if path.startswith("bub:") else "does not exist") in done.stderr


def test_validate_checks_the_shipped_default_where_there_is_no_file(tmp_path: Path) -> None:
    assert bub(tmp_path, "validate").stdout == "1 file is fine\n"


# bub hooks, bub plugins


def test_O4_hooks_shows_points_with_kind_and_plugins_in_call_order(folder: Path, trusted: None) -> None:
    plugin(folder, "from bub import hookimpl\n@hookimpl\ndef build_prompt(message):\n    return 'hm'\n" + "")
    lines = bub(folder, "hooks").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("build_prompt ")]
    assert re.fullmatch(r"build_prompt +firstresult +parrot(, builtin)?", line)


def test_hooks_as_json(folder: Path, trusted: None) -> None:
    report = json.loads(bub(folder, "hooks", "--json").stdout)
    assert report["run_model"]["plugins"][0] == "parrot"


def test_hooks_shows_all_points_if_asked_also_those_that_this_pipeline_never_calls(tmp_path: Path) -> None:
    implemented = bub(tmp_path, "hooks", "bub:default").stdout.splitlines()
    lines = {
        line.split()[0]: " ".join(line.split()[1:])
        for line in bub(tmp_path, "hooks", "bub:default", "--all").stdout.splitlines()
    }
    assert {line.split()[0] for line in implemented} < lines.keys() == HOOK_POINTS.keys()
    assert lines["tool_gate"] == "gate -"
    assert lines["run_model"] == "stream -"  # the model stage asks it, too: it answers what run_model_stream answers
    assert lines["session_start"] == "void - (this pipeline never calls it)"
    report = json.loads(bub(tmp_path, "hooks", "bub:default", "--all", "--json").stdout)
    assert report["tool_gate"] == {"kind": "gate", "plugins": []}


def test_hooks_of_a_folder_are_those_of_the_file_in_it(folder: Path, trusted: None) -> None:
    assert bub(folder.parent, "hooks", str(folder)).stdout == bub(folder, "hooks").stdout
    assert "nope.yaml does not exist" in bub(folder, "hooks", "nope.yaml").stderr


def test_O19_plugins_says_what_became_of_each(folder: Path, trusted: None) -> None:
    done = bub(folder, "plugins")
    assert done.returncode == 0
    assert re.search(r"^parrot +loaded +path \S*parrot\.py", done.stdout, re.MULTILINE)
    assert re.search(r"^builtin +loaded", done.stdout, re.MULTILINE)
    states = {status["name"]: status["state"] for status in json.loads(bub(folder, "plugins", "--json").stdout)}
    assert states["parrot"] == "loaded"


def test_a_command_of_a_plugin_is_found_when_it_is_called(folder: Path, trusted: None) -> None:
    plugin(
        folder,
        """
        from bub import hookimpl

        @hookimpl
        def register_cli_commands(app):
            @app.command()
            def squawk(times: int = 1):
                print("squawk " * times)
        """,
    )
    done = bub(folder, "squawk", "--times", "2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "squawk squawk \n", "")
    assert "squawk" not in bub(folder, "--help").stdout
    assert "did you mean `squawk`?" in bub(folder, "sqawk").stderr


@pytest.mark.parametrize(
    ("listed", "command", "both"),
    [(["crow"], "run", {"builtin", "crow"}), (["crow", "magpie"], "caw", {"crow", "magpie"})],
)
def test_O1_two_commands_of_one_name_are_an_error_that_names_both_plugins(
    folder: Path, trusted: None, write: Callable[[str, str], Path], listed: list[str], command: str, both: set[str]
) -> None:
    brings = f"""
        from bub import hookimpl

        @hookimpl
        def register_cli_commands(app):
            app.command("{command}")(print)
        """
    for name in listed:
        write(f"work/{name}.py", brings)
    paths = ", ".join(f"{name}: {{path: {name}.py}}" for name in listed)
    profiles = f"{{default: {{plugins: [{', '.join(listed)}]}}}}"
    write("work/pipelines.yaml", f"version: 1\nextends: bub:default\nplugins: {{{paths}}}\nprofiles: {profiles}\n")
    done = bub(folder, "other")
    assert done.returncode == 2
    found = re.search(rf"plugins `(\w+)` and `(\w+)` both bring the command `{command}`", done.stderr)
    assert found is not None and {found[1], found[2]} == both
    for arguments in (["run", "hello"], ["validate", "--plugins"]):  # no turn begins, whichever command is called
        done = bub(folder, *arguments)
        assert done.returncode == 1
        assert "error[B208] plugins" in done.stdout + done.stderr


# bub trust


def test_a_file_of_a_folder_that_is_not_trusted_is_not_used(folder: Path) -> None:
    plugin(folder, "raise SystemExit('the plugin was imported')\n")
    done = bub(folder, "run", "hello")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert f"bub trust {folder}" in done.stderr


def test_trust_is_given_listed_and_taken_back(folder: Path) -> None:
    assert bub(folder, "trust").stdout == f"{folder} is trusted\n"
    assert bub(folder, "run", "hello").stdout == "[cli:local]\nyou said hello\n"
    assert bub(folder, "trust", "--list").stdout == f"{folder}\n"
    assert bub(folder, "trust", "--revoke", str(folder)).returncode == 0
    assert bub(folder, "trust", "--list").stdout == ""
    assert bub(folder, "run", "hello").returncode == 2


def test_only_what_is_there_can_be_trusted_or_taken_back(folder: Path) -> None:
    assert bub(folder, "trust", "gone").returncode == 2
    assert bub(folder, "trust", "--revoke", ".").returncode == 2
    assert bub(folder, "trust", "--list", "--revoke", ".").returncode == 2


def test_an_empty_name_is_not_the_current_folder(folder: Path) -> None:
    bub(folder, "trust")
    for arguments in (["trust", ""], ["trust", "--revoke", ""]):
        done = bub(folder, *arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert bub(folder, "trust", "--list").stdout == f"{folder}\n"


def at_a_terminal(folder: Path, *arguments: str) -> pexpect.spawn[str]:
    return pexpect.spawn(
        BUB[0],
        [*BUB[1:], *arguments],
        cwd=str(folder),
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
        dimensions=(24, 200),
        timeout=30,
        encoding="utf-8",
    )


def exit_code(process: pexpect.spawn[str]) -> int | None:
    process.expect(pexpect.EOF)
    process.close()
    return process.exitstatus


def test_a_person_at_a_terminal_is_asked_once(folder: Path) -> None:
    process = at_a_terminal(folder, "run", "hello")
    process.expect("not trusted yet")
    process.expect("from now on")
    process.send("y")
    process.expect("you said hello")
    assert exit_code(process) == 0

    again = at_a_terminal(folder, "run", "hello")
    again.expect("you said hello")
    assert "trust" not in str(again.before)
    assert exit_code(again) == 0


def test_a_person_who_says_no_gets_the_same_end_as_a_script(folder: Path) -> None:
    process = at_a_terminal(folder, "run", "hello")
    process.expect("from now on")
    process.send("n")
    process.expect("bub trust")
    assert exit_code(process) == 2


def test_the_name_of_a_folder_cannot_steer_the_terminal_that_shows_the_question(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(prompts, "_confirm", asked.append)
    prompts.confirm_trust("/x\x1b[2J\n", "/x\x1b[2J\n/pipelines.yaml")
    shown = asked[0] + capsys.readouterr().err
    assert "\x1b" not in shown
    assert shown.count(r"/x\x1b[2J\n") == 2


def test_the_name_of_a_trusted_folder_is_as_it_is_for_a_program_and_escaped_for_a_person(tmp_path: Path) -> None:
    (tmp_path / "e\x1b[2Jvil").mkdir()
    assert bub(tmp_path, "trust", "e\x1b[2Jvil").stdout == f"{tmp_path}/e\x1b[2Jvil is trusted\n"
    for arguments in (["trust", "--list"], ["trust", "e\x1b[2Jvil"], ["trust", "--revoke", "e\x1b[2Jvil"]):
        process = at_a_terminal(tmp_path, *arguments)
        assert exit_code(process) == 0
        assert "\x1b" not in str(process.before)
        assert r"e\x1b[2Jvil" in str(process.before)


def test_ctrl_c_at_the_question_is_an_interruption(folder: Path) -> None:
    process = at_a_terminal(folder, "run", "hello")
    process.expect("from now on")
    process.send("\x03")
    assert exit_code(process) == 130
    assert "Traceback" not in str(process.before)
