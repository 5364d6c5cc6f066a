"""Loading the plugins that a profile lists, and no others, into a pluggy manager of their own."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import pluggy

from bub.diagnostics import Diagnostic, Findings, Place, Position, Range, Related, Severity, sure_repair
from bub.errors import BubError
from bub.hookspecs import BUB_HOOK_NAMESPACE
from bub.log import open_log

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILTIN = "builtin"
"""The name of the plugin that is in every profile, below all others (BEHAVIOURS H2)."""

State = Literal["loaded", "failed", "missing", "not listed"]

EntryPoints: TypeAlias = "Mapping[str, tuple[EntryPoint, ...]]"
"""What the installed packages offer as plugins, by name: more than one where they disagree."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Declared:
    """What the `plugins:` section of a file says of one name; `place` is where it says it."""

    name: str
    path: Path | None = None
    optional: bool = False
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin that is registered; `source` says in words where it comes from."""

    name: str
    plugin: object
    source: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """What became of one plugin: `missing` is optional and not there, `not listed` is installed but not allowed."""

    name: str
    state: State
    source: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The plugins of one profile: `plugins` in the order of registration, builtin first, so lowest priority first.

    `findings` say what is wrong with the list, `failures` keep the exceptions with their tracebacks for the log.
    `modules` are the names under which the files of `path:` plugins stand in `sys.modules`.
    """

    manager: pluggy.PluginManager
    plugins: tuple[LoadedPlugin, ...]
    statuses: tuple[PluginStatus, ...]
    findings: tuple[Diagnostic, ...]
    failures: tuple[tuple[str, BaseException], ...]
    modules: tuple[str, ...] = ()

    def forget_modules(self) -> None:
        """Take the modules of its `path:` plugins out of `sys.modules`, once nothing runs on this set any more."""
        for name in self.modules:
            sys.modules.pop(name, None)


def installed_plugins() -> dict[str, EntryPoint]:
    """Every plugin that an installed package offers, by name; nothing of it is imported."""
    return {name: offers[0] for name, offers in read_entry_points().items()}


def load_plugins(
    names: Sequence[tuple[str, Place]],
    *,
    builtin: object,
    declared: Mapping[str, Declared],
    framework: object,
    base: Path | None,
) -> PluginSet:
    """Import and register the plugins that a profile lists, lowest priority first, above `builtin`.

    `names` are the items of the profile's list and where each stands; nothing else is imported. A `path` of
    `declared` is relative to `base`, the folder of the file that says it, so one that an extended file in another
    folder brought has to be absolute; it goes before an installed package of the same name.

    All are imported before the first one is made, so no plugin's constructor sees half of them (BEHAVIOURS H24).
    A module is a plugin itself, unless it has an attribute `plugin`, which then is the plugin; a class or another
    callable without hooks of its own is called with `framework`, or with nothing when it takes nothing. What
    cannot be loaded becomes a finding and the others go on: B160 no such plugin, B161 one name or object twice,
    B200 it fails (a warning when it is optional). An optional plugin that is not there is no finding at all.
    Only `KeyboardInterrupt` and its like pass.

    Argument names and hook names are not checked here: the compiler reports them all at once. Instances and
    files are fresh for every call, but a module or a ready-made object of an installed package is Python's one.
    """
    loading = _Loading(declared, base, read_entry_points)
    loading.register(_Listed(BUILTIN, False, BUILTIN), builtin)
    imported = []
    for listed in loading.find(names):
        thing = loading.attempt(listed, functools.partial(_fetch, listed, loading.modules))
        if thing is not None:
            imported.append((listed, thing))
    if "loguru" in sys.modules:
        open_log()  # a plugin that writes with loguru itself writes to Bub's log, from its constructor on
    for listed, thing in imported:
        plugin = loading.attempt(listed, functools.partial(_make, thing, framework, loading.manager))
        if plugin is not None:
            loading.attempt(listed, functools.partial(loading.register, listed, plugin))
    return loading.result()


