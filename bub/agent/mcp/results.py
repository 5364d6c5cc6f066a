"""What a server answers to a call, as the result of a tool."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from bub.agent.mcp.offered import clean
from bub.channels.attachments import LARGEST_FILE, LARGEST_IMAGE, as_media, mime_type_of
from bub.tools import ToolError, ToolResult

LONGEST_TEXT = 2_000_000
"""How many characters of a result are kept."""

MOST_BLOCKS = 200
MOST_MEDIA = 8
"""How many pieces a result may have, and how many of them the model looks at."""


def as_result(answer: CallToolResult) -> ToolResult:
    """Return what a tool has answered. Raises `ToolError` with its words if it says that it failed."""
    result = collect(answer.content)
    text = result.text
    if not answer.content and answer.structured_content is not None:
        text = msgspec.json.encode(answer.structured_content, enc_hook=str).decode()[:LONGEST_TEXT]
    if answer.is_error:
        raise ToolError(text or "it failed, and gives no reason")
    return ToolResult(text or "done", result.media)


def collect(blocks: Iterable[Any]) -> ToolResult:
    """Return the text of some content, and the pictures and documents in it that a model can look at."""
    texts: list[str] = []
    media: list[Mapping[str, Any]] = []
    for number, block in enumerate(blocks):
        if number == MOST_BLOCKS:
            texts.append(f"[more than {MOST_BLOCKS} pieces: the others are left out]")
            break
        text, medium = _read_block(block)
        if medium is not None and len(media) == MOST_MEDIA:
            text, medium = f"{text} (left out: there are {MOST_MEDIA} already)", None
        texts.append(text)
        media += [medium] if medium is not None else []
    joined = "\n".join(filter(None, texts))
    if len(joined) > LONGEST_TEXT:
        joined = f"{joined[:LONGEST_TEXT]}\n[… {len(joined) - LONGEST_TEXT:,} characters left out …]"
    return ToolResult(joined, tuple(media))


def _read_block(block: Any) -> tuple[str, Mapping[str, Any] | None]:
    match block:
        case TextContent():
            return block.text, None
        case ImageContent() | AudioContent():
            return _read_data(block.data, f"{block.type} from the server")
        case ResourceLink():
            return f"[resource: {clean(block.title or block.name)[:200]}, {clean(block.uri)[:2000]}]", None
        case EmbeddedResource(resource=TextResourceContents() as inner):
            return f"[resource: {clean(inner.uri)[:2000]}]\n{inner.text}", None
        case EmbeddedResource(resource=BlobResourceContents() as inner):
            return _read_data(inner.blob, clean(inner.uri)[:2000])
        case TextResourceContents():
            return block.text, None
        case BlobResourceContents():
            return _read_data(block.blob, clean(block.uri)[:2000])
        case _:
            return f"[{getattr(block, 'type', 'something')}: nothing that can be shown]", None


def _read_data(data: str, name: str) -> tuple[str, Mapping[str, Any] | None]:
    """Read bytes as what they are, whatever the server calls them."""
    if len(data) * 3 // 4 > LARGEST_FILE:
        return f"[{name}: more than {LARGEST_FILE:,} bytes, left out]", None
    try:
        raw = b64decode(data, validate=True)
    except (Base64Error, ValueError):
        return f"[{name}: it cannot be read]", None
    kind = mime_type_of(raw)
    told = f"[{name}: {kind or 'unknown bytes'}, {len(raw):,} bytes]"
    if kind == "text/plain":
        return f"[{name}]\n{raw.decode()}", None
    if kind is None or (kind.startswith("image/") and len(raw) > LARGEST_IMAGE):
        return told, None
    return told, as_media(raw, kind, name)
