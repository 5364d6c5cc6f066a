"""Whoever has a keyboard and no mouse, and whoever has the page read aloud, gets everywhere."""

from __future__ import annotations

from fakes.chromium import Chromium, Page
from fakes.scripted import OPENAI
from fakes.studio_gateway import Studio, calling


def tab_to(page: Page, name: str) -> None:
    """Press Tab until what has this name has the focus, which has to be seen there."""
    for _ in range(60):
        page.press("Tab")
        if page.focus.splitlines()[:1] == [name] or page.focus.startswith(name):
            assert page.look(
                "(s => s.outlineStyle !== 'none' || s.boxShadow !== 'none' || document.activeElement.closest('svg'))"
                "(getComputedStyle(document.activeElement)) !== null"
            )
            return
    raise AssertionError(f"Tab does not lead to {name}: it ends at {page.focus}")


def test_a_stage_is_opened_and_left_by_keys(page: Page) -> None:
    page.press("Tab")
    assert page.focus == "Skip to the content"
    page.press("Enter")
    page.wait("document.activeElement.id === 'main'")
    for _ in range(30):
        page.press("Tab")
        if page.look("document.activeElement.id.startsWith('stage-')"):
            break
    first = page.look("document.activeElement.id")
    page.press("ArrowDown", "ArrowDown")
    stage = page.look("document.activeElement.id")
    assert stage.startswith("stage-") and stage != first
    page.press("Enter")
    page.see("aside .panel")
    assert page.focus.startswith(stage.removeprefix("stage-"))
    page.press("Escape")
    page.miss("aside .panel")
    assert page.look("document.activeElement.id") == stage
    page.press("End")
    page.press("Space")
    page.see("aside .panel")


def test_every_view_has_a_key_and_says_that_it_is_there(page: Page) -> None:
    views = ("Graph", "Turns", "Approvals", "Chat", "Inbox", "Health", "Plots", "File")
    for number, name in enumerate(views, 1):
        page.look("document.activeElement.blur()")
        page.press(str(number))
        page.see(f'main >> role=heading[name="{name}"][level=1]')
        if number > 1:
            page.wait(f"document.getElementById('said').textContent.includes('{name}')")
    page.look("document.activeElement.blur()")
    page.press("g", "t")
    page.see('main >> role=heading[name="Turns"][level=1]')
    page.press("/")
    assert page.focus == "Message, session, chat, sender"
    page.press("7")  # what is typed into a field is no key
    assert page.call("inputValue", "main [data-search]") == "7"
    page.write("main [data-search]", "")


def test_a_question_is_answered_by_keys(page: Page, office: Studio) -> None:
    office.teach("by keys", calling("bash", {"command": "touch by-keys"}), OPENAI.answer("Done."))
    office.say("by keys", chat_id="keys")
    page.see('nav >> role=link[name="Approvals 1 waiting for an answer"]')
    page.press("g", "a")
    page.see("main article")
    tab_to(page, "Yes")
    page.press("Enter")
    office.until((office.folder / "by-keys").exists, "the tool runs")


def test_Tab_leaves_the_editor_after_Escape_and_the_help_gives_the_focus_back(page: Page) -> None:
    page.press("8")
    page.see('main :text("Nothing is wrong")')
    before = page.call("inputValue", "#file-text")
    page.call("focus", "#file-text")
    page.press("Escape", "Tab")
    assert page.look("document.activeElement.id") != "file-text"
    assert page.call("inputValue", "#file-text") == before
    page.press("?")
    page.see("role=dialog")
    page.press("Escape")
    page.miss("role=dialog")


def test_changes_are_said_aloud_and_nothing_moves_for_who_wants_it_still(page: Page, office: Studio) -> None:
    office.teach("say it", calling("bash", {"command": "touch said"}), OPENAI.answer("Done."))
    office.say("say it", chat_id="aloud")
    page.wait("document.getElementById('said').textContent.includes('question')")
    assert page.look("document.getElementById('said').getAttribute('role')") == "status"
    assert page.look("document.querySelectorAll('.turn-dot').length") == 0  # less motion was asked for
    with office.visit() as visitor:
        for question in visitor.ask("approvals")["open"]:
            visitor.post(f"approvals/{question['id']}", {"yes": False})


def test_the_view_that_is_open_is_in_sight_in_the_navigation_and_the_first_tab_is_at_the_skip_link(
    browser: Chromium, office: Studio
) -> None:
    page = browser.open(viewport={"width": 200, "height": 600})
    page.go(office.link)
    page.see("main h1")
    page.press("8")
    page.see("#file-text")
    page.call("reload")
    page.see("#file-text")
    assert page.look("document.querySelector('#nav [aria-current]').dataset.view") == "file"
    assert page.look(
        "(([at, room]) => at.left >= room.left - 1 && at.right <= room.right + 1 && room.width < nav.scrollWidth)"
        "([document.querySelector('#nav [aria-current]'), nav].map((one) => one.getBoundingClientRect()))"
    )
    page.press("Tab")
    assert page.focus == "Skip to the content"
    page.close()
