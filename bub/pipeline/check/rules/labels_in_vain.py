"""Labels are read, and are for what a plugin brings."""

from __future__ import annotations

from collections.abc import Iterable

from bub.base.diagnostics import Findings
from bub.pipeline.check import late
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import mappings_in

CODE = "B239"


def check(plan: Plan) -> None:
    """Find labels of installed packages that cannot be used: their plugins count as if they declared nothing."""
    for name, place in plan.allowlist:
        if plan.is_shipped(name) or plan.root.get("plugins", name, "path") is not None:
            continue
        found = late.installed_labels(name)
        if found is not None and found.labels is None:
            plan.findings.warn(
                CODE,
                f"Bub does not use the labels of plugin `{name}`: {found.source} {found.problem}",
                place,
                path=f"profiles.{plan.profile}.plugins",
                help="tell the author of the package, or write them yourself, under `plugins`",
            )


def check_tools(plan: Plan, plugin: str, brought: Iterable[str], findings: Findings) -> None:
    """Find labels in the file for tools that a plugin does not bring."""
    tools = set(brought)
    for name, node in mappings_in(plan.root.get("plugins", plugin, "labels", "tools")):
        if name not in tools:
            findings.add_unknown(
                CODE,
                f"plugin `{plugin}` brings no tool `{name}`, so these labels change nothing",
                node.where,
                name,
                tools,
                severity="warning",
                path=f"plugins.{plugin}.labels.tools.{name}",
                help="take them out",
            )
