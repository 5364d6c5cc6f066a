"""Servers as other programs list them (`mcp.json`), written as Bub does: with references in the place of secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from bub.errors import UsageError
from bub.secrets.literals import looks_like_key
from bub.secrets.names import is_secret_variable

_SECTIONS = ("mcpServers", "servers", "context_servers")
"""What the lists are called: in Claude Desktop and Cursor, in VS Code, in Zed."""

_REMARK = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_FOREIGN = re.compile(r"\$\{(?:(?P<kind>env|input):)?(?P<name>[A-Za-z_][\w-]*)\}")


class Imported(msgspec.Struct, frozen=True):
    """Servers by name as a file of Bub describes them, the variables that hold their secrets, and what is left out."""

    servers: Mapping[str, Mapping[str, Any]]
    variables: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def read_servers(text: str) -> Imported:
    """Read the servers of an `mcp.json`, which may have comments. No secret of it is kept. Raises `UsageError`."""
    try:
        bare = _TRAILING.sub(lambda found: found[1] or "", _REMARK.sub(lambda found: found[1] or "", text))
        said = msgspec.json.decode(bare.encode(errors="replace"))
    except msgspec.DecodeError as error:
        raise UsageError(f"this is not JSON: {error}", help="name the mcp.json of another program") from None
    inner = said.get("mcp", said) if isinstance(said, dict) else {}
    sections = [one[key] for one in (said, inner) if isinstance(one, dict) for key in _SECTIONS if key in one]
    if not sections or not isinstance(sections[0], dict):
        raise UsageError("it lists no servers", help=f"such a file has one of {', '.join(_SECTIONS)}")
    reader, servers, left_out = _Reader(), dict[str, Mapping[str, Any]](), list[str]()
    for given, entry in sections[0].items():
        name = re.sub(r"[^a-z0-9]+", "_", str(given).lower()).strip("_")[:32]
        described = reader.read(name, entry) if isinstance(entry, dict) else None
        if described is None or not re.match("[a-z]", name) or name in servers:
            left_out.append(str(given))
        else:
            servers[name] = described
    return Imported(servers, tuple(dict.fromkeys(reader.variables)), tuple(left_out))


class _Reader:
    """Rewrites entries, and notes which variables they refer to then."""

    def __init__(self) -> None:
        self.variables: list[str] = []

    def read(self, server: str, entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return an entry as Bub writes it; None if it is neither a program nor an address."""
        if isinstance(entry.get("command"), str):
            given = entry.get("args")
            words = [entry["command"], *(given if isinstance(given, list) else ())]
            found: dict[str, Any] = {"command": [self._refer(server, str(word)) for word in words]}
            key, values = "env", entry.get("env")
        elif isinstance(entry.get("url"), str):
            found = {"url": self._refer(server, entry["url"])}
            key, values = "headers", entry.get("headers")
        else:
            return None
        kept = dict(self._values(server, key, values)) if isinstance(values, dict) else {}
        return {**found, **({key: kept} if kept else {})}

    def _values(self, server: str, key: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for name, value in values.items():
            text = str(value)
            if _FOREIGN.search(text):
                yield name, self._refer(server, text)
            elif key == "headers" or is_secret_variable(name) or looks_like_key(text):
                variable = name if key == "env" else f"{server}_{re.sub(r'[^A-Za-z0-9]+', '_', name)}".upper()
                scheme = "Bearer " if key == "headers" and text.startswith("Bearer ") else ""
                yield name, f"{scheme}{self._reference(variable)}"
            else:
                yield name, text.replace("$", "$$")

    def _refer(self, server: str, text: str) -> str:
        """Write the references of other programs as Bub does; what a person was asked for is a variable, too."""

        def replace(found: re.Match[str]) -> str:
            plain = re.sub(r"\W", "_", found["name"])
            return self._reference(f"{server}_{plain}".upper() if found["kind"] == "input" else plain)

        parts, at = [], 0
        for found in _FOREIGN.finditer(text):
            parts += [text[at : found.start()].replace("$", "$$"), replace(found)]
            at = found.end()
        return "".join([*parts, text[at:].replace("$", "$$")])

    def _reference(self, variable: str) -> str:
        self.variables.append(variable)
        return f"${{env:{variable}}}"
