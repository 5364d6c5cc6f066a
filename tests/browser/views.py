"""Every view opens in every look, and axe finds nothing that keeps somebody out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.chromium import Chromium, Page
from fakes.scripted import OPENAI
from fakes.studio_gateway import Studio, calling, studio, write_office

VIEWS = ("Graph", "Turns", "Approvals", "Chat", "Inbox", "Health", "Plots", "File")
SHOTS = os.environ.get("BROWSER_PICTURES")
"""A folder for a screenshot of each view in each look, for somebody to look at."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, model: str) -> Iterator[Studio]:
    """A gateway with something to see in every view."""
    folder = tmp_path_factory.mktemp("busy") / "work"
    write_office(folder, model)
    with studio(folder) as running:
        fill(running)
        yield running


def fill(running: Studio) -> None:
    """Let there be turns that ended well and badly, one that runs, a question, and a message that was set aside."""
    for number, words in enumerate(
        ("Is the build green?", "my password is 1", "[fail] Read the letters", "What is new?")
    ):
        running.say(words, chat_id=f"room-{number}", sender_id="ada")
    running.teach("Note milk.", calling("notes_add", {"text": "milk"}), OPENAI.answer("I noted it."))
    running.say("Note milk.", chat_id="kitchen", sender_id="stranger")
    running.reply(5)
    running.teach("Deploy it.", calling("bash", {"command": "make deploy"}))
    running.say("Deploy it.", chat_id="ops", sender_id="ada")
    running.say("Wait for me [moderate]", chat_id="room-5", sender_id="bob")
    running.wait_at("moderate")


LOOKS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("dark", "narrow"), LOOKS, ids=["light, wide", "dark, wide", "light, narrow", "dark, narrow"])
def test_every_view_opens_and_has_no_barrier(browser: Chromium, busy: Studio, dark: bool, narrow: bool) -> None:
    page = browser.open(dark=dark, narrow=narrow)
    page.go(busy.link)
    page.see("main svg .stage")
    found: dict[str, list[str]] = {}
    for place in (
        *((view, view.lower()) for view in VIEWS),
        ("Tapes", "tapes"),
        ("stage", "graph/default/run_model"),
        ("tape", "tapes/post:kitchen"),
    ):
        name, address = place
        page.look(f"location.hash = '#/{address}'")
        settle(page, name)
        found[name] = page.barriers
        shoot(page, name, dark, narrow)
        assert fits(page), f"{name} is wider than its window"
    page.look("location.hash = '#/turns'")
    page.click('table.turns tbody tr:has-text("Note milk") a')
    page.see("text=notes.add")
    found["turn"] = page.barriers
    shoot(page, "turn", dark, narrow)
    page.press("?")
    page.see("role=dialog")
    found["help"] = page.barriers
    assert {name: barriers for name, barriers in found.items() if barriers} == {}
    assert page.problems == []
    page.close()


def settle(page: Page, name: str) -> None:
    """Wait until a view is there with what it asked for."""
    if name in VIEWS:
        page.see(f'main >> role=heading[name="{name}"][level=1]')
    page.call("waitForLoadState", "load")
    page.wait("!document.querySelector('main .loading')")
    page.look("new Promise(done => setTimeout(done, 300))")  # the views have no sign of their own for this


def fits(page: Page) -> bool:
    """Whether nobody has to scroll sideways."""
    return bool(page.look("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))


def shoot(page: Page, name: str, dark: bool, narrow: bool) -> None:
    if SHOTS:
        look = f"{'dark' if dark else 'light'}-{'narrow' if narrow else 'wide'}"
        page.picture(Path(SHOTS) / f"{name.lower()}-{look}.png", whole=narrow)
