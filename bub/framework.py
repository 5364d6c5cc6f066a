"""`BubFramework` makes turns of a pipeline file and its plugins: here everything is put together."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from bub.agent.builtin import BuiltinPlugin
from bub.base.diagnostics import Diagnostic, PipelineError, without_notes
from bub.base.locate import DOTENV, FILE_NAME
from bub.hooks.implementations import Implementation
from bub.pipeline.check.ignores import ignores_of, settle
from bub.pipeline.plan.layers.person import read_person
from bub.pipeline.plan.schedules.schedule import Schedule
from bub.pipeline.source.merge import DEFAULT_PROFILE, Document
from bub.runtime.bootstrap import check_channels
from bub.runtime.commands import collect_commands
from bub.runtime.generations import Generation
from bub.runtime.loader import find_document, load
from bub.runtime.needs import check_needs
from bub.runtime.plugin_view import PluginView
from bub.runtime.result import TurnResult
from bub.runtime.runtime import Learn, Runtime
from bub.runtime.snapshot import Snapshot, files_of
from bub.runtime.view import RuntimeView
from bub.telemetry import late
from bub.telemetry.wanted import is_wanted

__all__ = ["BubFramework", "TurnResult", "load_pipeline"]

_OWN_COMMANDS, _COMMAND_LINE = "bub.cli.table:COMMANDS", "bub.cli.root:assemble"
"""The command line that a program can ask for: named here, since nothing below it imports it."""

load_pipeline = partial(load, builtin=BuiltinPlugin)
"""`load` with the plugin that is in every profile."""


class BubFramework(RuntimeView):
    """The runtime: finds the pipeline file, loads what the profile allows, compiles it and runs turns.

    `config_file` is a path, or `bub:NAME` for a shipped pipeline; left out, the file is looked for as DESIGN §2 says.
    `profile` is the one chosen at start (else `BUB_PROFILE`, else `default`), `workspace` the folder the agent works
    in (else the current one). If not `routed`, that profile takes every turn, and no plugin of another one is imported.
    If the file is only checked here and runs `elsewhere`, what this machine does not set is noted, and nothing is taken
    from the person's own file. Nothing is read before `load_hooks`.
    """

    def __init__(
        self,
        config_file: str | Path | None = None,
        *,
        profile: str | None = None,
        workspace: str | Path | None = None,
        routed: bool = True,
        elsewhere: bool = False,
    ) -> None:
        super().__init__(
            profile or os.environ.get("BUB_PROFILE") or DEFAULT_PROFILE,
            Path(workspace) if workspace is not None else Path.cwd(),
        )
        self.config_file = str(config_file) if config_file is not None else None
        self._routed, self._elsewhere = routed, elsewhere
        self._needs_all = False
        self._runtime = Runtime(self.workspace, read=self._read, load=self._load)

    def _read(self) -> Document:
        return find_document(self.config_file, self.workspace, os.environ)

    def _load(self, document: Document, learn: Learn) -> Snapshot:
        snapshot = load_pipeline(
            document,
            learn,
            profile=self.profile,
            workspace=self.workspace,
            environ=dict(os.environ),
            routed=self._routed,
            person=read_person(document, os.environ) if not self._elsewhere else None,
            elsewhere=self._elsewhere,
            recast=self._recast,
            give_way=self._runtime.give_way,
            hosts=self._runtime.hosts,
        )
        if self._needs_all:
            try:
                check_needs(snapshot, os.environ)
            except PipelineError:
                snapshot.let_go()
                raise
        return snapshot

    def _recast(self, profile: str, stage: str, found: tuple[Implementation, ...]) -> tuple[Implementation, ...]:
        """Time the implementations of a stage if telemetry is wanted; nobody is timed if not."""
        if self._elsewhere or not is_wanted(self.settings, os.environ):
            return found
        timed: tuple[Implementation, ...] = late.time_slow(late.read_slow(self), profile, stage, found)
        return timed

    # Loading.

    def load_hooks(self) -> None:
        """Find the pipeline file, load the plugins of its profiles and compile; once, later calls do nothing.

        Raises `UsageError` if a named file does not exist, `NotTrustedError` if the workspace's file may not be used
        yet, and `PipelineError` with every finding if the pipeline does not compile.
        """
        self._runtime.load()

    def reload(self, require: Callable[[Document], None] | None = None) -> None:
        """Reload the pipeline file and its plugins: turns that begin from now on run on what is loaded then.

        Turns under way end on what they began with. Channels, the tape store and commands stay as they were at the
        start. `require` sees what was read before anything of it is imported, and may refuse it with a `BubError`. May
        be called in a thread. Raises what `load_hooks` raises, and then nothing has changed.
        """
        self._runtime.reload(require)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[BubFramework]:
        """Open the runtime: the tape store and what plugins share stay open until the block is left.

        It cannot be opened twice at once (BEHAVIOURS T37); everything is closed in reverse order, whatever fails.
        """
        hooks = self._get_profile().hooks
        async with AsyncExitStack() as opened:
            if is_wanted(self.settings, os.environ):
                await opened.enter_async_context(late.open_telemetry(self, os.environ, self._runtime.keep_secret))
            await opened.enter_async_context(self._runtime.open(partial(hooks.call_first_sync, "provide_tape_store")))
            yield self

    def keep_secret(self, texts: Iterable[str]) -> None:
        """From now on, cover these strings in the log and in what is kept or shown of a turn."""
        self._runtime.keep_secret(texts)

    def create_cli_app(self) -> Any:
        """Return a Typer application with Bub's own commands and those that the profile's plugins register.

        Bub's own use the file, the workspace and the profile of this framework unless a command line names others.
        Raises `PipelineError` if two commands have one name (`collect_commands`).
        """
        brought, warnings = collect_commands(self._get_profile(), resolve_name(_OWN_COMMANDS))
        self._runtime.loaded.current.warn(warnings)
        chosen = {"config": self.config_file, "workspace": str(self.workspace), "profile": self.profile}
        return resolve_name(_COMMAND_LINE)(brought, chosen)

    def check_channels(self) -> None:
        """Prove that there are the channels that the profile opens; raises `PipelineError` if not."""
        self._runtime.loaded.current.warn(check_channels(self._get_profile()))

    def check_needs(self) -> None:
        """Prove that turns find what they need of this machine, now and at each `reload`: see `bub/runtime/needs.py`.

        Raises `PipelineError` if not.
        """
        self._needs_all = True
        check_needs(self._runtime.loaded.current.snapshot, os.environ)

    # What is loaded; before that, what was found so far.

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of this profile, references replaced and the environment's own laid over them."""
        latest, found = self._runtime.loaded.latest, self._runtime.settings
        return latest.profiles[self.profile].settings if latest is not None else found.get(self.profile, {})

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that can get a turn: the one chosen at start, those of routes, and those sessions may choose."""
        latest = self._runtime.loaded.latest
        found = latest.profiles if latest is not None else self._runtime.settings
        return tuple(dict.fromkeys((self.profile, *found)))

    @property
    def generation(self) -> Generation:
        """The pipeline as it was loaded last, on which turns that begin now run."""
        return self._in_use().loaded.current

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules of the profile chosen at start, as they are loaded now, in the order of the file."""
        latest = self._runtime.loaded.latest
        return latest.snapshot.schedules if latest is not None else ()

    def seen_by(self, profile: str) -> RuntimeView:
        """The same runtime as the plugins of one of its `profiles` see it: with its settings, plugins and tools."""
        if self._runtime.loaded.latest is None:
            return PluginView(profile, self.workspace, self._runtime.settings.get(profile, {}), self._runtime.mask)
        return super().seen_by(profile)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The findings that keep nothing from running, without those that the files ignore."""
        return without_notes(self.not_ignored(self.findings))

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """The `warnings`, and notes about what may be intended."""
        latest = self._runtime.loaded.latest
        return latest.warnings if latest is not None else ()

    def not_ignored(self, findings: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Return the findings that no comment in the files silences; errors are never silenced."""
        document = self._runtime.document
        return settle(findings, ignores_of(document) if document is not None else ())

    @property
    def sources(self) -> Mapping[str, str]:
        """The text of every file that was read last, by the name findings give it; also if it was refused."""
        return self._runtime.document.sources if self._runtime.document is not None else {}

    @property
    def watched_files(self) -> tuple[Path, ...]:
        """The files that a `reload` reads again, whether or not they exist; those of one that was refused as well."""
        read, latest = self._runtime.document, self._runtime.loaded.latest
        loaded = latest.snapshot.own_files if latest is not None else ()
        beside = (read.base / DOTENV,) if read is not None and read.base is not None else ()
        own = (self.home / FILE_NAME, self.home / DOTENV)
        return tuple(dict.fromkeys((*loaded, *(files_of(read) if read is not None else ()), *beside, *own)))

    def _snapshot(self) -> Snapshot:
        return self.generation.snapshot

    def _living(self) -> Runtime:
        return self._runtime

    def _in_use(self) -> Runtime:
        self._runtime.load()
        return self._runtime
