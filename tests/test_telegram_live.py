"""Telegram, while an answer is made: what people see of it, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
import trio
import trio.testing
from fakes.telegram import private
from fakes.telegram_server import ApiError, State, units
from fakes.telegram_world import World, in_virtual_time, player, world
from telegram.error import NetworkError, TimedOut

from bub.channels import ChannelMessage, TryLaterError, UndeliverableError
from bub_plugins.telegram.drafts import AT_ONCE, FIRST_AFTER
from bub_plugins.telegram.markup import LONGEST_TEXT

pytestmark = pytest.mark.filterwarnings(  # the library warns of its own use of what it will change
    "ignore:.*`retry_after` will be of type:DeprecationWarning"
)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with closing(State(str(tmp_path / "telegram.db"))) as opened:
        yield opened


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Run a test in virtual time, with a world of its own."""
    return player(tmp_path)


def test_a_quick_answer_has_no_draft(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="quick")
        await trio.sleep(0.5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("quick"))
        assert [name for _, name, _ in here.request.calls] == ["sendMessage"]
        assert here.said() == ["quick"]

    play(test)


def test_an_answer_is_shown_while_it_is_made(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        for number in range(100):
            here.tell("text", delta=f"{number} ")
            await trio.sleep(0.1)
        await here.sender.turn_over(here.inbound())
        [(asked, draft, kept_at)] = here.kept
        assert asked == str(here.asked)
        await here.sender.send(here.reply(" ".join(map(str, range(100))), draft=draft))
        [message] = here.messages()
        assert str(message["message_id"]) == draft
        forms = here.forms(message["message_id"])
        assert forms[0] == "…"
        assert 7 <= len(forms) <= 11
        assert all(later.startswith(earlier) for earlier, later in pairwise(forms[1:]))
        assert forms[-1] == " ".join(map(str, range(100)))
        edits = [at for at, name, _ in here.request.calls if name == "editMessageText"]
        assert kept_at <= edits[0]
        assert all(later - earlier > 0.99 for earlier, later in pairwise(edits))

    play(test)


def test_a_group_is_edited_less_often(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        asked = here.inbound(chat_id="-100", message_id=str(here.asked_there))
        for number in range(300):
            here.tell("text", asked, delta=f"{number} ")
            await trio.sleep(0.1)
        assert 7 <= len(here.called("editMessageText")) <= 10
        assert here.messages(-100)[0]["reply_to_message"]["message_id"] == here.asked_there

    play(test)


def test_tools_are_shown_while_they_run(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(2)
        assert here.said() == ["…"]
        here.tell("text", delta="Let me *look*.")
        here.tell("tool_call", id="1", name="bash", arguments={"command": "secret"})
        await trio.sleep(3)
        assert here.said() == ["Let me look.\n\n⚙ bash …"]
        here.tell("tool_result", id="1", content="42")
        await trio.sleep(3)
        assert here.said() == ["Let me look."]

    play(test)


def test_a_plan_and_a_pause_are_shown_while_an_answer_is_made(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        steps = [{"step": "*Read* it", "state": "done"}, {"step": "Test_it_", "state": "doing"}]
        here.tell("plan", steps=steps)
        here.tell("tool_call", id="1", name="bash")
        await trio.sleep(3)
        assert here.said() == ["✔ *Read* it\n▶ Test_it_\n⚙ bash …"]
        here.tell("waiting", seconds=40.2, reason="http://10.0.0.1 got too many requests")
        await trio.sleep(3)
        assert here.said() == ["✔ *Read* it\n▶ Test_it_\n⚙ bash …\n⏳ the model wants a pause of 40 s"]
        here.tell("plan", steps=[{"step": f"step {number}", "state": "left"} for number in range(100)])
        await trio.sleep(3)
        assert len(here.said()[0].splitlines()) == 10
        here.tell("plan", steps=[])
        here.tell("tool_result", id="1", content="42")
        here.tell("text", delta="Done.")
        await trio.sleep(3)
        assert here.said() == ["Done."]

    play(test)


def test_nothing_is_edited_that_did_not_change(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        for _ in range(50):
            here.tell("reasoning", delta="hm")
            here.tell("text", delta="\n")
            await trio.sleep(0.5)
        assert here.said() == ["so far"]
        assert len(here.called("editMessageText")) == 1

    play(test)


def test_a_long_answer_shows_its_end_while_it_is_made(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="".join(f"line {number}\n" for number in range(1000)))
        await trio.sleep(5)
        [text] = here.said()
        assert units(text) <= LONGEST_TEXT
        assert text.startswith("…\nline ")
        assert text.endswith("line 999")
        whole = "".join(f"line {number}\n" for number in range(1000))
        await here.sender.send(here.reply(whole, draft=here.kept[0][1]))
        assert "\n".join(here.said()).split() == whole.split()
        assert str(here.messages()[0]["message_id"]) == here.kept[0][1]

    play(test)


def test_a_turn_that_is_taken_again_goes_into_the_same_message(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        draft = here.state.write(private(), {"from": {"id": 4242, "is_bot": True, "first_name": "B"}, "text": "…"})
        number = str(draft["message_id"])
        asked = here.inbound(draft=number)
        here.tell("text", asked, delta="better")
        await trio.sleep(5)
        assert here.said() == ["better"]
        await here.sender.turn_over(asked)
        await here.sender.send(here.reply("better now", draft=number))
        assert here.said() == ["better now"]
        assert here.kept == []
        assert here.called("sendMessage") == []

    play(test)


def test_a_reply_that_was_made_before_its_draft_completes_it(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.request.takes = 3.0
        here.tell("text", delta="slow")
        await trio.sleep(5)
        assert here.said() == ["…"]  # the placeholder is there, and we do not know of it
        await here.sender.send(here.reply("slow but sure"))
        assert here.said() == ["slow but sure"]
        assert len(here.messages()) == 1

    play(test)


def test_no_earlier_text_arrives_behind_the_final_one(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.request.takes = 3.0
        here.tell("text", delta="beginning")
        await trio.sleep(9)
        assert len(here.called("editMessageText")) == 1  # and it is not answered yet
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("the end", draft=here.kept[0][1]))
        await trio.sleep(30)
        assert here.forms(int(here.kept[0][1])) == ["…", "beginning", "the end"]

    play(test)


def test_a_turn_without_a_reply_leaves_no_placeholder(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("tool_call", id="1", name="bash")
        await trio.sleep(5)
        assert here.said() == ["⚙ bash …"]
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("", draft=here.kept[0][1]))
        assert here.said() == []

    play(test)


def test_a_turn_that_is_cancelled_leaves_what_it_had_said(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        here.tell("tool_call", id="1", name="bash")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("", draft=here.kept[0][1]))
        assert here.said() == ["so far"]

    play(test)


def test_an_apology_stands_below_what_was_said_and_not_in_its_place(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        here.tell("tool_call", id="1", name="bash")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("Sorry.", kind="error", draft=here.kept[0][1]))
        assert here.said() == ["so far", "Sorry."]

    play(test)


def test_an_apology_takes_the_place_of_a_mere_placeholder(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("Sorry.", kind="error", draft=here.kept[0][1]))
        assert here.said() == ["Sorry."]

    play(test)


def test_a_reply_that_comes_late_is_said_anew(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(3)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("", draft=here.kept[0][1]))
        await here.sender.send(here.reply("late"))
        assert here.said() == ["late"]

    play(test)


def test_what_was_said_before_a_crash_and_not_answered_is_no_placeholder_any_more(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        here.fail("editMessageText", NetworkError("gone"))
        nothing = here.reply("", draft=here.kept[0][1])
        with pytest.raises(NetworkError):
            await here.sender.send(nothing)
        await here.sender.send(nothing)
        assert here.said() == ["so far"]
        here.state.db.execute("UPDATE messages SET deleted = 1")
        await here.sender.send(nothing)
        assert here.said() == []

    play(test)


def test_a_reply_to_something_else_can_complete_a_draft(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(3)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("done", draft=here.kept[0][1], answers="another"))
        assert here.said() == ["done"]

    play(test)


def test_a_placeholder_is_deleted_once_the_network_is_back(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(3)
        here.fail(
            "deleteMessage", NetworkError("gone"), TimedOut(), ApiError(429, "Too Many Requests", retry_after=3_600)
        )
        await here.sender.turn_over(here.inbound())
        nothing = here.reply("", draft=here.kept[0][1])
        for expected in (NetworkError, TimedOut, TryLaterError):
            with pytest.raises(expected):
                await here.sender.send(nothing)
        await trio.sleep(3_600)
        await here.sender.send(nothing)
        assert here.said() == []

    play(test)


def test_the_draft_of_another_answer_is_left_alone(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="other")
        await here.sender.send(here.reply("this", answers="another"))
        await trio.sleep(5)
        assert here.said() == ["this", "other"]

    play(test)


def test_edits_go_on_when_the_network_is_back(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.fail("editMessageText", NetworkError("gone"), TimedOut("slow"))
        here.tell("text", delta="so far")
        await trio.sleep(10)
        assert here.said() == ["so far"]

    play(test)


def test_a_placeholder_of_an_earlier_attempt_does_not_stay_without_a_reply(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        draft = here.state.write(private(), {"from": {"id": 4242, "is_bot": True, "first_name": "B"}, "text": "…"})
        await here.sender.turn_over(here.inbound(draft=str(draft["message_id"])))
        await here.sender.send(here.reply("", draft=str(draft["message_id"])))
        assert here.said() == []

    play(test)


def test_a_draft_that_somebody_deleted_is_said_anew(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        await trio.sleep(3)
        here.state.db.execute("UPDATE messages SET deleted = 1")
        here.tell("text", delta=", so good")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("so far, so good", draft=here.kept[0][1]))
        assert here.said() == ["so far, so good"]

    play(test)


def test_a_final_text_that_a_draft_does_not_take_is_said_anew(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        await trio.sleep(3)
        here.fail("editMessageText", ApiError(400, "Bad Request: MESSAGE_TOO_OLD"))
        here.fail("deleteMessage", NetworkError("gone"))
        reply = here.reply("so far, so good", draft=here.kept[0][1])
        with pytest.raises(NetworkError):
            await here.sender.send(reply)
        await here.sender.send(reply)
        await here.sender.turn_over(here.inbound())
        assert here.said() == ["so far, so good"]

    play(test)


def test_a_placeholder_goes_when_its_text_is_refused(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("reasoning", delta="hm")
        await trio.sleep(3)
        refused = ApiError(400, "Bad Request: text must be non-empty")
        here.fail("editMessageText", refused)
        here.fail("sendMessage", refused)
        with pytest.raises(UndeliverableError):
            await here.sender.send(here.reply("\u200b", draft=here.kept[0][1]))
        assert here.said() == []

    play(test)


def test_a_draft_whose_text_is_final_already_is_fine(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="done")
        await trio.sleep(5)
        await here.sender.send(here.reply("done", draft=here.kept[0][1]))
        assert here.said() == ["done"]

    play(test)


def test_edits_obey_a_pause_and_become_slower(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.fail("editMessageText", ApiError(429, "Too Many Requests", retry_after=20))
        for number in range(400):
            here.tell("text", delta=f"{number} ")
            await trio.sleep(0.1)
        edits = [at for at, name, _ in here.request.calls if name == "editMessageText"]
        assert edits[1] - edits[0] > 19.99
        assert all(later - earlier > 1.99 for earlier, later in pairwise(edits[1:]))

    play(test)


def test_nothing_is_shown_in_a_draft_that_cannot_be_kept(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        async def fail(message: ChannelMessage, draft: str) -> None:
            raise OSError("the disk is full")

        here.keep_draft = fail  # type: ignore[method-assign]
        here.tell("text", delta="so far")
        await trio.sleep(5)
        assert here.said() == []
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("so far, so good"))
        assert here.said() == ["so far, so good"]

    play(test)


@pytest.mark.parametrize("method", ["sendMessage", "editMessageText"])
def test_a_draft_does_not_keep_the_channel_from_ending_at_once(state: State, method: str) -> None:
    async def main() -> None:
        async with world(state) as here:
            here.request.slow[method] = 3_600.0
            here.tell("text", delta="so far")
            await trio.sleep(5)
            assert here.called(method)
            began = trio.current_time()
        assert trio.current_time() - began <= AT_ONCE

    in_virtual_time(main)


def test_a_placeholder_that_is_on_its_way_at_the_end_is_not_forgotten(state: State) -> None:
    async def main() -> None:
        async with world(state) as here:
            here.request.slow["sendMessage"] = 3.0
            here.tell("text", delta="so far")
            await trio.sleep(FIRST_AFTER + 2.0)
            assert here.kept == []
        assert [draft for _, draft, _ in here.kept] == [str(one["message_id"]) for one in here.messages()] != []

    in_virtual_time(main)


def test_nothing_is_shown_before_where_answers_do_not_stream(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.tell("text", delta="so far")
        await trio.sleep(5)
        assert here.request.calls == []

    play(test, stream=False)


def test_a_chat_that_refuses_a_draft_ends_nothing_else(play: Callable[..., None]) -> None:
    async def test(here: World) -> None:
        here.state.db.execute("UPDATE chats SET status = 'blocked' WHERE id = 7")
        here.tell("text", delta="so far")
        await trio.sleep(5)
        await here.sender.turn_over(here.inbound())
        await here.sender.send(here.reply("still here", chat_id="-100", answers=""))
        assert here.said(-100) == ["still here"]

    play(test)
