"""The files of the page for browsers: known by their exact names, read once, and without anything of the runtime."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from importlib.resources import files

import msgspec

_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FIRST = "index.html"


class PageFile(msgspec.Struct, frozen=True):
    """A file as it is sent: as it is, and packed for browsers that unpack it; `tag` tells one version from another."""

    media_type: str
    body: bytes
    packed: bytes
    tag: str


def read_files() -> Mapping[str, PageFile]:
    """Return every file of the page by its path in an address; the page itself is `/`."""
    found = {}
    folder = files("bub.studio").joinpath("page")
    for entry in folder.iterdir() if folder.is_dir() else ():
        suffix = f".{entry.name.rpartition('.')[2]}"
        if entry.is_file() and suffix in _TYPES:
            body = entry.read_bytes()
            tag = hashlib.sha256(body).hexdigest()[:16]
            path = "/" if entry.name == _FIRST else f"/{entry.name}"
            found[path] = PageFile(_TYPES[suffix], body, gzip.compress(body, mtime=0), f'"{tag}"')
    return found
