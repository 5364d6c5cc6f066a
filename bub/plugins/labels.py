"""What tools do to information, told without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bub.labels import Labels
from bub.plugins.shipped import BY_NAME

SHIPPED_LABELS: Mapping[str, Labels] = MappingProxyType(
    {
        "fs.read": Labels(reads="private"),
        "fs.list": Labels(reads="private"),
        "fs.search": Labels(reads="private"),
        BY_NAME: Labels(reads="private", brings="untrusted", reaches="outside"),
        "bash.output": Labels(reads="private", brings="untrusted"),
        "web.fetch": Labels(brings="untrusted", reaches="outside"),
        "sessions": Labels(reads="private"),
    }
)
"""What the tools of `builtin` do; all others of them are declared to do nothing."""
