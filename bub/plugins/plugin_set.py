"""The plugins of one profile once they are loaded, and what became of each that is known."""

from __future__ import annotations

import sys
from typing import Literal

import msgspec
import pluggy

from bub.base.diagnostics import Diagnostic

State = Literal["loaded", "failed", "missing", "not listed"]


class LoadedPlugin(msgspec.Struct, frozen=True):
    """A plugin that is registered; `source` says in words where it comes from."""

    name: str
    plugin: object
    source: str
    optional: bool = False


class PluginStatus(msgspec.Struct, frozen=True):
    """What became of one plugin: `missing` is optional and not there, `not listed` is installed but not allowed."""

    name: str
    state: State
    source: str = ""
    detail: str = ""


class PluginSet(msgspec.Struct, frozen=True):
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
