"""Messages: weakly typed envelopes, read through accessors that take mappings and objects alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Envelope = Any
"""An inbound or outbound message: a mapping, or any object with attributes."""


def field_of(message: Envelope, name: str, default: Any = None) -> Any:
    """Read one field of a message, whatever the message is made of (BEHAVIOURS T13).

    It reads a mapping by key, everything else by attribute, and returns `default` if there is no such field.
    """
    # Nearly every message is a dict, and asking for the abstract class costs more than the look-up.
    if type(message) is dict or isinstance(message, Mapping):
        return message.get(name, default)
    return getattr(message, name, default)


def content_of(message: Envelope) -> str:
    """Return the text of a message; "" if it has none (so `content: None` is never the text "None", T13)."""
    content = field_of(message, "content")
    return "" if content is None else str(content)


def normalize_envelope(message: Envelope) -> dict[str, Any]:
    """Return a new dict with the fields of a message; a bare string becomes its `content`.

    It never changes the caller's object (BEHAVIOURS T6).
    """
    if isinstance(message, Mapping):
        return dict(message)
    if isinstance(message, str):
        return {"content": message}
    slots = [name for cls in type(message).__mro__ for name in _slots_of(cls)]
    names = [*slots, *getattr(message, "__dict__", ())]
    if not names:
        return {"content": str(message)}
    return {name: getattr(message, name) for name in names if not name.startswith("_") and hasattr(message, name)}


def _slots_of(cls: type) -> Iterable[str]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots


ADDRESS = ("channel", "chat_id")
"""What every message in a turn has: the place it comes from, or goes to."""

NO_ADDRESS = "default"
"""What a turn takes for a channel or a chat that a message does not name."""


FIELDS = frozenset(
    (
        "channel",
        "chat_id",
        "content",
        "session_id",
        "sender_id",
        "kind",
        "is_active",
        "context",
        "context_str",
        "media",
        "message_id",
        "once",
        "also_answers",
        "answers",
        "draft",
        "output_channel",
        "profile",
        "request",
        "trace",
        "lifespan",
        "origin",
    )
)
"""What can be read of a message of any channel; one that a program makes may have fields of its own."""


def add_address(message: Envelope) -> Envelope:
    """Give a message a `channel` and a `chat_id`, `default` if it has none, as a turn works on it.

    A mapping, a text, or an object that lacks one becomes a new dict; an object that has both stays as it is.
    """
    if type(message) is dict:
        fields = message.copy()
    elif not isinstance(message, Mapping) and all(getattr(message, name, None) is not None for name in ADDRESS):
        return message
    else:
        fields = normalize_envelope(message)
    for name in ADDRESS:
        if fields.get(name) is None:
            fields[name] = NO_ADDRESS
    return fields


def keep_address(message: Envelope, before: Envelope) -> Envelope:
    """Fill in the address of a message that replaces the one `before`: what it does not say, it takes from there."""
    if not isinstance(message, Mapping):
        return add_address(message)
    kept = {name: field_of(before, name) for name in (*ADDRESS, "session_id") if message.get(name) is None}
    return {**message, **{name: value for name, value in kept.items() if value is not None}}


def unpack_batch(batch: Any) -> list[Envelope]:
    """Return the envelopes of one outbound batch: None has none, a list or tuple its items, anything else is one.

    It leaves out items that are None (BEHAVIOURS T24, T25).
    """
    if batch is None:
        return []
    if isinstance(batch, list | tuple):
        return [item for item in batch if item is not None]
    return [batch]
