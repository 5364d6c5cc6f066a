"""Turns as a person sees them: on the graph while they run, in the list, one by itself, and on the tapes."""

from __future__ import annotations

from fakes.chromium import Page
from fakes.scripted import OPENAI
from fakes.studio_gateway import Studio, calling


def test_a_turn_of_another_process_is_seen_moving_through_the_graph(page: Page, office: Studio) -> None:
    with office.visit() as visitor:
        done = visitor.ask("stage", profile="default", stage="run_model")["numbers"]["count"]
    office.say("hello [load_state] [moderate] [before_llm_call]", chat_id="moving")
    for point, stage in (("load_state", "load_state"), ("moderate", "moderate"), ("before_llm_call", "run_model")):
        office.wait_at(point)
        page.see(f'#stage-{stage}[data-now="1"]')
        assert page.see("#pulse") == "1 turn running"
        page.see('nav >> role=link[name="Turns 1 running"]')
        office.release(point)
    page.wait("!document.querySelector('[data-now]')")
    page.see(f'#stage-run_model:has-text(" {done + 1}\N{MULTIPLICATION SIGN}")')
    assert page.see("#pulse") == "Live"


def test_an_opened_stage_shows_what_explain_says_its_lines_its_implementers_and_its_last_error(
    page: Page, office: Studio
) -> None:
    office.say("[fail] oh", chat_id="failing")
    page.see("#stage-load_state .live .bad")
    page.click("#stage-load_state")
    page.see('aside h3:has-text("Last errors")')
    panel = page.see("aside")
    for words in ("load_state", "broadcast", "office", "oh", "failed"):
        assert words in panel, words
    page.press("Escape")
    page.miss("aside .panel")
    page.click("#stage-moderate")
    assert "moderate: {before: run_model" in page.see("aside pre.code")
    page.click('role=button[name="Close the stage"]')
    page.miss("aside .panel")


def test_a_message_that_is_typed_in_shows_which_way_it_would_go_and_which_gates_would_be_asked(
    page: Page, office: Studio
) -> None:
    page.write('role=textbox[name="A message"]', "which way is it")
    page.write('role=combobox[name="Channel"]', "post")
    page.write('role=textbox[name="Sender"]', "stranger")
    page.click('role=button[name="Show the way"]')
    answer = page.see("aside .answer")
    for words in ("profile guests", "route 1", "moderate", "yes", "office"):
        assert words in answer, words
    page.wait("location.hash === '#/graph/guests'")
    page.see('#stage-moderate[data-way="yes"]')
    page.click('role=button[name="Clear"]')
    page.miss("#stage-moderate[data-way]")
    assert "which way is it" not in str(office.replies)  # nothing has run


def test_a_turn_that_is_opened_shows_its_stages_its_calls_its_tokens_and_its_tape(page: Page, office: Studio) -> None:
    office.teach("note milk", calling("notes_add", {"text": "milk"}), OPENAI.answer("I noted it."))
    office.say("note milk", chat_id="opened")
    page.turn_to("Turns")
    page.write('role=searchbox[name="Session"]', "post:opened")
    page.click("table.turns tbody tr a")
    page.see("text=notes.add")
    shown = page.see("main")
    for words in ("run_model", "moderate", "notes.add", "note milk", "I noted it.", "noted milk"):
        assert words in shown, words
    page.press("Escape")
    page.see("table.turns")


def test_of_the_system_prompt_a_turn_shows_the_beginning_until_somebody_wants_all_of_it(
    page: Page, office: Studio
) -> None:
    office.teach("hello there", OPENAI.answer("Good morning."))
    office.say("hello there", chat_id="prompted")
    page.turn_to("Turns")
    page.write('role=searchbox[name="Session"]', "post:prompted")
    page.click("table.turns tbody tr a")
    words = "document.querySelector('.entry.system .words').textContent.length"
    page.see(".entry.system")
    assert page.look(words) == 120
    page.click(".entry.system button")
    assert page.look(words) > 1000


def test_turns_are_found_by_their_outcome_and_session(page: Page, office: Studio) -> None:
    office.say("my password is 1", chat_id="denied")
    page.turn_to("Turns")
    page.call("selectOption", 'role=combobox[name="Outcome"]', "denied")
    page.see('table.turns tbody tr:has-text("my password")')
    page.wait("document.querySelectorAll('table.turns tbody tr').length === 1")


def test_words_are_found_on_tapes(page: Page, office: Studio) -> None:
    office.say("a walrus came by", chat_id="tapes")
    page.turn_to("Turns")
    page.click('main >> role=link[name="Tapes"]')
    page.see("text=post:tapes")
    page.write("main [data-search]", "walrus")
    page.press("Enter")
    page.see('main :text("You said: a walrus came by")')
