"""`bub gateway` as a supervisor meets it: a process with a channel, signals, reloads, health, metrics and logs."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import SOURCES, bub
from fakes.gateway import BRAIN, FILES, PATIENCE, PIPELINE, POST, gateway
from fakes.scripted import OPENAI, Called, refusal, serving
from prometheus_client.parser import text_string_to_metric_families

LISTEN = ("--listen", "127.0.0.1:0")
KEY = "sk-very-secret-4711"

SETTINGS = "settings: {gateway: {shutdown_grace: 10s}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


# Which channels run


def test_C4_O5_where_no_channel_can_run_each_says_what_to_do(folder: Path) -> None:
    disabled = 'name = "post"\n    enabled = False\n    why_disabled = "set `settings.post.token`"'
    (folder / "post.py").write_text(POST.replace('name = "post"', disabled))
    done = bub(folder, "gateway", BUB_TRUST_WORKSPACE="1")
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first == "bub: there is no channel that could run (post: set `settings.post.token`"
    assert second.strip().startswith("`bub onboard` asks for what a channel needs")


def test_C4_without_any_configuration_two_lines_say_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = bub(tmp_path / "empty", "gateway")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 2)
    assert "`bub onboard`" in done.stderr
    assert "`bub chat`" in done.stderr


def opening(folder: Path, channels: str) -> None:
    """Let the profile open these channels."""
    said = PIPELINE.replace("plugins: [post, brain]", f"plugins: [post, brain], channels: {channels}")
    (folder / "pipelines.yaml").write_text(said)


def test_C3_the_channels_that_the_profile_opens_run(folder: Path) -> None:
    pair = POST.replace("return [Post(message_handler)]", "return [Post(message_handler), Mute()]")
    mute = "\n\nclass Mute(Post):\n    name = 'mute'\n\n    def __init__(self):\n        pass\n"
    (folder / "post.py").write_text(pair + mute)
    opening(folder, "[post]")
    with gateway(folder) as running:
        assert running.wait_for_log("channels.running").endswith("channels=post")
        opening(folder, "[post, mute]")
        running.send(signal.SIGHUP)
        assert "settings=channels" in running.wait_for_log("pipeline.restart_needed")
    with gateway(folder, "--enable-channel", "all", "--enable-channel", "!mute") as running:
        assert running.wait_for_log("channels.running").endswith("channels=post")


def test_C3_a_profile_that_opens_no_channel_runs_none(folder: Path) -> None:
    opening(folder, "[]")
    done = bub(folder, "gateway", BUB_TRUST_WORKSPACE="1")
    told = "bub: the profile opens no channel (name some in its `channels:`, or say --enable-channel)\n"
    assert (done.returncode, done.stderr) == (1, told)


def test_C3_an_unknown_channel_of_the_profile_is_a_finding_with_its_place(folder: Path) -> None:
    opening(folder, "[pst]")
    done = bub(folder, "gateway", BUB_TRUST_WORKSPACE="1")
    assert done.returncode == 1
    assert "pipelines.yaml:6:" in done.stderr and "error[B212]" in done.stderr
    assert "did you mean `post`?" in done.stderr
    proved = bub(folder, "validate", "--plugins", "pipelines.yaml", BUB_TRUST_WORKSPACE="1")
    assert proved.returncode == 1 and "B212" in proved.stdout
    assert bub(folder, "run", ",help", BUB_TRUST_WORKSPACE="1").returncode == 0


def test_a_schedule_for_a_channel_that_no_plugin_brings_is_a_warning_at_the_start(folder: Path) -> None:
    morning = 'schedules:\n  morning: {cron: "0 8 * * *", message: Hello, session: "telegram:1"}\n'
    (folder / "pipelines.yaml").write_text(PIPELINE + morning)
    with gateway(folder) as running:
        told = running.wait_for_log("pipeline.finding")
        running.wait_for_log("channels.running")
    assert "[B243] schedule `morning` speaks to channel `telegram`, but no plugin of profile `default`" in told
    assert running.log.count("B243") == 1


@pytest.mark.parametrize("name", ["pst", "!pst"])
def test_C3_an_unknown_channel_is_an_error_that_names_the_nearest(folder: Path, name: str) -> None:
    done = bub(folder, "gateway", "--enable-channel", name, BUB_TRUST_WORKSPACE="1")
    assert (done.returncode, done.stderr) == (2, "bub: there is no channel `pst` (did you mean `post`?)\n")


def test_C3_leaving_channels_out_of_nothing_leaves_nothing(folder: Path) -> None:
    done = bub(folder, "gateway", "--enable-channel", "!post", BUB_TRUST_WORKSPACE="1")
    assert (done.returncode, done.stderr) == (
        1,
        "bub: no channel is left to run (say `--enable-channel all` beside what is left out)\n",
    )


def test_C23_a_channel_that_cannot_begin_ends_the_start_with_its_error(folder: Path) -> None:
    (folder / "post.py").write_text(POST.replace("task_status.started()", "raise OSError('the line is dead')"))
    done = bub(folder, "gateway", BUB_TRUST_WORKSPACE="1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("bub: OSError: the line is dead (the details are in ")


# Signals


def test_C24_the_first_signal_lets_a_turn_finish_and_takes_no_new_one(folder: Path) -> None:
    with gateway(folder, *LISTEN) as running:
        running.say("hello")
        assert running.reply(1) == "one hello"
        assert (running.ask("/healthz").status_code, running.health["status"]) == (200, "ok")
        running.say("wait go")
        running.until((folder / "go.begun").exists)
        running.send(signal.SIGTERM)
        running.wait_for_log("gateway.ending ")
        assert (running.ask("/healthz").status_code, running.health["status"]) == (503, "draining")
        running.say("too late")  # it is kept, for the next start
        (folder / "go").touch()
        assert running.process.wait(PATIENCE) == 0
        assert [text for _, text in running.replies] == ["one hello", "one wait go"]
        assert "Traceback" not in running.log
    with gateway(folder) as again:
        assert again.reply(3) == "one too late"
        assert again.end(signal.SIGINT) == 130


def test_the_second_signal_ends_all_at_once_and_what_was_not_answered_is_answered_later(folder: Path) -> None:
    with gateway(folder) as running:
        running.say("wait go")
        running.until((folder / "go.begun").exists)
        running.send(signal.SIGTERM)
        running.wait_for_log("gateway.ending ")
        running.send(signal.SIGINT)
        assert running.process.wait(PATIENCE / 4) == 130  # long before `shutdown_grace` is over
        assert running.replies == []
    (folder / "go").touch()
    with gateway(folder) as again:
        assert again.reply(1) == "one wait go"


def test_a_signal_that_a_supervisor_sends_twice_is_one(folder: Path) -> None:
    with gateway(folder) as running:
        running.say("wait go")
        running.until((folder / "go.begun").exists)
        running.send(signal.SIGTERM)
        running.send(signal.SIGTERM)
        running.wait_for_log("gateway.ending ")
        (folder / "go").touch()
        assert running.process.wait(PATIENCE) == 0
        assert [text for _, text in running.replies] == ["one wait go"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_while_plugins_are_loaded_ends_it_as_one_later_on(folder: Path, number: int, code: int) -> None:
    (folder / "brain.py").write_text("import pathlib, time\npathlib.Path('loading').touch()\ntime.sleep(60)\n")
    with gateway(folder, ready=False) as running:
        running.until((folder / "loading").exists)
        assert running.end(number) == code
        assert "Traceback" not in running.log


def catches(process: subprocess.Popen[bytes], number: int) -> bool:
    """Whether a process has a handler for a signal; Linux tells."""
    with contextlib.suppress(OSError):
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
        return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)
    return False


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process catches")


@needs_proc
def test_SIGHUP_before_it_can_be_obeyed_waits_and_then_reloads(folder: Path) -> None:
    with gateway(folder, *LISTEN, ready=False) as running:
        running.until(lambda: catches(running.process, signal.SIGHUP))
        assert running.log == ""  # nothing is loaded yet
        running.send(signal.SIGHUP)
        assert "cause=SIGHUP" in running.wait_for_log("gateway.reloading")
        running.wait_for_log("channels.running")
        running.until(lambda: running.health["reload"])
        assert (running.health["reload"]["outcome"], running.health["status"]) == ("ok", "ok")
        running.say("hello")
        assert running.reply(1) == "one hello"
        assert len(re.findall("gateway.reloading", running.log)) == 1
        assert running.end() == 0


def test_SIGHUP_while_plugins_are_loaded_waits_and_then_reloads(folder: Path) -> None:
    loading = "import pathlib, time\npathlib.Path('loading').touch()\n"
    loading += "while not pathlib.Path('loaded').exists():\n    time.sleep(0.01)\n"
    (folder / "brain.py").write_text(loading + BRAIN)
    with gateway(folder, ready=False) as running:
        running.until((folder / "loading").exists)
        running.send(signal.SIGHUP)
        (folder / "brain.py").write_text(BRAIN.replace("one {", "two {"))
        (folder / "loaded").touch()
        running.wait_for_log("channels.running")
        running.wait_for_log("pipeline.reloaded")
        running.say("hello")
        assert running.reply(1) == "two hello"


class Manager:
    """A service manager as systemd is to a unit of `Type=notify`: it listens, and says at which address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._line.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self._line.settimeout(PATIENCE)

    def hear(self) -> list[str]:
        """The lines of the next message."""
        return self._line.recv(4096).decode().splitlines()

    def has_heard_all(self) -> bool:
        self._line.settimeout(0)
        try:
            return not self._line.recv(4096)
        except BlockingIOError:
            return True

    def close(self) -> None:
        self._line.close()


