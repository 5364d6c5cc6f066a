"""Loading the plugins that a profile lists, and no others, into a pluggy manager of their own."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import pluggy

from bub.base.diagnostics import Place, Position, Range, Related
from bub.hooks.facts import BUILTIN
from bub.hookspecs import BUB_HOOK_NAMESPACE
from bub.log import open_log
from bub.plugins import late
from bub.plugins.adoption import Adoption
from bub.plugins.failures import in_one_line, line_in, remedy_for, syntax_range
from bub.plugins.finding import ASYNCIO, Declared, ListedPlugin, Search, read_entry_points
from bub.plugins.importing import import_plugin, make_plugin
from bub.plugins.plugin_set import Host, LoadedPlugin, PluginSet, PluginStatus

_T = TypeVar("_T")


def load_plugins(
    names: Sequence[tuple[str, Place]],
    *,
    builtin: object,
    declared: Mapping[str, Declared],
    framework: object,
    base: Path | None,
    open_host: Callable[[ListedPlugin], Host] | None = None,
) -> PluginSet:
    """Import and register the plugins that a profile lists, lowest priority first, above `builtin`.

    `names` are the items of the profile's list and where each is; nothing else is imported. A `path` of
    `declared` is relative to `base`, the folder of the file that says it, so one that an extended file in another
    folder brought has to be absolute; it goes before an installed package of the same name.

    All are imported before the first one is made, so no plugin's constructor sees half of them (BEHAVIOURS H24).
    A module is a plugin itself, unless it has an attribute `plugin`, which then is the plugin; a class or another
    callable that has no hooks itself is called with `framework`, or with nothing when it takes nothing. What
    cannot be loaded becomes a finding and the others go on: B160 no such plugin, B161 one name or object twice,
    B200 it fails (a warning when it is optional). An optional plugin that is not there is no finding at all.
    Only `KeyboardInterrupt` and similar ones pass.

    `open_host` gives what a plugin runs on that says `runtime: asyncio`. Such a plugin that is written
    for the Bub on PyPI is adopted (`adoption.py`).

    Argument names and hook names are not checked here: the compiler reports them all at once. Instances and
    files are fresh for every call, but a module or a ready-made object of an installed package is Python's one.
    """
    on_asyncio = {name for name, said in declared.items() if said.runtime == ASYNCIO} if open_host is not None else ()
    loading = _PluginLoad(Search(declared, base, read_entry_points))
    loading.register(ListedPlugin(BUILTIN, False, BUILTIN), builtin)
    imported = []
    for listed in loading.search.find(names):
        host = open_host(listed) if open_host is not None and listed.name in on_asyncio else None
        guest = _Guest(listed, host, host.show(framework) if host is not None else framework)
        thing = loading.attempt(listed, functools.partial(guest.load, loading.modules))
        if thing is not None:
            imported.append((listed, host, guest, thing))
    if "loguru" in sys.modules:
        open_log()  # a plugin that writes with loguru itself writes to Bub's log, from its constructor on
    for listed, host, guest, thing in imported:
        plugin = loading.attempt(listed, functools.partial(guest.make, thing, loading.manager.has_hooks))
        if plugin is not None:
            loading.attempt(listed, functools.partial(loading.register, listed, plugin, host))
    return loading.result()


def line_up(names: Iterable[str], loaded: Iterable[PluginSet]) -> PluginSet:
    """Return plugins that are loaded already as another profile would list them, lowest priority first.

    The builtin plugin is below all. What is in none of the sets that are `loaded` is left out. Nothing is imported and
    nothing is made.
    """
    manager, statuses = _Manager(BUB_HOOK_NAMESPACE), []
    known: dict[str, tuple[LoadedPlugin, Host | None]] = {}
    for plugins in loaded:
        for one in plugins.plugins:
            known.setdefault(one.name, (one, plugins.hosts.get(one.name)))
    listed = [known[name] for name in dict.fromkeys((BUILTIN, *names)) if name in known]
    for one, host in listed:
        manager.register(one.plugin, one.name)
        if host is not None:
            manager.move(one.plugin, host)
        statuses.append(PluginStatus(one.name, "loaded", one.source))
    return PluginSet(manager, tuple(one for one, _ in listed), tuple(statuses), (), ())


class _Guest:
    """A listed plugin on its way, and who adopts it if it is written for the Bub on PyPI."""

    def __init__(self, listed: ListedPlugin, host: Host | None, shown: object) -> None:
        self._listed = listed
        self._is_on_asyncio = host is not None
        self._shown = shown
        self._adoption: Adoption | None = None

    def load(self, modules: list[str]) -> object:
        """Import what the name stands for."""
        if self._is_on_asyncio:
            self._adoption = late.begin_adoption(self._listed, self._shown)
        return import_plugin(self._listed, modules, self._adoption)

    def make(self, thing: object, has_hooks: Callable[[object], bool]) -> object:
        """Make the plugin of what was imported."""
        if self._adoption is None:
            return make_plugin(thing, self._shown, has_hooks)
        with self._adoption.importing():
            return self._adoption.adopt(make_plugin(thing, self._adoption.framework, has_hooks))


class _Manager(pluggy.PluginManager):
    """A plugin manager that runs no property while it looks for hooks (pluggy 1.6 does, 1.7 does not)."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        if name.startswith("__"):  # what every object has, and no hook is called like
            return None
        written = inspect.getattr_static(plugin, name, None)
        if isinstance(written, property | functools.cached_property):
            return None
        return super().parse_hookimpl_opts(plugin, name)

    def move(self, plugin: object, host: Host) -> None:
        """Let all that a registered plugin implements run on a host."""
        for caller in self.get_hookcallers(plugin) or ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is plugin:  # final for those who read it, and nobody has read it yet
                    moved = host.move(caller.name, implementation.function)
                    implementation.function = moved  # type: ignore[misc]

    def has_hooks(self, plugin: object) -> bool:
        """Whether anything in `plugin` is marked as a hook implementation."""
        return any(self.parse_hookimpl_opts(plugin, name) is not None for name in dir(plugin))


