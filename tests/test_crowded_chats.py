"""One chat that writes more than all others, and what keeps a channel from taking more than can be answered."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fakes.line import Line, an_office, opened
from fakes.mailboxes import Lasting, Mortal, Slow, slowly
from fakes.toys import Workshop

from bub.channels import ChannelMessage

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


# One chat that writes more than all others.


@pytest.fixture
def small_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bub.inbox.ledger.MOST_OF_ONE", 4)


@pytest.mark.usefixtures("small_share")
async def test_a_chat_that_writes_much_keeps_its_order_and_nobody_else_waiting(workshop: Workshop) -> None:
    line = Line()
    async with opened(an_office(workshop, line, run_model=slowly)) as manager:
        began = trio.current_time()
        for number in range(30):
            await line.say(f"{number:02}")
        await line.say("hello", chat_id="2")
        assert trio.current_time() == began  # nobody who brings messages had to wait
        assert manager.waiting == 31
        await trio.sleep(1.5)
        assert [reply.content for reply in line.sent if reply.chat_id == "2"] == ["hello"]
        await manager.settled()
    assert answers_of(line) == [f"{number:02}" for number in range(30)]


def answers_of(line: Line, chat_id: str = "1") -> list[str]:
    """What a chat was told, without the one notice that it has to wait."""
    told = [message.content for message in line.sent if message.chat_id == chat_id]
    assert told.count(TOLD) <= 1
    return [content for content in told if content != TOLD]


TOLD = "You write faster than I can answer. Nothing is lost: the rest waits its turn."


@pytest.mark.usefixtures("small_share")
async def test_who_writes_more_than_fits_is_told_so_once_a_flood_and_once_a_minute_at_most(workshop: Workshop) -> None:
    line = Line()

    async def flood(messages: int, chat_id: str = "1") -> None:
        for _ in range(messages):
            await line.say("more", chat_id=chat_id)
        await manager.settled()

    def notices(chat_id: str = "1") -> list[tuple[str, str, str]]:
        return [(one.kind, one.content, one.answers) for one in line.sent if one.chat_id == chat_id and one.kind]

    async with opened(an_office(workshop, line, run_model=slowly)) as manager:
        await flood(4)
        assert {kind for kind, *_ in notices()} == {"normal"}
        line.sent.clear()
        await flood(9)
        told = ("error", TOLD, "m9")  # the first one that did not fit
        assert notices().count(told) == 1
        assert {one for one in notices() if one[0] == "error"} == {told}
        await flood(9)  # another one within the minute
        assert [one for one in notices() if one[0] == "error"] == [told]
        await trio.sleep(60)
        await flood(70)  # it takes longer than a minute
        assert [one for one in notices() if one[0] == "error"] == [told, ("error", TOLD, "m27")]
        await flood(9, chat_id="2")
        assert len([one for one in notices("2") if one[0] == "error"]) == 1
    assert len([one for one in line.sent if one.kind == "normal"]) == 9 + 9 + 70 + 9


@pytest.mark.usefixtures("small_share")
async def test_a_chat_that_floods_with_commands_fills_nothing_either_and_they_keep_their_order(
    workshop: Workshop,
) -> None:
    line = Line()
    async with opened(an_office(workshop, line, run_model=slowly)) as manager:
        for number in range(30):
            await line.say(f",c{number:02}")
            assert manager._ledger.in_memory <= 5
            await trio.sleep(0.3)
        await manager.settled()
    answered = [one.content for one in line.sent if one.kind != "error"]
    assert answered == [f",c{number:02}" for number in range(30)]


@pytest.mark.usefixtures("small_share")
async def test_what_comes_while_the_rest_is_taken_up_is_answered_last(workshop: Workshop) -> None:
    line, mailbox = Line(), Slow(None, workshop.folder)
    async with opened(an_office(workshop, line, run_model=slowly), mailbox=mailbox) as manager:
        mailbox.looks = True
        for number in range(40):
            await line.say(f"{number:02}")
            await trio.sleep(0.7)
        mailbox.looks = False
        await manager.settled()
    assert answers_of(line) == [f"{number:02}" for number in range(40)]


@pytest.mark.usefixtures("small_share")
@pytest.mark.parametrize("eager", [False, True])
async def test_what_was_left_on_the_disk_is_answered_after_a_restart(workshop: Workshop, eager: bool) -> None:
    class Eager(Line):
        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            if eager:
                await self.say("12")
            task_status.started()
            await trio.sleep_forever()

    line, mailbox = Line(), Mortal(workshop.folder)
    with trio.CancelScope() as scope:
        async with opened(an_office(workshop, line, run_model=slowly), mailbox=mailbox):
            for number in range(12):
                await line.say(f"{number:02}")
            await trio.sleep(2.5)
            mailbox.is_dead = True
            scope.cancel()
    again, mailbox.is_dead = Eager(), False
    async with opened(an_office(workshop, again, run_model=slowly), mailbox=mailbox) as manager:
        await manager.settled()
    said = list(dict.fromkeys(answers_of(line) + answers_of(again)))  # a reply that was on its way may come twice
    assert said == [f"{number:02}" for number in range(12 + eager)]


@pytest.mark.usefixtures("small_share")
async def test_C25_quit_forgets_what_was_left_on_the_disk(workshop: Workshop) -> None:
    line = Line()

    async def answer(prompt: str) -> str:
        return "bye" if prompt.startswith(",") else await slowly(prompt)

    mailbox = Lasting(workshop.folder)
    async with opened(an_office(workshop, line, run_model=answer), mailbox=mailbox) as manager:
        for number in range(12):
            await line.say(f"{number:02}")
        await trio.sleep(1.5)
        await line.say(",quit")
        await manager.settled()
    assert line.said == [TOLD, "00", "bye"]
    assert await mailbox.waiting() == []


# Back-pressure.


async def test_a_channel_waits_when_too_much_waits_and_goes_on_in_order(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bub.inbox.ledger.MOST_WAITING", 3)
    line, mailbox, most = Line(), Lasting(workshop.folder), list[int]()

    class Eager(Line):
        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            for number in range(5):  # more than may wait, before it has even begun
                await self.say(f"early {number}")
            task_status.started()
            for number in range(20):
                await self.say(f"late {number}", chat_id="2")
            await trio.sleep_forever()

    async def slowly(prompt: str) -> str:
        most.append(manager._ledger.in_memory)
        await trio.sleep(1)
        return prompt

    line = Eager()
    await mailbox.open()
    for number in range(5):
        await mailbox.receive(ChannelMessage("line", "1", f"kept {number}"))
    async with opened(an_office(workshop, line, run_model=slowly), mailbox=mailbox) as manager:
        await trio.sleep(100)
        await manager.settled()
    expected = [*(f"kept {n}" for n in range(5)), *(f"early {n}" for n in range(5))]
    assert [reply.content for reply in line.sent if reply.chat_id == "1"] == expected
    assert [reply.content for reply in line.sent if reply.chat_id == "2"] == [f"late {n}" for n in range(20)]
    assert max(most[10:]) <= 3


async def test_C24_a_channel_that_waits_for_room_does_not_keep_all_from_ending(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bub.inbox.ledger.MOST_WAITING", 2)
    line = Line()

    class Talking(Line):
        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            task_status.started()
            for number in range(5):
                await self.say(str(number))

    line = Talking()
    pipeline = "extends: bub:default\nsettings: {gateway: {shutdown_grace: 3s}}"
    mailbox = Lasting(workshop.folder)
    async with opened(an_office(workshop, line, pipeline=pipeline, run_model=trio.sleep_forever), mailbox=mailbox):
        await trio.sleep(5)
    assert [one.message.content for one in await mailbox.waiting()] == ["0", "1"]
