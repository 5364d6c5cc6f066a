"""A test mocks tools that there are."""

from __future__ import annotations

from bub.base.diagnostics import sure_repair
from bub.pipeline.check import late
from bub.pipeline.check.cases import Case
from bub.pipeline.check.rules.unknown_tool import CODE
from bub.pipeline.plan.plan import Plan
from bub.pipeline.source.document import Node
from bub.plugins.shipped import SERVED, SHIPPED_TOOLS


def check(plan: Plan, case: Case) -> None:
    """Find mocks of tools that no plugin brings, as far as that is known."""
    for name, mock in case.mocked_tools():
        if name.startswith(SERVED):
            _check_server(plan, case, name, mock)
            continue
        is_slip = sure_repair(name, SHIPPED_TOOLS) is not None
        if name not in SHIPPED_TOOLS and (plan.has_shipped_plugins_only or is_slip):
            plan.findings.add_unknown(
                CODE,
                f"{case} mocks the tool `{name}`, which no plugin of profile `{case.profile}` brings",
                mock.where,
                name,
                SHIPPED_TOOLS,
                severity="error" if plan.has_shipped_plugins_only else "warning",
                path=f"{case.path}.mock_tools.{name}",
                profile=case.profile,
                help="take it out, or list the plugin that brings it; `bub run ,help` shows the tools there are",
            )


def _check_server(plan: Plan, case: Case, name: str, mock: Node) -> None:
    """Find a mock of a tool whose server the profile does not have."""
    servers = [server for server, _ in late.servers_in(plan.root)]
    server = late.server_of(name)
    if server not in servers:
        plan.findings.add_unknown(
            CODE,
            f"{case} mocks the tool `{name}`, but profile `{case.profile}` does not have its server",
            mock.where,
            name,
            [name.replace(str(server), one, 1) for one in servers],
            severity="error",
            path=f"{case.path}.mock_tools.{name}",
            profile=case.profile,
            help="describe the server under `mcp`, or take the mock out",
        )
