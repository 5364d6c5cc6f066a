"""The site of the documentation: every page has its place in the navigation, and what is wrong with a site is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from website import navigation
from website.links import find_faults

ROOT = Path(__file__).parent.parent
if not (ROOT / navigation.INDEX).is_file():
    pytest.skip("the source archive carries no docs/ but one page", allow_module_level=True)


INDEX = """\
# Documentation

## Start

For beginners.

| page | read it to |
|---|---|
| [README](../README.md) | begin |
| [Examples](examples/README.md) | copy: [a gate](examples/gate/README.md), [CI](examples/ci/README.md) |

## Explanation

| page | read it to |
|---|---|
| [Why](explanation/README.md) | learn why |

## The words

| word | meaning |
|---|---|
| turn | one message |
"""


def placed(*more: str) -> dict[str, list[tuple[str, list[str]]]]:
    groups = navigation.read_navigation(INDEX, list(more))
    return {name: [(one.page, [below.page for below in one.below]) for one in ones] for name, ones in groups.items()}


def test_every_page_of_the_documentation_is_in_the_navigation() -> None:
    pages = navigation.all_pages()
    groups = navigation.read_navigation((ROOT / navigation.INDEX).read_text(encoding="utf-8"), pages)
    assert navigation.missing_pages(groups, pages) == []
    shown = [one.page for entries in groups.values() for entry in entries for one in (entry, *entry.below)]
    assert sorted({page for page in shown if shown.count(page) > 1}) == []
    assert [page for page in shown if not (ROOT / page).is_file()] == []
    assert list(groups) == [
        "Start", "Use it", "Write plugins", "Run it", "Reference", "Explanation", "Contribute", "中文",
    ]  # fmt: skip


def test_the_groups_are_the_tables_of_pages_in_the_index() -> None:
    assert placed() == {
        "Start": [
            ("README.md", []),
            ("docs/examples/README.md", ["docs/examples/gate/README.md", "docs/examples/ci/README.md"]),
        ],
        "Explanation": [("docs/explanation/README.md", [])],
    }


def test_a_new_page_of_a_known_folder_has_its_place_without_a_row() -> None:
    groups = placed("docs/how-to/move-a-session.md", "docs/explanation/why-kinds.md")
    assert groups["Start"][-1] == ("docs/how-to/move-a-session.md", [])
    assert groups["Explanation"] == [("docs/explanation/README.md", ["docs/explanation/why-kinds.md"])]


def test_a_page_that_is_nowhere_is_named() -> None:
    pages = ["README.md", "docs/index.md", "docs/lost.md"]
    assert navigation.missing_pages(navigation.read_navigation(INDEX, pages), pages) == ["docs/lost.md"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.html").write_text('<h1 id="top">Home</h1><a href="#top">up</a><a href="README.html">', "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("shown", "fault"),
    [
        ('<a href="../README.html#top">home</a>', None),
        ('<a href="https://example.com">elsewhere</a>', None),
        ('<img src="data:image/png;base64,AA">', None),
        ('<a href="lost.html">lost</a>', "lost.html: there is no such file"),
        ('<a href="../README.html#lost">lost</a>', "../README.html#lost: the page has no such place"),
        ('<a href="../../out.html">out</a>', "../../out.html: there is no such file"),
        ('<img src="lost.svg">', "lost.svg: there is no such file"),
        ('<img srcset="lost.svg 2x">', "lost.svg: there is no such file"),
        ('<img src="https://example.com/x.png">', "https://example.com/x.png: it is loaded from elsewhere"),
        ('<script src="//example.com/x.js"></script>', "//example.com/x.js: it is loaded from elsewhere"),
        (
            '<link rel="stylesheet" href="https://example.com/x.css">',
            "https://example.com/x.css: it is loaded from elsewhere",
        ),
        ("<style>@import 'https://example.com/x'</style>", "https://example.com/x: it is loaded from elsewhere"),
        ('<p style="background: url(https://example.com/x)">', "https://example.com/x: it is loaded from elsewhere"),
    ],
)
def test_what_is_wrong_with_a_page_is_found(site: Path, shown: str, fault: str | None) -> None:
    (site / "docs" / "page.html").write_text(f'<a href="../README.html">home</a>{shown}', encoding="utf-8")
    assert list(find_faults(site)) == ([f"docs/page.html: {fault}"] if fault else [])


def test_a_page_without_a_way_home_is_found(site: Path) -> None:
    (site / "docs" / "page.html").write_text("<p>alone</p>", encoding="utf-8")
    assert list(find_faults(site)) == ["docs/page.html: no link leads home"]


def test_a_font_of_another_host_is_found(site: Path) -> None:
    (site / "x.css").write_text("@font-face { src: url(https://example.com/x.woff2) }", encoding="utf-8")
    assert list(find_faults(site)) == ["x.css: https://example.com/x.woff2: it is loaded from elsewhere"]
