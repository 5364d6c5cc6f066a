"""A change in behaviour: one sentence, how much it matters, and the place to look at."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bub.base.diagnostics import Place
from bub.pipeline.plan.shown import value_to_show
from bub.pipeline.show.differences.facts import Fact
from bub.pipeline.source.document import Node, Plain
from bub.secrets.within import hide_within

AREAS = (
    "code",
    "gates",
    "tools",
    "schedules",
    "profiles",
    "stages",
    "order",
    "policies",
    "values",
    "hooks",
    "routes",
    "settings",
    "limits",
)
"""What changes are about, the most dangerous first; the `kind` of each change begins with one of these."""

Severity = Literal["danger", "notice"]

_LONGEST, _MOST_NAMES = 60, 6


@dataclass(frozen=True, slots=True)
class Change:
    """One difference in behaviour, as a sentence.

    `danger`: more may run, pass or be reached than before. The `message` says why, unless it speaks for itself. `kind`
    is stable, such as `gates.removed`. `old` and `new` are values of JSON, None if there is none, and never a secret.
    `place` is that of the new value, else of the old.
    """

    severity: Severity
    kind: str
    message: str
    path: str
    place: Place | None
    old: Plain = None
    new: Plain = None

    @property
    def area(self) -> str:
        return self.kind.partition(".")[0]

    @property
    def is_danger(self) -> bool:
        return self.severity == "danger"

    @property
    def rank(self) -> tuple[bool, int]:
        """Return its rank among others: the dangerous first, then by area."""
        return not self.is_danger, AREAS.index(self.area)

    def as_dict(self, profile: str | None) -> dict[str, Any]:
        """Return the change as the JSON object of `bub diff --json`."""
        place = None
        if self.place is not None:
            start = self.place.range.start
            place = {"file": self.place.file, "line": start.line, "column": start.column}
        return {
            "severity": self.severity,
            "kind": self.kind,
            "profile": profile,
            "path": self.path,
            "message": self.message,
            "old": self.old,
            "new": self.new,
            "place": place,
        }


@dataclass(slots=True)
class Changes:
    """Collects changes while two pipelines are compared."""

    items: list[Change] = field(default_factory=list)

    def add(
        self,
        kind: str,
        message: str,
        path: str,
        *at: Node | Place | None,
        old: Plain = None,
        new: Plain = None,
        danger: bool | str = False,
    ) -> None:
        """Add one change, at the first of the places that is there; `danger` may say why it is one."""
        places = (node.where if isinstance(node, Node) else node for node in at)
        place = next((place for place in places if place is not None), None)
        severity: Severity = "danger" if danger else "notice"
        old, new = value_to_show(old), value_to_show(new)
        if isinstance(danger, str) and danger:
            message = f"{message}: {danger}"
        self.items.append(Change(severity, kind, hide_within(message), hide_within(path), place, old, new))

    def add_differing(
        self,
        kind: str,
        message: str,
        path: str,
        was: Fact,
        now: Fact,
        *at: Node | Place | None,
        danger: bool | str = False,
    ) -> None:
        """Add one change from a fact to another, at its new place, its old one, or the first of `at`."""
        self.add(kind, message, path, now.node, was.node, *at, old=was.value, new=now.value, danger=danger)

    def sort(self) -> tuple[Change, ...]:
        return tuple(sorted(self.items, key=lambda change: change.rank))


# Words


def describe_match(match: Plain) -> str:
    """Return the messages that a `when` or a `match` is about."""
    if not isinstance(match, Mapping) or not match:
        return "all messages"
    return "messages with " + ", ".join(f"{name} {quote_value(glob)}" for name, glob in match.items())


def describe_change(key: str, who: str, was: Fact, now: Fact) -> str:
    """Return the sentence about a key that has another value now."""
    if key == "when":
        return f"{who} is for {describe_match(now.value)} (was for {describe_match(was.value)})"
    shown = value_to_show(was.value)
    if shown != was.value and shown == value_to_show(now.value):
        return f"`{key}` of {who} is changed"
    unset = "every plugin of the profile" if key == "only" else "not set"
    return f"`{key}` of {who} is {quote_value(now.value, unset)} (was {quote_value(was.value, unset)})"


def quote_value(value: Plain, unset: str = "not set") -> str:
    """Return a value in a sentence: quoted, in short; a list of strings as its items."""
    if value is None:
        return unset
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return list_names(value)
    shown = value_to_show(value)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}`"


def list_names(names: Iterable[str]) -> str:
    """Names in a sentence, of many the first few."""
    quoted = [f"`{name}`" for name in names]
    more = len(quoted) - _MOST_NAMES
    return ", ".join(quoted) if more <= 0 else f"{', '.join(quoted[:_MOST_NAMES])} and {more} more"
