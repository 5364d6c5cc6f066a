"""A person can be asked about what `ask` names: it is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import msgspec

from bub.base.globs import covers, may_meet
from bub.pipeline.check.rules.bash_by_glob import looks_meant
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import names_of
from bub.plugins.shipped import BY_NAME, SHIPPED_TOOLS

CODE = "B168"


class _Rules(msgspec.Struct, frozen=True):
    """The `tools` of a profile; `allow` is None if it does not say."""

    allow: tuple[str, ...] | None
    deny: tuple[str, ...]
    knows_all: bool

    def may_permit(self, name: str) -> bool:
        """Return whether a tool, or one that a glob stands for, may be used."""
        if any(covers(glob, name) for glob in self.deny):
            return False
        if any(self._allows(tool) and not _match(self.deny, tool) for tool in SHIPPED_TOOLS if fnmatchcase(tool, name)):
            return True
        if self.knows_all or name in SHIPPED_TOOLS:
            return False
        return self.allow is None or any(may_meet(glob, name) for glob in self.allow)

    def _allows(self, tool: str) -> bool:
        if self.allow is None:
            return SHIPPED_TOOLS[tool]
        return tool in self.allow if tool == BY_NAME else _match(self.allow, tool)


def check(plan: Plan) -> None:
    """Find what `ask` names and `allow` or `deny` keeps from being used, if `ask` is said there or above them.

    A profile that allows less than the one it is built on inherits questions that do not come up: that is no mistake.
    """
    said = {key: said_in(plan, key) for key in ("allow", "deny", "ask")}
    node = plan.tools
    if node is None or said["ask"] is None or said["ask"] < max(said["allow"] or (-1, -1), said["deny"] or (-1, -1)):
        return
    allow, deny = node.get("allow"), node.get("deny")
    if any(each is not None and not each.is_sequence for each in (allow, deny)):
        return
    listed = tuple(name for name, _ in names_of(allow)) if allow is not None else None
    rules = _Rules(listed, tuple(name for name, _ in names_of(deny)), plan.has_shipped_plugins_only)
    if any("${" in name for name in (*(rules.allow or ()), *rules.deny)):
        return
    for name, place in names_of(node.get("ask")):
        is_told = _is_nobodys(name, plan) or (name == BY_NAME and any(map(looks_meant, rules.allow or ())))
        if "${" in name or is_told or rules.may_permit(name):
            continue
        plan.findings.warn(
            CODE,
            f"profile `{plan.profile}` does not allow `{name}`, so nobody is asked about it",
            place,
            path=f"profiles.{plan.profile}.tools.ask",
            profile=plan.profile,
            help=_advise(name, rules),
        )


def _advise(name: str, rules: _Rules) -> str:
    if _match(rules.deny, name):
        return "take it out of `ask`, or out of `deny`: Bub looks at `deny` first"
    if name == BY_NAME and rules.allow is not None and _match(rules.allow, name):
        return f"add `{BY_NAME}` to `allow`, since no glob allows it; or take it out of `ask`"
    return "add it to `allow`, or take it out of `ask`"


def _is_nobodys(name: str, plan: Plan) -> bool:
    """Return whether no tool at all has that name: another rule tells of it."""
    return plan.has_shipped_plugins_only and not any(fnmatchcase(tool, name) for tool in SHIPPED_TOOLS)


def said_in(plan: Plan, key: str) -> tuple[int, int] | None:
    """Return where a key of `tools` is said last: in which profile of the chain, and there in which file."""
    ranks = [
        (profile, layer)
        for profile, name in enumerate(plan.effective.chain)
        for layer, each in enumerate(plan.document.layers)
        if each.root.get("profiles", name, "tools", key) is not None and not (key == "ask" and each.shipped)
    ]
    return max(ranks, default=None)


def _match(globs: Iterable[str], name: str) -> bool:
    return any(glob == name or fnmatchcase(name, glob) for glob in globs)
