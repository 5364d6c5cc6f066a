"""Who may talk to the agent on a channel: lists of users and of chats, as Telegram has them."""

from __future__ import annotations

from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.ways.guests import EVERYBODY, GUESTS
from bub.pipeline.show.differences.changes import Changes
from bub.pipeline.source.document import Node

_TELEGRAM = "telegram"


def widens(old: Node | None, new: Node | None, key: str) -> bool:
    """Return whether a section lets in somebody that it did not let in before, by its list `key`."""
    if not _admits_any(new) or not _admits_any(old):
        return _admits_any(new)
    was, now = _guests_of(old, key), _guests_of(new, key)
    return was is not None and (now is None or not now <= was)


def compare(old: Plan, new: Plan, changes: Changes) -> None:
    """Find out if Telegram begins to be answered with strangers let in; a change of its lists is found elsewhere."""
    section = new.root.get("settings", _TELEGRAM)
    if _runs(new) and not _runs(old) and _admits_strangers(section) and _admits_strangers(_section(old)):
        listed = next(place for name, place in new.allowlist if name == _TELEGRAM)
        message = "strangers may talk to the agent on Telegram: Bub answers there now"
        changes.add("settings.guests", message, f"settings.{_TELEGRAM}", listed, danger=True)


def _section(plan: Plan) -> Node | None:
    return plan.root.get("settings", _TELEGRAM)


def _runs(plan: Plan) -> bool:
    """Return whether the channel runs if this profile is chosen at start."""
    section, profile = _section(plan), plan.effective.profile_node
    has_token = section is not None and section.get("token") is not None
    node = profile.get("channels") if profile is not None else None
    channels = {str(item.value) for item in node.elements()} if node is not None else {"all"}
    is_chosen = bool(channels & {"all", _TELEGRAM}) and f"!{_TELEGRAM}" not in channels
    return has_token and is_chosen and any(name == _TELEGRAM for name, _ in plan.allowlist)


def _admits_any(section: Node | None) -> bool:
    return any(_texts(section, key) for key in GUESTS)


def _admits_strangers(section: Node | None) -> bool:
    """Return whether somebody is let in whom nobody named: everybody, or whoever writes in some chat."""
    users, chats = (_texts(section, key) for key in GUESTS)
    return EVERYBODY in users or (not users and bool(chats))


def _guests_of(section: Node | None, key: str) -> frozenset[str] | None:
    """Return whom a list lets in; None for everybody, which an empty one means as well if the other is not empty."""
    texts = _texts(section, key)
    return None if not texts or EVERYBODY in texts else texts


def _texts(section: Node | None, key: str) -> frozenset[str]:
    node = section.get(key) if section is not None else None
    items = node.elements() if node is not None else ()
    return frozenset(str(item.value).removeprefix("@").casefold() for item in items)
