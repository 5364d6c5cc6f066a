"""Where each page is in the navigation of the site: `docs/index.md` says it, so there is no second list to keep."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HOME, INDEX = "README.md", "docs/index.md"
FOLDERS = {"docs/tutorial": "Start", "docs/how-to": "Start", "docs/explanation": "Explanation"}
"""Folders whose pages need no row in the index; those that have none are at the end of their group."""

_GROUP = re.compile(r"^## (.+)\n(?:(?!#|\|).*\n)*((?:\|.*\n)+)", re.MULTILINE)
_ROW = re.compile(r"^\| \[(?P<title>[^\]]+)\]\((?P<page>[^)\s]+)\) \|(?P<says>.*)\|$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")


@dataclass
class Entry:
    """A page in the navigation; paths are those of the repository."""

    title: str
    page: str
    below: list[Entry] = field(default_factory=list)


Navigation = dict[str, list[Entry]]


def read_navigation(index: str, pages: list[str]) -> Navigation:
    """Read the groups of the index. A page that is linked in what a row says of another is below that one."""
    groups: Navigation = {}
    for name, table in _GROUP.findall(index):
        entries = [
            Entry(
                row["title"],
                _path(row["page"]),
                [Entry(title, _path(page)) for title, page in _LINK.findall(row["says"])],
            )
            for row in _ROW.finditer(table)
        ]
        if entries:
            groups[name] = entries
    _add_new(groups, sorted(pages))
    return groups


def _path(link: str) -> str:
    return normpath(f"docs/{link}")


def _add_new(groups: Navigation, pages: list[str]) -> None:
    """Add the pages of known folders that have no row: below the page of their folder, or at the end of its group."""
    known = {one.page: entry for entries in groups.values() for entry in entries for one in (entry, *entry.below)}
    for page in pages:
        folder = page.rpartition("/")[0]
        if page not in known and folder in FOLDERS:
            entry = Entry("", page)
            over = known.get(f"{folder}/README.md")
            (over.below if over and not page.endswith("README.md") else groups[FOLDERS[folder]]).append(entry)


def all_pages() -> list[str]:
    """Return the pages that the site is made of."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [str(page.relative_to(ROOT)) for page in found]


def missing_pages(groups: Navigation, pages: list[str]) -> list[str]:
    """Return the pages that are nowhere."""
    shown = {one.page for entries in groups.values() for entry in entries for one in (entry, *entry.below)}
    return sorted({*pages} - shown - {INDEX})
