"""Whose `bub` an import means: that of Bub, or the names of the reference in this package.

A module of a plugin gets builtins of its own, whose `__import__` finds this package under the name `bub`. So what the
module imports, at its top or later in a function, is what it was written for, and nobody else notices.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from bub.errors import BubError

_BUB, _HERE = "bub", __name__.partition(".")[0]

_OURS = frozenset((_BUB, _HERE, "bub_plugins"))
"""The packages for which `bub` is Bub itself in every process."""

_SKILLS = "skills"
"""What packages with skills have in common; the other Bub brings one itself."""

_import = builtins.__import__
_import_module = importlib.import_module


class MissingNameError(ImportError):
    """A module of the reference that Bub does not have."""


def name_here(name: str) -> str:
    """The module that a plugin of the reference means by a name."""
    return f"{_HERE}{name[len(_BUB) :]}" if name == _BUB or name.startswith(f"{_BUB}.") else name


def import_for_plugin(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 (as `__import__` names it)
    locals: Mapping[str, Any] | None = None,  # noqa: A002 (as `__import__` names it)
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Import as a module of a plugin of the reference means it."""
    if level:
        return _import(name, globals, locals, fromlist or (), level)
    if name.partition(".")[0] == "importlib":
        found = _import(name, globals, locals, fromlist or (), 0)
        return _Importlib(found) if found is importlib else found
    return _find(lambda: _import(name_here(name), globals, locals, fromlist or (), 0), name)


def import_module_for_plugin(name: str, package: str | None = None) -> ModuleType:
    """Import by name as a module of a plugin of the reference means it."""
    return _find(lambda: _import_module(name_here(name), package), name)


def _find(look: Callable[[], ModuleType], name: str) -> ModuleType:
    try:
        return look()
    except ModuleNotFoundError as error:
        if error.name == name == _SKILLS:
            return _import_module(f"{_HERE}.{_SKILLS}")
        if (error.name or "").partition(".")[0] != _HERE:
            raise
        said = f"Bub does not have `{name}` of the Bub on PyPI"
        raise MissingNameError(said, name=name) from None


class _Importlib(ModuleType):
    """`importlib` as such a module sees it: `import_module` finds the reference's names, too."""

    import_module = staticmethod(import_module_for_plugin)

    def __init__(self, whole: ModuleType) -> None:
        super().__init__(whole.__name__)
        self.__whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__whole, name)


BUILTINS: Mapping[str, Any] = {**vars(builtins), "__import__": import_for_plugin}
"""The builtins of a module of such a plugin."""


def sees_reference(module: ModuleType) -> bool:
    """Whether a module was imported with the reference's names."""
    return vars(module).get("__builtins__") is BUILTINS


@contextmanager
def seeing(packages: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Let the modules of these top-level packages see the reference's names, from now on; gives their builtins.

    Raises `BubError` if one was imported before without them.
    """
    wanted = frozenset(packages)
    for name, module in tuple(sys.modules.items()):
        if (
            name.partition(".")[0] in wanted
            and module is not None
            and _is_source(module)
            and not sees_reference(module)
        ):
            raise BubError(
                f"`{name}` is imported already, with Bub's own names",
                help="a package is one thing in a process: list its plugins with `runtime: asyncio` everywhere",
            )
    finder = next((one for one in sys.meta_path if isinstance(one, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.packages |= wanted
    yield BUILTINS


class _Finder(MetaPathFinder):
    """Finds the modules of plugins as everybody does, and has them run with builtins of their own."""

    def __init__(self) -> None:
        self.packages: frozenset[str] = frozenset()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of such a package; None for every other."""
        if fullname.partition(".")[0] not in self.packages:
            return None
        others = (finder for finder in tuple(sys.meta_path) if finder is not self)
        spec = next((found for finder in others if (found := finder.find_spec(fullname, path, target))), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = BUILTINS
        super().exec_module(module)


def _is_source(module: ModuleType) -> bool:
    return isinstance(getattr(module, "__loader__", None), SourceFileLoader)


def name_whole_process() -> None:
    """Let `bub` be this package for all modules of the process but Bub's own."""

    def chosen(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 (as `__import__` names it)
        locals: Mapping[str, Any] | None = None,  # noqa: A002 (as `__import__` names it)
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        means = _import if _is_ours(globals) else import_for_plugin
        return means(name, globals, locals, fromlist or (), level)

    def chosen_by_name(name: str, package: str | None = None) -> ModuleType:
        means = _import_module if _is_ours(sys._getframe(1).f_globals) else import_module_for_plugin
        return means(name, package)

    builtins.__import__, importlib.import_module = chosen, chosen_by_name


def _is_ours(names: Mapping[str, Any] | None) -> bool:
    return str((names or {}).get("__name__") or "").partition(".")[0] in _OURS
