"""Values of a section that no schema knows: nobody can tell which are secrets, so a list has their keys alone."""

from __future__ import annotations

from msgspec.structs import replace

from bub.base.json_schema import Steps
from bub.pipeline.plan.origins import Lookup, Origin, source_of
from bub.pipeline.plan.secret_places import setting_of
from bub.pipeline.source.document import Node


def cover_unknown(lookup: Lookup, origin: Origin, steps: Steps) -> Origin:
    """Return an origin with the sources in place of the values that are in a section without a schema."""
    return replace(origin, value=_cover(lookup, origin.value, steps))


def is_unknown(lookup: Lookup, steps: Steps) -> bool:
    """Whether a path leads into a section of the settings that no schema describes."""
    setting = setting_of(steps)
    return bool(setting and setting[1:] and setting[0] not in lookup.settings["properties"])


def _cover(lookup: Lookup, node: Node, steps: Steps) -> Node:
    if node.is_mapping:
        return replace(node, value={name: _cover(lookup, child, (*steps, name)) for name, child in node.items()})
    if node.value is None or isinstance(node.value, bool) or not is_unknown(lookup, steps):
        return node
    return replace(node, value=source_of(node))