class _PluginLoad(msgspec.Struct):
    """What one call of `load_plugins` has gathered so far."""

    search: Search
    manager: _Manager = msgspec.field(default_factory=lambda: _Manager(BUB_HOOK_NAMESPACE))
    plugins: list[LoadedPlugin] = msgspec.field(default_factory=list)
    failures: list[tuple[str, BaseException]] = msgspec.field(default_factory=list)
    modules: list[str] = msgspec.field(default_factory=list)
    hosts: dict[str, Host] = msgspec.field(default_factory=dict)

    def attempt(self, listed: ListedPlugin, step: Callable[[], _T]) -> _T | None:
        """Take a `step` for a plugin; returns None if it fails, which becomes a finding at the plugin's name."""
        try:
            return step()
        except (Exception, SystemExit) as error:  # noqa: BLE001 (code of others: whatever it raises is its failure)
            self._fail(listed, error)
            return None

    def register(self, listed: ListedPlugin, plugin: object, host: Host | None = None) -> None:
        """Give `plugin` to the manager under its listed name; what it implements runs on its `host`, if it has one."""
        for other in self.plugins:
            # pluggy compares by equality and refuses in words that print every plugin, settings and all.
            if other.plugin is plugin or other.plugin == plugin:
                self._same_object(listed, other, "one and the same object" if other.plugin is plugin else "equal")
                return
        try:
            self.manager.register(plugin, listed.name)
        except BaseException:
            if self.manager.get_plugin(listed.name) is not None:  # pluggy 1.6 keeps what it could not register
                self.manager.unregister(name=listed.name)
            raise
        if host is not None:
            self.manager.move(plugin, host)
            self.hosts[listed.name] = host
        self.plugins.append(LoadedPlugin(listed.name, plugin, listed.source, listed.optional))
        detail = f"runs on {host.loop}" if host is not None else ""
        self.search.statuses[listed.name] = PluginStatus(listed.name, "loaded", listed.source, detail)

    def _same_object(self, listed: ListedPlugin, other: LoadedPlugin, relation: str) -> None:
        message = f"plugins `{other.name}` and `{listed.name}` are {relation}"
        self.search.findings.add(
            "B161",
            message,
            self.search.places[listed.name],
            help="list one of the two, or make a separate object for each",
            related=[self.search.listing_of(other.name)] if other.name in self.search.places else (),
        )
        self.search.statuses[listed.name] = PluginStatus(listed.name, "failed", listed.source, message)

    def _fail(self, listed: ListedPlugin, error: BaseException) -> None:
        place = self.search.places[listed.name]
        related: list[Related] = []
        if isinstance(error, SyntaxError) and listed.file is not None and error.filename == str(listed.file):
            related.append(self.search.listing_of(listed.name))
            place = Place(listed.shown, syntax_range(error), place.layer)
            detail = f"{type(error).__name__}: {error.msg}"
        else:
            detail = in_one_line(error)
            line = line_in(error, listed.file)
            if line is not None:
                start = Position(line, 1)
                related.append(Related("it fails here", listed.shown, Range(start, start)))
        self.search.findings.add(
            "B200",
            f"plugin `{listed.name}` does not load: {detail}",
            place,
            severity=listed.severity,
            help=remedy_for(listed, error),
            related=related,
        )
        self.search.statuses[listed.name] = PluginStatus(listed.name, "failed", listed.source, detail)
        self.failures.append((listed.name, error))

    def result(self) -> PluginSet:
        """Give what was gathered, with the statuses in the order of the list."""
        statuses = self.search.statuses
        return PluginSet(
            manager=self.manager,
            plugins=tuple(self.plugins),
            statuses=tuple(statuses[name] for name in (BUILTIN, *self.search.places) if name in statuses),
            findings=tuple(self.search.findings.items),
            failures=tuple(self.failures),
            modules=tuple(self.modules),
            hosts=self.hosts,
        )