def find_plugins(
    names: Sequence[tuple[str, Place]],
    *,
    declared: Mapping[str, Declared],
    base: Path | None,
    entry_points: Callable[[], EntryPoints] | None = None,
) -> tuple[Diagnostic, ...]:
    """What is wrong with a profile's list as far as that can be told without importing a plugin (B160, B161).

    `entry_points` gives what the installed packages offer, for a caller with many lists that asks for it only once.
    """
    loading = _Loading(declared, base, entry_points or read_entry_points)
    loading.find(names)
    return tuple(loading.findings.items)


def survey(plugin_set: PluginSet, installed: Mapping[str, EntryPoint]) -> tuple[PluginStatus, ...]:
    """What became of every plugin that is known: those of the set, then what is installed but not listed."""
    seen = {status.name for status in plugin_set.statuses}
    others = (
        PluginStatus(name, "not listed", _describe(entry), "installed, but this profile does not list it")
        for name, entry in sorted(installed.items())
        if name not in seen
    )
    return (*plugin_set.statuses, *others)


class _Manager(pluggy.PluginManager):
    """A plugin manager that runs no property while it looks for hooks (pluggy 1.6 does, 1.7 does not)."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        written = inspect.getattr_static(plugin, name, None)
        if isinstance(written, property | functools.cached_property):
            return None
        return super().parse_hookimpl_opts(plugin, name)

    def has_hooks(self, plugin: object) -> bool:
        """Whether anything in `plugin` is marked as a hook implementation."""
        return any(self.parse_hookimpl_opts(plugin, name) is not None for name in dir(plugin))


class _Listed(NamedTuple):
    """A name of the profile's list and where its plugin is: an entry point, or a file (`shown` to the user so)."""

    name: str
    optional: bool
    source: str
    entry: EntryPoint | None = None
    file: Path | None = None
    shown: str = ""

    @property
    def severity(self) -> Severity:
        return "warning" if self.optional else "error"


