"""Who may write in a channel: lists of users and of chats in its settings, as Telegram has them."""

from __future__ import annotations

import re

import msgspec

from bub.base.diagnostics import Place
from bub.pipeline.source.document import Node

GUESTS = ("allow_users", "allow_chats")
"""If both are listed, both have to fit; if one is, that one decides; if none is, nobody may."""

EVERYBODY = "*"

_ONE_PERSON = re.compile("[1-9][0-9]*")
"""The id of a chat with one person alone; that of a group begins with `-`."""


class Strangers(msgspec.Struct, frozen=True):
    """What lets people write whom nobody named, and where that is said.

    It is not certain if a reference says who may write, or if it is a group, which anybody may be able to join.
    """

    place: Place
    words: str
    is_certain: bool = True


def find_strangers(section: Node | None) -> Strangers | None:
    """Find what lets strangers write; None if everybody who may is named, or nobody may."""
    users, chats = (_entries(section, key) for key in GUESTS)
    if not users and not chats:
        return None
    opened = [_find_open(users, is_chat=False), _find_open(chats, is_chat=True)]
    told = [one for one, entries in zip(opened, (users, chats), strict=True) if entries]
    # If both are listed, both have to fit, so the narrower one decides.
    return None if None in told else min(filter(None, told), key=lambda one: one.is_certain)


def _find_open(entries: list[Node], *, is_chat: bool) -> Strangers | None:
    found = [one for node in entries if (one := _open(node, is_chat)) is not None]
    return max(found, key=lambda one: one.is_certain, default=None)


def _open(node: Node, is_chat: bool) -> Strangers | None:
    text = str(node.value)
    if text == EVERYBODY:
        return Strangers(node.place, "anybody may write there")
    if "${" in text:
        return Strangers(node.place, "a reference says who may write there", is_certain=False)
    if is_chat and not _ONE_PERSON.fullmatch(text):
        return Strangers(node.place, f"whoever is in chat {text} may write there", is_certain=False)
    return None


def _entries(section: Node | None, key: str) -> list[Node]:
    node = section.get(key) if section is not None else None
    if node is None:
        return []
    return list(node.elements()) or ([node] if isinstance(node.value, str) else [])
