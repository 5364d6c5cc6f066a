"""Does each link of the built site lead somewhere, each page lead home, and nothing come from elsewhere?

python -m tests.website.links site
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

HOME = ("README.html", "index.html")
LOADING = {"rel": {"stylesheet", "icon", "shortcut", "preload", "prefetch", "modulepreload", "manifest"}}
_IN_STYLE = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s]+)""")


@dataclass
class Page(HTMLParser):
    """What a page names: the ids that links lead to, its links, and what a browser loads for it."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag in ("a", "area") and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and LOADING["rel"] & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        self.loads += [given[name] for name in ("src", "data", "poster") if name in given and tag != "param"]
        self.loads += [one.split()[0] for one in given.get("srcset", "").split(",") if one.strip()]
        self.loads += _IN_STYLE.findall(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self.lasttag == "style":
            self.loads += _IN_STYLE.findall(data)


def read_site(site: Path) -> dict[Path, Page]:
    """Read each page of a site."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        page = pages[file.resolve()] = Page()
        page.feed(file.read_text(encoding="utf-8"))
    return pages


def find_faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with a site, each with its page."""
    site = site.resolve()
    pages = read_site(site)
    for file, page in pages.items():
        name = file.relative_to(site)
        for link in dict.fromkeys(page.links):
            if (why := _fault_of(link, file, site, pages)) is not None:
                yield f"{name}: {link}: {why}"
        for load in page.loads:
            if (why := _fault_of_load(load, file, site)) is not None:
                yield f"{name}: {load}: {why}"
        if not any(_file_of(link, file) == site / home for link in page.links for home in HOME):
            yield f"{name}: no link leads home"
    for file in sorted(site.rglob("*.css")):
        for load in _IN_STYLE.findall(file.read_text(encoding="utf-8")):
            if (why := _fault_of_load(load, file, site)) is not None:
                yield f"{file.relative_to(site)}: {load}: {why}"


def _file_of(link: str, page: Path) -> Path | None:
    """Return the file that a link leads to; none if that is elsewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    return Path(normpath(page.parent / unquote(parts.path))) if parts.path else page


@cache
def _is_there(file: Path, site: Path) -> bool:
    return file.is_relative_to(site) and file.is_file()


def _fault_of(link: str, page: Path, site: Path, pages: dict[Path, Page]) -> str | None:
    file = _file_of(link, page)
    if file is None:
        return None
    if not _is_there(file, site):
        return "there is no such file"
    anchor = unquote(urlsplit(link).fragment)
    if anchor and (file not in pages or anchor not in pages[file].ids):
        return "the page has no such place"
    return None


def _fault_of_load(load: str, page: Path, site: Path) -> str | None:
    if load.startswith(("data:", "#")):
        return None
    file = _file_of(load, page)
    if file is None:
        return "it is loaded from elsewhere"
    return None if _is_there(file, site) else "there is no such file"


if __name__ == "__main__":
    faults = list(find_faults(Path(sys.argv[1])))
    print("\n".join(faults) or f"{len(read_site(Path(sys.argv[1])))} pages: each link leads somewhere")
    sys.exit(bool(faults))
