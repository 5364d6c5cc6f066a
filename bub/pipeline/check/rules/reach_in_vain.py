"""What `reach` says changes what commands may do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from bub.base.diagnostics import Related
from bub.pipeline.check import late
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.pipeline.source.document import Node
from bub.plugins.shipped import BY_NAME

CODE = "B236"

_Entries = Sequence[tuple[str, Node]]


def check(plan: Plan) -> None:
    """Find a `reach` of a profile without commands, and entries that another one includes."""
    profile = plan.effective.profile_node
    reach = profile.get("reach") if profile is not None else None
    if reach is None or not reach.is_mapping:
        return
    path = f"profiles.{plan.profile}.reach"
    if _is_said_here(plan) and not _allows_commands(plan):
        plan.findings.warn(
            CODE,
            f"`reach` confines nothing: profile `{plan.profile}` does not allow `{BY_NAME}`",
            reach.where,
            path=path,
            profile=plan.profile,
            help=f"add `{BY_NAME}` to `tools.allow`, or take `reach` out",
        )
        return
    for key, entry, node, reason, other in _included(_entries(reach, "write"), _entries(reach, "read")):
        plan.findings.warn(
            CODE,
            f"`{entry}` in `reach.{key}` changes nothing: {reason}",
            node.where,
            path=f"{path}.{key}",
            profile=plan.profile,
            help="take it out",
            related=[Related("it is said here", other.where.file, other.where.range)] if other is not None else [],
        )


def _included(write: _Entries, read: _Entries) -> Iterator[tuple[str, str, Node, str, Node | None]]:
    for entry, node in write:
        for other, there in write:
            if other != entry and late.covers(other, entry):
                yield "write", entry, node, f"commands may write all of `{other}`", there
                break
    for entry, node in read:
        writing = next(((other, there) for other, there in write if late.covers(other, entry)), None)
        reading = next(((other, there) for other, there in read if other != entry and late.covers(other, entry)), None)
        if writing is not None:
            yield "read", entry, node, f"commands may write `{writing[0]}`, and so read it", writing[1]
        elif late.covers(late.WORKSPACE, entry):
            yield "read", entry, node, "commands may always read the workspace", None
        elif any(late.covers(folder, entry) for folder in late.NEEDED):
            yield "read", entry, node, "programs need it, so commands may always read it", None
        elif reading is not None:
            yield "read", entry, node, f"commands may read all of `{reading[0]}`", reading[1]


def _entries(reach: Node, key: str) -> _Entries:
    node = reach.get(key)
    if node is None or not node.is_sequence:
        return ()
    return [(str(one.value), one) for one in node.elements() if "${" not in str(one.value)]


def _is_said_here(plan: Plan) -> bool:
    """Whether this very profile says it; one that allows less than its parent may inherit what it has no use for."""
    return plan.document.root.get("profiles", plan.profile, "reach") is not None


def _allows_commands(plan: Plan) -> bool:
    allow = plan.tools.get("allow") if plan.tools is not None else None
    deny = plan.tools.get("deny") if plan.tools is not None else None
    allowed, denied = ([name for name, _ in names_of(node)] for node in (allow, deny))
    if any("${" in name for name in (*allowed, *denied)):
        return True
    return BY_NAME in allowed and not any(fnmatchcase(BY_NAME, glob) for glob in denied)
