"""What the agent has to do by itself, when, and with what it may do."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.schedules.schedule import KEY, NONE, UTC, nodes_of
from bub.pipeline.show.differences.changes import Changes, describe_change, quote_value
from bub.pipeline.show.differences.facts import Fact, fact
from bub.pipeline.source.document import Node

_KEYS = {
    "cron": "it may fire more often",
    "timezone": "",
    "message": "the agent does what the message says while nobody watches",
    "session": "somebody else gets the replies",
    "profile": "another profile runs the turn, with its own rights",
    "catch_up": "",
}
"""The keys that do something, each with why another value is dangerous, if it is."""

_DEFAULTS = {"timezone": UTC, "catch_up": NONE}


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Tell which schedules come, go and change; dangerous is all that makes the agent do something else by itself."""
    before, after = dict(nodes_of(old.root)), dict(nodes_of(new.root))
    for name, node in after.items():
        path = f"{KEY}.{name}"
        if name not in before:
            said, when = (quote_value(_fact(node, key).value, "nothing") for key in ("message", "cron"))
            message = f"schedule `{name}` is new and says {said} at {when}"
            danger = "the agent acts without being asked"
            changes.add("schedules.added", message, path, node, new=node.plain(), danger=danger)
            continue
        for key, why in _KEYS.items():
            was, now = _fact(before[name], key), _fact(node, key)
            if was.sense != now.sense:
                message = describe_change(key, f"schedule `{name}`", was, now)
                changes.add_differing(f"schedules.{key}", message, f"{path}.{key}", was, now, danger=why)
    for name, node in before.items():
        if name not in after:
            message = f"schedule `{name}` no longer fires"
            changes.add("schedules.removed", message, f"{KEY}.{name}", node, old=node.plain())


def _fact(node: Node, key: str) -> Fact:
    return fact(key, node.get(key), unset=_DEFAULTS.get(key))
