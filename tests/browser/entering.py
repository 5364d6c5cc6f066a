"""Who comes in, how, and what nobody can read of the token afterwards (`make browser`)."""

from __future__ import annotations

from pathlib import Path

from fakes.chromium import Chromium, Page
from fakes.studio_gateway import Studio, studio, write_office

FIELD, OPEN = 'role=textbox[name="Token"]', 'role=button[name="Open the studio"]'


def test_the_token_leaves_the_address_bar_and_becomes_a_cookie_that_no_script_reads(page: Page, office: Studio) -> None:
    assert page.look("location.href") == f"{office.address}/#/graph"
    assert page.look("history.length") <= 2  # going back does not bring it again
    assert page.look("document.cookie") == ""
    assert page.look("JSON.stringify([localStorage, sessionStorage])").count(office.token) == 0
    [cookie] = page.call("cookies")
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert cookie["value"] != office.token


def test_the_token_is_in_one_body_and_in_no_address_referrer_or_file(page: Page, office: Studio) -> None:
    for view in ("Turns", "Health", "Graph"):
        page.turn_to(view)
    requests = page.requests
    bodies = [one["url"] for one in requests if office.token in (one["body"] or "")]
    assert bodies == [f"{office.address}/api/enter"]
    for one in requests:
        assert office.token not in one["url"]
        assert office.token not in str(one["headers"])
    assert office.token not in (office.folder / "home" / "logs" / "bub.log").read_text(encoding="utf-8")


def test_who_comes_again_needs_no_token(page: Page, office: Studio) -> None:
    page.go("about:blank")
    page.go(f"{office.address}/#/turns")
    page.see('role=heading[name="Turns"][level=1]')


def test_a_stranger_sees_a_form_and_is_told_that_a_token_is_wrong(browser: Chromium, office: Studio) -> None:
    page = browser.open()
    page.go(office.address)
    page.see(FIELD)
    assert not page.has("nav")
    page.write(FIELD, "not-the-token")
    page.click(OPEN)
    page.see("role=alert >> text=not valid")
    page.write(FIELD, office.link)  # whoever pastes all of it
    page.click(OPEN)
    page.see("main svg")
    assert page.look("location.href") == f"{office.address}/#/graph"
    page.close()


def test_who_signs_out_is_a_stranger_again(browser: Chromium, office: Studio) -> None:
    page = browser.open()
    page.go(office.link)
    page.see("main svg")
    page.press("?")
    page.click('role=button[name="Sign out"]')
    page.see(FIELD)
    page.go(f"{office.address}/#/turns")
    page.see(FIELD)
    page.close()


def test_a_page_finds_the_gateway_again_after_it_was_started_anew(
    browser: Chromium, tmp_path: Path, model: str
) -> None:
    write_office(tmp_path / "work", model)
    page = browser.open()
    with studio(tmp_path / "work") as first:
        page.go(first.link)
        page.see("#pulse.live")
        port = int(first.address.rpartition(":")[2])
    page.see("#pulse.lost")
    write_office(tmp_path / "work", model, port=port)
    with studio(tmp_path / "work") as second:
        assert second.token != first.token
        page.see("text=started again")
        page.write(FIELD, second.token)
        page.click(OPEN)
        page.see("#pulse.live")
        second.say("hello")
        page.see('#stage-run_model:has-text("1\N{MULTIPLICATION SIGN}")')
    page.close()
