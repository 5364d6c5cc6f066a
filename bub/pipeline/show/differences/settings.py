"""What the model and the plugins are set to, secrets never shown; and what else a profile says of itself."""

from __future__ import annotations

from collections.abc import Iterator

from bub.base.json_schema import Steps
from bub.pipeline.plan.origins import Lookup, join_steps, lookup_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.show.differences.changes import Changes, describe_change, quote_value
from bub.pipeline.show.differences.facts import Fact, fact
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import references
from bub.pipeline.source.merge import without

_SECRET = "a secret"
"""What stands for one that is written in the file."""

_TOLD_ELSEWHERE = ("extends", "description", "plugins", "tools", "settings", "stages", "hooks")
"""The keys of a profile that are no limits of it."""


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell which settings change, as they are written: no reference is looked up."""
    before, after = (dict(_leaves(plan.root.get("settings"))) for plan in (old, new))
    lookups = lookup_of(old, {}), lookup_of(new, {})
    for path in dict.fromkeys((*after, *before)):
        key = "timeout" if path == ("timeout",) else ""
        nodes = before.get(path), after.get(path)
        senses = [node is not None and fact(key, node).sense for node in nodes]
        if senses[0] == senses[1]:
            continue
        was, now = (
            _hide_secrets(node, ("settings", *path), lookup) for node, lookup in zip(nodes, lookups, strict=True)
        )
        name = join_steps(("settings", *path))
        message = f"`{name}` is {_word(now)} (was {_word(was)})"
        if was.value == now.value:  # what differs is a secret
            message = f"`{name}` is changed"
        if path[-1] == "api_base" and path[0] in ("api_base", "providers"):
            message = f"{message}: messages and keys go there"
            changes.add_differing("settings.address", message, name, was, now, danger=True)
        else:
            changes.add_differing("settings.value", message, name, was, now)


def compare_limits(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell what changes in the `concurrency`, `budget` and `channels` of the profile."""
    before, after = (dict(_leaves(_limits(plan))) for plan in (old, new))
    for path in dict.fromkeys((*after, *before)):
        was, now = fact(path[0], before.get(path)), fact(path[0], after.get(path))
        if was.sense != now.sense:
            name = join_steps(path)
            message = describe_change(name, "the profile", was, now)
            changes.add_differing(f"limits.{path[0]}", message, f"profiles.{new.profile}.{name}", was, now)


def _hide_secrets(node: Node | None, steps: Steps, lookup: Lookup) -> Fact:
    if node is None:
        return Fact(None, None, "")
    is_literal = lookup.is_secret(node, steps) and not (isinstance(node.value, str) and references(node.value))
    return Fact(_SECRET if is_literal else lookup.redact(node, steps).plain(), node, "")


def _word(value: Fact) -> str:
    return _SECRET if value.value == _SECRET else quote_value(value.value)


def _leaves(node: Node | None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Yield every value of a mapping that is no mapping itself, or an empty one, by its path."""
    for name, child in node.items() if node is not None else ():
        if child.is_mapping and child.value:
            yield from _leaves(child, (*path, name))
        else:
            yield (*path, name), child


def _limits(plan: Plan) -> Node | None:
    profile = plan.effective.profile_node
    return without(profile, _TOLD_ELSEWHERE) if profile is not None else None
