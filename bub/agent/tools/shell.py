"""The tools for commands: `bash`, and `bash.output` and `bash.kill` for those that run in the background."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal

import msgspec
import trio
from msgspec import Meta

from bub.agent.confine.machine import find_lack
from bub.agent.tools.git import plain_environment
from bub.agent.tools.guard import Guard
from bub.agent.tools.output import Output
from bub.agent.tools.reach import Reach
from bub.inbox.started import MARK
from bub.pipeline.plan.secret_values import secrets_among
from bub.pipeline.source.schemas import whole_settings_schema
from bub.secrets.names import SECRET_IN_ADDRESS, SECRET_VARIABLE
from bub.tools import Tool, ToolContext, ToolError, tool

MOST_BACKGROUND = 16
"""How many commands of one session may run in the background at once."""

GRACE = 2.0
"""How long, in seconds, a command that is ended may take to do it by itself."""

_REST = 0.5
"""How long, in seconds, what an ended command has printed is waited for, where somebody still holds its output."""

_SHORTEST_SECRET = 4
"""A text of fewer characters would be found in every other variable."""

_NOT_FOR_CHILDREN = frozenset({"BASH_ENV", "ENV"})
"""Files that every shell would run first."""


def find_shell() -> str:
    """The program that commands are handed to."""
    return shutil.which("bash") or "/bin/sh"


def child_environment(environ: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, str]:
    """The environment for a command: without Bub's own variables and without what can be a key (BEHAVIOURS A26).

    Left out are names such as `…_KEY` and `…_TOKEN`, addresses with a password, and whatever holds a secret of the
    settings. The setting `bash.env` lists names that are passed on all the same.
    """
    let_through = set((settings.get("bash") or {}).get("env") or ())
    found = secrets_among(settings, whole_settings_schema(settings))
    secrets = {secret for secret in found if len(secret) >= _SHORTEST_SECRET}
    return {
        name: value
        for name, value in environ.items()
        if name in let_through
        or not (
            name.upper().startswith("BUB_")
            or name in _NOT_FOR_CHILDREN
            or re.search(SECRET_VARIABLE, name)
            or re.search(SECRET_IN_ADDRESS, value)
            or any(secret in value for secret in secrets)
        )
    }


class ShellProcess(msgspec.Struct):
    """A command that was started, in a process group of its own."""

    process: trio.Process
    output: Output
    guard: Guard
    began: float
    _swept: bool = False

    @classmethod
    async def start(cls, words: Sequence[str], guard: Guard, *, cwd: str, env: Mapping[str, str]) -> ShellProcess:
        """Start a program; `ToolError` when that is not possible. Nothing can be typed into it."""
        output = Output(trio.lowlevel.current_trio_token())
        try:
            reading, writing = os.pipe()
        except OSError as error:
            raise _explain_start(error) from None
        try:
            # First of all: who cannot be read from must not run.
            output.read_in_thread(reading)
            process = await trio.lowlevel.open_process(
                guard.announced(words),
                stdin=guard.pipe(),
                stdout=writing,
                stderr=writing,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise _explain_start(error) from None
        finally:
            os.close(writing)
        return cls(process, output, guard, trio.current_time())

    @property
    def ended(self) -> str | None:
        """How it ended, None while it runs."""
        code = self.process.returncode
        if code is None:
            return None
        if code >= 0:
            return f"ended with exit code {code}"
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
        return f"was ended by signal {-code}"

    async def watch(self) -> None:
        """Wait until it ends by itself, and end what it leaves running."""
        await self.process.wait()
        self._sweep()

    async def wait_for_output(self, offset: int, text: str = "") -> bool:
        """Wait until it has printed something from a byte on, or `text`; False if it ended without that."""
        has_come = False
        async with trio.open_nursery() as nursery:

            async def wait_for_end() -> None:
                await self.process.wait()
                with trio.move_on_after(_REST):
                    await self.output.ended.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait_for_end)
            has_come = await self.output.wait_for(offset, text)
            if has_come:
                nursery.cancel_scope.cancel()
        return has_come

    async def end(self) -> None:
        """End it with all of its group: asked first, and killed when it takes longer than `GRACE`.

        A cancelled turn waits for it, which is bounded: nothing that was cancelled goes on in secret.
        """
        with trio.CancelScope(shield=True):
            if self.process.returncode is None:
                self._signal(signal.SIGTERM)
                with trio.move_on_after(GRACE):
                    await self.process.wait()
            self._sweep()
            with trio.move_on_after(GRACE):
                await self.process.wait()
            with trio.move_on_after(_REST):
                await self.output.ended.wait()

    def _sweep(self) -> None:
        """Kill what is left of the group; once, for later its number may be that of somebody else's group."""
        if not self._swept:
            self._swept = True
            self._signal(signal.SIGKILL)
            self.guard.forget(self.process.pid)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def _explain_start(error: Exception) -> ToolError:
    return ToolError(f"the command cannot be started: {error}", kind="invalid_input")


