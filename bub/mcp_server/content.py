"""The result of a turn or a tool, as the content of MCP: text, pictures, sounds and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

from bub.agent.models.parts import AUDIO, FILE, IMAGE, Part, name_part, part_of
from bub.envelope import Envelope, content_of, field_of


def text_of(text: str) -> TextContent:
    """A text as content."""
    return TextContent(type="text", text=text)


def failed(text: str) -> CallToolResult:
    """Return a call that failed, and why: the model of the client reads it."""
    return CallToolResult(content=[text_of(text)], is_error=True)


def contents_of(replies: Iterable[Envelope], parts: Iterable[Part] = ()) -> list[ContentBlock]:
    """The replies of a turn with what they carry, and further `parts`, as content."""
    found: list[ContentBlock] = []
    for reply in replies:
        if content := content_of(reply):
            found.append(text_of(content))
        found += map(_block, _parts_in(reply))
    return [*found, *map(_block, parts)]


def _parts_in(reply: Envelope) -> Iterator[Part]:
    for one in field_of(reply, "media") or ():
        if isinstance(one, Mapping):
            said = [str(one.get(key) or "") for key in ("kind", "mime_type", "url", "name")]
            part = part_of(*said)
            yield part if part is not None else {"type": said[0], said[0]: said[2]}


def _block(part: Part) -> ContentBlock:
    """A part with its bytes; one that only has an address, or is of no kind that MCP knows, as a line about it."""
    kind = str(part.get("type"))
    inner: Any = part.get(kind)
    if kind == IMAGE and (known := _data_in(inner["url"])):
        return ImageContent(type="image", data=known[1], mime_type=known[0])
    if kind == AUDIO:
        return AudioContent(type="audio", data=inner["data"], mime_type=f"audio/{inner['format']}")
    if kind == FILE and (known := _data_in(inner["file_data"])):
        uri = f"bub://files/{inner['filename']}"
        blob = BlobResourceContents(uri=uri, mime_type=known[0], blob=known[1])
        return EmbeddedResource(type="resource", resource=blob)
    return text_of(name_part(part))


def _data_in(url: str) -> tuple[str, str] | None:
    """The type and the base64 of a `data:` address; None for any other."""
    about, comma, data = url.partition(",")
    if not comma or not about.startswith("data:") or not about.endswith(";base64"):
        return None
    return about[5:].partition(";")[0], data
