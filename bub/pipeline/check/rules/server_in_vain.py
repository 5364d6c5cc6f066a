"""Some profile may use each server, and the servers that `tools` names are there."""

from __future__ import annotations

from collections.abc import Iterator

from bub.base.globs import covers
from bub.pipeline.check import late
from bub.pipeline.check.outline import Outline
from bub.pipeline.check.rules.unknown_tool import CODE as UNKNOWN
from bub.pipeline.check.rules.unknown_tool import said_of_tools
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.source.document import Node
from bub.pipeline.source.profiles import effective
from bub.plugins.shipped import SERVED

CODE = "B245"


def check(outline: Outline) -> None:
    """Find servers that no profile lets an agent use; a glob such as `*` is for none of their tools."""
    described = list(_described(outline))
    if not described:
        return
    document = outline.document
    allowed = {name: _allowed(effective(document, name).profile_node) for name in outline.profiles}
    for owner, name, node in described:
        seeing = [one for one in outline.profiles if owner is None or owner in effective(document, one).chain]
        entries = [entry for one in seeing for entry in allowed[one]]
        if any("${" in entry or late.server_of(entry) == name for entry in entries) or node.where.file != document.file:
            continue
        wide = next((entry for entry in entries if covers(entry, f"{SERVED}{name}.*")), None)
        why = f": `{wide}` does not include tools of servers" if wide is not None else ""
        outline.findings.warn(
            CODE,
            f"no profile allows a tool of server `{name}`, so Bub never uses the server{why}",
            node.where,
            path=f"profiles.{owner}.mcp.{name}" if owner is not None else f"mcp.{name}",
            help=f"add `{SERVED}{name}.*` to `tools.allow` of a profile, or take the server out",
        )


def check_names(plan: Plan) -> None:
    """Find what `tools` says of servers that the profile does not have, and globs in `allow` that name no server."""
    named = [one for one in said_of_tools(plan) if one[1].startswith(SERVED)]
    servers = [name for name, _ in late.servers_in(plan.root)] if named else []
    allowed = {name for _, name, _ in named}
    for key, name, place in named:
        path = f"profiles.{plan.profile}.tools.{key}"
        server = late.server_of(name)
        if server is not None and server not in servers:
            plan.findings.add_unknown(
                UNKNOWN,
                f"`{name}` names server `{server}`, but profile `{plan.profile}` has no such server",
                place,
                name,
                [other for one in servers if (other := name.replace(server, one, 1)) not in allowed],
                severity="error",
                path=path,
                profile=plan.profile,
                help="describe it under `mcp`, or take it out",
            )
        elif key == "allow" and server is None:
            plan.findings.warn(
                CODE,
                f"`{name}` allows no tool: write the name of a server to allow its tools",
                place,
                path=path,
                profile=plan.profile,
                help=" and ".join(f"`{SERVED}{one}.*`" for one in servers) or f"write `{SERVED}NAME.*`",
            )


def _described(outline: Outline) -> Iterator[tuple[str | None, str, Node]]:
    """Yield each server with the profile that describes it; None if the file does it for all."""
    root = outline.document.root
    profiles = root.get("profiles")
    for profile, said in ((None, root), *(profiles.items() if profiles is not None else ())):
        if said.get("mcp") is not None:
            yield from ((profile, name, node) for name, node in late.servers_in(said))


def _allowed(profile: Node | None) -> list[str]:
    return [name for name, _ in names_of(profile.get("tools", "allow"))] if profile is not None else []
