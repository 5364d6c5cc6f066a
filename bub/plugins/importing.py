"""Importing what a listed name stands for, and making a plugin of it."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from bub.plugins.adoption import Adoption
from bub.plugins.finding import ListedPlugin


class _FreshSource(SourceFileLoader):
    """Reads a plugin's file each time: cached bytecode is only as exact as a file's time and size."""

    digest = ""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        data = self.get_data(path)
        self.digest = hashlib.sha256(data).hexdigest()
        code: CodeType = self.source_to_code(data, path)
        return code


def source_of_module(name: str) -> tuple[Path, str] | None:
    """Return the file that the module of a plugin with a `path` was made of, and the SHA-256 of what it held then."""
    loader = getattr(sys.modules.get(name), "__loader__", None)
    return (Path(loader.path), loader.digest) if isinstance(loader, _FreshSource) else None


def import_plugin(listed: ListedPlugin, modules: list[str], adoption: Adoption | None = None) -> object:
    """Import what a listed name stands for; the name of a file's module is added to `modules`.

    A plugin with an `adoption` sees the names of the other Bub. Raises whatever the import raises.
    """
    if adoption is not None:
        with adoption.importing() as names:
            return _import(listed, modules, names)
    return _import(listed, modules, None)


def _import(listed: ListedPlugin, modules: list[str], names: Mapping[str, Any] | None) -> object:
    if listed.file is not None:
        module = _import_file(listed.name, listed.file, names)
        modules.append(module.__name__)
        return module
    assert listed.entry is not None, "a plugin that was found is a file or an entry point"
    thing: object = listed.entry.load()
    if thing is None:
        raise TypeError(f"{listed.entry.value} is None, not a plugin")
    return thing


def _import_file(name: str, file: Path, names: Mapping[str, Any] | None) -> ModuleType:
    """Make a fresh module from `file`, under a name that nobody imports by accident, with builtins of its own if given.

    It stands in `sys.modules`, since dataclasses and pickle look their module up there; its folder does not
    become importable.
    """
    private = f"_bub_plugin_{re.sub(r'[^0-9a-zA-Z]', '_', name)}_{os.urandom(8).hex()}"
    spec = spec_from_file_location(private, file, loader=_FreshSource(private, str(file)))
    assert spec is not None and spec.loader is not None, "a spec with a loader of its own always has one"
    module = module_from_spec(spec)
    if names is not None:
        vars(module)["__builtins__"] = names
    sys.modules[private] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[private]
        raise
    return module


def make_plugin(thing: object, framework: object, has_hooks: Callable[[object], bool]) -> object:
    """Make the plugin that an imported module, class, factory or object stands for.

    `has_hooks` says whether something has hook implementations itself. Raises `TypeError` for what makes no plugin,
    and whatever a class or factory raises.
    """
    if isinstance(thing, ModuleType):
        chosen = getattr(thing, "plugin", None)
        # A package whose submodule is called `plugin` has it as an attribute too, without having chosen it.
        if chosen is None or isinstance(chosen, ModuleType):
            return thing
        if has_hooks(thing):
            raise TypeError("the module has hook functions beside `plugin`, and Bub would never call them")
        thing = chosen
    if not inspect.isclass(thing) and (not callable(thing) or has_hooks(thing)):
        return thing
    made: object = thing(*_arguments(thing, framework))
    if inspect.iscoroutine(made):
        made.close()
        raise TypeError("a function that makes a plugin cannot be async")
    if made is None:
        raise TypeError("the function that makes the plugin returned None")
    return made


def _arguments(make: Callable[..., Any], framework: object) -> tuple[object, ...]:
    """Choose what a class or factory is called with: the framework, or nothing if it takes nothing."""
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
    raise TypeError(f"it wants {signature}, but Bub passes only the framework, or nothing")
