"""What a message has beside text: in the form of OpenAI's chat, and in a line of text where it cannot be sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Part = dict[str, Any]

IMAGE, AUDIO, VIDEO, FILE = "image_url", "input_audio", "video_url", "file"

PDF = "application/pdf"

_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}


def text_part(text: str) -> Part:
    """A piece of text."""
    return {"type": "text", "text": text}


def part_of(kind: str, mime_type: str, url: str, name: str = "") -> Part | None:
    """An image, an audio, a video or a PDF as a part of a message; None for what such a message cannot have.

    An audio and a PDF have to be in the address itself (`data:`), as the form wants it.
    """
    if kind == "image":
        return {"type": IMAGE, IMAGE: {"url": url}}
    if kind == "document" and mime_type == PDF and url.startswith("data:"):
        return {"type": FILE, FILE: {"filename": name or "document.pdf", "file_data": url}}
    if kind == "video":
        return {"type": VIDEO, VIDEO: {"url": url}}
    about, _, data = url.partition(",")
    if kind == "audio" and about.startswith("data:") and about.endswith(";base64"):
        subtype = (mime_type or about[5:]).partition(";")[0].rpartition("/")[2].lower()
        return {"type": AUDIO, AUDIO: {"data": data, "format": _FORMATS.get(subtype, subtype)}}
    return None


def name_part(part: Mapping[str, Any]) -> str:
    """A part in a line that says what it is: `[image: image/png, 1,234 bytes]`."""
    kind = str(part.get("type") or "attachment")
    inner = part.get(kind)
    if kind == AUDIO and isinstance(inner, Mapping):
        mime_type = f"audio/{inner['format']}" if inner.get("format") else ""
        return describe_attachment("audio", f"data:{mime_type};base64,{inner.get('data') or ''}")
    if kind == FILE and isinstance(inner, Mapping):
        return describe_attachment("document", str(inner.get("file_data") or ""), str(inner.get("filename") or ""))
    url = str((inner.get("url") if isinstance(inner, Mapping) else inner) or "")
    return describe_attachment(kind.removesuffix("_url"), url)


def not_sent(part: Mapping[str, Any]) -> Part:
    """A part of text in the place of one that the provider does not take."""
    return text_part(f"{name_part(part)[:-1]}, which this model cannot be sent]")


def describe_attachment(kind: str, url: str, name: str = "", mime_type: str = "") -> str:
    """Something that is no text, in a line: its name, what it is and how long, or where it lies."""
    facts = [" ".join(name.split())]
    about, comma, data = url.partition(",")
    if url.startswith(("http:", "https:")):
        facts.append(url)
    elif url.startswith("data:") and comma:
        size = len(data) * 3 // 4 - data[-2:].count("=") if about.endswith(";base64") else len(data)
        facts += [mime_type or about[5:].partition(";")[0], f"{size:,} bytes"]
    elif mime_type:
        facts.append(mime_type)
    told = ", ".join(filter(None, facts))
    return f"[{kind}: {told}]" if told else f"[{kind}]"
