"""What the `tools` of a profile say of a tool: whether it may be used, and whether a person is asked first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from bub.pipeline.plan.plan import Plan
from bub.pipeline.source.document import Node
from bub.plugins.servers import allows
from bub.plugins.shipped import BY_NAME, SHIPPED_TOOLS

Entries = Mapping[str, Node]

SHUT, ASKED, FREE = range(3)
"""What may become of a call: it is denied, a person is asked, it runs."""


class ToolRules(NamedTuple):
    """The `tools` of a profile; `allow` is None if it does not say, which allows those that only read."""

    node: Node | None
    allow: Entries | None
    deny: Entries
    ask: Entries
    unasked: Entries

    @classmethod
    def of(cls, plan: Plan) -> ToolRules:
        """Read what a profile says."""
        node = plan.tools
        deny, ask = (_entries(node, key) or {} for key in ("deny", "ask"))
        unasked = _entries(node.get("unasked") if node is not None else None, BY_NAME) or {}
        return cls(node, _entries(node, "allow"), deny, ask, unasked)

    @property
    def names(self) -> set[str]:
        """All that is named anywhere, globs too."""
        return {*(self.allow or ()), *self.deny, *self.ask}

    def freedom(self, tool: str, unsaid: bool) -> int:
        """Return how free a tool is; `unsaid` is whether one that nobody knows only reads."""
        if match(self.deny, tool) or not self._allows(tool, unsaid):
            return SHUT
        return ASKED if match(self.ask, tool) else FREE

    def entry(self, key: str, tool: str) -> Node | None:
        """Return the entry of `allow`, `deny` or `ask` that is for a tool which has one, its very name first."""
        listed: Entries = getattr(self, key) or {}
        return listed.get(tool) or next((node for name, node in listed.items() if match((name,), tool)), None)

    def _allows(self, tool: str, unsaid: bool) -> bool:
        if self.allow is None:
            return SHIPPED_TOOLS.get(tool, unsaid)
        return tool in self.allow if tool == BY_NAME else any(allows(entry, tool) for entry in self.allow)


def match(globs: Iterable[str], name: str) -> bool:
    """Return whether a tool is one that some entry of a list is for."""
    return any(glob == name or fnmatchcase(name, glob) for glob in globs)


def _entries(tools: Node | None, key: str) -> dict[str, Node] | None:
    node = tools.get(key) if tools is not None else None
    return {str(item.value): item for item in node.elements()} if node is not None else None
