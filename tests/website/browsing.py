"""Each page of the built site in a headless Chromium, from its file: wide and narrow, light and dark; and the search.

`SITE_PICTURES` is a folder for screenshots of some pages, for somebody to look at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.chromium import NARROW, WIDE, Chromium, Page, chromium

SITE = Path(__file__).parent.parent.parent / "site"
PAGES = sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html"))
SHOTS = os.environ.get("SITE_PICTURES")
SHOWN = (
    *("index", "docs/index", "docs/cli", "docs/hooks", "docs/hooks.zh", "docs/kinds", "docs/chat", "docs/testing"),
    *("docs/diagnostics", "docs/troubleshooting", "docs/files", "docs/architecture", "docs/compat"),
    *("docs/pipelines/default", "docs/explanation/comparisons", "docs/tutorial/README", "README.zh"),
)
LEADING = 3
QUESTIONS = {
    "my gate is not asked": {"docs/troubleshooting"},
    "exit code 3": {"docs/cli", "docs/files"},
    "telegram token": {"docs/channels", "docs/tutorial/8-telegram", "docs/onboarding"},
    "local model": {"docs/models"},
    "hook order": {"docs/invocation", "docs/plugins"},
    "dead letter": {"docs/troubleshooting", "docs/channels"},
    "two machines": {"docs/scale", "docs/how-to/two-machines"},
    "comma command": {"docs/words", "docs/agent"},
    "approve a tool": {"docs/how-to/ask-before-a-tool", "docs/tools"},
    "where is the tape": {"docs/tapes", "docs/files"},
    "OTEL": {"docs/telemetry"},
    "拒绝一个工具调用": {"docs/hooks.zh"},
    "给访客的 profile": {"docs/tutorial/5-guests.zh"},
}
"""What people ask, and the pages of which one has to be among the first three."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def page(browser: Chromium) -> Page:
    return browser.open()


def test_there_are_pages() -> None:
    assert len(PAGES) > 60, "`make docs` builds them"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_complains_of_nothing_and_asks_nobody_else(page: Page, name: str) -> None:
    page.call("forget")
    papers = []
    page.go((SITE / name).as_uri())
    for dark in (False, True):
        page.call("emulateMedia", {"colorScheme": "dark" if dark else "light"})
        for window in (WIDE, NARROW):
            page.call("setViewportSize", window)
            assert page.look("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
            if SHOTS and name.removesuffix(".html") in SHOWN:
                look = f"{'dark' if dark else 'light'}-{window['width']}"
                page.picture(Path(SHOTS) / f"{name.removesuffix('.html').replace('/', '-')}-{look}.png")
        papers.append(page.look("getComputedStyle(document.body).backgroundColor"))
    assert papers[0] != papers[1]
    assert page.problems == []
    assert [one["url"] for one in page.requests if not one["url"].startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_finds_what_people_ask(page: Page, question: str) -> None:
    page.go((SITE / "docs" / "index.html").as_uri())
    page.write(".sidebar-search", question)
    page.press("Enter")
    page.see("#found li")
    found = page.look("[...document.querySelectorAll('#found li > a')].map((link) => link.href)")
    names = [str(link).partition("#")[0].removeprefix(f"{SITE.as_uri()}/").removesuffix(".html") for link in found]
    assert set(names[:LEADING]) & QUESTIONS[question], names[:6]


def test_a_reader_chooses_light_or_dark_and_the_choice_stays(page: Page) -> None:
    page.call("emulateMedia", {"colorScheme": "light"})
    page.call("setViewportSize", WIDE)
    page.go((SITE / "docs" / "kinds.html").as_uri())
    before = page.look("getComputedStyle(document.body).backgroundColor")
    while page.look("document.body.dataset.theme") != "dark":
        page.click(".theme-toggle >> visible=true")
    page.go((SITE / "docs" / "hooks.html").as_uri())
    assert page.look("document.body.dataset.theme") == "dark"
    assert page.look("getComputedStyle(document.body).backgroundColor") != before
    page.look("localStorage.clear()")


def test_a_link_to_a_word_shows_what_the_word_means(page: Page) -> None:
    page.go((SITE / "docs" / "channels.html").as_uri())
    assert page.look("document.querySelector('a[href=\"words.html#workspace\"]').title").endswith("the agent works.")
