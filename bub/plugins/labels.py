"""What tools and channels do to information, told without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from bub.labels import Labels, PluginLabels
from bub.plugins.packages import LABELS, file_of
from bub.plugins.shipped import BY_NAME

SHIPPED_LABELS: Mapping[str, Labels] = MappingProxyType(
    {
        "fs.read": Labels(reads="private"),
        "fs.view": Labels(reads="private"),
        "fs.list": Labels(reads="private"),
        "fs.search": Labels(reads="private"),
        BY_NAME: Labels(reads="private", brings="untrusted", reaches="outside"),
        "bash.output": Labels(reads="private", brings="untrusted"),
        "web.fetch": Labels(brings="untrusted", reaches="outside"),
    }
)
"""What the tools do that `builtin` brings for a model; all others of them are declared to do nothing."""

SHIPPED_PLUGIN_LABELS: Mapping[str, PluginLabels] = MappingProxyType(
    {
        "http": PluginLabels(channels={"http": Labels(brings="untrusted", reaches="outside")}),
        "telegram": PluginLabels(channels={"telegram": Labels(brings="untrusted", reaches="outside")}),
        "local_model": PluginLabels(reaches=None),
    }
)
"""What the plugins do that come with Bub."""


class InstalledLabels(msgspec.Struct, frozen=True):
    """The labels that an installed package brings for a plugin; None if they cannot be used, and `problem` says why.

    `source` names the package.
    """

    source: str
    labels: PluginLabels | None
    problem: str = ""


def installed_labels(plugin: str) -> InstalledLabels | None:
    """Read what an installed package declares for a plugin without importing it; None if it declares nothing."""
    found = file_of(LABELS, plugin, "labels")
    if found is None:
        return None
    if found.problem:
        return InstalledLabels(found.source, None, found.problem)
    try:
        return InstalledLabels(found.source, PluginLabels.read(found.value))
    except msgspec.ValidationError as error:
        return InstalledLabels(found.source, None, f"brings {found.file}, which does not hold labels: {error}")
