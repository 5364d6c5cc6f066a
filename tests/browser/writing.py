"""The pipeline file in the page: findings as one types, what would change, and what is refused."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.chromium import Chromium, Page
from fakes.studio_gateway import Studio, studio, write_office

TEXT = 'role=textbox[name="The pipeline file"]'


@pytest.fixture
def editor(page: Page) -> Page:
    page.turn_to("File")
    page.see('main :text("Nothing is wrong")')
    return page


def replace(page: Page, before: str, after: str) -> None:
    text = page.call("inputValue", TEXT)
    assert before in text
    page.write(TEXT, text.replace(before, after, 1))


def test_a_typo_is_found_while_one_types_and_the_reload_is_refused_with_the_finding(
    editor: Page, office: Studio
) -> None:
    before = (office.folder / "pipelines.yaml").read_text(encoding="utf-8")
    replace(editor, "before: run_model", "before: run_modle")
    finding = editor.see("ol.findings li.error")
    assert "run_modle" in finding and "run_model" in finding
    editor.see(".squiggle.error:has-text('run_modle')")
    editor.click('role=button[name="Load"]')
    editor.click("main .result >> role=button[name=/Load/]")
    refused = editor.see("main .result .bad-text")
    assert "✗" in refused
    assert "run_modle" in editor.see("main .result .finding")
    assert (office.folder / "pipelines.yaml").read_text(encoding="utf-8") == before
    office.say("hello", chat_id="after")
    office.until(lambda: ["normal", "You said: hello"] in office.replies, "what ran runs on")
    editor.click('role=button[name="Discard"]')
    editor.see('main :text("Nothing is wrong")')


def test_a_finding_leads_to_its_place_and_is_repaired_by_a_click(editor: Page) -> None:
    replace(editor, "before: run_model", "before: run_modle")
    editor.click("ol.findings li.error button.jump")
    selected = "(e => e.value.slice(e.selectionStart, e.selectionEnd))(document.getElementById('file-text'))"
    assert editor.look(selected) == "run_modle"
    editor.click("ol.findings li.error >> role=button[name=/run_model/]")
    editor.see('main :text("Nothing is wrong")')


def test_what_would_open_something_is_shown_as_danger_before_it_is_loaded(editor: Page, office: Studio) -> None:
    replace(editor, "ask: [bash]", "ask: []")
    editor.click('role=button[name="What would change"]')
    assert "bash" in editor.see("main .danger")
    editor.click('role=button[name="Load"]')
    editor.see('role=button[name="Load it all the same"]')
    editor.click('role=button[name="Back"]')
    editor.click('role=button[name="Discard"]')
    assert "ask: [bash]" in (office.folder / "pipelines.yaml").read_text(encoding="utf-8")


def test_what_is_right_is_proved_and_loaded_and_the_graph_shows_it(editor: Page, office: Studio) -> None:
    replace(editor, "timeout: 30s}", "timeout: 31s}")
    editor.click('role=button[name="Prove"]')
    editor.see("main .result .good-text")
    editor.click('role=button[name="Load"]')
    editor.click('main .result >> role=button[name="Load"]')
    editor.see("main .result .good-text")
    assert "timeout: 31s}" in (office.folder / "pipelines.yaml").read_text(encoding="utf-8")
    editor.turn_to("Graph")
    editor.see('#stage-moderate:has-text("31s")')
    editor.turn_to("Health")
    editor.see('section:has(h2:text("Reloads")) li:has-text("ok")')


def test_a_reload_that_was_refused_elsewhere_is_shown_with_its_finding(page: Page, office: Studio) -> None:
    file = office.folder / "pipelines.yaml"
    text = file.read_text(encoding="utf-8")
    try:
        file.write_text(text.replace("plugins: [post, office]", "plugins: [post, offise]", 1), encoding="utf-8")
        office.send(signal.SIGHUP)
        page.turn_to("Health")
        shown = page.see('section:has(h2:text("Reloads")) li:has-text("refused") >> .finding')
        assert "offise" in shown and "did you mean `office`" in shown
    finally:
        file.write_text(text, encoding="utf-8")


@pytest.fixture
def reader(tmp_path: Path, model: str) -> Iterator[Studio]:
    """A gateway whose page may not write."""
    write_office(tmp_path / "work", model, more="")
    with studio(tmp_path / "work") as running:
        yield running


def test_a_page_that_may_not_write_offers_no_load_and_says_what_would_allow_it(
    browser: Chromium, reader: Studio
) -> None:
    page = browser.open()
    page.go(f"{reader.link}")
    page.turn_to("File")
    page.see('main :text("gateway.studio.write")')
    assert not page.has('role=button[name="Load"]') and not page.has('role=button[name="Prove"]')
    page.close()
