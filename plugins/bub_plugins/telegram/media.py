"""Media of a message, fetched when its turn begins: each as a `data:` URL, or a word about why it is not there."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import trio
from telegram import Bot
from telegram.error import TelegramError

from bub.channels import ChannelMessage
from bub.log import log_warning
from bub_plugins.telegram.request import Request, TooLargeError

PATIENCE = 60.0
"""How long, in seconds, one file may take."""

AT_ONCE = 10
"""How many times as large as one file may be all those of a turn may be together."""

MISSING = "not_shown"


async def with_media(message: ChannelMessage, bot: Bot, request: Request, most: int) -> ChannelMessage:
    """Fetch a message's files of at most so many bytes; the context says of each other one that it is missing.

    A file whose size nobody knows is fetched as far as it may be large (BEHAVIOURS C33). Many at once, such as those
    that came while nobody was there, are fetched as long as they are not `AT_ONCE` times as large together.
    """
    left = AT_ONCE * most
    fetched: list[Mapping[str, Any]] = []
    missing: list[str] = []
    for one in message.media:
        if one.get("url") or not one.get("file_id"):
            fetched.append(one)
            continue
        try:
            data = await _fetch(str(one["file_id"]), one.get("size"), bot, request, min(most, left))
        except TooLargeError:
            is_large = left >= most or (one.get("size") or 0) > most
            why = f"is larger than {_amount(most)}" if is_large else "came with too much else"
            missing.append(f"{_name_media(one)} {why}")
        except TelegramError as error:
            log_warning("telegram.media_not_fetched", error=f"{type(error).__name__}: {error}")
            missing.append(f"{_name_media(one)} could not be fetched")
        else:
            left -= len(data)
            url = f"data:{one['mime_type']};base64,{base64.b64encode(data).decode()}"
            fetched.append({**one, "url": url, "size": len(data)})
    if not missing:
        return replace(message, media=fetched)
    return replace(message, media=fetched, context={**message.context, MISSING: "; ".join(missing)})


async def _fetch(file_id: str, size: int | None, bot: Bot, request: Request, most: int) -> bytes:
    if size is not None and size > most:
        raise TooLargeError
    with trio.move_on_after(PATIENCE):
        file = await bot.get_file(file_id)
        if file.file_size is not None and file.file_size > most:
            raise TooLargeError
        if not file.file_path:
            raise TelegramError("the file has no path")
        return await request.download(file.file_path, most)
    raise TelegramError(f"it took longer than {PATIENCE:g} seconds")


def _name_media(one: Mapping[str, Any]) -> str:
    size = f", {_amount(one['size'])}" if one.get("size") else ""
    return f"{one.get('name') or 'a file'} ({one.get('kind', 'document')}{size})"


def _amount(size: int) -> str:
    for unit, step in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if size >= step:
            return f"{size / step:.1f} {unit}".replace(".0 ", " ")
    return f"{size} bytes"
