"""What a person says at the page, and what comes of it: approvals, chat, and the inbox."""

from __future__ import annotations

from fakes.chromium import Page
from fakes.scripted import OPENAI, Script
from fakes.studio_gateway import Studio, calling

ONE_WAITS = 'nav >> role=link[name="Approvals 1 waiting for an answer"]'


def command(text: str) -> Script:
    return calling("bash", {"command": text})


# Approvals


def test_a_yes_that_is_clicked_lets_the_tool_run_and_counts_once(page: Page, office: Studio) -> None:
    office.teach("make a file", command("touch made-by-a-yes"), OPENAI.answer("It is made."))
    office.say("make a file", chat_id="yes")
    page.see(ONE_WAITS)
    page.turn_to("Approvals")
    card = page.see("main article")
    assert "bash" in card and "touch made-by-a-yes" in card
    assert not (office.folder / "made-by-a-yes").exists()
    page.click('main >> role=button[name="Yes"]')
    office.until((office.folder / "made-by-a-yes").exists, "the tool runs")
    page.see("main article.is-over")
    page.miss(ONE_WAITS)
    assert not page.has('main >> role=button[name="Yes"]')
    office.until(lambda: ["normal", "It is made."] in office.replies, "the turn goes on")


def test_a_no_that_is_clicked_keeps_the_tool_from_running(page: Page, office: Studio) -> None:
    office.teach("make another", command("touch made-by-a-no"), OPENAI.answer("Then not."))
    office.say("make another", chat_id="no")
    page.see(ONE_WAITS)
    page.turn_to("Approvals")
    page.click('main >> role=button[name="No"]')
    office.until(lambda: ["normal", "Then not."] in office.replies, "the turn goes on")
    page.see("main article.is-over")
    assert not (office.folder / "made-by-a-no").exists()


def test_a_question_shows_up_on_a_page_that_is_open_already(page: Page, office: Studio) -> None:
    page.turn_to("Approvals")
    page.see("text=Nothing waits for an answer")
    office.teach("ask me", command("true && touch asked"), OPENAI.answer("Asked."))
    office.say("ask me", chat_id="open")
    page.see("main article")
    assert page.look("document.title").startswith("(1)")
    with office.visit() as other:
        [question] = other.ask("approvals")["open"]
        assert other.post(f"approvals/{question['id']}", {"yes": False}).json()["counts"] is True
    page.see("text=Nothing waits for an answer")


# Chat


def chat(page: Page) -> None:
    page.turn_to("Chat")
    page.see('role=log[name="Chat main"]')


def test_an_answer_in_the_chat_comes_piece_by_piece_and_shows_its_tools(page: Page, office: Studio) -> None:
    text = "The milk is on the list, and the bread as well."
    slow = [step for each in OPENAI.answer(text) for step in (each, {"pause": 0.15})]
    office.teach("note bread", calling("notes_add", {"text": "bread"}), slow)
    chat(page)
    page.write('role=textbox[name="Message to main"]', "note bread")
    page.press("Enter")
    page.see('.said-by.user:has-text("note bread")')
    page.see('details.tool:has-text("notes.add") .good')
    page.see('role=button[name="Stop"]')
    page.see('.said-by.assistant:has-text("The milk")')
    assert text not in page.call("innerText", "role=log")  # it is still coming
    page.see(f'.said-by.assistant:has-text("{text}")')
    page.miss('role=button[name="Stop"]')
    page.call("reload")
    chat(page)
    page.see(f'.said-by.assistant:has-text("{text}")')  # it is on the tape


def test_an_answer_that_takes_too_long_is_stopped(page: Page, office: Studio) -> None:
    office.teach("think long", [*OPENAI.beginning("Well"), {"hold": True}])
    chat(page)
    page.write('role=textbox[name="Message to main"]', "think long")
    page.press("Enter")
    page.see('.said-by.assistant:has-text("Well")')
    page.click('role=button[name="Stop"]')
    page.miss('role=button[name="Stop"]')


def test_a_command_that_is_typed_at_the_page_is_asked_as_from_any_channel(page: Page, office: Studio) -> None:
    chat(page)
    page.write('role=textbox[name="Message to main"]', ',bash command="touch by-command"')
    page.press("Enter")
    question = page.see("role=log >> article")
    assert "touch by-command" in question
    assert not (office.folder / "by-command").exists()
    page.click('role=log >> role=button[name="Yes"]')
    office.until((office.folder / "by-command").exists, "the command runs")


# Inbox


def test_what_was_set_aside_is_tried_again_and_dropped(page: Page, office: Studio) -> None:
    for chat_id in ("lost-1", "lost-2"):
        office.say(f"to nobody, {chat_id}", chat_id=chat_id, output_channel="nowhere")
    page.turn_to("Inbox")
    for chat_id in ("lost-1", "lost-2"):
        page.see(f'section[aria-label="Set aside"] tr:has-text("{chat_id}")')
    page.click('section[aria-label="Set aside"] tr:has-text("lost-1") >> role=button[name="Try again"]')
    page.see("#said:has-text('tried again')")
    page.click('section[aria-label="Set aside"] tr:has-text("lost-2") >> role=button[name=/Drop/]')
    page.click('role=button[name="Drop"]')
    page.miss('section[aria-label="Set aside"] tr:has-text("lost-2")')
    with office.visit() as visitor:
        left = visitor.ask("inbox")
    assert "lost-2" not in str(left)


def test_the_question_whether_to_drop_stays_while_the_list_changes(page: Page, office: Studio) -> None:
    office.say("to nobody, lost-3", chat_id="lost-3", output_channel="nowhere")
    page.turn_to("Inbox")
    page.click('section[aria-label="Set aside"] tr:has-text("lost-3") >> role=button[name=/Drop/]')
    office.say("to nobody, lost-4", chat_id="lost-4", output_channel="nowhere")
    page.see('section[aria-label="Set aside"] tr:has-text("lost-4")')
    page.see('tr:has-text("lost-3") >> text="Drop it for good?"')
    page.press("Enter")  # the focus is still on the first button of the question
    page.miss('section[aria-label="Set aside"] tr:has-text("lost-3")')
    page.see('section[aria-label="Set aside"] tr:has-text("lost-4")')
