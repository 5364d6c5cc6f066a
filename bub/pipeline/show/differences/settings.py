"""What the model and the plugins are set to, secrets never shown."""

from __future__ import annotations

from bub.base.json_schema import Steps, join_steps
from bub.pipeline.plan.origins import Lookup, lookup_of
from bub.pipeline.plan.plan import Plan
from bub.pipeline.show.differences.changes import Changes, quote_value
from bub.pipeline.show.differences.facts import Fact, fact, leaves_of
from bub.pipeline.show.differences.reach import Opening, Setting, find_opening
from bub.pipeline.source.document import Node
from bub.pipeline.source.interpolate import references

_SECRET = "a secret"
"""What stands for one that is written in the file."""

_LISTS = ("folders", "env", "allow_users", "allow_chats")
"""The settings whose order means nothing."""


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell which settings change, as they are written: no reference is looked up."""
    before, after = (dict(leaves_of(plan.root.get("settings"))) for plan in (old, new))
    lookups = lookup_of(old, {}), lookup_of(new, {})
    written = {path: node.value for path, node in before.items() if _is_literal(node, path, lookups[0])}
    for path in dict.fromkeys((*after, *before)):
        key = path[-1] if path[-1] in _LISTS or path == ("timeout",) else ""
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
        plain = tuple(node.plain() if node is not None else None for node in nodes)
        opening = find_opening(Setting(path, plain[0], plain[1], old, new))
        if _is_literal(nodes[1], path, lookups[1]) and path not in written and plain[1] not in written.values():
            opening = Opening("settings.secret", "everybody who reads the file can read it")
        kind, danger = opening or ("settings.value", False)
        changes.add_differing(kind, message, name, was, now, danger=danger)


def _is_literal(node: Node | None, path: Steps, lookup: Lookup) -> bool:
    """Return whether a secret is written in the file, also as what a variable stands for that is not set."""
    if node is None or not isinstance(node.value, str) or not lookup.is_kept_secret(path):
        return False
    found = references(node.value)
    return not found or any(reference.default for reference in found)


def _hide_secrets(node: Node | None, steps: Steps, lookup: Lookup) -> Fact:
    if node is None:
        return Fact(None, None, "")
    is_literal = lookup.is_secret(node, steps) and not (isinstance(node.value, str) and references(node.value))
    return Fact(_SECRET if is_literal else lookup.redact(node, steps).plain(), node, "")


def _word(value: Fact) -> str:
    return _SECRET if value.value == _SECRET else quote_value(value.value)
