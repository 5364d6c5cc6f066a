"""Every page in Chinese says what its English page says: section by section the same code, tables and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(page for page in (*ROOT.glob("*.zh.md"), *(ROOT / "docs").rglob("*.zh.md")))
if not PAGES:
    pytest.skip("the source archive carries no page in Chinese", allow_module_level=True)

FENCED = re.compile(r"^(?:<!-- [^\n]* -->\n)?```\w+\n.*?^```$", re.DOTALL | re.MULTILINE)
QUOTED = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PICTURE = re.compile(r'(?:src|srcset)="([^"]+)"')
COLUMN = re.compile(r"(?<!\\)\|")


class Section(NamedTuple):
    """What both languages have in common in a section, from one heading to the next."""

    level: int
    blocks: list[str]
    quoted: set[str]
    tables: list[int]
    items: int
    links: list[str]
    pictures: list[str]


def english_of(page: Path) -> Path:
    return page.with_name(page.name.removesuffix(".zh.md") + ".md")


def chinese_of(page: Path) -> Path:
    return page.with_name(f"{page.stem}.zh.md")


def parts_of(text: str) -> Iterator[tuple[str, str]]:
    """The sections of a page, each with its heading; what begins with `#` in a block is none."""
    kept: list[str] = FENCED.findall(text)
    prose = FENCED.sub("\0", text)
    found = re.split(r"^(#+ .*)$", prose, flags=re.MULTILINE)
    for heading, part in zip(found[1::2], found[2::2], strict=True):
        yield heading, re.sub("\0", lambda _: kept.pop(0), part)


def anchors_of(page: Path) -> list[str]:
    """What links can point to in a page, in its order."""
    headings = [heading.lstrip("# ").lower() for heading, _ in parts_of(page.read_text(encoding="utf-8"))]
    return [re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings]


def in_chinese(target: str, page: Path) -> str:
    """Where a link of an English page leads in its twin: to the same place of a page in Chinese, if there is one."""
    name, _, place = target.partition("#")
    there = Path(normpath(page.parent / name)) if name else page
    twin = chinese_of(there)
    if "://" in target or twin not in PAGES:
        return target
    if place:
        place = f"#{anchors_of(twin)[anchors_of(there).index(place)]}"
    return f"{name[: -len('.md')]}.zh.md{place}" if name else place


def section_of(heading: str, text: str) -> Section:
    prose = FENCED.sub("", text)
    bare = QUOTED.sub("``", prose)
    return Section(
        level=len(heading) - len(heading.lstrip("#")),
        blocks=FENCED.findall(text),
        quoted={" ".join(code.split()) for code in QUOTED.findall(f"{heading}\n{prose}")},
        tables=[len(COLUMN.findall(row)) for row in re.findall(r"^\|.*$", bare, re.MULTILINE)],
        items=len(re.findall(r"^- ", prose, re.MULTILINE)),
        links=sorted(LINK.findall(prose)),
        pictures=PICTURE.findall(prose),
    )


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_a_page_in_chinese_says_what_its_english_page_says(page: Path) -> None:
    english = english_of(page)
    ours, theirs = (list(parts_of(one.read_text(encoding="utf-8"))) for one in (page, english))
    assert [heading.split()[0] for heading, _ in ours] == [heading.split()[0] for heading, _ in theirs]
    for at, (mine, original) in enumerate(zip(ours, theirs, strict=True)):
        has, wanted = section_of(*mine), section_of(*original)
        links = [in_chinese(target, english) for target in wanted.links if at or target != page.name]
        wanted = wanted._replace(links=sorted([*links, *([] if at else [english.name])]))
        wrong = {name: (has[n], wanted[n]) for n, name in enumerate(Section._fields) if has[n] != wanted[n]}
        assert not wrong, f"{mine[0]} ({original[0]}): {wrong}"


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_both_languages_lead_to_each_other_at_the_top(page: Path) -> None:
    for one, other in ((page, english_of(page)), (english_of(page), page)):
        top = one.read_text(encoding="utf-8").partition("\n## ")[0]
        assert f"[{'English' if other == english_of(page) else '中文'}]({other.name})" in top


def test_what_differs_between_the_languages_is_noticed() -> None:
    text = "One `a`, [two](b.md).\n\n| x | y |\n|---|---|\n| `p|q` | 2 |\n\n- z\n\n```console\n# no heading\n$ c\n```\n"
    section = section_of("## A", text)
    for old, new in (("`a`", "a"), ("b.md", "c.md"), (" y |", ""), ("- z", "z"), ("$ c", "$ d")):
        assert section_of("## A", text.replace(old, new)) != section
    assert section_of("### A", text) != section
    assert [heading for heading, _ in parts_of(f"# B\n\n{text}")] == ["# B"]
