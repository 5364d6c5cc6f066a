"""Which tools a profile may use, and which of them only after a person was asked."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from bub.base.globs import covers, is_glob, sample
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.tool_rules import ASKED, FREE, Entries, ToolRules, match
from bub.pipeline.show.differences.changes import Changes
from bub.pipeline.source.document import Node
from bub.plugins.shipped import BY_NAME, SHIPPED_TOOLS


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes in the profile's `tools`; what becomes freer is dangerous."""
    was, now, path = ToolRules.of(old), ToolRules.of(new), f"profiles.{new.profile}.tools"
    freer = [tool for tool in _samples(was.names | now.names) if _is_freer(tool, was, now)]
    if was.allow is not None and now.allow is None:
        message = "the profile no longer lists the tools it allows, so it allows those that only read"
        changes.add("tools.unlisted", message, path, now.node, was.node, old=list(was.allow), danger=bool(freer))
    elif was.allow is None and now.allow is not None:
        message = "the profile lists the tools it allows; before, those that only read were allowed"
        changes.add("tools.listed", message, path, now.node, new=list(now.allow))
    for name, node in _missing(now.allow, was.allow):
        once = ", after a person was asked" if match(now.ask, name) else ""
        message, danger = f"tool `{name}` may be used{once}", _frees(name, freer, allows=True)
        changes.add("tools.allow", message, f"{path}.allow", node, new=name, danger=danger)
    for name, node in _missing(was.allow, now.allow) if now.allow is not None else ():
        changes.add("tools.not_allow", f"tool `{name}` is no longer allowed", f"{path}.allow", node, old=name)
    words = "tool `{}` is denied", "tool `{}` is no longer denied"
    _compare_limit("deny", was.deny, now.deny, words, freer, path, changes)
    words = "a person is asked before tool `{}` is used", "nobody is asked any more before tool `{}` is used"
    _compare_limit("ask", was.ask, now.ask, words, freer, path, changes)
    danger = now.freedom(BY_NAME, False) == ASKED and was.freedom(BY_NAME, False) != FREE
    for name, node in _missing(now.unasked, was.unasked):
        message = f"nobody is asked about a command that begins with `{name}`"
        changes.add("tools.unasked", message, f"{path}.unasked.{BY_NAME}", node, new=name, danger=danger)
    for name, node in _missing(was.unasked, now.unasked):
        message = f"a command that begins with `{name}` is asked about like any other"
        changes.add("tools.not_unasked", message, f"{path}.unasked.{BY_NAME}", node, old=name)


def _compare_limit(
    key: str, was: Entries, now: Entries, words: tuple[str, str], freer: list[str], path: str, changes: Changes
) -> None:
    more, less = words
    for name, node in _missing(now, was):
        changes.add(f"tools.{key}", more.format(name), f"{path}.{key}", node, new=name)
    for name, node in _missing(was, now):
        danger = _frees(name, freer) and not any(covers(glob, name) for glob in now)
        changes.add(f"tools.not_{key}", less.format(name), f"{path}.{key}", node, old=name, danger=danger)


def _samples(names: Iterable[str]) -> set[str]:
    """Return the tools there are as far as they are known, and for each glob one that it alone means."""
    globs = [name for name in names if is_glob(name)]
    both = {one.replace("*", other.replace("*", "")) for one in globs for other in globs}
    return {*SHIPPED_TOOLS, *(set(names) - set(globs)), *map(sample, globs), *both}


def _is_freer(tool: str, was: ToolRules, now: ToolRules) -> bool:
    """Return whether a tool may do more than before."""
    # Of one that nobody knows, the worst is assumed if the profile begins to list what it allows, or ceases to.
    return now.freedom(tool, True) > was.freedom(tool, now.allow is None)


def _frees(entry: str, freer: Iterable[str], allows: bool = False) -> bool:
    """Return whether one of the tools that are freer is one that an entry of a list is for."""
    return any(tool == entry or (fnmatchcase(tool, entry) and not (allows and tool == BY_NAME)) for tool in freer)


def _missing(these: Entries | None, others: Entries | None) -> list[tuple[str, Node]]:
    """Return what `these` have and `others` lack."""
    return [(name, node) for name, node in (these or {}).items() if name not in (others or {})]
