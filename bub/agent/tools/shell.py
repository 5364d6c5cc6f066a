"""The tools for commands: `bash`, and `bash.output` and `bash.kill` for those that run in the background."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import trio
from msgspec import Meta

from bub.agent.confine.machine import Confined, confine
from bub.agent.confine.room import Rooms
from bub.agent.confine.walls import UnconfinableError
from bub.agent.tools.git import plain_environment
from bub.agent.tools.guard import Guard
from bub.agent.tools.process import REST, Launch, ShellProcess
from bub.agent.tools.reach import Reach
from bub.inbox.started import MARK
from bub.pipeline.plan.secret_values import secrets_among
from bub.pipeline.source.schemas import whole_settings_schema
from bub.secrets.names import SECRET_IN_ADDRESS, SECRET_VARIABLE
from bub.tools import Tool, ToolContext, ToolError, tool

MOST_BACKGROUND = 16
"""How many commands of one session may run in the background at once."""

_SHORTEST_SECRET = 4
"""A text of fewer characters would be found in every other variable."""

_NOT_FOR_CHILDREN = frozenset({"BASH_ENV", "ENV"})
"""Files that every shell would run first."""


def find_shell() -> str:
    """Return the program that runs commands."""
    return shutil.which("bash") or "/bin/sh"


def child_environment(environ: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment for a command: without Bub's own variables, and without keys (BEHAVIOURS A26).

    It leaves out names such as `…_KEY` and `…_TOKEN`, addresses with a password, and values that hold a secret of the
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


class Shells(msgspec.Struct):
    """The commands of all sessions that run in the background, and what watches over all commands."""

    guard: Guard = msgspec.field(default_factory=Guard)
    rooms: Rooms = msgspec.field(default_factory=Rooms)
    _commands: dict[str, dict[str, ShellProcess]] = msgspec.field(default_factory=dict)
    _started: int = 0
    _changing: trio.Lock = msgspec.field(default_factory=trio.Lock)

    async def start(self, session_id: str, launch: Launch) -> str:
        """Start a program in the background and return its id; `ToolError` if too many run already."""
        # One after another, as the calls of a step come all at once: whoever is counted is known, and will be ended.
        async with self._changing:
            own = self._commands.setdefault(session_id, {})
            ended = [key for key, known in own.items() if known.ended is not None]
            if len(own) - len(ended) >= MOST_BACKGROUND:
                raise ToolError(
                    f"{MOST_BACKGROUND} commands run in the background already", help="end one of them with bash.kill"
                )
            started = await ShellProcess.start(launch, self.guard)
            # No task of a turn outlives the turn; this one ends with the command, which ends with `close`.
            trio.lowlevel.spawn_system_task(started.watch)
            for key in ended[: max(0, len(own) - MOST_BACKGROUND + 1)]:
                del own[key]
            self._started += 1
            own[f"b{self._started}"] = started
            return f"b{self._started}"

    def find(self, session_id: str, key: str) -> ShellProcess:
        """Return a command of this session; `ToolError` if it has none of that id."""
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
            await trio.to_thread.run_sync(self.rooms.leave, session_id)

    async def close(self) -> None:
        """End all commands of all sessions, also if that is cancelled."""
        with trio.CancelScope(shield=True):
            async with self._changing:
                commands = [command for own in self._commands.values() for command in own.values()]
                self._commands.clear()
            await _end_all(commands)
            self.guard.close()
            await trio.to_thread.run_sync(self.rooms.close)


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
    place = Reach.of(context).place(cwd)
    with place.folder():
        env = {**child_environment(os.environ, context.settings), MARK: str(os.getpid())}
    if context.words:
        env = plain_environment(env)
    there = await shells()
    words = context.words or (find_shell(), "-c", command)
    launch = Launch(words, str(place.path), env, await _confine(context, there.rooms))
    if background:
        key = await there.start(context.session_id, launch)
        return f"started in the background as `{key}`; bash.output waits for what it prints, bash.kill ends it"
    return await _run(launch, there.guard, timeout)


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
        with trio.move_on_after(REST):
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


async def _confine(context: ToolContext, rooms: Rooms) -> Confined | None:
    """Make ready what confines a command, None if the profile does not. `ToolError` if this machine cannot do it."""
    if context.confinement is None:
        return None
    try:
        return await trio.to_thread.run_sync(
            partial(
                confine,
                context.confinement,
                rooms,
                context.session_id,
                workspace=context.workspace,
                own_files=context.own_files,
                environ=os.environ,
            )
        )
    except (UnconfinableError, OSError) as error:
        raise ToolError(f"the command cannot be confined, so it does not run: {error}", kind="denied") from None


async def _run(launch: Launch, guard: Guard, seconds: float) -> str:
    """Run a command to its end; `ToolError` with what it printed when it fails or takes too long (BEHAVIOURS A26)."""
    started = await ShellProcess.start(launch, guard)
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
