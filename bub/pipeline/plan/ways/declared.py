"""What the plugins of a profile are declared to do: in the file, in the package that brings them, or nowhere."""

from __future__ import annotations

import msgspec

from bub.base.diagnostics import Place
from bub.labels import Labels, PluginLabels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.source.document import Node
from bub.plugins.labels import SHIPPED_PLUGIN_LABELS, installed_labels


class DeclaredPlugin(msgspec.Struct, frozen=True):
    """A plugin of a profile's list: what the file says of it, before what its package says. `place` is its listing."""

    name: str
    place: Place
    said: PluginLabels | None = None
    brought: PluginLabels | None = None

    @property
    def labels(self) -> tuple[PluginLabels, ...]:
        """Return what is declared of it, the stronger first."""
        return tuple(one for one in (self.said, self.brought) if one is not None)

    def of_tool(self, name: str) -> Labels | None:
        """Return the labels of a tool; None if they are not declared."""
        return next((found for one in self.labels if (found := one.of_tool(name)) is not None), None)

    def of_channel(self, name: str) -> Labels | None:
        """Return the labels of a channel; None if they are not declared."""
        return next((found for one in self.labels if (found := one.of_channel(name)) is not None), None)

    @property
    def tools(self) -> frozenset[str]:
        """The tools that are named anywhere."""
        return frozenset(name for one in self.labels for name in one.tools)

    @property
    def channels(self) -> frozenset[str]:
        """The channels that are named anywhere."""
        return frozenset(name for one in self.labels for name in one.channels)


def declared_in(plan: Plan, root: Node, name: str, place: Place) -> DeclaredPlugin:
    """Read what is declared of a plugin that a profile lists; a package only speaks for the plugin that it brings."""
    said = labels_said(root.get("plugins", name, "labels"))
    if plan.is_shipped(name):
        return DeclaredPlugin(name, place, said, SHIPPED_PLUGIN_LABELS[name])
    if root.get("plugins", name, "path") is not None:
        return DeclaredPlugin(name, place, said)
    found = installed_labels(name)
    return DeclaredPlugin(name, place, said, found.labels if found is not None else None)


def labels_said(node: Node | None) -> PluginLabels | None:
    """Read the `labels` of a plugin in a file; None if there are none, or if they are a mistake, which is a finding."""
    try:
        return PluginLabels.read(node.plain()) if node is not None else None
    except msgspec.ValidationError:
        return None
