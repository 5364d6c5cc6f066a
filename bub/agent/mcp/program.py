"""A server that is a program: started with few variables, read line by line, and ended with all that it has started."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from bub.agent.mcp.errors import ServerError
from bub.agent.tools.guard import OF_COMMAND, Guard, kill_marked
from bub.base.failures import explain_os_error
from bub.inbox.started import MARK
from bub.log import log_info
from bub.plugins.servers import ServerSpec

GIVEN = ("PATH", "HOME", "LANG", "TMPDIR")
"""The variables of Bub that a server gets; all others have to be named in the file."""

GRACE = 2.0
"""How long, in seconds, a server may take to end by itself: when nobody talks to it, and again when it is asked to."""

LONGEST_LINE = 16 * 1024 * 1024
"""How many bytes a message may have."""

_CHUNK = 64 * 1024
_LONGEST_WORDS, _MOST_WORDS = 500, 5
_MOST_LOGGED = 200
"""How many lines of what a server complains of reach the log; what it says later is left out."""


def environment_for(spec: ServerSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return all that a server knows of the environment of Bub, and what the file gives it."""
    given = {name: environ[name] for name in GIVEN if environ.get(name)}
    return {"TMPDIR": tempfile.gettempdir(), **given, **spec.env}


class Program(msgspec.Struct):
    """A server that was started, in a process group of its own. `last_words` are the lines it complained of last."""

    spec: ServerSpec
    process: trio.Process
    guard: Guard
    mark: str
    last_words: deque[str] = msgspec.field(default_factory=lambda: deque(maxlen=_MOST_WORDS))
    _buffer: bytearray = msgspec.field(default_factory=bytearray)
    _searched: int = 0
    _writing: trio.Lock = msgspec.field(default_factory=trio.Lock)

    @classmethod
    async def start(cls, spec: ServerSpec, folder: Path, environ: Mapping[str, str], guard: Guard) -> Program:
        """Start a server. Raises `ServerError` if that is not possible."""
        mark = guard.make_mark()
        env = {**environment_for(spec, environ), OF_COMMAND: mark, MARK: str(os.getpid())}
        try:
            guard.pipe()
            process = await trio.lowlevel.open_process(
                spec.command,
                stdin=-1,
                stdout=-1,
                stderr=-1,
                cwd=folder,
                env=env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = explain_os_error(error) if isinstance(error, OSError) else str(error)
            raise ServerError(f"`{spec.command[0]}` cannot be started: {reason}") from None
        guard.watch(process.pid)
        return cls(spec, process, guard, mark)

    async def read_line(self) -> bytes | None:
        """Return the next line that it prints; None at the end. Raises `ServerError` for one that is too long."""
        stream = self.process.stdout
        assert stream is not None
        while True:
            at = self._buffer.find(b"\n", self._searched)
            if at >= 0:
                line = bytes(self._buffer[:at])
                del self._buffer[: at + 1]
                self._searched = 0
                return line
            self._searched = len(self._buffer)
            if self._searched > LONGEST_LINE:
                raise ServerError(f"it has sent a message of more than {LONGEST_LINE // 2**20} MB")
            try:
                chunk = await stream.receive_some(_CHUNK)
            except (trio.ClosedResourceError, trio.BrokenResourceError):
                return None
            if not chunk:
                return None
            self._buffer += chunk

    async def write_line(self, line: bytes) -> None:
        """Write a line to it. Raises `trio.BrokenResourceError` if it does not listen any more."""
        stream = self.process.stdin
        assert stream is not None
        async with self._writing:
            try:
                await stream.send_all(line + b"\n")
            except trio.Cancelled:
                await trio.aclose_forcefully(stream)  # half a line may be written: nothing could follow it
                raise

    async def hear_complaints(self) -> None:
        """Take what it writes to stderr, as long as it does: the log gets the first lines, with all secrets covered."""
        stream = self.process.stderr
        assert stream is not None
        rest, logged = b"", 0
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            while chunk := await stream.receive_some(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[:_LONGEST_WORDS]
                for line in lines[-_MOST_LOGGED:]:
                    words = line.decode(errors="replace").strip()[:_LONGEST_WORDS]
                    if not words:
                        continue
                    self.last_words.append(words)
                    if logged < _MOST_LOGGED:
                        logged += 1
                        log_info("mcp.stderr", server=self.spec.name, line=words)
        if rest.strip():
            self.last_words.append(rest.decode(errors="replace").strip())

    @property
    def ended(self) -> str:
        """How it ended, with what it complained of last; "" while it runs."""
        code = self.process.returncode
        if code is None:
            return ""
        how = f"it ended with exit code {code}"
        if code < 0:
            with suppress(ValueError):
                how = f"it was ended by {signal.Signals(-code).name}"
        return f"{how}: {self.last_words[-1]}" if self.last_words else how

    async def end(self) -> None:
        """End it with all that it has started: first close its input, then ask it to end, then kill it."""
        with trio.CancelScope(shield=True):
            for step in (self._hang_up, self._ask_to_end, self._kill):
                await step()
                with trio.move_on_after(GRACE):
                    await self.process.wait()
                    break
            self._signal(signal.SIGKILL)  # what it has left running in its group
            self.guard.forget(self.process.pid)
            await trio.to_thread.run_sync(kill_marked, self.mark)
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                assert stream is not None
                await trio.aclose_forcefully(stream)

    async def _hang_up(self) -> None:
        assert self.process.stdin is not None
        await trio.aclose_forcefully(self.process.stdin)

    async def _ask_to_end(self) -> None:
        self._signal(signal.SIGTERM)

    async def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)
