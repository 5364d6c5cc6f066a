"""Questions on Telegram: shown with buttons, answered by those who may, and by nobody else, however they try."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.office import ANONYMOUS, FRIENDS, Office
from fakes.telegram import ADA, BOB, BotServer, serving_bots

from bub.base.backoff import Backoff
from bub.channels import ChannelManager
from bub.inbox import approvals

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def bot_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as server:
        yield server


@pytest.fixture
def server(bot_server: BotServer) -> BotServer:
    bot_server.reset()
    return bot_server


@pytest.fixture
def office(tmp_path: Path, server: BotServer) -> Office:
    return Office(tmp_path, server)


async def test_a_click_of_an_approver_runs_the_call_and_the_question_says_who_it_was(office: Office) -> None:
    async with office.opened() as manager:
        office.server.say("/bub tidy", chat=FRIENDS, user=BOB)
        question = await office.asked()
        assert "may I call work.do with\n  what: tidy" in question["text"]
        office.press(question, yes=True, user=ADA)
        assert await office.told() == "q1: 7 said yes to work.do."
        await office.said("did tidy")
        await office.said("what: tidy\n\nq1: 7 said yes to work.do.")
        await manager.settled()
        tape = "".join(str(entry.payload) for entry in await _entries(manager))
        assert "'answer': 'yes', 'by': 'telegram:7'" in tape
    assert office.done == ["tidy"]
    assert office.questions() == []


async def test_what_a_server_asks_is_answered_by_a_click_and_is_no_question_about_a_call(office: Office) -> None:
    async with office.opened() as manager:
        office.server.say("/bub poll", chat=FRIENDS, user=ADA)
        question = await office.asked()
        assert question["text"].startswith("q1: while work.poll runs\nthe server `docs` asks:\n  Drafts, too?")
        assert "may I call" not in question["text"]
        office.press(question, yes=True, user=ADA)
        assert await office.told() == "q1: 7 said yes to the server `docs`."
        await office.said("it goes on")
        await manager.settled()


async def test_somebody_else_and_the_asker_are_refused_with_words(office: Office) -> None:
    async with office.opened() as manager:
        office.server.say("/bub tidy", chat=FRIENDS, user=BOB)
        question = await office.asked()
        for count, somebody in enumerate((BOB, {**ADA, "id": 70}, ANONYMOUS), 1):
            office.press(question, yes=True, user=somebody)
            if not somebody["is_bot"]:
                assert "You may not answer q1" in await office.told(count)
        for text, more in (
            ("/yes q1", {"user": BOB}),
            ("/yes q1", {"user": ANONYMOUS, "sender_chat": FRIENDS}),
            ("/yes q1", {"user": ADA, "sender_chat": FRIENDS}),
            ("/yes q1", {"user": ADA, "forward_origin": {"type": "user", "date": 1, "sender_user": ADA}}),
            ("/yes", {"user": ADA}),
            ("/yes", {"user": BOB, "reply_to": question["message_id"]}),
        ):
            office.server.say(text, chat=FRIENDS, **more)
        await office.said("Which question?")
        await trio.sleep(0.3)
        assert (office.done, len(office.questions())) == ([], 1)
        office.press(question, yes=False, user=ADA)
        await office.said("the person said no")
        await manager.settled()
    assert office.done == []


@pytest.mark.parametrize("how", ["id", "reply"])
async def test_an_approver_can_write_yes(office: Office, how: str) -> None:
    async with office.opened() as manager:
        office.server.say("tidy", user=ADA)
        question = await office.asked(ADA["id"])
        more = {"reply_to": question["message_id"]} if how == "reply" else {}
        office.server.say("/yes" if how == "reply" else "/yes q1", user=ADA, **more)
        await office.said("did tidy", ADA["id"])
        await manager.settled()
    assert office.done == ["tidy"]


async def test_a_stale_click_is_refused_with_words_and_nothing_runs(office: Office) -> None:
    async with office.opened() as manager:
        office.server.say("/bub tidy", chat=FRIENDS, user=BOB)
        question = await office.asked()
        office.write(ask='"work.*", "fs.*"')
        await trio.to_thread.run_sync(manager._framework.reload)  # type: ignore[attr-defined]
        office.press(question, yes=True, user=ADA)
        assert "has changed since Bub asked" in await office.told()
        await manager.settled()
        office.press(question, yes=True, user=ADA)
        assert "no question q1 any more" in await office.told(2)
    assert office.done == []


async def test_without_approvers_it_waits_for_the_operator(office: Office) -> None:
    office.write(approvers="")
    async with office.opened() as manager:
        office.server.say("tidy", user=ADA)
        await office.said("It waits for the operator: bub inbox approve q1", ADA["id"])
        office.server.say("/yes q1", user=ADA)
        await office.said("You may not answer q1", ADA["id"])
        assert await manager._mailbox.answer("q1", True, "operator")
        await office.said("did tidy", ADA["id"])
        await office.said("the operator said yes", ADA["id"])
    assert office.done == ["tidy"]


async def test_whoever_presses_a_stale_button_again_and_again_does_not_use_up_the_pace_of_the_group(
    office: Office,
) -> None:
    async with office.opened() as manager:
        office.server.say("/bub tidy", chat=FRIENDS, user=BOB)
        question = await office.asked()
        office.press(question, yes=False, user=ADA)
        await manager.settled()
        for _ in range(25):
            office.press(question, yes=True, user=BOB)
        await office.told(26)
        office.server.say("/bub wash", chat=FRIENDS, user=BOB)
        await office.server.until(lambda: [one for one in office.questions() if "wash" in one["text"]])
    assert len(office.server.calls("editMessageText")) <= 3


@pytest.mark.parametrize("what", ["x" * 5_000 + "-end", "🙂" * 2_500 + "-end"], ids=["letters", "wide letters"])
async def test_what_is_too_long_for_a_message_is_all_there_before_the_buttons_are(
    office: Office, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "_AGAIN", Backoff(0.2))
    async with office.opened() as manager:
        office.server.fault("sendDocument", status=500, description="later")
        office.server.say(f"/bub {what}", chat=FRIENDS, user=BOB)
        await office.server.until(lambda: office.server.calls("sendDocument"))
        assert office.questions() == []  # no button without the file
        question = await office.asked()
        [file] = [one["message"] for one in office.server.messages(FRIENDS["id"]) if "document" in one["message"]]
        assert (file["document"]["file_name"], file["message_id"] < question["message_id"]) == ("q1.txt", True)
        assert file["document"]["file_size"] == len(f"  what: {what}".encode())
        assert "characters are in q1.txt above: a yes is for all of them" in question["text"]
        office.press(question, yes=True, user=ADA)
        await manager.settled()
    assert office.done == [what]


async def _entries(manager: ChannelManager) -> list[Any]:
    from bub.tape.query import TapeQuery

    store = manager._framework.get_tape_store()  # type: ignore[attr-defined]
    names = await trio.to_thread.run_sync(store.list_tapes)
    return [entry for name in names for entry in await trio.to_thread.run_sync(store.fetch_all, TapeQuery(name))]
