"""The machine of one trial: a home of its own, the fakes, and the commands of Bub as a person would type them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.compat.environments import UV, uv_cache
from tests.compat.names import Names
from tests.compat.services.model import Model
from tests.compat.services.web import Service
from tests.compat.trial import Trial

SYSTEM = "/usr/local/bin:/usr/bin:/bin"
LONGEST_COMMAND = 180.0
PATIENCE = 15.0
"""Seconds that a gateway has to end."""

Any_Service = TypeVar("Any_Service", bound=Service)


class CommandError(AssertionError):
    """A command of Bub failed."""


class World:
    """One trial's folder, services and processes."""

    def __init__(self, folder: Path, commands: Path, trial: Trial) -> None:
        self.folder, self.commands, self.plugin = folder, commands, trial.plugin
        self.home, self.workspace = folder / "home", folder / "work"
        self.bub_home, self.file = self.home / ".bub", self.workspace / "pipelines.yaml"
        for each in (self.bub_home, self.workspace):
            each.mkdir(parents=True)
        own = {trial.plugin: self.begin_with(trial)}
        beside = {package.removeprefix("bub-"): settings for package, settings in trial.beside.items()}
        self.settings: dict[str, dict[str, Any]] = {name: dict(each) for name, each in (own | beside).items()}
        self.folders: list[str] = []
        """The packages that the trial is about."""
        self.root: dict[str, Any] = {}
        """Settings of Bub itself."""
        self.profile: dict[str, Any] = {}
        self.variables: dict[str, str] = {}
        self.model = Model()
        self._stack = contextlib.AsyncExitStack()
        self._names = Names(folder)

    @staticmethod
    def begin_with(trial: Trial) -> Mapping[str, Any]:
        """Its section before it is onboarded."""
        return {name: value for name, value in trial.settings.items() if name not in trial.asked}

    async def __aenter__(self) -> World:
        await self.serve(self.model)
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._stack.aclose()

    async def serve(self, service: Any_Service) -> Any_Service:
        """Open a service for the length of the trial."""
        runner = await self._names.open(service)
        self._stack.push_async_callback(runner.cleanup)
        return service

    def configure(self, **settings: Any) -> None:
        """Add settings to the plugin's section."""
        self.settings[self.plugin] |= settings

    @property
    def basics(self) -> dict[str, Any]:
        """Who answers."""
        return {"model": "openai:fake", "api_base": f"{self.model.address}/v1", **self.root}

    def write(self, *, nobody: bool = False) -> None:
        """Write the pipeline file; with `nobody`, as it is before the plugin is added."""
        document = {
            "version": 1,
            "extends": "bub:default",
            "settings": {**self.basics, **self.settings},
            "plugins": {name: {"runtime": "asyncio"} for name in self.settings},
            "profiles": {"default": {"plugins": list(self.settings), "tools": {"allow": ["*"]}, **self.profile}},
        }
        if nobody:
            document |= {"settings": self.basics, "plugins": {}, "profiles": {"default": {"plugins": []}}}
        self.file.write_text(json.dumps(document, indent=1))

    def put(self, name: str, script: str) -> None:
        """Put a program on the PATH, written in Python."""
        file = self.folder / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!{sys.executable}\n{script}")
        file.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """That of a person who has only this installation."""
        return {
            "HOME": str(self.home),
            "BUB_HOME": str(self.bub_home),
            "BUB_CONFIG": str(self.file),
            "BUB_API_KEY": "sk-fake",
            "PATH": os.pathsep.join([str(self.folder / "bin"), str(self.commands), SYSTEM]),
            "LANG": "C.UTF-8",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
            **self._names.variables,
            **self.variables,
        }

    async def start(
        self, *command: str, log: Path, environment: Mapping[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        """Start a process of the trial, its output in `log`."""
        with log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *command,
                cwd=self.workspace,
                env=environment or self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if log.name == "command.log" else output,
                stderr=output,
                start_new_session=True,
            )

    async def bub(self, *arguments: str) -> str:
        """Run a command of Bub to its end; return what it printed. Raises CommandError if it fails."""
        self.write()
        return await self.command(str(self.commands / "bub"), *arguments)

    async def add(self, *packages: str) -> None:
        """Let Bub install packages, out of the network and the cache that whoever runs the trials has."""
        self.write(nobody=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_", "HTTP"))}
        own = {name: value for name, value in self.environment.items() if name not in self._names.variables}
        path = os.pathsep.join([own["PATH"], str(Path(UV).parent)])
        environment = {**kept, **own, "UV_CACHE_DIR": uv_cache(), "PATH": path}
        command = (str(self.commands / "bub"), "plugins", "add", "--build", "--yes", *packages)
        await self.command(*command, environment=environment)

    async def python(self, script: str, *arguments: str) -> str:
        """Run a program with what the trial's environment has, such as the client of a protocol."""
        return await self.command(str(self.commands / "python"), "-c", script, *arguments)

    async def command(self, *command: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a command to its end; return what it printed. Raises CommandError if it fails."""
        said = f"{Path(command[0]).name} {command[1]}"
        log = self.folder / "command.log"
        log.unlink(missing_ok=True)
        process = await self.start(*command, log=log, environment=environment)
        try:
            output, _ = await asyncio.wait_for(process.communicate(), LONGEST_COMMAND)
        except TimeoutError:
            raise CommandError(f"{said} took over {LONGEST_COMMAND:g} s") from None
        finally:
            await end(process)
        if process.returncode:
            raise CommandError(f"{said} failed: {last_words(output.decode() + log.read_text())}")
        return output.decode()

    @contextlib.asynccontextmanager
    async def gateway(self) -> AsyncIterator[None]:
        """Let `bub gateway` run for the length of the block."""
        self.write()
        log = self.folder / "gateway.log"
        process = await self.start(str(self.commands / "bub"), "gateway", log=log)
        try:
            yield
        except AssertionError as error:
            if process.returncode is None:
                raise
            raise CommandError(f"bub gateway ended by itself ({error}): {last_words(log.read_text())}") from None
        finally:
            await end(process)

    async def run(self, message: str) -> str:
        """One turn; return its answer."""
        return await self.bub("run", message)


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process as a service manager does, and then for good with its children."""
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), PATIENCE)
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def last_words(text: str) -> str:
    """The last lines of a log, in one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-400:]
