"""The files of the page for browsers: known by their exact names, read once, and without anything of the runtime."""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files

import msgspec

_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FIRST, _STYLE = "index.html", "style.css"
_LINK = b'<link rel="stylesheet" href="style.css">'


class PageFile(msgspec.Struct, frozen=True):
    """A file as it is sent: as it is, and packed for browsers that unpack it; `tag` tells one version from another."""

    media_type: str
    body: bytes
    packed: bytes
    tag: str


class Page(msgspec.Struct, frozen=True):
    """The page's files by their paths in an address, the page itself as `/`; `style` names its style to a policy."""

    files: Mapping[str, PageFile]
    style: str


def read_page() -> Page:
    """Return the page; its style is within it, so that a browser paints it with what comes first."""
    folder = files("bub.studio").joinpath("page")
    found = {one.name: one.read_bytes() for one in folder.iterdir() if _media_type(one.name) and one.is_file()}
    style = found.pop(_STYLE)
    found[_FIRST] = found[_FIRST].replace(_LINK, b"<style>%b</style>" % style)
    by_path = {"/" if name == _FIRST else f"/{name}": _pack(name, body) for name, body in found.items()}
    return Page(by_path, f"'sha256-{b64encode(sha256(style).digest()).decode()}'")


def _pack(name: str, body: bytes) -> PageFile:
    tag = sha256(body).hexdigest()[:16]
    return PageFile(_media_type(name), body, gzip.compress(body, mtime=0), f'"{tag}"')


def _media_type(name: str) -> str:
    return _TYPES.get(f".{name.rpartition('.')[2]}", "")
