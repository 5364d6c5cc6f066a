"""What a lock knows of packages, plugins and MCP servers: names, and digests of what a model reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from bub.labels import Labels

VERSION = 1
"""The number of the form that `[tool.bub]` of a lock has."""


class ToolFacts(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a model reads about a tool, and what Bub goes by: the digests of its description and its schema.

    `labels` is how it is labelled, "" if it declares nothing, and `traits` what else a plugin says of it: that it only
    reads, for instance. `annotations` is the digest of what an MCP server says beside the schema, "" if nothing.
    """

    description: str
    schema: str
    labels: str = ""
    traits: tuple[str, ...] = ()
    annotations: str = ""


class PluginFacts(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A plugin as the `profiles` that list it load it: its source, and what it brings.

    It comes from a `package`, or from a `file` whose content has the digest `sha256`. `channels` are those that it
    brings, each with its labels.
    """

    name: str
    profiles: tuple[str, ...]
    package: str = ""
    file: str = ""
    sha256: str = ""
    hooks: tuple[str, ...] = ()
    channels: Mapping[str, str] = {}
    tools: Mapping[str, ToolFacts] = {}


class ServerFacts(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An MCP server as the `profiles` that name it reach it, and the tools that it offers.

    `definition` is what the file says of it, its references as they are written: `command` or `url`, and the names in
    `env` and `headers`, but no value of these.
    """

    name: str
    profiles: tuple[str, ...]
    definition: Mapping[str, Any] = {}
    tools: Mapping[str, ToolFacts] = {}


class PackageFacts(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """An installed package: its version, and the digest of the files that each wheel of it brings, by the wheel's tag.

    An editable package has no such digest: its files are those that are being worked on.
    """

    version: str
    files: Mapping[str, str] = {}


class Lock(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What `[tool.bub]` of a lock holds; packages are named as an index does, in lower case with `-`."""

    version: int = VERSION
    packages: Mapping[str, PackageFacts] = {}
    plugins: tuple[PluginFacts, ...] = ()
    servers: tuple[ServerFacts, ...] = ()

    def plugin(self, name: str, profile: str) -> PluginFacts | None:
        """Return what is known of a plugin in a profile; None if nothing is."""
        return next((one for one in self.plugins if one.name == name and profile in one.profiles), None)

    def server(self, name: str, profile: str) -> ServerFacts | None:
        """Return what is known of an MCP server in a profile; None if nothing is."""
        return next((one for one in self.servers if one.name == name and profile in one.profiles), None)


def describe_tool(
    description: str,
    schema: Any,
    *,
    labels: Labels | None = None,
    traits: tuple[str, ...] = (),
    annotations: Any = None,
) -> ToolFacts:
    """Note of a tool what a lock keeps. Every character of its description counts, also one that nobody sees."""
    return ToolFacts(
        digest_of(description),
        digest_of(schema),
        in_words(labels),
        tuple(sorted(traits)),
        digest_of(annotations) if annotations else "",
    )


def digest_of(value: Any) -> str:
    """Name a value that JSON knows; of a mapping, the order of its keys does not count."""
    return digest_of_bytes(msgspec.json.encode(value, enc_hook=str, order="deterministic"))


def digest_of_bytes(data: bytes) -> str:
    """Name a file's content. All of the digest counts: who makes both of two versions could find two of half of it."""
    return hashlib.sha256(data).hexdigest()


def in_words(labels: Labels | None) -> str:
    """Write labels as a lock does: "brings untrusted, reaches outside", "none", or "" if nothing is declared."""
    if labels is None:
        return ""
    said = (("reads", labels.reads), ("brings", labels.brings), ("reaches", labels.reaches))
    return ", ".join(f"{name} {value}" for name, value in said if value is not None) or "none"
