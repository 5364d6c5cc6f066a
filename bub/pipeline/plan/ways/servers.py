"""The servers of a profile, and which of them it lets an agent use."""

from __future__ import annotations

from collections.abc import Iterator

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of, text_of
from bub.pipeline.plan.ways.tool_rules import ToolRules, match
from bub.pipeline.source.document import Node
from bub.plugins.servers import server_of
from bub.plugins.shipped import SERVED


def servers_in(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield the servers that a document or a profile describes, as far as each can be read."""
    section = root.get("mcp")
    yield from ((name, node) for name, node in (section.items() if section is not None else ()) if node.is_mapping)


def is_allowed(server: str, rules: ToolRules) -> bool:
    """Return whether a profile lets the agent use some tool of a server."""
    is_named = any(server_of(entry) == server for entry in rules.allow or ())
    return is_named and not match(rules.deny, f"{SERVED}{server}.*")


def describe_server(node: Node) -> str:
    """Return what a server is: the words of its command, or its address."""
    command = " ".join(name for name, _ in names_of(node.get("command")))
    return command or text_of(node.get("url")) or "nothing"


def used_servers(plan: Plan) -> Iterator[tuple[str, Node]]:
    """Yield the servers that the agent of a profile may use."""
    rules = ToolRules.of(plan)
    yield from ((name, node) for name, node in servers_in(plan.root) if is_allowed(name, rules))
