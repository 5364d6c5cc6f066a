"""What the commands of a profile may reach: its `reach`."""

from __future__ import annotations

from collections.abc import Iterable

from bub.base.confinement.entries import covers
from bub.base.confinement.value import Confinement, reaches_outside
from bub.pipeline.plan.plan import Plan
from bub.pipeline.show.differences.changes import Changes, list_names
from bub.pipeline.source.document import Node

_KIND = "limits.reach"


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes in the `reach` of the profile; whatever commands reach more is dangerous."""
    before, after = _reach_of(old), _reach_of(new)
    was, now = (Confinement.of(node.plain() if node is not None else None) for node in (before, after))
    path = f"profiles.{new.profile}.reach"
    if now is None or was is None:
        if was is not None:
            message = "commands are no longer confined"
            changes.add(_KIND, message, path, after, before, danger="they reach everything that the person reaches")
        elif now is not None:
            changes.add(_KIND, "commands reach only what `reach` lists", path, after, before)
        return
    if was.network != now.network:
        opens = reaches_outside(now) and not reaches_outside(was)
        message = f"commands reach {'a network' if reaches_outside(now) else 'no network'}"
        changes.add(_KIND, message, f"{path}.network", after, before, old=was.network, new=now.network, danger=opens)
    _compare_folders("write", was.write, now.write, was.write, path, after, before, changes)
    _compare_folders("read", was.read, now.read, (*was.write, *was.read), path, after, before, changes)


def _compare_folders(
    key: str,
    was: tuple[str, ...],
    now: tuple[str, ...],
    open_before: Iterable[str],
    path: str,
    after: Node | None,
    before: Node | None,
    changes: Changes,
) -> None:
    more, less = [one for one in now if one not in was], [one for one in was if one not in now]
    freer = [one for one in more if not any(covers(other, one) for other in open_before)]
    for names, word, danger in ((more, "may", bool(freer)), (less, "may no longer", False)):
        if names:
            message = f"commands {word} {key} {list_names(names)}"
            changes.add(_KIND, message, f"{path}.{key}", after, before, old=list(was), new=list(now), danger=danger)


def _reach_of(plan: Plan) -> Node | None:
    profile = plan.effective.profile_node
    return profile.get("reach") if profile is not None else None
