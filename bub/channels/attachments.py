"""Files that come with a message: what each is by its first bytes, and as the media of a message."""

from __future__ import annotations

import os
import stat
from base64 import b64encode
from pathlib import Path
from typing import Any

from bub.base.failures import explain_os_error
from bub.errors import UsageError

PDF = "application/pdf"
TEXT = "text/plain"

LARGEST_IMAGE = 5_000_000
"""The largest image, in bytes: Anthropic takes none that is larger."""

LARGEST_FILE = 10_000_000
"""The largest other file, in bytes."""

IMAGES = "PNG, JPEG, GIF or WebP"
"""The images that all providers take which take any."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)
_LONGEST_MAGIC = 1024


def mime_type_of(data: bytes) -> str | None:
    """The type of an image, a PDF or a text in UTF-8, whatever its name is; None for anything else."""
    for begin, mime_type in _MAGIC:
        if data.startswith(begin):
            return mime_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if b"%PDF-" in data[:_LONGEST_MAGIC]:  # some programs write something before it
        return PDF
    if b"\0" in data:
        return None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return TEXT


def as_media(data: bytes, mime_type: str, name: str) -> dict[str, Any]:
    """A file as one of the media of a message."""
    kind = "image" if mime_type.startswith("image/") else "document"
    url = f"data:{mime_type};base64,{b64encode(data).decode()}"
    return {"kind": kind, "mime_type": mime_type, "name": name, "url": url}


def attach(path: Path, name: str, workspace: Path) -> dict[str, Any]:
    """Read a file that a person wants to hand over, as one of the media of a message.

    The person may hand over any file of theirs. Of one in the workspace `path` says how the agent finds it. Raises
    `UsageError` if it is not there, too large, or neither an image, a PDF nor text.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 (first: a pipe would be waited for)
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{name} is a folder", help="attach files, or tell the agent to look into the folder")
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{name} is not a regular file", help="attach an image, a PDF or a text file")
        if status.st_size > LARGEST_FILE:
            raise too_large(name, status.st_size, LARGEST_FILE)
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name} cannot be attached: {explain_os_error(error)}", help="check the path") from None
    mime_type = mime_type_of(data)
    if mime_type is None:
        raise UsageError(
            f"{name} is neither an image ({IMAGES}), a PDF nor text in UTF-8",
            help="convert it, or tell the agent where it lies",
        )
    if mime_type.startswith("image/") and len(data) > LARGEST_IMAGE:
        raise too_large(name, len(data), LARGEST_IMAGE)
    media = as_media(data, mime_type, name)
    real, root = os.path.realpath(path), os.path.realpath(workspace)
    inside = os.path.commonpath((real, root)) == root
    return {**media, "path": os.path.relpath(real, root)} if inside else media


def too_large(name: str, size: int, most: int) -> UsageError:
    """The error about a file that is too large."""
    what = "an image" if most == LARGEST_IMAGE else "a file"
    return UsageError(
        f"{name} is too large: it has {size:,} bytes, and {what} may have {most:,}", help="make it smaller first"
    )
