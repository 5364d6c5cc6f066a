"""One browser and one office for all tests, and what is printed at the end: sizes and times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.chromium import Chromium, Page, chromium
from fakes.scripted import serving
from fakes.studio_gateway import Studio, studio, write_office

FIGURES: list[str] = []


@pytest.fixture
def figures() -> list[str]:
    """Lines to print at the end."""
    return FIGURES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in FIGURES:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory, model: str) -> Iterator[Studio]:
    """A gateway whose turns end with the test that began them, and whose questions are answered."""
    folder: Path = tmp_path_factory.mktemp("studio") / "work"
    write_office(folder, model)
    with studio(folder) as running:
        yield running


@pytest.fixture
def page(browser: Chromium, office: Studio) -> Iterator[Page]:
    """The page, entered with the token; it may not complain of anything, nor ask another host."""
    page = browser.open()
    page.go(office.link)
    page.see("main h1")
    yield page
    problems, requests = page.problems, page.requests
    page.close()
    assert not problems
    assert [one["url"] for one in requests if not one["url"].startswith(f"{office.address}/")] == []
