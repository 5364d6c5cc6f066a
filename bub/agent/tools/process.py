"""A program that was started for a command: watched, and ended with all that it has started."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import trio

from bub.agent.confine.machine import Confined
from bub.agent.tools.guard import OF_COMMAND, Guard, kill_marked
from bub.agent.tools.output import Output
from bub.tools import ToolError

GRACE = 2.0
"""How long, in seconds, a command that is ended may take to do it by itself."""

REST = 0.5
"""How long, in seconds, what an ended command has printed is waited for, where somebody still holds its output."""


class Launch(msgspec.Struct, frozen=True):
    """A program that is to be started: its words, where, with which environment, and how it is confined, if it is."""

    words: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    confined: Confined | None = None


class ShellProcess(msgspec.Struct):
    """A command that was started, in a process group of its own; `mark` is in the environment of what it starts."""

    process: trio.Process
    output: Output
    guard: Guard
    mark: str
    began: float
    _swept: bool = False

    @classmethod
    async def start(cls, launch: Launch, guard: Guard) -> ShellProcess:
        """Start a program; `ToolError` if that is not possible. Nothing can be typed into it."""
        words, env, mark = launch.words, dict(launch.env), ""
        if launch.confined is None:
            mark = env[OF_COMMAND] = guard.make_mark()
        output = Output(trio.lowlevel.current_trio_token())
        try:
            reading, writing = os.pipe()
        except OSError as error:
            raise _explain_start(error) from None
        passed = []
        try:
            if launch.confined is not None:
                passed.append(launch.confined.open_filter())
                words = (*launch.confined.words(launch.cwd, passed[0]), *words)
                env |= launch.confined.environment
            # First of all: who cannot be read from must not run.
            output.read_in_thread(reading)
            process = await trio.lowlevel.open_process(
                guard.announced(words),
                stdin=guard.pipe(),
                stdout=writing,
                stderr=writing,
                cwd=launch.cwd,
                env=env,
                start_new_session=True,
                pass_fds=passed,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise _explain_start(error) from None
        finally:
            for descriptor in (writing, *passed):
                os.close(descriptor)
        return cls(process, output, guard, mark, trio.current_time())

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
        await self._sweep()

    async def wait_for_output(self, offset: int, text: str = "") -> bool:
        """Wait until it has printed something from a byte on, or `text`; False if it ended without that."""
        has_come = False
        async with trio.open_nursery() as nursery:

            async def wait_for_end() -> None:
                await self.process.wait()
                with trio.move_on_after(REST):
                    await self.output.ended.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(wait_for_end)
            has_come = await self.output.wait_for(offset, text)
            if has_come:
                nursery.cancel_scope.cancel()
        return has_come

    async def end(self) -> None:
        """End it with all of its group: Bub asks it to end, and kills it after `GRACE`.

        A cancelled turn waits for it, for a bounded time: nothing that was cancelled goes on in secret.
        """
        with trio.CancelScope(shield=True):
            if self.process.returncode is None:
                self._signal(signal.SIGTERM)
                with trio.move_on_after(GRACE):
                    await self.process.wait()
            await self._sweep()
            with trio.move_on_after(GRACE):
                await self.process.wait()
            with trio.move_on_after(REST):
                await self.output.ended.wait()

    async def _sweep(self) -> None:
        """Kill what is left of it; once, for later the number of its group may be that of somebody else's."""
        if not self._swept:
            self._swept = True
            self._signal(signal.SIGKILL)
            self.guard.forget(self.process.pid)
            if self.mark:
                await trio.to_thread.run_sync(kill_marked, self.mark)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def _explain_start(error: Exception) -> ToolError:
    return ToolError(f"the command cannot be started: {error}", kind="invalid_input")
