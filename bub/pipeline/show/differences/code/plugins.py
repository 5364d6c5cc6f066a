"""Which plugins are imported, from where, and in which order they are asked."""

from __future__ import annotations

from bub.labels import Labels
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.declared import declared_in
from bub.pipeline.show.differences.changes import Changes, describe_change, list_names, quote_value
from bub.pipeline.show.differences.facts import Fact, fact, gates_of
from bub.pipeline.show.differences.judges import judges, renamed_plugins, source_of

_OTHERS = "*"
"""Stands for the tools and channels that no label names."""

_NAMES = Labels.__struct_fields__
_ANYTHING = Labels("private", "untrusted", "outside")


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes in the allowlist, and in what is said of the plugins on it."""
    before, after, renamed = dict(old.allowlist), dict(new.allowlist), renamed_plugins(old, new)
    for name, place in after.items():
        if name in before:
            _compare_declarations(name, old, new, changes)
        elif name in renamed:
            message = f"plugin `{renamed[name]}` is called `{name}`"
            changes.add("code.renamed", message, _path(new), place, old=renamed[name], new=name)
        else:
            message = f"plugin `{name}` will be imported{_from(source_of(new, name))}"
            changes.add("code.added", message, _path(new), place, new=name, danger=not new.is_shipped(name))
    for name, place in before.items():
        if name not in after and name not in renamed.values():
            kind, message, danger = _loss("removed", name, "will no longer be imported", old, new)
            changes.add(kind, message, _path(old), place, old=name, danger=danger)
    kept, were = [name for name in after if name in before], [name for name in before if name in after]
    if kept != were:
        message = f"plugins are asked in another order: {list_names(reversed(kept))} (was {list_names(reversed(were))})"
        changes.add("code.order", message, _path(new), new.effective.allowlist, old=were, new=kept)


def _compare_declarations(name: str, old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes about a plugin that is imported before and after."""
    path, who = f"plugins.{name}", f"plugin `{name}`"
    was, now = source_of(old, name), source_of(new, name)
    if was.sense != now.sense:
        message = f"{who} will be imported{_from(now)}, no longer{_from(was)}"
        changes.add_differing(
            "code.path", message, f"{path}.path", was, now, new.root.get("plugins", name), danger=True
        )
    was, now = (fact("optional", plan.root.get("plugins", name, "optional"), unset=False) for plan in (old, new))
    if was.sense != now.sense:
        kind, message, danger = "code.optional", f"{who} may no longer be missing", False
        if now.value is not False:
            where = "" if now.value is True else f" if {quote_value(now.value)} says so"
            kind, message, danger = _loss("optional", name, f"may be missing{where}", old, new)
        changes.add_differing(kind, message, f"{path}.optional", was, now, danger=danger)
    was, now = (fact("runtime", plan.root.get("plugins", name, "runtime"), unset="python") for plan in (old, new))
    if was.sense != now.sense:
        changes.add_differing("code.runtime", describe_change("runtime", who, was, now), f"{path}.runtime", was, now)
    _compare_labels(name, old, new, changes)


def _compare_labels(name: str, old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes in what the file says that the tools and channels of a plugin do."""
    was, now = (fact("labels", plan.root.get("plugins", name, "labels")) for plan in (old, new))
    if was.sense == now.sense:
        return
    before, after = (declared_in(plan, plan.root, name, plan.root.place) for plan in (old, new))
    tools, channels = before.tools | after.tools | {_OTHERS}, before.channels | after.channels | {_OTHERS}
    pairs = [(before.of_tool(one), after.of_tool(one)) for one in tools]
    pairs += [(before.of_channel(one), after.of_channel(one)) for one in channels]
    less = any(declares_less(one, other) for one, other in pairs)
    why = "people are asked before fewer calls" if less else ""
    message = describe_change("labels", f"plugin `{name}`", was, now)
    changes.add_differing("tools.labels", message, f"plugins.{name}.labels", was, now, danger=why)


def declares_less(was: Labels | None, now: Labels | None) -> bool:
    """Return whether labels say that less may happen; what is not declared may do anything."""
    if now is None:
        return False
    return any(getattr(was or _ANYTHING, name) is not None and getattr(now, name) is None for name in _NAMES)


def _loss(what: str, plugin: str, happens: str, old: Plan, new: Plan) -> tuple[str, str, bool]:
    """Return kind, message and danger of losing a plugin: whether it guards something is known only when it runs."""
    remaining = gates_of(new)
    relying = [name for name, only in gates_of(old).items() if name in remaining and plugin in judges(old, only)]
    message = f"plugin `{plugin}` {happens}"
    if not relying:
        return f"code.{what}", message, False
    gates = f"gate{'s' if len(relying) > 1 else ''} {list_names(relying)}"
    return f"gates.plugin_{what}", f"{message}, though {gates} may rely on it", True


def _from(source: Fact) -> str:
    return " from an installed package" if source.value is None else f" from `{source.value}`"


def _path(plan: Plan) -> str:
    return f"profiles.{plan.profile}.plugins"
