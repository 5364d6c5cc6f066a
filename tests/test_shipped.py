"""What is said of the plugins that come with Bub is what they are."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

from bub.hooks.facts import KINDS
from bub.hookspecs import HOOK_POINTS
from bub.plugins.shipped import SHIPPED_PLUGINS

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def test_the_shipped_plugins_are_those_of_the_package() -> None:
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]["bub"]
    assert set(declared) == SHIPPED_PLUGINS


def test_no_shipped_plugin_judges_claims_changes_anything_or_brings_tools() -> None:
    judging = {"provide_tools"} | {
        name
        for name, point in HOOK_POINTS.items()
        if any(KINDS[kind].barrier or kind == "modifying" for kind in point.kinds)
    }
    assert judging > {"provide_tools", "tool_gate"}
    for found in entry_points(group="bub"):
        if found.name in SHIPPED_PLUGINS:
            assert judging.isdisjoint(dir(found.load())), found.name
