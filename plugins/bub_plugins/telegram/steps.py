"""What a reply consists of: the messages that it makes, one after another, and what they become if Telegram refuses."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from mimetypes import guess_extension
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import trio

from bub.channels import ChannelMessage
from bub_plugins.telegram.markup import LONGEST_CAPTION, Styled, plain, render, split
from bub_plugins.telegram.writing import ALBUM_FORMS, Upload

NO_TEXT = Styled("")

_PLAIN_KINDS = frozenset({"command", "error", "denied"})
_FETCHED = ("http", "https")
_LARGEST_ALBUM = 10


@dataclass(frozen=True, slots=True)
class Text:
    """One message of text."""

    styled: Styled


@dataclass(frozen=True, slots=True)
class Media:
    """One message with something in it, or several as an album."""

    items: Sequence[Mapping[str, Any]]
    caption: Styled = NO_TEXT


def steps_of(message: ChannelMessage, *, can_caption: bool) -> list[Text | Media]:
    """Return the messages that a reply makes: its text in parts, then its media. A short text is their caption."""
    content = _content_of(message)
    styled = plain(content) if message.kind in _PLAIN_KINDS else render(content)
    albums = _albums(message.media)
    if albums and can_caption and len(styled) <= LONGEST_CAPTION:
        return [Media(album, styled if number == 0 else NO_TEXT) for number, album in enumerate(albums)]
    return [*(Text(part) for part in split(styled)), *(Media(album) for album in albums)]


def _content_of(message: ChannelMessage) -> str:
    """Return the content, or the `message` of content that is a JSON object with one (BEHAVIOURS C32)."""
    content = message.content.strip()
    if content.startswith("{"):
        with contextlib.suppress(ValueError, RecursionError):
            given = json.loads(content)
            if isinstance(given, dict) and isinstance(given.get("message"), str):
                return str(given["message"])
    return message.content


def _albums(media: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Media as they are sent: pictures and films that follow each other together, everything else by itself."""
    albums: list[list[Mapping[str, Any]]] = []
    for item in media:
        joins = bool(albums) and all(_form_of(one) in ALBUM_FORMS for one in (item, albums[-1][0]))
        if joins and len(albums[-1]) < _LARGEST_ALBUM:
            albums[-1].append(item)
        else:
            albums.append([item])
    return albums


def _form_of(item: Mapping[str, Any]) -> str:
    """Return how Telegram shows something: the word in the name of its method."""
    kind, mime_type = str(item.get("kind") or ""), str(item.get("mime_type") or "").partition(";")[0].lower()
    if mime_type == "image/gif" and kind == "image":
        return "animation"
    if kind == "voice" or (kind == "audio" and mime_type == "audio/ogg"):
        return "voice"
    if kind == "image" and mime_type in ("", "image/jpeg", "image/png", "image/webp"):
        return "photo"
    return kind if kind in ("audio", "video") else "document"


def instead_of(step: Media, reason: str, *, is_there: bool) -> list[Text | Media]:
    """Return what replaces media that could not be sent: each by itself, else as a document, else a line about it."""
    if len(step.items) > 1:
        return [Media([item], step.caption if number == 0 else NO_TEXT) for number, item in enumerate(step.items)]
    [item] = step.items
    if is_there and _form_of(item) != "document":
        return [Media([{**item, "kind": "document"}], step.caption)]
    url, name = str(item.get("url") or ""), str(item.get("name") or item.get("kind") or "file")
    line = f"{name}: {url}" if urlsplit(url).scheme in _FETCHED else f"({name} could not be sent: {reason})"
    return [*(Text(part) for part in split(step.caption)), *(Text(part) for part in split(plain(line)))]


async def load(item: Mapping[str, Any]) -> Upload:
    """Return what is to be sent: its bytes, or the address that Telegram fetches it from.

    Raises `ValueError` if the entry names nothing, `OSError` if its file cannot be read.
    """
    url, path, form = str(item.get("url") or ""), str(item.get("path") or ""), _form_of(item)
    mime_type = str(item.get("mime_type") or "")
    if url.startswith("data:"):
        head, comma, body = url.removeprefix("data:").partition(",")
        if not comma:
            raise ValueError("its `data:` address has no data")
        content = base64.b64decode(unquote_to_bytes(body)) if head.endswith(";base64") else unquote_to_bytes(body)
        mime_type = mime_type or head.partition(";")[0]
    elif urlsplit(url).scheme in _FETCHED:
        return Upload(form, str(item.get("name") or ""), url)
    elif path:
        content = await trio.Path(path).read_bytes()
    else:
        raise ValueError("it has neither a `url` nor a `path`")
    name = str(item.get("name") or PurePosixPath(path).name or f"{form}{guess_extension(mime_type) or ''}")
    return Upload(form, name, content)