@pytest.mark.parametrize("kind", ["path", pytest.param("abstract", marks=needs_proc)])
def test_systemd_is_told_when_it_is_ready_reloads_and_ends(folder: Path, kind: str) -> None:
    own = f"@bub-test-{os.getpid()}-{folder.parent.name}" if kind == "abstract" else str(folder / "notify")
    (folder / "brain.py").write_text("import os\n" + BRAIN.replace("one {", "{os.environ.get('NOTIFY_SOCKET')} {"))
    with contextlib.closing(Manager(own)) as manager, gateway(folder, ready=False, NOTIFY_SOCKET=own) as running:
        assert manager.hear() == ["READY=1"]
        assert "channels.running" in running.log
        for text in (PIPELINE, "version: 1\nversion: 2\n"):
            (folder / "pipelines.yaml").write_text(text)
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            running.send(signal.SIGHUP)
            state, stamp = manager.hear()
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            assert state == "RELOADING=1"
            assert before <= int(stamp.removeprefix("MONOTONIC_USEC=")) <= after
            assert manager.hear() == ["READY=1"]
        running.say("hello")
        assert running.reply(1) == "None hello"  # what the agent starts cannot speak for it
        running.send(signal.SIGTERM)
        assert manager.hear() == ["STOPPING=1"]
        assert running.process.wait(PATIENCE) == 0
        assert manager.has_heard_all()


