"""Which tools a profile may use, and which of them only after a person was asked."""

from __future__ import annotations

from collections.abc import Iterable

from bub.base.globs import covers, may_meet
from bub.pipeline.plan.plan import Plan
from bub.pipeline.show.differences.changes import Changes
from bub.pipeline.source.document import Node

_BY_NAME = "bash"
"""The tool that no glob allows."""


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes in `allow`, `deny` and `ask` of the profile's `tools`."""
    was, now = (_tools(plan) for plan in (old, new))
    path = f"profiles.{new.profile}.tools"
    before, after = _entries_of(was, "allow"), _entries_of(now, "allow")
    if before is not None and after is None:
        message = "the profile no longer lists the tools it allows, so it allows those that only read"
        changes.add("tools.unlisted", message, path, now, was, old=list(before), danger=True)
    elif before is None and after is not None:
        message = "the profile lists the tools it allows; before, those that only read were allowed"
        changes.add("tools.listed", message, path, now, new=list(after))
    asked = _entries_of(now, "ask") or {}
    for name, node in _missing(after, before):
        once = ", after a person was asked" if _match(asked, name) else ""
        danger = not _allow(before or {}, name)
        changes.add("tools.allow", f"tool `{name}` may be used{once}", f"{path}.allow", node, new=name, danger=danger)
    for name, node in _missing(before, after) if after is not None else ():
        changes.add("tools.not_allow", f"tool `{name}` is no longer allowed", f"{path}.allow", node, old=name)
    _compare_limit(was, now, "deny", "tool `{}` is denied", "tool `{}` is no longer denied", path, changes)
    words = ("a person is asked before tool `{}` is used", "nobody is asked any more before tool `{}` is used")
    _compare_limit(was, now, "ask", *words, path, changes)


def _compare_limit(
    was: Node | None, now: Node | None, key: str, more: str, less: str, path: str, changes: Changes
) -> None:
    before, after, allowed = _entries_of(was, key), _entries_of(now, key), _entries_of(now, "allow")
    for name, node in _missing(after, before):
        changes.add(f"tools.{key}", more.format(name), f"{path}.{key}", node, new=name)
    for name, node in _missing(before, after):
        # A pattern may stand for tools of which a narrower one is allowed.
        usable = key == "deny" or allowed is None or _may_allow(allowed, name)
        danger = usable and not _match(after or {}, name)
        changes.add(f"tools.not_{key}", less.format(name), f"{path}.{key}", node, old=name, danger=danger)


def _tools(plan: Plan) -> Node | None:
    profile = plan.effective.profile_node
    return profile.get("tools") if profile is not None else None


def _entries_of(tools: Node | None, key: str) -> dict[str, Node] | None:
    node = tools.get(key) if tools is not None else None
    return {str(item.value): item for item in node.elements()} if node is not None else None


def _missing(these: dict[str, Node] | None, others: dict[str, Node] | None) -> list[tuple[str, Node]]:
    """Return what `these` have and `others` lack."""
    return [(name, node) for name, node in (these or {}).items() if name not in (others or {})]


def _allow(allowed: Iterable[str], name: str) -> bool:
    return name in allowed if name == _BY_NAME else _match(allowed, name)


def _may_allow(allowed: Iterable[str], name: str) -> bool:
    return name in allowed if name == _BY_NAME else any(may_meet(glob, name) for glob in allowed)


def _match(globs: Iterable[str], name: str) -> bool:
    return any(covers(glob, name) for glob in globs)
