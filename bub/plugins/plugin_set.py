"""The plugins of one profile once they are loaded, and what became of each that is known."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, Protocol

import msgspec
import pluggy

from bub.base.diagnostics import Diagnostic

State = Literal["loaded", "failed", "missing", "not listed"]


class Host(Protocol):
    """The host of a plugin that does not run in Bub's own loop: it has a `loop` of its own, such as one of asyncio."""

    loop: str

    def show(self, framework: object) -> object:
        """The framework as the plugin sees it."""

    def move(self, hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """An implementation of the plugin as Bub calls it: it runs here."""

    async def close(self) -> None:
        """End what runs here, in bounded time; it begins again if something is called."""

    def leave(self) -> None:
        """Begin to end what runs here, and wait for nothing."""

    @property
    def problem(self) -> str | None:
        """What is wrong here now, for people; None if nothing is."""


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
    `modules` are the names under which the files of `path:` plugins are in `sys.modules`.
    """

    manager: pluggy.PluginManager
    plugins: tuple[LoadedPlugin, ...]
    statuses: tuple[PluginStatus, ...]
    findings: tuple[Diagnostic, ...]
    failures: tuple[tuple[str, BaseException], ...]
    modules: tuple[str, ...] = ()
    hosts: Mapping[str, Host] = MappingProxyType({})
    """What single plugins run on, by their names."""

    def let_go(self) -> None:
        """Take the modules of its `path:` plugins out of `sys.modules`, once nothing runs on this set any more."""
        for host in self.hosts.values():
            host.leave()
        for name in self.modules:
            sys.modules.pop(name, None)
