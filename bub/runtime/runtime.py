"""The runtime: what lives while snapshots come and go, such as tapes, turns and shared resources."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from bub.base.counts import Counts
from bub.base.scopes import Scope, as_manager
from bub.errors import BubError, UsageError
from bub.log import cover, log_info, log_warning
from bub.pipeline.source.merge import Document
from bub.runtime.generations import Generation, Loaded
from bub.runtime.hosts.hosts import Hosts
from bub.runtime.snapshot import Snapshot, find_fixed_at_start
from bub.runtime.turns import Turns
from bub.runtime.under_way import turn_under_way
from bub.secrets.redactor import Redactor

_T = TypeVar("_T")

REST = 0.0002
"""How long, in seconds, a thread sleeps to let others have the interpreter: by itself it would keep it for 5 ms."""


class TooEarlyError(BubError):
    """A plugin asked for something that is not there while its profile is being loaded."""

    def __init__(self) -> None:
        super().__init__(
            "a plugin asked for what is loaded while it was being loaded itself",
            help="do that in a hook, or when the runtime is running",
        )


Learn: TypeAlias = Callable[[Mapping[str, Mapping[str, Any]], Redactor], None]
"""Gets, before a plugin is imported, the settings of the profiles so far and what covers their secrets."""


class Runtime:
    """Runs turns on the snapshot it took last; `workspace` is the folder the agent works in.

    `read` finds the pipeline file and reads it, `load` makes a snapshot of that; both are called for every reload.
    `hosts` are those of its plugins. `document` is what was read last, also if it was refused, and `settings` are those
    that were found in it, by profile. `mask` covers the secrets of all that was ever read: a key that was changed is
    still a key.
    """

    def __init__(
        self,
        workspace: Path,
        *,
        read: Callable[[], Document],
        load: Callable[[Document, Learn], Snapshot],
        hosts: Hosts | None = None,
    ) -> None:
        self.hosts = hosts or Hosts()
        self.counts = Counts()
        self.loaded = Loaded()
        self.turns = Turns(self.loaded, workspace)
        self.document: Document | None = None
        self.settings: Mapping[str, Mapping[str, Any]] = {}
        self.mask = Redactor(())
        self._read = read
        self._load = load
        self._told_of_reloads: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._is_loading = False

    # Loading.

    def load(self) -> None:
        """Read the pipeline file and load it; once, later calls do nothing.

        Raises what reading and loading raise, and `TooEarlyError` in what is being loaded itself.
        """
        if self.loaded.latest is None:
            with self._loading():
                if self.loaded.latest is None:
                    self.document = self._read()
                    self._take(self._load(self.document, self._learn))

    def reload(self, require: Callable[[Document], None] | None = None) -> None:
        """Reload the pipeline file and its plugins: turns that begin from now on run on what is loaded then.

        Turns under way end on what they began with: graph, settings, tools, and the code of plugins with a `path`.
        What cannot change while it runs stays as it was at the start: which channels there are, the tape store and
        commands. `require` sees what was read before anything of it is imported, and may refuse it with a `BubError`.
        May be called in a thread. Raises what `load` raises, and then nothing has changed.
        """
        with self._loading():
            old = self.loaded.latest
            try:
                document = self.document = self._read()
                if old is not None:
                    _require_same_file(old.snapshot.document, document)
                if require is not None:
                    require(document)
                new = self._take(self._load(document, self._learn))
            except BubError as error:
                log_warning("pipeline.reload_refused", error=error)
                raise
        log_info("pipeline.reloaded", generation=new.number)
        for fixed in find_fixed_at_start(self.loaded.kept[0].snapshot, new.snapshot):
            log_warning("pipeline.restart_needed", **fixed)
        for tell in tuple(self._told_of_reloads):
            tell()

    @contextmanager
    def when_reloaded(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call `tell` after every reload until the block is left, in the thread that reloads."""
        self._told_of_reloads.append(tell)
        try:
            yield
        finally:
            self._told_of_reloads.remove(tell)

    def give_way(self) -> None:
        """Let turns go on, if there may be some, in the middle of long work in another thread."""
        if self.loaded.scope is not None:
            time.sleep(REST)

    @contextmanager
    def _loading(self) -> Iterator[None]:
        """Keep other threads from loading meanwhile."""
        with self._lock:
            if self._is_loading:
                raise TooEarlyError
            self._is_loading = True
            try:
                yield
            finally:
                self._is_loading = False

    def _learn(self, settings: Mapping[str, Mapping[str, Any]], mask: Redactor) -> None:
        """Know the settings of what is being loaded, and cover their secrets before a plugin can tell them."""
        self.settings = settings
        self.mask = self.mask.beside(mask)
        cover(self.mask)

    def keep_secret(self, values: Iterable[str]) -> None:
        """Cover further strings that nobody may see, from now on."""
        self.mask = self.mask.beside(Redactor.of(values))
        cover(self.mask)

    def _take(self, snapshot: Snapshot) -> Generation:
        """Run new turns on a snapshot, and let its plugins ask for what lives here."""
        try:
            generation = self.loaded.begin(snapshot)
        except BaseException:
            snapshot.let_go()
            raise
        for profile in snapshot.profiles.values():
            profile.view.bind(self, generation)
        self.loaded.use(generation)  # not sooner: a turn may begin at once, in another thread
        return generation

    # Running.

    @asynccontextmanager
    async def open(self, provide_tape_store: Callable[[], Any]) -> AsyncIterator[None]:
        """Keep open, until the block is left, the tape store that is provided and what plugins share.

        It cannot be opened twice at once (BEHAVIOURS T37); everything is closed in reverse order, whatever fails.
        """
        loaded = self.loaded
        if loaded.scope is not None:
            raise BubError("the runtime is open already", help="use the one `running()` block for all turns")
        scope = loaded.scope = Scope()
        try:
            store = provide_tape_store()
            manager = as_manager(store)
            loaded.tape_store = await scope.enter(manager) if manager is not None else store
            yield
        finally:
            loaded.scope, loaded.tape_store = None, None
            async with AsyncExitStack() as closing:  # each is closed, whatever ends the one before it
                closing.push_async_callback(self.hosts.close)
                for generation in loaded.kept:  # last of all: a tape store may be there
                    closing.push_async_callback(generation.snapshot.close_hosts)
                closing.push_async_callback(scope.close)
                for generation in loaded.kept:
                    closing.push_async_callback(generation.scope.close)

    async def shared(
        self, factory: Callable[[], AbstractAsyncContextManager[_T]], generation: Generation | None = None
    ) -> _T:
        """What `factory` opens, opened once while the runtime is open; outside of that, for the turn under way.

        What only the plugins of a `generation` know is closed with it.
        """
        scope, turn = self.loaded.scope, turn_under_way()
        if scope is None and turn is not None:
            scope = turn.open()
        elif scope is not None and generation is not None and generation.snapshot.is_source_of(factory):
            scope = generation.scope
        if scope is None:
            raise BubError("nothing is running that could keep this open", help="open `running()` first")
        return await scope.shared(factory)


def _require_same_file(old: Document, new: Document) -> None:
    """Raise `UsageError` if another file than before would be loaded."""
    if old.file != new.file:
        raise UsageError(
            f"{old.file} is not there any more, or {new.file} comes before it now",
            help="what was loaded stays; start again to use another file",
        )