class Shells(msgspec.Struct):
    """The commands of all sessions that run in the background, and what watches over all commands."""

    guard: Guard = msgspec.field(default_factory=Guard)
    _commands: dict[str, dict[str, ShellProcess]] = msgspec.field(default_factory=dict)
    _started: int = 0
    _changing: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def start(self, session_id: str, words: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> str:
        """Start a program in the background and return its id; `ToolError` when too many run already."""
        # One after another, as the calls of a step come all at once: whoever is counted is known, and will be ended.
        async with self._changing:
            own = self._commands.setdefault(session_id, {})
            ended = [key for key, known in own.items() if known.ended is not None]
            if len(own) - len(ended) >= MOST_BACKGROUND:
                raise ToolError(
                    f"{MOST_BACKGROUND} commands run in the background already", help="end one of them with bash.kill"
                )
            started = await ShellProcess.start(words, self.guard, cwd=cwd, env=env)
            # No task of a turn outlives the turn; this one ends with the command, which ends with `close`.
            trio.lowlevel.spawn_system_task(started.watch)
            for key in ended[: max(0, len(own) - MOST_BACKGROUND + 1)]:
                del own[key]
            self._started += 1
            own[f"b{self._started}"] = started
            return f"b{self._started}"

    def find(self, session_id: str, key: str) -> ShellProcess:
        """A command of this session; `ToolError` when it has none of that id."""
        own = self._commands.get(session_id, {})
        if key not in own:
            there = ", ".join(own) or "none"
            raise ToolError(f"there is no command `{key}` in the background", help=f"there are: {there}")
        return own[key]

    async def kill_session(self, session_id: str) -> None:
        """End all commands of a session."""
        async with self._changing:
            commands = list(self._commands.pop(session_id, {}).values())
        await _end_all(commands)

    async def close(self) -> None:
        """End all commands of all sessions, also where that is cancelled."""
        with trio.CancelScope(shield=True):
            async with self._changing:
                commands = [command for own in self._commands.values() for command in own.values()]
                self._commands.clear()
            await _end_all(commands)
            self.guard.close()


async def _end_all(commands: list[ShellProcess]) -> None:
    async with trio.open_nursery() as nursery:
        for command in commands:
            nursery.start_soon(command.end)


@asynccontextmanager
async def open_shells() -> AsyncIterator[Shells]:
    """Commands in the background, all of which end with this; to be shared by the tools of all turns."""
    shells = Shells()
    try:
        yield shells
    finally:
        await shells.close()


def shell_tools(shells: Callable[[], Awaitable[Shells]]) -> list[Tool]:
    """The tools for commands; `shells` gives what keeps those in the background."""
    return [bash.bind(shells), output.bind(shells), kill.bind(shells)]


@tool(name="bash", bound=True, command="command", reads="private", brings="untrusted", reaches="outside")
async def bash(
    shells: Callable[[], Awaitable[Shells]],
    /,
    command: Annotated[str, "What to run."],
    timeout: Annotated[float, "After how many seconds it is ended.", Meta(gt=0, le=3600)] = 30,  # noqa: ASYNC109 (the model sets it)
    cwd: Annotated[str, "The folder to run it in, from the workspace."] = ".",
    background: Annotated[
        bool, "Leave it running, without a timeout; bash.output waits for it and shows more."
    ] = False,
    *,
    context: ToolContext,
) -> str:
    """Run a shell command and return what it prints. It cannot ask anything; what it leaves running is ended."""
    if context.confinement is not None:
        raise ToolError(f"the command cannot be confined: {find_lack()}", kind="denied")
    place = Reach.of(context).place(cwd)
    with place.folder():
        env = {**child_environment(os.environ, context.settings), MARK: str(os.getpid())}
    if context.words:
        env = plain_environment(env)
    words = context.words or (find_shell(), "-c", command)
    if background:
        key = await (await shells()).start(context.session_id, words, cwd=str(place.path), env=env)
        return f"started in the background as `{key}`; bash.output waits for what it prints, bash.kill ends it"
    return await _run(words, (await shells()).guard, timeout, cwd=str(place.path), env=env)


@tool(name="bash.output", bound=True, reads="private", brings="untrusted")
async def output(
    shells: Callable[[], Awaitable[Shells]],
    /,
    id: Annotated[str, "What bash returned when it started the command."],  # noqa: A002 (the model's word)
    offset: Annotated[int, "From which byte on; each call says where to go on.", Meta(ge=0)] = 0,
    wait: Annotated[float, "How many seconds to wait at most for what `until` says.", Meta(ge=0, le=600)] = 0,
    until: Annotated[
        Literal["output", "exit"], "output: it prints something, from `offset` on; exit: it ends"
    ] = "output",
    text: Annotated[str, "Wait for this text in what it prints, not for any output."] = "",
    *,
    context: ToolContext,
) -> str:
    """Show what a command in the background has printed, and whether it still runs; wait instead of asking often."""
    command = (await shells()).find(context.session_id, id)
    state = command.ended
    if state is None and wait:
        has_come = await _wait_for(command, wait, until, offset, text)
        # How long it runs tells one wait from another: that nothing came is news, too.
        running = f"is still running after {trio.current_time() - command.began:.0f} s"
        sought = f" and has {'' if has_come else 'not '}printed `{text}`" if text else ""
        state = command.ended or f"{running}{sought}"
    if command.ended is not None:
        with trio.move_on_after(_REST):
            await command.output.ended.wait()
    printed, then = command.output.since(offset)
    gap = "" if not printed or printed.endswith("\n") else "\n"
    return f"{printed}{gap}[{id} {state or 'is still running'}; go on with offset={then}]"


async def _wait_for(command: ShellProcess, seconds: float, until: str, offset: int, text: str) -> bool:
    """Whether a command has printed within some seconds what is waited for; its end ends the wait."""
    with trio.move_on_after(seconds):
        if until == "output" or text:
            return await command.wait_for_output(offset, text)
        await command.process.wait()
    return False


@tool(name="bash.kill", bound=True, reaches=None)
async def kill(
    shells: Callable[[], Awaitable[Shells]],
    /,
    id: Annotated[str, "What bash returned when it started the command."],  # noqa: A002 (the model's word)
    *,
    context: ToolContext,
) -> str:
    """End a command in the background, with everything it has started."""
    command = (await shells()).find(context.session_id, id)
    before = command.ended
    await command.end()
    return f"{id} {before or 'was running and is ended now'}"


async def _run(words: Sequence[str], guard: Guard, seconds: float, *, cwd: str, env: Mapping[str, str]) -> str:
    """Run a command to its end; `ToolError` with what it printed when it fails or takes too long (BEHAVIOURS A26)."""
    started = await ShellProcess.start(words, guard, cwd=cwd, env=env)
    try:
        with trio.move_on_after(seconds) as scope:
            await started.process.wait()
    finally:
        # What it left in the background was never asked for.
        await started.end()
    text = started.output.text()
    if scope.cancelled_caught:
        said = f"the command took longer than {seconds:g} s and was ended"
        raise ToolError(f"{said}; it printed:\n{text}" if text else f"{said}; it printed nothing", kind="timeout")
    if started.process.returncode != 0:
        said = f"the command {started.ended}"
        raise ToolError(f"{said}; it printed:\n{text}" if text else f"{said} and printed nothing")
    return text or "[it printed nothing]"
