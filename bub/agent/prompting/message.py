"""What the model reads about a message: its text below its context, and what came with it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import unquote_to_bytes

from bub.agent.models.parts import FILE, Part, describe_attachment, part_of, text_part
from bub.envelope import Envelope, content_of, field_of

LONGEST_DOCUMENT = 64_000
"""How many characters of a document the model reads; it also reads how many are left out."""

_TEXTS = frozenset({"application/json", "application/toml", "application/xml", "application/yaml"})
"""Types that are text, beside those that begin with `text/`."""


def prompt_of(message: Envelope) -> str | list[Part]:
    """A message as the model reads it (BEHAVIOURS T33): text, or a list of parts if there is more than text.

    Images, audio, video and PDFs become parts. A document that is text is in the text; anything else is named
    there, so that the model knows of it.
    """
    text = content_of(message)
    context = field_of(message, "context_str")
    if context:
        text = f"{context}\n---Date: {datetime.now().astimezone().isoformat()}---\n{text}"
    told, parts = [text] if text else [], []
    for part in _media(message):
        if part["type"] == "text":
            told.append(part["text"])
        else:
            parts.append(part)
    text = "\n\n".join(told)
    if not parts:
        return text
    return [*([text_part(text)] if text else []), *parts]


def _media(message: Envelope) -> Iterator[Part]:
    for one in field_of(message, "media") or ():
        kind, mime_type, url = (str(field_of(one, name) or "") for name in ("kind", "mime_type", "url"))
        name = str(field_of(one, "name") or field_of(one, "file_name") or "")
        kind = kind or "document"
        part = part_of(kind, mime_type, url, name) if url else None
        if part is not None:
            if name and part["type"] != FILE:  # which has its name itself
                yield text_part(describe_attachment(kind, url, name, mime_type))
            yield part
            continue
        document = _text_of(mime_type, url) if kind == "document" else None
        if document is not None:
            path = str(field_of(one, "path") or "")
            text = _shorten(document, f"; fs.read shows them in {path}" if path else "")
            yield text_part(f"{describe_attachment(kind, '', name, mime_type)}\n{text}\n[end of the {kind}]")
        else:
            yield text_part(
                describe_attachment(kind, url, name, mime_type) if url else f"[{kind}: it could not be fetched]"
            )


def _text_of(mime_type: str, url: str) -> str | None:
    """The text that an address holds itself (`data:`); None where it holds none."""
    about, comma, data = url.partition(",")
    if not about.startswith("data:") or not comma:
        return None
    kind = (mime_type or about[5:] or "text/plain").partition(";")[0].strip().lower()
    if not kind.startswith("text/") and kind not in _TEXTS:
        return None
    try:
        raw = b64decode(data) if about.endswith(";base64") else unquote_to_bytes(data)
    except ValueError:
        return None
    return raw.decode("utf-8-sig", errors="replace")


def _shorten(text: str, hint: str) -> str:
    if len(text) <= LONGEST_DOCUMENT:
        return text
    return f"{text[:LONGEST_DOCUMENT]}\n[… {len(text) - LONGEST_DOCUMENT:,} characters left out{hint} …]"


def is_said(prompt: Any) -> bool:
    """Whether a prompt says anything."""
    return bool(prompt.strip() if isinstance(prompt, str) else prompt)
