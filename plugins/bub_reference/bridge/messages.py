"""Messages of the two, one made of the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bub.channels import ChannelMessage as OurMessage
from bub_reference.channels.message import ChannelMessage, MediaItem
from bub_reference.envelope import Envelope, content_of, field_of

_OF_EACH_MESSAGE = ("channel", "chat_id")
"""What the context of a message of the reference repeats of its address."""


def to_reference(envelope: Envelope) -> ChannelMessage:
    """A message of Bub as a plugin of the reference reads it."""
    if isinstance(envelope, ChannelMessage):
        return envelope
    channel, chat_id = (str(field_of(envelope, name) or "default") for name in _OF_EACH_MESSAGE)
    return ChannelMessage(
        session_id=str(field_of(envelope, "session_id") or f"{channel}:{chat_id}"),
        channel=channel,
        content=content_of(envelope),
        chat_id=chat_id,
        is_active=bool(field_of(envelope, "is_active", True)),
        kind=field_of(envelope, "kind") or "normal",
        context=dict(field_of(envelope, "context") or {}),
        media=[_to_item(one) for one in field_of(envelope, "media") or ()],
        output_channel=str(field_of(envelope, "output_channel") or ""),
    )


async def to_bub(message: Envelope, *, is_active: bool) -> OurMessage:
    """A message that a channel of the reference brings; its media are fetched."""
    known = message if isinstance(message, ChannelMessage) else to_reference(message)
    fetched = [(item, await item.get_url()) for item in known.media]
    return OurMessage(
        channel=known.channel,
        chat_id=known.chat_id,
        content=known.content,
        session_id=known.session_id,
        sender_id=str(known.context.get("sender_id") or ""),
        kind=known.kind,
        is_active=is_active or known.is_active,
        context=_own_context(known),
        media=[_from_item(item, url) for item, url in fetched],
        message_id=str(known.context.get("message_id") or ""),
        output_channel=_elsewhere(known),
        lifespan=known.lifespan,
    )


def reply_to_bub(message: Envelope) -> Envelope:
    """A reply that a plugin of the reference renders, as Bub dispatches it."""
    if not isinstance(message, ChannelMessage):
        return message
    reply = {
        "channel": message.channel,
        "chat_id": message.chat_id,
        "content": message.content,
        "session_id": message.session_id,
        "kind": message.kind,
        "context": _own_context(message),
        "output_channel": _elsewhere(message),
    }
    return {name: value for name, value in reply.items() if value}


def _elsewhere(message: ChannelMessage) -> str:
    return message.output_channel if message.output_channel != message.channel else ""


def _own_context(message: ChannelMessage) -> dict[str, Any]:
    """What a channel says beside the address, as far as it can be kept on the disk."""
    said = {name: value for name, value in message.context.items() if name not in _OF_EACH_MESSAGE}
    return {name: value for name, value in said.items() if _is_json(value)}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _to_item(medium: Mapping[str, Any]) -> MediaItem:
    said = {name: medium.get(name) for name in ("filename", "url")}
    return MediaItem(medium.get("kind") or "document", str(medium.get("mime_type") or ""), **said)


def _from_item(item: MediaItem, url: str | None) -> dict[str, Any]:
    said = {"kind": item.type, "mime_type": item.mime_type, "filename": item.filename, "url": url}
    return {name: value for name, value in said.items() if value}
