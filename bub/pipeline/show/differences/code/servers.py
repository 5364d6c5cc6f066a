"""Which servers the agent of a profile uses: programs that are started, and addresses that get what it says."""

from __future__ import annotations

from bub.labels import Labels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.declared import labels_said
from bub.pipeline.plan.ways.servers import describe_server, servers_in, used_servers
from bub.pipeline.show.differences.changes import Changes, describe_change, quote_value
from bub.pipeline.show.differences.code.plugins import declares_less
from bub.pipeline.show.differences.facts import fact
from bub.pipeline.source.document import Node

_SECRETS = ("env", "headers")


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes in the servers of a profile; whatever starts or reaches something else is dangerous."""
    before, after = dict(servers_in(old.root)), dict(servers_in(new.root))
    used = dict(used_servers(new))
    for name, node in after.items():
        if name in before:
            _compare_server(name, before[name], node, name in used, changes)
        else:
            what = "will be started" if node.get("command") is not None else "will be asked"
            message = (
                f"server `{name}` {what if name in used else 'is described'}: {quote_value(describe_server(node))}"
            )
            changes.add("code.server_added", message, f"mcp.{name}", node, new=name, danger=name in used)
    for name, node in before.items():
        if name not in after:
            changes.add("code.server_removed", f"server `{name}` is gone", f"mcp.{name}", node, old=name)


def _compare_server(name: str, was: Node, now: Node, is_used: bool, changes: Changes) -> None:
    who, path = f"server `{name}`", f"mcp.{name}"
    for key in ("command", "url"):
        before, after = fact(key, was.get(key)), fact(key, now.get(key))
        if before.sense != after.sense:
            message = describe_change(key, who, before, after)
            changes.add_differing("code.server", message, f"{path}.{key}", before, after, now, danger=is_used)
    for key in _SECRETS:
        before, after = fact(key, was.get(key)), fact(key, now.get(key))
        if before.sense != after.sense:
            more = sorted(set(after.value or {}) - set(before.value or {}))
            message = f"`{key}` of {who} is changed"
            danger = f"it is given {', '.join(f'`{one}`' for one in more)}" if more and is_used else ""
            changes.add("code.server", message, f"{path}.{key}", after.node, before.node, danger=danger)
    before, after = fact("timeout", was.get("timeout")), fact("timeout", now.get("timeout"))
    if before.sense != after.sense:
        message = describe_change("timeout", who, before, after)
        changes.add_differing("limits.server", message, f"{path}.timeout", before, after, now)
    before, after = fact("labels", was.get("labels")), fact("labels", now.get("labels"))
    if before.sense != after.sense:
        why = "people are asked before fewer calls" if is_used and _less(was, now) else ""
        message = describe_change("labels", who, before, after)
        changes.add_differing("tools.labels", message, f"{path}.labels", before, after, now, danger=why)


def _less(was: Node, now: Node) -> bool:
    """Return whether labels say that less may happen."""
    said = [labels_said(node.get("labels")) for node in (was, now)]
    tools = {"*", *(name for one in said if one is not None for name in one.tools)}
    pairs: list[list[Labels | None]] = [
        [one.of_tool(tool) if one is not None else None for one in said] for tool in tools
    ]
    return any(declares_less(before, after) for before, after in pairs)