def test_where_nobody_listens_for_systemd_it_runs_all_the_same(folder: Path) -> None:
    with gateway(folder, NOTIFY_SOCKET=str(folder / "nobody")) as running:
        assert "what=READY=1" in running.wait_for_log("gateway.systemd_not_told")
        running.say("hello")
        assert running.reply(1) == "one hello"
        assert running.end() == 0


@needs_proc
def test_a_terminal_that_is_closed_while_it_starts_ends_it(folder: Path) -> None:
    main, side = pty.openpty()
    command = (
        "import os, sys, fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCES, "BUB_TRUST_WORKSPACE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", command, sys.executable, "-m", "bub", "gateway"],
        cwd=folder, env=environment, stdin=side, stdout=side, stderr=side, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            os.close(side)
            while not catches(process, signal.SIGHUP):
                time.sleep(0.001)
            os.close(main)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def test_a_closed_terminal_ends_it(folder: Path) -> None:
    main, side = pty.openpty()
    command = (
        "import os, sys, fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCES, "BUB_TRUST_WORKSPACE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", command, sys.executable, "-m", "bub", "gateway"],
        cwd=folder, env=environment, stdin=side, stdout=side, stderr=side, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            os.close(side)
            shown = b""
            while b"channels.running" not in shown:
                shown += os.read(main, 1024)
            os.close(main)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


# Loading anew


def test_SIGHUP_loads_the_new_code_and_a_bad_file_is_refused_with_its_findings(folder: Path) -> None:
    with gateway(folder, *LISTEN) as running:
        running.say("a")
        assert (running.reply(1), running.health["reload"]) == ("one a", None)
        (folder / "brain.py").write_text(BRAIN.replace("one {", "two {"))
        running.send(signal.SIGHUP)
        running.until(lambda: running.health["reload"])
        running.say("b")
        assert running.reply(2) == "two b"

        (folder / "pipelines.yaml").write_text(PIPELINE.replace("[post, brain]", "[post, brian]"))
        running.send(signal.SIGHUP)
        reload = running.until(lambda: (found := running.health["reload"])["outcome"] == "refused" and found)
        [finding] = reload["findings"]
        assert re.fullmatch(r".*pipelines\.yaml:6:\d+: error\[B\d+\] .*`brian`.*did you mean `brain`\?\)", finding)
        assert "error[B" in running.wait_for_log("pipeline.finding")
        running.say("c")
        assert running.reply(3) == "two c"  # nothing has changed
        assert running.ask("/healthz").status_code == 200

        (folder / "brain.py").write_text("raise SystemExit('a plugin ended it')\n")
        (folder / "pipelines.yaml").write_text(PIPELINE)
        running.send(signal.SIGHUP)
        running.until(lambda: "brian" not in str(running.health["reload"]))
        assert running.health["reload"]["outcome"] == "refused"
        running.say("d")
        assert running.reply(4) == "two d"
        assert metrics(running.ask("/metrics").text)["bub_reloads_total", "refused"] == 2
        assert running.end() == 0


GUARDED = POST.replace(
    "    async def send(",
    """    guests = ["ada"]

    def reload(self, framework):
        section = framework.settings.get("post") or {}
        if "broken" in section:
            raise ValueError("no such guest")
        self.guests = section.get("guests", [])
        return ["post.port"] if "port" in section else []

    async def receive(self, message):
        if message.get("sender_id") in self.guests:
            await self.take(message)

    async def send(""",
).replace("self.handler = handler", "self.take, self.handler = handler, self.receive")


def test_a_channel_takes_over_at_once_what_makes_it_safer_and_names_what_needs_a_restart(folder: Path) -> None:
    (folder / "post.py").write_text(GUARDED)

    def load(section: str) -> str:
        before = running.log.count("pipeline.reloaded"), running.log.count("channel.rel") + running.log.count("renewed")
        text = PIPELINE.replace("settings: {", f"settings: {{post: {section}, ")
        (folder / "pipelines.yaml").write_text(text)
        seen = len(running.log)
        running.send(signal.SIGHUP)
        running.wait_for_log("pipeline.reloaded", before[0] + 1)
        running.until(lambda: running.log.count("channel.rel") + running.log.count("renewed") > before[1])
        return running.log[seen:]

    with gateway(folder) as running:
        running.say("a", sender_id="ada")
        assert running.reply(1) == "one a"
        assert "restart_needed" not in load("{guests: [bob]}")
        running.say("b", sender_id="ada")
        running.say("c", sender_id="bob")
        assert running.reply(2) == "one c"
        assert re.search(r"pipeline.restart_needed settings=post.port\n", load("{guests: [bob], port: 7}"))
        assert "no such guest" in load("{guests: [ada], broken: yes}")  # it goes on as it was
        running.say("d", sender_id="ada")
        running.say("e", sender_id="bob")
        assert running.reply(3) == "one e"
        assert "Traceback" in running.log
        assert running.end() == 0
    assert [text for _, text in running.replies] == ["one a", "one c", "one e"]


def test_a_channel_that_takes_over_nothing_is_named_as_long_as_it_differs_from_what_runs(folder: Path) -> None:
    def load(text: str, number: int) -> str:
        (folder / "pipelines.yaml").write_text(text)
        seen = len(running.log)
        running.send(signal.SIGHUP)
        running.wait_for_log("pipeline.reloaded", number)
        running.say("hello")
        running.reply(number)
        return running.log[seen:]

    with gateway(folder) as running:
        other = PIPELINE.replace("settings: {", "settings: {post: {a: 1}, ")
        assert "pipeline.restart_needed settings=post\n" in load(other, 1)
        assert "pipeline.restart_needed settings=post\n" in load(f"{other}\n# a remark\n", 2)
        assert "restart_needed" not in load(PIPELINE, 3)


def test_watch_loads_what_an_editor_replaced(folder: Path) -> None:
    with gateway(folder, "--watch", *LISTEN) as running:
        (folder / "brain.py").rename(folder / "brain.py~")  # gone for a moment, then another file
        (folder / "brain.new").write_text(BRAIN.replace("one {", "two {"))
        (folder / "brain.new").rename(folder / "brain.py")
        reload = running.until(lambda: running.health["reload"])
        assert (reload["outcome"], reload["findings"]) == ("ok", [])
        running.say("a")
        assert running.reply(1) == "two a"
        (folder / "pipelines.yaml").write_text("version: 1\nversion: 2\n")
        running.until(lambda: running.health["reload"]["outcome"] == "refused")
        assert len(re.findall("gateway.reloading", running.log)) == 2  # each change once


# Health, metrics, logs


def metrics(text: str) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels, which are written in the order of their names."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serving() as address:
        yield address


def with_model(folder: Path, address: str) -> None:
    """Let a model server answer, instead of the plugin."""
    text = f'settings: {{model: "openai:small", api_base: "{address}/v1", api_key: "${{env:KEY}}", retries: 0}}'
    pipeline = PIPELINE.replace(SETTINGS, text).replace("[post, brain]", "[post], budget: {steps: 1}")
    (folder / "pipelines.yaml").write_text(pipeline)


def test_metrics_tell_turns_stages_tokens_and_what_waits(folder: Path, model: str) -> None:
    with_model(folder, model)
    with gateway(folder, *LISTEN, KEY=KEY) as running:
        running.say(json.dumps([OPENAI.answer("hello", usage=(30, 12))]))
        assert running.reply(1) == "hello"
        running.say(json.dumps([refusal(OPENAI.error("x", KEY), 401)]))
        running.say(json.dumps([OPENAI.answer("", calls=[Called("no_such_tool")], usage=None)]))  # one step is too few
        running.reply(3)
        answer = running.ask("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        delivered = ("bub_deliveries_total", "post", "sent")  # noted behind what the other side sees
        running.until(lambda: metrics(running.ask("/metrics").text).get(delivered) == 3)
        seen = metrics(running.ask("/metrics").text)
        assert seen["bub_turns_total", "ok", "default"] == 1
        assert [number for key, number in seen.items() if key[:2] == ("bub_turns_total", "failed")] == [2]
        assert seen["bub_stages_total", "ok", "default", "run_model"] == 1
        assert seen["bub_stages_total", "failed", "default", "run_model"] == 2
        for stage in ("resolve_session", "load_state", "build_prompt", "run_model", "save_state"):
            assert seen["bub_stage_seconds_count", "default", stage] == 3  # those of turns that failed, too
        assert seen["bub_model_requests_total", "openai:small", "ok"] == 2
        assert seen["bub_model_requests_total", "openai:small", "failed"] == 1
        assert seen["bub_model_tokens_total", "input", "openai:small"] == 30
        assert seen["bub_model_tokens_total", "output", "openai:small"] == 12
        assert seen["bub_model_seconds_count", "openai:small"] == 3
        assert seen["bub_messages_received_total", "post"] == 3
        assert seen["bub_failures_total", "turn"] == 2
        assert (seen["bub_running_turns",], seen["bub_inbox_messages",], seen["bub_outbox_messages",]) == (0, 0, 0)
        assert seen["bub_start_time_seconds",] > 1_600_000_000
        openmetrics = running.ask("/metrics", accept="application/openmetrics-text; version=1.0.0")
        assert openmetrics.text.endswith("# EOF\n")


def test_T30_a_failure_is_a_sentence_and_an_id_and_the_log_has_the_rest_as_JSON(folder: Path, model: str) -> None:
    with_model(folder, model)
    with gateway(folder, "--log-format", "json", KEY=KEY) as running:
        running.say(json.dumps([refusal(OPENAI.error("x", f"no such key: {KEY}"), 401)]))
        running.reply(1)
        [[kind, text]] = running.replies
        found = re.fullmatch(r"The model is not set up correctly\. \(error (\w+)\)", text)
        assert kind == "error"
        assert found is not None
        assert running.end() == 0
        lines: list[dict[str, Any]] = [json.loads(line) for line in running.log.splitlines()]
    for line in lines:
        assert list(line)[:4] == ["time", "level", "event", "logger"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", line["time"])
    [failure] = [line for line in lines if line["event"] == "turn.failed"]
    assert (failure["level"], failure["id"], failure["session"]) == ("ERROR", found[1], "post:1")
    assert "refused the API key (401): no such key: [key]" in failure["error"]
    assert failure["exception"].startswith("Traceback")
    assert KEY not in running.log
    [ended] = [line for line in lines if line["event"] == "gateway.ended"]
    assert ended["signal"] == "SIGTERM"


def test_what_a_plugin_logs_itself_is_JSON_with_its_fields_and_without_secrets(folder: Path) -> None:
    (folder / "brain.py").write_text(
        "from loguru import logger\n"
        "from bub import hookimpl\n"
        "class Brain:\n"
        "    @hookimpl\n"
        "    def run_model(self, prompt):\n"
        "        try:\n"
        f"            raise ValueError('{KEY} is wrong')\n"
        "        except ValueError:\n"
        f"            own = logger.bind(level=3, time=None, key='{KEY}', odd=float('nan'))\n"
        f"            own.exception('a {{}} é\\nline', '{KEY}')\n"
        "        return prompt\n"
        "plugin = Brain\n"
    )
    with gateway(folder, "--log-format", "json", OPENAI_API_KEY=KEY) as running:
        running.say("hello")
        assert running.reply(1) == "hello"
        line = json.loads(running.wait_for_log("line"))
    assert KEY not in running.log
    assert line["event"].startswith("a *** é\nline")
    assert (line["level"], line["level_"], line["time_"], line["key"], line["odd"]) == ("ERROR", 3, None, "***", "nan")
    assert line["exception"].endswith("ValueError: *** is wrong")


UNSPEAKABLE = """
import logging, warnings
from bub import hookimpl

logging.getLogger("library").warning("said in\\ntwo lines, with a %d that is none", "word")

class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no")

class Brain:
    @hookimpl
    def run_model(self, prompt):
        if prompt == "warn":
            warnings.warn("careful with KEY")
            logging.getLogger("library").warning("careful with %s", "KEY")
            return "warned"
        raise Unspeakable

plugin = Brain
"""


def test_whatever_is_said_is_JSON_in_one_line_and_a_failure_that_cannot_be_shown_is_one_turn(folder: Path) -> None:
    (folder / "brain.py").write_text(UNSPEAKABLE.replace("KEY", KEY))
    with gateway(folder, "--log-format", "json", OPENAI_API_KEY=KEY) as running:
        running.say("fail")
        assert running.reply(1).startswith("Something went wrong while answering. (error ")
        running.say("warn")
        assert running.reply(2) == "warned"
        assert running.end() == 0
        lines = [json.loads(line) for line in running.log.splitlines()]
    assert KEY not in running.log
    assert lines[0] | {"time": ""} == {
        "time": "",
        "level": "WARNING",
        "event": "said in\ntwo lines, with a %d that is none",
        "logger": "library",
    }
    [failure] = [line for line in lines if line["event"] == "turn.failed"]
    assert failure["error"] == "Unspeakable (it cannot be shown)"
    assert [line["warning"] for line in lines if line["event"] == "python.warning"] == ["UserWarning: careful with ***"]
    assert [line["event"] for line in lines if line["logger"] == "library"][1:] == ["careful with ***"]


def test_the_log_begins_anew_when_it_is_large_and_four_old_ones_are_kept(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from bub import log\n"
        "log._LARGEST = 10_000; log.log_to(pathlib.Path(sys.argv[1]))\n"
        "for number in range(1_000): log.log_info('said', number=number)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "logs")], check=True, timeout=PATIENCE)
    files = sorted((tmp_path / "logs").iterdir())
    assert [file.name for file in files] == ["bub.log", *(f"bub.log.{number}" for number in range(1, 5))]
    assert all(file.stat().st_mode & 0o077 == 0 and file.stat().st_size <= 10_000 for file in files)
    assert files[0].read_text().endswith("said number=999\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a disk that is always full")  # noqa: PTH110
def test_a_full_disk_for_the_log_is_told_once_and_keeps_nobody_from_being_answered(folder: Path) -> None:
    home = folder / "home"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "bub.log").symlink_to("/dev/full")
    with gateway(folder, "--log-format", "json", BUB_HOME=str(home)) as running:
        running.say("hello")
        assert running.reply(1) == "one hello"
        assert running.end() == 0
        lines = [json.loads(line) for line in running.log.splitlines()]
    [told] = [line for line in lines if line["event"] == "no log is written"]
    assert "No space left" in told["error"]


def test_a_port_that_is_taken_is_an_error(folder: Path) -> None:
    with gateway(folder, *LISTEN) as running:
        taken = str(running.ask("/healthz").url.netloc.decode())
        (folder / "other").mkdir()
        for name in FILES:
            (folder / name).rename(folder / "other" / name)
        done = bub(folder / "other", "gateway", "--listen", taken, BUB_TRUST_WORKSPACE="1")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"bub: cannot listen at {taken}: ")
    assert last.endswith("(perhaps another gateway has the port; `--listen` chooses another)")