@dataclass(slots=True)
class _Loading:
    """What one call of `load_plugins` has gathered so far."""

    declared: Mapping[str, Declared]
    base: Path | None
    entry_points: Callable[[], EntryPoints]
    manager: _Manager = field(default_factory=lambda: _Manager(BUB_HOOK_NAMESPACE))
    plugins: list[LoadedPlugin] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    statuses: dict[str, PluginStatus] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    failures: list[tuple[str, BaseException]] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)

    def find(self, names: Sequence[tuple[str, Place]]) -> list[_Listed]:
        """Where the plugin of each listed name is; names without one are reported and left out."""
        offers = self.entry_points() if any(not self._has_path(name) for name, _ in names) else {}
        found = []
        for name, place in names:
            if name == BUILTIN:
                self.findings.add(
                    "B161",
                    f"`{BUILTIN}` is in every profile by itself and cannot be listed",
                    place,
                    help=f"take `{BUILTIN}` off the list",
                )
                continue
            if name in self.places:
                self.findings.add(
                    "B161",
                    f"plugin `{name}` is listed twice",
                    place,
                    help="list it once; the last in the list is asked first",
                    related=[self._listing(name)],
                )
                continue
            self.places[name] = place
            said = self.declared.get(name, Declared(name))
            if said.path is not None:
                listed = self._find_file(name, said, said.path)
            else:
                listed = self._find_entry(name, said, offers)
            if listed is not None:
                found.append(listed)
        return found

    def _has_path(self, name: str) -> bool:
        said = self.declared.get(name)
        return said is not None and said.path is not None

    def _listing(self, name: str) -> Related:
        place = self.places[name]
        return Related(f"`{name}` is listed here", place.file, place.range)

    def _find_file(self, name: str, said: Declared, path: Path) -> _Listed | None:
        source = f"path {path}"
        # `os.path` answers where `Path` would raise: for a home of nobody, no right to look, an impossible name.
        meant = Path(os.path.expanduser(path))  # noqa: PTH111
        near = meant if self.base is None else self.base / meant
        if self.base is None and not near.is_absolute():
            problem = "is relative, but what names it has no folder"
        elif os.path.isfile(near):  # noqa: PTH113
            return _Listed(name, said.optional, source, file=near.absolute(), shown=str(near))
        elif os.path.isdir(near):  # noqa: PTH112
            problem = "is a folder, not a Python file"
        elif said.optional:
            self._miss(name, source)
            return None
        else:
            problem = "does not exist"
        message = f"plugin `{name}`: the file {near} {problem}"
        remedy = "`path` is relative to the pipeline file that says it"
        self.findings.add("B160", message, said.place or self.places[name], help=remedy)
        self.statuses[name] = PluginStatus(name, "failed", source, message)
        return None

    def _find_entry(self, name: str, said: Declared, offers: EntryPoints) -> _Listed | None:
        place = self.places[name]
        entries = offers.get(name, ())
        if not entries:
            if said.optional:
                self._miss(name, "")
                return None
            message = f"plugin `{name}` is listed, but not installed"
            with_path = {other for other in self.declared if self._has_path(other)}
            known = {*offers, *with_path}
            install = "install the package that brings it, give it a `path` under `plugins:`, or take it off the list"
            # An installed package is not listed by a guess: that would import it.
            meant = self.findings.did_you_mean(name, known)
            repair = sure_repair(name, known) if meant else None
            fix = repair if repair in with_path and repair not in self.places else None
            self.findings.add("B160", message, place, help=meant or install, fix=fix)
            self.statuses[name] = PluginStatus(name, "failed", "", message)
            return None
        listed = _Listed(name, said.optional, _describe(entries[0]), entry=entries[0])
        if len(entries) == 1:
            return listed
        sources = " and ".join(_describe(entry) for entry in entries)
        self.findings.add(
            "B161",
            f"plugin `{name}` is brought by more than one package: {sources}",
            place,
            severity=listed.severity,
            help="uninstall the one that is not meant",
        )
        self.statuses[name] = PluginStatus(name, "failed", sources, "brought by more than one package")
        return None

    def _miss(self, name: str, source: str) -> None:
        self.statuses[name] = PluginStatus(name, "missing", source, "optional, and not there")

    def attempt(self, listed: _Listed, step: Callable[[], _T]) -> _T | None:
        """What `step` gives, or None when it failed, which is reported under the plugin's name."""
        try:
            return step()
        except (Exception, SystemExit) as error:  # noqa: BLE001 (code of others: whatever it raises is its failure)
            self._fail(listed, error)
            return None

    def register(self, listed: _Listed, plugin: object) -> None:
        """Give `plugin` to the manager under its listed name."""
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
        self.plugins.append(LoadedPlugin(listed.name, plugin, listed.source, listed.optional))
        self.statuses[listed.name] = PluginStatus(listed.name, "loaded", listed.source)

    def _same_object(self, listed: _Listed, other: LoadedPlugin, relation: str) -> None:
        message = f"plugins `{other.name}` and `{listed.name}` are {relation}"
        self.findings.add(
            "B161",
            message,
            self.places[listed.name],
            help="list one of the two, or have each made as an object of its own",
            related=[self._listing(other.name)] if other.name in self.places else (),
        )
        self.statuses[listed.name] = PluginStatus(listed.name, "failed", listed.source, message)

    def _fail(self, listed: _Listed, error: BaseException) -> None:
        place = self.places[listed.name]
        related: list[Related] = []
        if isinstance(error, SyntaxError) and listed.file is not None and error.filename == str(listed.file):
            related.append(self._listing(listed.name))
            place = Place(listed.shown, _syntax_range(error), place.layer)
            detail = f"{type(error).__name__}: {error.msg}"
        else:
            detail = in_one_line(error)
            line = _line_in(error, listed.file)
            if line is not None:
                start = Position(line, 1)
                related.append(Related("it fails here", listed.shown, Range(start, start)))
        self.findings.add(
            "B200",
            f"plugin `{listed.name}` does not load: {detail}",
            place,
            severity=listed.severity,
            help=_remedy(listed, error),
            related=related,
        )
        self.statuses[listed.name] = PluginStatus(listed.name, "failed", listed.source, detail)
        self.failures.append((listed.name, error))

    def result(self) -> PluginSet:
        """What was gathered, with the statuses in the order of the list."""
        return PluginSet(
            manager=self.manager,
            plugins=tuple(self.plugins),
            statuses=tuple(self.statuses[name] for name in (BUILTIN, *self.places) if name in self.statuses),
            findings=tuple(self.findings.items),
            failures=tuple(self.failures),
            modules=tuple(self.modules),
        )


