"""What a chat leaves on the disk, and attempts counted early: what a quit, a restart or an end does to them."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import trio
from fakes.line import Line, an_office, lines, opened
from fakes.mailboxes import Lasting, Mortal, slowly
from fakes.toys import Toy, Workshop
from test_turns_that_wait import GATED, a_model

from bub.channels import ChannelMessage
from bub.envelope import content_of
from bub.inbox.store import Received

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.fixture
def small_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bub.inbox.ledger.MOST_OF_ONE", 4)


async def answer(prompt: str) -> str:
    return "bye" if prompt.startswith(",quit") else await slowly(prompt)


@pytest.mark.usefixtures("small_share")
async def test_a_quit_forgets_only_what_is_of_its_own_session(workshop: Workshop) -> None:
    line = Line()
    hooks = {"run_model": answer, "resolve_session": lambda message: f"person {message.sender_id}"}
    async with opened(an_office(workshop, line, **hooks), mailbox=Lasting(workshop.folder)) as manager:
        for number in range(6):
            await line.say(f"eve {number}", sender_id="eve")
        for number in range(3):
            await line.say(f"ann {number}", sender_id="ann")
        await trio.sleep(0.5)
        await line.say(",quit", sender_id="eve")
        await manager.settled()
    assert [text for text in line.said if text.startswith("ann")] == ["ann 0", "ann 1", "ann 2"]
    assert not [text for text in line.said if text.startswith("eve")]


@pytest.mark.parametrize("share", [1000, 4])
async def test_what_is_said_after_a_quit_is_answered(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    monkeypatch.setattr("bub.inbox.ledger.MOST_OF_ONE", share)
    line = Line()

    async def resolve_session() -> str:
        await trio.sleep(0.1)
        return "s"

    office = an_office(workshop, line, run_model=answer, resolve_session=resolve_session)
    async with opened(office, mailbox=Lasting(workshop.folder)) as manager:
        for number in range(8):
            await line.say(f"{number}")
        await line.say(",quit")
        await line.say("hello again")
        await manager.settled()
    assert "hello again" in line.said
    assert "7" not in line.said


@pytest.mark.usefixtures("small_share")
async def test_a_channel_is_told_of_each_message_that_a_quit_forgot(workshop: Workshop) -> None:
    answered: list[str] = []

    class Attentive(Line):
        def on_answered(self, message: ChannelMessage, replies: Any) -> None:
            answered.append(message.content)

    line = Attentive()
    async with opened(an_office(workshop, line, run_model=answer), mailbox=Lasting(workshop.folder)) as manager:
        for number in range(8):
            await line.say(f"{number}")
        await trio.sleep(0.5)
        await line.say(",quit")
        await manager.settled()
    assert sorted(answered) == sorted([",quit", *map(str, range(8))])


@pytest.mark.usefixtures("small_share")
async def test_C14_a_command_on_the_disk_follows_what_was_said_before_it(workshop: Workshop) -> None:
    line, mailbox = Line(), Lasting(workshop.folder)
    await mailbox.open()
    for number in range(8):
        await mailbox.receive(ChannelMessage("line", "1", f"{number}"))
    await mailbox.receive(ChannelMessage("line", "1", ",tape.reset", kind="command"))
    async with opened(an_office(workshop, line, run_model=slowly), mailbox=mailbox) as manager:
        await manager.settled()
    assert line.said == [*map(str, range(8)), ",tape.reset"]


@pytest.mark.usefixtures("small_share")
async def test_a_quiet_chat_is_heard_while_many_backlogs_are_taken_up(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bub.inbox.ledger.MOST_WAITING", 10)
    line, mailbox, most = Line(), Lasting(workshop.folder), list[int]()

    async def look(prompt: str) -> str:
        most.append(manager._ledger.in_memory)
        return await slowly(prompt)

    await mailbox.open()
    for number in range(40):
        for chat in range(5):
            await mailbox.receive(ChannelMessage("line", f"flood {chat}", f"{number}"))
    async with opened(an_office(workshop, line, run_model=look), mailbox=mailbox) as manager:
        began = trio.current_time()
        await line.say("hello", chat_id="quiet")
        assert trio.current_time() - began < 5
        await manager.settled()
    assert max(most) <= 10
    for chat in range(5):
        said = [reply.content for reply in line.sent if reply.chat_id == f"flood {chat}" and reply.kind != "error"]
        assert said == [f"{number}" for number in range(40)]


@pytest.mark.usefixtures("small_share")
async def test_no_more_is_read_of_the_disk_than_what_is_taken_up(workshop: Workshop) -> None:
    class Counting(Lasting):
        read = 0

        async def waiting(self) -> list[Received]:
            found = await super().waiting()
            self.read += len(found)
            return found

        async def fetch(self, ids: Any) -> list[Received]:
            found = await super().fetch(ids)
            self.read += len(found)
            return found

    line, mailbox = Line(), Counting(workshop.folder)
    async with opened(an_office(workshop, line, run_model=slowly), mailbox=mailbox) as manager:
        for number in range(40):
            await line.say(f"{number}")
        await manager.settled()
    assert mailbox.read == 36


# Attempts that are counted before the session is held.


async def test_a_message_that_kills_the_process_when_it_is_let_in_is_set_aside(workshop: Workshop) -> None:
    line, mailbox, deaths = Line(), Mortal(workshop.folder), count(1)

    async def die(message: Any) -> None:
        if content_of(message) == "poison":
            mailbox.is_dead = next(deaths) > 0
            scope.cancel()
            await trio.lowlevel.checkpoint()

    framework = an_office(workshop, line, admit_message=die)
    for life in range(6):
        mailbox.is_dead = False
        with trio.CancelScope() as scope:
            async with opened(framework, mailbox=mailbox) as manager:
                if life == 0:
                    await line.say("poison", message_id="m9")
                await manager.settled()
    assert next(deaths) == 4
    assert len(line.sent) == 1


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_message_that_kills_the_process_in_a_gate_of_its_personality_is_set_aside(bub: Workshop) -> None:
    line, mailbox, deaths = Line(), Mortal(bub.folder), count(1)

    async def doorkeeper(message: Any, profile: str) -> None:
        if content_of(message) == "poison":
            mailbox.is_dead = next(deaths) > 0
            scope.cancel()
            await trio.lowlevel.checkpoint()

    plugins = {"guard": Toy(doorkeeper=doorkeeper), "model": Toy(call_model=a_model)}
    framework = bub(GATED, office=Toy(provide_channels=lines(line)), **plugins)
    for life in range(6):
        mailbox.is_dead = False
        with trio.CancelScope() as scope, trio.move_on_after(5):
            async with opened(framework, mailbox=mailbox) as manager:
                if life == 0:
                    await line.say(",personality poet")
                    await manager.settled()
                    await line.say("poison", message_id="m9")
                await manager.settled()
    assert next(deaths) == 4


@pytest.mark.parametrize("pipeline", ["default", "classic"])
async def test_an_attempt_is_taken_back_also_if_all_ends_while_it_is_counted(workshop: Workshop, pipeline: str) -> None:
    class Disk(Lasting):
        """As a file: what has begun is done to its end, and returns whatever was cancelled meanwhile."""

        pause = 0.0

        async def _ask(self, work: Any) -> Any:
            await trio.lowlevel.checkpoint_if_cancelled()
            with trio.CancelScope(shield=True):
                await trio.sleep(self.pause)
                return self._store.alone(work)

    line, mailbox = Line(), Disk(workshop.folder)

    async def endless() -> str:
        await trio.sleep_forever()
        return ""

    file = f"extends: bub:{pipeline}\nsettings: {{gateway: {{shutdown_grace: 1s}}}}"
    office = an_office(workshop, line, pipeline=file, run_model=endless, resolve_session=lambda message: "s")
    async with opened(office, mailbox=mailbox) as manager:
        await line.say("one")
        await trio.sleep(1)
        await line.say("two")
        mailbox.pause = 1.0
        await trio.sleep(0.5)  # `two` is being counted
        manager.drain()
        await trio.sleep(0.7)
        mailbox.pause = 0.0
    assert [(one.message.content, one.attempts) for one in await mailbox.waiting()] == [("one", 0), ("two", 0)]
