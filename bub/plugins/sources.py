"""What can be told of a loaded plugin only from the way it is written."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType

_NOT_ITS_OWN = sys.stdlib_module_names | {"bub", "pluggy"}


def source_of(plugin: object) -> tuple[str, ...] | None:
    """The texts of the modules that a plugin is written in; None if one of them cannot be read."""
    try:
        return tuple(inspect.getsource(module) for module in _modules_of(plugin))
    except (OSError, TypeError):
        return None


def may_register(plugin: object) -> bool:
    """Whether a plugin may register handlers while it runs."""
    texts = source_of(plugin)
    return texts is None or any(re.search(r"\bregister_(?:void|modifying|claiming)\b", text) for text in texts)


def _modules_of(plugin: object) -> Iterator[ModuleType]:
    """Its own module, those of its functions, and what else of their packages is loaded."""
    home = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
    found = (inspect.getattr_static(plugin, name, None) for name in dir(plugin))  # and no property is run
    names = [home, *(function.__module__ for function in found if inspect.isfunction(function))]
    packages = {name.partition(".")[0] for name in names if name} - _NOT_ITS_OWN
    for name, module in tuple(sys.modules.items()):
        if name.partition(".")[0] in packages and getattr(module, "__file__", None) is not None:
            yield module