def read_entry_points() -> EntryPoints:
    """What the installed packages offer; nothing of it is imported."""
    from importlib.metadata import entry_points  # 42 ms, so only where plugins are asked for

    offers: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=BUB_HOOK_NAMESPACE):
        others = offers.get(entry.name, ())
        if all(other.value != entry.value for other in others):
            offers[entry.name] = (*others, entry)
    return offers


def _describe(entry: EntryPoint) -> str:
    words = f"entry point {entry.value}"
    try:
        return f"{words} ({entry.dist.name} {entry.dist.version})" if entry.dist is not None else words
    except Exception:  # noqa: BLE001 (a package with broken metadata still loads; its name is only a courtesy)
        return words


class _FreshSource(SourceFileLoader):
    """Reads a plugin's file anew each time: cached bytecode is only as exact as a file's time and size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _fetch(listed: _Listed, modules: list[str]) -> object:
    """Import what a listed name stands for; the module of a file is noted in `modules`."""
    if listed.file is not None:
        module = _import_file(listed.name, listed.file)
        modules.append(module.__name__)
        return module
    assert listed.entry is not None, "a plugin that was found is a file or an entry point"
    thing: object = listed.entry.load()
    if thing is None:
        raise TypeError(f"{listed.entry.value} is None, not a plugin")
    return thing


def _import_file(name: str, file: Path) -> ModuleType:
    """A fresh module from `file`, under a name that nobody imports by accident.

    It stands in `sys.modules`, since dataclasses and pickle look their module up there; its folder does not
    become importable.
    """
    private = f"_bub_plugin_{re.sub(r'[^0-9a-zA-Z]', '_', name)}_{os.urandom(8).hex()}"
    spec = spec_from_file_location(private, file, loader=_FreshSource(private, str(file)))
    assert spec is not None and spec.loader is not None, "a spec with a loader of its own always has one"
    module = module_from_spec(spec)
    sys.modules[private] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[private]
        raise
    return module


def _make(thing: object, framework: object, manager: _Manager) -> object:
    """The plugin that an imported module, class, factory or object stands for."""
    if isinstance(thing, ModuleType):
        chosen = getattr(thing, "plugin", None)
        # A package whose submodule is called `plugin` has it as an attribute too, without having chosen it.
        if chosen is None or isinstance(chosen, ModuleType):
            return thing
        if manager.has_hooks(thing):
            raise TypeError("the module has `plugin` and hook functions beside it, which would never be called")
        thing = chosen
    if not inspect.isclass(thing) and (not callable(thing) or manager.has_hooks(thing)):
        return thing
    made: object = thing(*_arguments(thing, framework))
    if inspect.iscoroutine(made):
        made.close()
        raise TypeError("a function that makes a plugin cannot be async")
    if made is None:
        raise TypeError("the function that makes the plugin returned None")
    return made


def _arguments(make: Callable[..., Any], framework: object) -> tuple[object, ...]:
    """What a class or factory is called with: the framework, or nothing when it takes nothing."""
    try:
        signature = inspect.signature(make)
    except ValueError:  # some classes written in C do not tell
        return (framework,)
    for arguments in ((framework,), ()):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return arguments
    raise TypeError(f"it wants {signature}, but a plugin is made with the framework alone or with nothing")


def in_one_line(error: BaseException) -> str:
    """What a plugin's failure says, with its type where it is not written for people."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 (an exception that cannot be printed must not hide the failure it stands for)
        text = ""
    if isinstance(error, BubError):
        return text  # written for people
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _syntax_range(error: SyntaxError) -> Range:
    start = Position(error.lineno or 1, max(error.offset or 1, 1))
    end = Position(error.end_lineno or start.line, max(error.end_offset or 1, 1))
    return Range(start, max(start, end))


def _line_in(error: BaseException, file: Path | None) -> int | None:
    """The line of `file` that the error came through last, or None when it never did."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if file is not None and trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _remedy(listed: _Listed, error: BaseException) -> str:
    if listed.optional:
        return "the plugin is optional, so the profile runs without it; the traceback is in the log"
    if isinstance(error, BubError) and error.help:
        return error.help
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install the package that brings `{error.name}`, or take `{listed.name}` off the list"
    if isinstance(error, SyntaxError) and listed.file is not None:
        return "repair the plugin, or take it off the list"
    return "repair the plugin or take it off the list; the traceback is in the log"
