"""The tools for commands: what is shown of them, and that nothing of them is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from bub.agent.tools import process
from bub.agent.tools.guard import Guard
from bub.agent.tools.output import LONGEST_OUTPUT
from bub.agent.tools.process import Launch
from bub.agent.tools.shell import MOST_BACKGROUND, Shells, child_environment, open_shells, shell_tools
from bub.tools import ToolContext, ToolError

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[str]]

ESCAPING = "(setsid sh -c 'sleep 100 & echo $! > pid' > /dev/null 2>&1 &);"
"""A shell command that leaves a process in a session of its own, whose parents are gone."""


@pytest.fixture
async def shells() -> AsyncIterator[Shells]:
    async with open_shells() as opened:
        yield opened


@pytest.fixture
def call(shells: Shells, tmp_path: Path) -> Call:
    """Calls a tool by its name, `bash` where none is given, for the session `s` where no other is."""

    async def shared() -> Shells:
        return shells

    tools = {tool.name: tool for tool in shell_tools(shared)}

    async def called(
        *command: str, tool: str = "bash", session: str = "s", settings: Any = None, **arguments: Any
    ) -> str:
        if command:
            arguments["command"] = command[0]
        context = ToolContext(session, tmp_path, settings=settings or {})
        result = await tools[tool].call(tools[tool].check(arguments), context)
        assert isinstance(result, str)
        return result

    return called


async def refusal(called: Awaitable[str]) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await called
    return caught.value


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked about yet does not."""
    try:
        with Path(f"/proc/{pid}/stat").open() as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def until(true: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not true():  # noqa: ASYNC110 (other processes set no event)
            await trio.sleep(0.01)


async def number_in(file: Path) -> int:
    """The number that a command writes to a file, once it has."""

    def written() -> str:
        return file.read_text() if file.exists() else ""

    await until(lambda: written().endswith("\n"))
    return int(written())


async def test_A26_a_command_says_what_it_prints(call: Call) -> None:
    assert await call("echo out; echo err >&2") == "out\nerr\n"
    assert await call("true") == "[it printed nothing]"
    assert await call("printf 'gr\\374n'") == "gr\ufffdn"
    assert await call("[[ x == x* ]] && cat") == "[it printed nothing]"


async def test_A26_a_command_that_fails_is_an_error_with_its_output(call: Call) -> None:
    told = await refusal(call("echo before; exit 3"))
    assert (str(told), told.kind) == ("the command ended with exit code 3; it printed:\nbefore\n", "tool")
    assert str(await refusal(call("false"))) == "the command ended with exit code 1 and printed nothing"
    assert "was ended by SIGKILL" in str(await refusal(call("kill -9 $$")))


async def test_A26_a_command_that_takes_too_long_is_ended_with_all_it_started(call: Call, tmp_path: Path) -> None:
    began = time.monotonic()
    command = "echo first; sleep 100 & echo $! > child; (trap '' TERM; sleep 100; sleep 100) & echo $! > deaf; wait"
    told = await refusal(call(command, timeout=0.3))
    assert (str(told), told.kind) == (
        "the command took longer than 0.3 s and was ended; it printed:\nfirst\n",
        "timeout",
    )
    assert time.monotonic() - began < 3 * process.GRACE
    for name in ("child", "deaf"):
        number = await number_in(tmp_path / name)
        await until(lambda number=number: not alive(number))  # one that is killed takes a moment to be gone


async def test_A26_a_command_that_does_not_listen_is_killed(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE", 0.2)
    await refusal(call("trap '' TERM; echo $$ > pid; while true; do sleep 0.1; done", timeout=0.3))
    number = await number_in(tmp_path / "pid")
    await until(lambda: not alive(number))


async def test_A26_a_cancelled_turn_ends_its_command(call: Call, tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, "echo $$ > pid; sleep 100")
        pid = await number_in(tmp_path / "pid")
        assert alive(pid)
        nursery.cancel_scope.cancel()
    assert not alive(pid)


async def test_A26_what_a_command_leaves_behind_is_ended_with_it(call: Call, tmp_path: Path) -> None:
    assert await call("sleep 100 & echo $! > pid; echo done") == "done\n"
    pid = await number_in(tmp_path / "pid")
    await until(lambda: not alive(pid))


async def test_what_leaves_the_group_of_its_command_is_ended_with_it(call: Call, tmp_path: Path) -> None:
    assert await call(f"{ESCAPING} while [ ! -s pid ]; do sleep 0.02; done; echo done") == "done\n"
    pid = await number_in(tmp_path / "pid")
    await until(lambda: not alive(pid))


async def test_a_daemon_that_keeps_the_output_open_does_not_hold_the_call(call: Call, tmp_path: Path) -> None:
    daemon = "import os, time; os.setsid(); open('pid', 'w').write(f'{os.getpid()}\\n'); time.sleep(100)"
    began = time.monotonic()
    said = await call(f'env -i {sys.executable} -c "{daemon}" & while [ ! -s pid ]; do sleep 0.05; done; echo done')
    pid = await number_in(tmp_path / "pid")
    try:
        assert said == "done\n"
        assert time.monotonic() - began < 5
        assert alive(pid)
    finally:
        os.kill(pid, 9)


async def test_a_long_output_is_cut_in_its_middle(call: Call) -> None:
    said = await call("echo begin; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert said.startswith("begin\nxxx")
    assert said.endswith("xxx\nend\n")
    assert "\n[… 4,967,243 bytes cut …]\n" in said
    assert len(said) < LONGEST_OUTPUT + 100
    assert await call(f"head -c {LONGEST_OUTPUT} /dev/zero | tr '\\0' x") == "x" * LONGEST_OUTPUT


async def test_a_command_runs_in_a_folder_of_the_workspace(call: Call, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "out").symlink_to("/")
    assert (await call("pwd", cwd="sub")).endswith("/sub\n")
    assert (await refusal(call("pwd", cwd=".."))).kind == "denied"
    assert (await refusal(call("pwd", cwd="out"))).kind == "denied"
    assert "does not exist" in str(await refusal(call("pwd", cwd="none")))


async def test_a_command_that_cannot_be_started_is_an_error(call: Call) -> None:
    assert (await refusal(call("echo \0"))).kind == "invalid_input"


# Secrets

SECRET = {
    "BUB_MODEL": "m",
    "OPENAI_API_KEY": "sk-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "GITHUB_TOKEN": "c",
    "token": "d",
    "PGPASSWORD": "e",
    "MYSQL_PWD": "f",
    "DB_PASS": "g",
    "SECRET_KEY_BASE": "h",
    "DATABASE_URL": "postgres://user:word@host/db",
    "PIP_INDEX_URL": "https://:word@host/simple",
    "HIDDEN": "sk-in-the-settings",
    "HEADER": "Bearer sk-in-the-settings",
    "SECOND": "sk-in-a-list",
    "GIT_REMOTE": "https://ghp_1@git.example/x.git",
    "SLACK_WEBHOOK_URL": "https://hooks.example/T0/B0/x",
    "CI_JOB_JWT": "e",
    "BASH_ENV": "/tmp/evil",
    "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
}
HARMLESS = {
    "PATH": "/bin",
    "HOME": "/root",
    "PWD": "/x",
    "OLDPWD": "/y",
    "LANG": "C.UTF-8",
    "KEYBOARD": "de",
    "SSH_AUTH_SOCK": "/s",
    "HTTP_PROXY": "http://proxy:8080",
    "MONKEY": "yes",
    "COMPASS": "north",
}


def test_A26_a_command_is_given_no_secrets() -> None:
    providers = {"x": {"api_key": "sk-in-the-settings"}, "y": {"keys": [], "api_key": ["sk-in-a-list"], "token": ""}}
    settings = {"model": "north", "providers": providers}
    assert child_environment({**SECRET, **HARMLESS}, settings) == HARMLESS


def test_the_settings_can_let_variables_through() -> None:
    settings = {"bash": {"env": ["GITHUB_TOKEN", "BUB_MODEL", "NOT_SET"]}}
    environ = {"GITHUB_TOKEN": "c", "BUB_MODEL": "m", "GITLAB_TOKEN": "d", "PATH": "/bin"}
    assert child_environment(environ, settings) == {"GITHUB_TOKEN": "c", "BUB_MODEL": "m", "PATH": "/bin"}


async def test_the_environment_of_a_command_is_that_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-1")
    monkeypatch.setenv("HARMLESS", "yes")
    assert await call("echo $SOME_API_KEY $HARMLESS") == "yes\n"


# In the background


async def test_A26_a_command_runs_in_the_background_only_when_asked(call: Call, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    said = await call("echo one; read x < go; echo two; exit 3", background=True)
    assert said.startswith("started in the background as `b1`")
    shown = ""
    while "one" not in shown:
        shown = await call(tool="bash.output", id="b1")
    assert shown == "one\n[b1 is still running; go on with offset=4]"


async def test_a_command_in_the_background_is_read_to_its_end(call: Call, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    await call("echo one; read x < go; echo two; exit 3", background=True)
    await trio.to_thread.run_sync((tmp_path / "go").write_text, "\n")
    shown = ""
    while "exit code" not in shown:
        shown = await call(tool="bash.output", id="b1", offset=4)
    assert shown == "two\n[b1 ended with exit code 3; go on with offset=8]"
    assert await call(tool="bash.kill", id="b1") == "b1 ended with exit code 3"


async def test_a_long_output_in_the_background_is_read_in_pieces(call: Call) -> None:
    await call("head -c 5000000 /dev/zero | tr '\\0' x", background=True)
    shown = ""
    while "exit code 0" not in shown:
        shown = await call(tool="bash.output", id="b1", offset=4_990_000)
    assert shown == "x" * 10_000 + "\n[b1 ended with exit code 0; go on with offset=5000000]"
    shown = await call(tool="bash.output", id="b1")
    assert shown.startswith("[… ")
    assert " bytes are forgotten …]\nxxx" in shown


WAITING = "echo one; read x < go1; echo two; read x < go2; echo rea; printf dy; read x < go3; exit 3"


async def test_a_command_in_the_background_is_waited_for(call: Call, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        os.mkfifo(tmp_path / f"go{number}")

    async def go_on(number: int) -> None:
        await trio.to_thread.run_sync((tmp_path / f"go{number}").write_text, "\n")

    await call(WAITING, background=True)
    assert (await call(tool="bash.output", id="b1", wait=60)).startswith("one\n[b1 is still running after 0 s; go on")
    for number, until, text, offset, shown in (
        (1, "output", "", 4, "two\n[b1 is still running after "),
        (2, "output", "a\ndy", 4, "two\nrea\ndy\n[b1 is still running after "),
        (3, "exit", "", 14, "[b1 ended with exit code 3; go on with offset=14]"),
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on, number)
            said = await call(tool="bash.output", id="b1", wait=60, until=until, text=text, offset=offset)
        assert said.startswith(shown)
        assert ("and has printed `a\ndy`" in said) is bool(text)
    # There is nothing to wait for any more.
    with trio.fail_after(5):
        assert "exit code 3" in await call(tool="bash.output", id="b1", wait=60, offset=14, text="more")


async def test_a_wait_is_bounded_and_can_be_cancelled(call: Call) -> None:
    await call("exec sleep 100 >&-", background=True)  # it runs on, and can print nothing
    with trio.fail_after(5):
        said = await call(tool="bash.output", id="b1", wait=0.01, text="ready")
        assert said.startswith("[b1 is still running after 0 s and has not printed `ready`; go on with offset=0]")
        with trio.move_on_after(0.01) as scope:
            await call(tool="bash.output", id="b1", wait=600)
        assert scope.cancelled_caught
        assert "wait" in str(await refusal(call(tool="bash.output", id="b1", wait=601)))


async def test_a_command_that_prints_without_end_is_searched_as_it_comes(call: Call) -> None:
    await call("yes | head -c 3000000; echo found; yes", background=True)
    with trio.fail_after(30):
        said = await call(tool="bash.output", id="b1", wait=60, offset=2_999_990, text="found")
    assert "and has printed `found`" in said


async def test_a_command_in_the_background_can_be_ended(call: Call, tmp_path: Path) -> None:
    await call("sleep 100 & echo $! > pid; wait", background=True)
    pid = await number_in(tmp_path / "pid")
    assert await call(tool="bash.kill", id="b1") == "b1 was running and is ended now"
    await until(lambda: not alive(pid))
    assert "was ended by SIGTERM" in await call(tool="bash.output", id="b1")


async def test_what_a_command_in_the_background_leaves_behind_is_ended_with_it(call: Call, tmp_path: Path) -> None:
    await call("sleep 100 > log 2>&1 & echo $! > pid", background=True)
    pid = await number_in(tmp_path / "pid")
    await until(lambda: not alive(pid))


async def test_a_session_knows_its_own_commands_only(call: Call, shells: Shells, tmp_path: Path) -> None:
    await call("echo $$ > pid; sleep 100", background=True)
    await call("echo $$ > other; sleep 100", background=True, session="other")
    pid, other = await number_in(tmp_path / "pid"), await number_in(tmp_path / "other")
    assert str(await refusal(call(tool="bash.output", id="b2"))) == (
        "there is no command `b2` in the background (there are: b1)"
    )
    assert "none" in str(await refusal(call(tool="bash.kill", id="b1", session="third")))
    await shells.kill_session("s")
    await until(lambda: not alive(pid))
    assert alive(other)


async def test_commands_in_the_background_are_bounded(call: Call) -> None:
    for _ in range(MOST_BACKGROUND):
        await call("sleep 100", background=True)
    assert "run in the background already" in str(await refusal(call("true", background=True)))
    await call(tool="bash.kill", id="b1")
    assert "`b17`" in await call("true", background=True)
    assert "no command `b1`" in str(await refusal(call(tool="bash.output", id="b1")))


def sh(command: str, folder: Path) -> Launch:
    return Launch(("sh", "-c", command), str(folder), dict(os.environ))


async def test_commands_that_are_started_all_at_once_are_bounded_and_all_of_them_end(tmp_path: Path) -> None:
    refused = []
    async with open_shells() as shells:

        async def start() -> None:
            try:
                await shells.start("s", sh("echo $$ >> pids; sleep 100", tmp_path))
            except ToolError as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(3 * MOST_BACKGROUND):
                nursery.start_soon(start)
        assert len(refused) == 2 * MOST_BACKGROUND
        await until(lambda: len((tmp_path / "pids").read_text().split()) == MOST_BACKGROUND)
    pids = list(map(int, (tmp_path / "pids").read_text().split()))
    await until(lambda: not any(map(alive, pids)))


async def test_nothing_runs_on_when_the_runtime_ends(tmp_path: Path) -> None:
    @asynccontextmanager
    async def cancelled() -> AsyncIterator[None]:
        with trio.CancelScope() as scope:
            yield
            scope.cancel()
            await trio.lowlevel.checkpoint()

    async with cancelled(), open_shells() as shells:
        await shells.start("s", sh("echo $$ > pid; sleep 100", tmp_path))
        pid = await number_in(tmp_path / "pid")
    await until(lambda: not alive(pid))


def test_the_guard_kills_what_is_left_and_lets_be_what_is_over() -> None:
    guard = Guard()
    left, over = (begin_guarded(guard, "echo begun; sleep 100") for _ in range(2))
    guard.forget(over.pid)
    guard.close()
    try:
        assert left.wait(10) == -9
        assert over.poll() is None
    finally:
        os.killpg(over.pid, 9)
        over.wait()


def begin_guarded(guard: Guard, command: str) -> subprocess.Popen[bytes]:
    words = guard.announced(["bash", "-c", command])
    begun = subprocess.Popen(words, stdin=guard.pipe(), stdout=subprocess.PIPE, start_new_session=True)
    assert begun.stdout is not None
    with begun.stdout as told:
        assert told.readline() == b"begun\n"
    return begun


async def test_a_guard_that_somebody_has_killed_is_replaced(call: Call, shells: Shells) -> None:
    assert await call("echo one") == "one\n"
    first = shells.guard._process
    assert first is not None
    first.kill()
    first.wait()
    assert await call("echo two; cat", timeout=5) == "two\n"
    assert shells.guard._process is not first


async def test_a_command_is_what_it_was_for_all_the_watching(call: Call) -> None:
    """The shell that announced it is gone: number, parent, signals and open files are those of a command."""
    told = str(await refusal(call("test $$ = $(ps -o pgid= $$) && readlink /proc/$$/fd/*; trap; kill -PIPE $$")))
    assert told.startswith("the command was ended by SIGPIPE; it printed:\n/dev/null\npipe:")
    assert len(told.splitlines()) <= 5
