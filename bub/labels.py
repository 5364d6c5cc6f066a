"""What a tool or a channel does to information, as it is declared (DESIGN §13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

Reads: TypeAlias = Literal["private"]
Brings: TypeAlias = Literal["untrusted"]
Reaches: TypeAlias = Literal["outside"]


class Labels(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The most that a tool or a channel does to information; a single call may do less.

    It `reads` what is private if it can give what not everybody may see. It `brings` what is untrusted if strangers may
    have written what it gives. It `reaches` outside if what it is given can leave this machine.

    `Labels()` declares that it does nothing of that. If something declares nothing, it has None instead.
    """

    reads: Reads | None = None
    brings: Brings | None = None
    reaches: Reaches | None = None


UNDECLARED = Labels(brings="untrusted", reaches="outside")
"""How a tool counts at run time that declares nothing."""


def declare(
    reads: Reads | UnsetType | None = UNSET,
    brings: Brings | UnsetType | None = UNSET,
    reaches: Reaches | UnsetType | None = UNSET,
) -> Labels | None:
    """Return the labels of something that gives at least one of the three, even as None; None if it gives none.

    Raises `ValueError` for a word that no label knows.
    """
    said = {"reads": reads, "brings": brings, "reaches": reaches}
    given = {name: value for name, value in said.items() if value is not UNSET}
    if not given:
        return None
    try:
        return msgspec.convert(given, Labels)
    except msgspec.ValidationError as error:
        raise ValueError(f"no label: {error}; write reads='private', brings='untrusted', reaches='outside'") from None


class PluginLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the `tools` and `channels` of a plugin do, by name; the other three are for those that are not named."""

    reads: Reads | UnsetType | None = UNSET
    brings: Brings | UnsetType | None = UNSET
    reaches: Reaches | UnsetType | None = UNSET
    tools: Mapping[str, Labels] = msgspec.field(default_factory=dict)
    channels: Mapping[str, Labels] = msgspec.field(default_factory=dict)

    @classmethod
    def read(cls, said: Any) -> PluginLabels:
        """Read the labels of a plugin from a mapping; an empty one says that it does nothing.

        Raises `msgspec.ValidationError` for what is no such mapping.
        """
        return msgspec.convert({"reaches": None} if said == {} else said, cls)

    @property
    def others(self) -> Labels | None:
        """The labels of what is not named, if they are declared."""
        return declare(self.reads, self.brings, self.reaches)

    def of_tool(self, name: str) -> Labels | None:
        """Return the labels of a tool of the plugin, if they are declared."""
        return self.tools.get(name, self.others)

    def of_channel(self, name: str) -> Labels | None:
        """Return the labels of a channel of the plugin, if they are declared."""
        return self.channels.get(name, self.others)
