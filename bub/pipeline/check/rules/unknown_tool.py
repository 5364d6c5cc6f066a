"""A profile's `tools:` names tools that there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from bub.base.diagnostics import Place, Severity, sure_repair
from bub.base.globs import is_glob
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.plugins.shipped import SERVED, SHIPPED_TOOLS

CODE = "B211"

BY_LOCK = "B248"
"""The same, known from a lock."""


def check(plan: Plan) -> None:
    """Find names that no plugin brings, as far as that is known without importing one.

    If a plugin is listed that did not come with Bub, it may bring any name but a slip for a tool of Bub's own.
    """
    for key, name, place in names_without_tool(plan, SHIPPED_TOOLS):
        if plan.has_shipped_plugins_only:
            add_unknown_tool(plan, key, name, place, SHIPPED_TOOLS, "warning" if is_glob(name) else "error")
        elif sure_repair(name, SHIPPED_TOOLS) is not None:
            add_unknown_tool(plan, key, name, place, SHIPPED_TOOLS, "warning")


def names_without_tool(plan: Plan, tools: Iterable[str], *, served: bool = False) -> Iterator[tuple[str, str, Place]]:
    """Yield what the profile itself says of tools that are none of these; what it inherits, its base answers for.

    The tools of servers are known only if they are `served`: by a lock, which knows what a server had.
    """
    known = tuple(tools)
    for key, name, place in said_of_tools(plan):
        if (served or not name.startswith(SERVED)) and not any(fnmatchcase(tool, name) for tool in known):
            yield key, name, place


def said_of_tools(plan: Plan) -> Iterator[tuple[str, str, Place]]:
    """Yield what the profile itself says of tools, each with the key that it is said under."""
    files = [layer.root for layer in plan.document.layers if not layer.shipped]
    for key, said in plan.tools.items() if plan.tools is not None else ():
        if not any(root.get("profiles", plan.profile, "tools", key) for root in files):
            continue
        for name, place in names_of(said):
            if "${" not in name:
                yield key, name, place


def add_unknown_tool(plan: Plan, key: str, name: str, place: Place, tools: Iterable[str], severity: Severity) -> None:
    plan.findings.add_unknown(
        CODE,
        f"no plugin of profile `{plan.profile}` brings a tool `{name}`",
        place,
        name,
        tools,
        severity=severity,
        path=f"profiles.{plan.profile}.tools.{key}",
        profile=plan.profile,
        help="take it out, or list the plugin that brings it; `bub run ,help` shows the tools there are",
    )
