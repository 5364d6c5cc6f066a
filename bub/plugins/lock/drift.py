"""What differs between a lock and what is there: pure comparisons, told line by line as a diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from bub.plugins.lock.facts import PackageFacts, PluginFacts, ServerFacts, ToolFacts, digest_of

Sign: TypeAlias = Literal["+", "-", "~"]
"""What became of something since the lock was made: it is new, it is gone, or it has changed."""

UNLOCKED = "the lock does not know it"
UNDECLARED = "undeclared"


class Drift(msgspec.Struct, frozen=True):
    """One difference: the plugin, server or package, and what; `before` and `after` if they can be shown.

    `tool` is the name of the tool that it is about, "" if it is about none.
    """

    subject: str
    sign: Sign
    what: str
    before: str = ""
    after: str = ""
    tool: str = ""

    @property
    def line(self) -> str:
        """The line of a diff: `~ version: 1.2.0 → 1.3.0`."""
        line = f"{self.sign} {self.what}"
        if not (self.before or self.after):
            return line
        change = f"{self.before or 'none'} → {self.after or 'none'}" if self.sign == "~" else self.before + self.after
        return f"{line}: {change}"

    def __str__(self) -> str:
        return f"{self.subject}: {self.line}"


def compare_tools(subject: str, locked: Mapping[str, ToolFacts], offered: Mapping[str, ToolFacts]) -> tuple[Drift, ...]:
    """Find which tools appeared, vanished, or are not what they were, sorted by name.

    Whoever offers tools to a model leaves out each that a drift names as its `tool`.
    """
    return tuple(
        drift
        for name in sorted({*locked, *offered})
        for drift in _compare_tool(subject, name, locked.get(name), offered.get(name))
    )


def compare_server(
    name: str,
    locked: ServerFacts | None,
    offered: Mapping[str, ToolFacts],
) -> tuple[Drift, ...]:
    """Find how the tools that an MCP server offers differ from those of the lock; all are new if it is not locked."""
    return compare_tools(f"server `{name}`", locked.tools if locked is not None else {}, offered)


def compare_definitions(name: str, locked: ServerFacts | None, said: Mapping[str, Any]) -> tuple[Drift, ...]:
    """Find what a file says of an MCP server now that it did not say when the lock was made: its command, its URL."""
    subject = f"server `{name}`"
    if locked is None:
        return (Drift(subject, "+", UNLOCKED),)
    before = locked.definition
    return tuple(
        Drift(subject, "~", key, _in_a_line(before.get(key)), _in_a_line(said.get(key)))
        for key in sorted({*before, *said})
        if digest_of(before.get(key)) != digest_of(said.get(key))
    )


def compare_sources(name: str, locked: PluginFacts | None, found: PluginFacts) -> tuple[Drift, ...]:
    """Find whether a plugin comes from where it came from, and whether its file is the same; nothing is imported."""
    subject = f"plugin `{name}`"
    if locked is None:
        return (Drift(subject, "+", UNLOCKED),)
    drifts = []
    for key in ("package", "file"):
        before, after = getattr(locked, key), getattr(found, key)
        if before != after:
            drifts.append(Drift(subject, "~", key, before, after))
    if not drifts and locked.sha256 != found.sha256:
        drifts.append(Drift(subject, "~", f"content of {found.file}"))
    return tuple(drifts)


def compare_plugin(name: str, locked: PluginFacts, found: PluginFacts) -> tuple[Drift, ...]:
    """Find how what a loaded plugin brings differs from the lock: hook points, channels, tools."""
    subject = f"plugin `{name}`"
    return (
        *_compare_names(subject, "hook point", locked.hooks, found.hooks),
        *_compare_channels(subject, locked.channels, found.channels),
        *compare_tools(subject, locked.tools, found.tools),
    )


def compare_package(name: str, locked: PackageFacts, found: PackageFacts | None) -> tuple[Drift, ...]:
    """Find whether an installed package is the one of the lock.

    The files of a wheel for another system than the locked ones cannot be compared: then its version alone is.
    """
    subject = f"package `{name}`"
    if found is None:
        return (Drift(subject, "-", "it is not installed", locked.version),)
    if locked.version != found.version:
        return (Drift(subject, "~", "version", locked.version, found.version),)
    changed = [tag for tag, files in found.files.items() if locked.files.get(tag, files) != files]
    return (Drift(subject, "~", "files of the package"),) if changed else ()


def _compare_channels(subject: str, locked: Mapping[str, str], found: Mapping[str, str]) -> Iterator[Drift]:
    yield from _compare_names(subject, "channel", locked, found)
    for name in sorted({*locked} & {*found}):
        if locked[name] != found[name]:
            labels = (locked[name] or UNDECLARED, found[name] or UNDECLARED)
            yield Drift(subject, "~", f"labels of channel `{name}`", *labels)


def _compare_names(subject: str, what: str, locked: Iterable[str], found: Iterable[str]) -> Iterator[Drift]:
    before, after = set(locked), set(found)
    for name in sorted(before ^ after):
        yield Drift(subject, "-" if name in before else "+", f"{what} `{name}`")


def _compare_tool(subject: str, name: str, before: ToolFacts | None, after: ToolFacts | None) -> Iterator[Drift]:
    if before is None or after is None:
        yield Drift(subject, "+" if before is None else "-", f"tool `{name}`", tool=name)
        return
    for key in ("description", "schema", "annotations"):
        if getattr(before, key) != getattr(after, key):
            yield Drift(subject, "~", f"{key} of tool `{name}`", tool=name)
    if before.labels != after.labels:
        labels = (before.labels or UNDECLARED, after.labels or UNDECLARED)
        yield Drift(subject, "~", f"labels of tool `{name}`", *labels, tool=name)
    if before.traits != after.traits:
        traits = (", ".join(before.traits), ", ".join(after.traits))
        yield Drift(subject, "~", f"traits of tool `{name}`", *traits, tool=name)


def _in_a_line(value: Any) -> str:
    """A value of a file in one line."""
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value)
