"""Pictures and PDFs as the model that is asked can take them: as they are, as text, or in a line that names them."""

from __future__ import annotations

from base64 import b64decode
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import msgspec
import trio

from bub.agent.documents.pdf import Pdf, read_pdf
from bub.agent.models.parts import FILE, IMAGE, name_part, not_sent, text_part
from bub.errors import TapeError
from bub.log import log_exception
from bub.tape import Tape
from bub.tape.spill import spill

LONGEST_DOCUMENT = 64_000
"""How many characters of a document a request holds."""

MOST_PAGES = 100
"""How many pages of a PDF providers take."""

_KEPT = 16
_AT_ONCE = 2

Message = Mapping[str, Any]


class Taken(msgspec.Struct, frozen=True):
    """What a model takes beside text."""

    images: bool = True
    pdfs: bool = False


class Documents:
    """The PDFs that were read of late, and the models that refused pictures, for the life of a process."""

    def __init__(self) -> None:
        self.blind: set[str] = set()
        """Models that refused a request because of its pictures."""
        self._pdfs: OrderedDict[bytes, Pdf] = OrderedDict()
        self._limiter = trio.CapacityLimiter(_AT_ONCE)

    async def fit(self, messages: Sequence[Message], taken: Taken, tape: Tape | None) -> Sequence[Message]:
        """Return the messages with the media that the model takes, and text in the place of others.

        What is too long lies beside the `tape` then, and a line says how to read on. The same messages make the same
        text each time, so that a request begins as the one before it.
        """
        return [await self._fit_message(message, taken, tape) for message in messages]

    async def _fit_message(self, message: Message, taken: Taken, tape: Tape | None) -> Message:
        if not _has_media(message):
            return message
        return {**message, "content": [await self._fit_part(part, taken, tape) for part in message["content"]]}

    async def _fit_part(self, part: Any, taken: Taken, tape: Tape | None) -> Any:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == IMAGE:
            return part if taken.images else not_sent(part)
        if kind != FILE:
            return part
        pdf = await self._read(str(part[FILE].get("file_data") or ""))
        named = name_part(part)[:-1]
        if pdf.pages and taken.pdfs and pdf.pages <= MOST_PAGES:
            return part
        if pdf.problem:
            return text_part(f"{named}: it cannot be read: {pdf.problem}]")
        pages = f"{pdf.pages:,} page{'s' if pdf.pages > 1 else ''}"
        return text_part(f"{named}, {pages}, as text]\n{await _shorten(pdf, tape)}\n[end of the document]")

    async def _read(self, url: str) -> Pdf:
        try:
            data = b64decode(url.partition(",")[2])
        except ValueError:
            return Pdf(problem="it is broken")
        digest = sha256(data).digest()
        if digest not in self._pdfs:
            self._pdfs[digest] = await trio.to_thread.run_sync(
                read_pdf, data, abandon_on_cancel=True, limiter=self._limiter
            )
            while len(self._pdfs) > _KEPT:
                self._pdfs.popitem(last=False)
        self._pdfs.move_to_end(digest)
        return self._pdfs[digest]


@asynccontextmanager
async def open_documents() -> AsyncIterator[Documents]:
    """What a process knows of documents, to share."""
    yield Documents()


def has_media(messages: Iterable[Message]) -> bool:
    """Whether a request has pictures or files in it."""
    return any(map(_has_media, messages))


def has_images(messages: Iterable[Message]) -> bool:
    """Whether a request has pictures in it."""
    return any(part.get("type") == IMAGE for message in messages if _has_media(message) for part in message["content"])


def _has_media(message: Message) -> bool:
    content = message.get("content")
    return isinstance(content, list | tuple) and any(
        isinstance(part, Mapping) and part.get("type") in (IMAGE, FILE) for part in content
    )


async def _shorten(pdf: Pdf, tape: Tape | None) -> str:
    """The first pages, whole ones, and where the others are."""
    text = pdf.text
    if len(text) <= LONGEST_DOCUMENT:
        return text
    end = text.rfind("\n\n[page ", 0, LONGEST_DOCUMENT)
    end = end if end > 0 else LONGEST_DOCUMENT
    shown, rest = text[:end], text[end:].lstrip("\n")
    line = f"{len(rest):,} characters left out"
    if rest.startswith("[page "):
        line = f"from page {rest[6 : rest.index(']')]} on, {line}"
    if tape is not None:
        try:
            laid = await spill(tape, rest)
        except TapeError as error:  # what lies beside the tape never breaks a turn (P21)
            log_exception("tape.spill_failed", error, tape=tape.name)
        else:
            which = "1" if laid.parts == 1 else f"1 to {laid.parts}"
            line += f"; `spill.read` with handle `{laid.handle}` gives part {which}"
    return f"{shown}\n[… {line} …]"
