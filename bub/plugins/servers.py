"""Servers of the Model Context Protocol as a file names them, and which of their tools a profile allows."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from bub.base.duration import parse_duration
from bub.base.globs import is_glob
from bub.labels import Labels, PluginLabels
from bub.plugins.shipped import SERVED

USUAL_TIMEOUT = 120.0
"""How long, in seconds, a call may take if the file does not say."""


class ServerSpec(msgspec.Struct, frozen=True):
    """A server as the file describes it, references replaced: a `command` to start it, or the `url` where it is."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    timeout: float = USUAL_TIMEOUT
    labels: PluginLabels | None = None

    @classmethod
    def of(cls, name: str, said: Any) -> ServerSpec:
        """Read what a file says of a server, which may be broken in any way."""
        given = said if isinstance(said, Mapping) else {}
        command = given.get("command")
        return cls(
            name,
            tuple(map(str, command)) if isinstance(command, list | tuple) else (),
            str(given.get("url") or ""),
            _texts(given.get("env")),
            _texts(given.get("headers")),
            parse_duration(str(given.get("timeout") or "")) or USUAL_TIMEOUT,
            _read_labels(given.get("labels")),
        )

    def labels_of(self, tool: str) -> Labels | None:
        """Return what the file says that a tool does, by the last part of its name; None if it does not say."""
        return self.labels.of_tool(tool) if self.labels is not None else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What it is given in confidence."""
        return (*self.env.values(), *self.headers.values())


def server_of(name: str) -> str | None:
    """Return the server that the name of a tool, or a glob for names, begins with; None if it names none."""
    if not name.startswith(SERVED):
        return None
    server, dot, _ = name.removeprefix(SERVED).partition(".")
    return server if dot and server and not is_glob(server) else None


def allows(entry: str, tool: str) -> bool:
    """Return whether an entry of `allow` lets a tool through: for one of a server it has to begin with that server.

    `*` and `mcp.*` are for no tool of a server, since they would let in whatever a server brings some day.
    """
    if tool.startswith(SERVED) and server_of(entry) != server_of(tool):
        return False
    return entry == tool or fnmatchcase(tool, entry)


def _texts(said: Any) -> Mapping[str, str]:
    if not isinstance(said, Mapping):
        return {}
    return {str(name): str(value) for name, value in said.items() if value is not None}


def _read_labels(said: Any) -> PluginLabels | None:
    try:
        return PluginLabels.read(said) if said is not None else None
    except msgspec.ValidationError:
        return None  # a finding tells of it
