"""Which plugins of a profile may judge its turns: those that did not come with Bub."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

from bub.pipeline.plan.plan import Plan
from bub.pipeline.show.differences.facts import Fact, fact
from bub.pipeline.source.document import Plain

_SAME: Mapping[str, str] = MappingProxyType({})


def judges(plan: Plan, only: Plain, names: Mapping[str, str] = _SAME) -> frozenset[str]:
    """Return the plugins that may decide in a gate with this `only`, by what `names` calls them."""
    asked = [name for name, _ in plan.allowlist if not isinstance(only, list) or name in only]
    return frozenset(names.get(name, name) for name in asked if not plan.is_shipped(name))


def source_of(plan: Plan, name: str) -> Fact:
    """Return the file of a plugin, seen from the folder of the pipeline file; None for an installed package."""
    node = plan.root.get("plugins", name, "path")
    if node is None or not isinstance(node.value, str):
        return fact("path")
    base, folder = plan.document.base, plan.document.folders.get(node.place.file)
    path = os.path.normpath(node.value)
    if base is not None and folder is not None:
        # As texts: at another revision the folder may be one that is not on the disk any more.
        full = os.path.join(os.path.abspath(folder), path)  # noqa: PTH100, PTH118
        path = os.path.relpath(full, os.path.abspath(base))  # noqa: PTH100
    return Fact(path, node, path)


def renamed_plugins(old: Plan, new: Plan) -> dict[str, str]:
    """Return what plugins were called before, by what they are called now: the same files under other names."""
    before, after = (dict(plan.allowlist) for plan in (old, new))
    gone = {source_of(old, name).value: name for name in before if name not in after}
    come = {source_of(new, name).value: name for name in after if name not in before}
    return {come[path]: gone[path] for path in come if path is not None and path in gone}
