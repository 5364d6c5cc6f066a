"""The inbox while it changes, and turns that are cancelled or killed at any moment: nothing is lost or done twice."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import trio
from fakes.line import Line, an_office, opened
from fakes.mailboxes import Mortal, Slow
from fakes.toys import Workshop

from bub.channels import ChannelMessage
from bub.envelope import content_of
from bub.inbox.mailbox import Mailbox, MailboxError, Outgoing, Received

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_what_is_answered_while_the_inbox_is_read_anew_is_not_answered_again(workshop: Workshop) -> None:
    class Slowly(Line):
        async def send(self, message: ChannelMessage) -> None:
            await trio.sleep(0.3)
            await super().send(message)

    async def answer(prompt: str) -> str:
        asked.append(prompt)
        await trio.sleep(0.35)
        return prompt

    line, mailbox, asked = Slowly(), Slow(None, workshop.folder), list[str]()
    async with opened(an_office(workshop, line, run_model=answer), mailbox=mailbox) as manager:
        mailbox.looks = True
        for number in range(100):
            await line.say(str(number), chat_id=str(number % 3))
            await trio.sleep(0.27)
        mailbox.looks = False
        await manager.settled()
    assert sorted(line.said, key=int) == sorted(asked, key=int) == [str(number) for number in range(100)]


async def test_what_is_answered_while_another_one_is_given_up_is_not_answered_again(workshop: Workshop) -> None:
    class Leisurely(Slow):
        async def set_aside(self, ids: Sequence[int], *rest: Any, **claim: Any) -> list[Outgoing]:
            await trio.sleep(5)
            return await super().set_aside(ids, *rest, **claim)

    async def answer(prompt: str) -> str:
        await trio.sleep(2)
        return prompt

    line, mailbox = Line(), Leisurely(None, workshop.folder)
    async with opened(an_office(workshop, line, run_model=answer), mailbox=mailbox) as manager:
        poison = await mailbox.receive(ChannelMessage("line", "2", "poison"))
        assert poison is not None
        for _ in range(3):
            await mailbox.begin([poison.id])
        await trio.sleep(0.5)
        await line.say("one")
        mailbox.looks = True
        await trio.sleep(2.5)
        mailbox.looks = False
        await trio.sleep(10)
        await manager.settled()
    assert [content for content in line.said if content == "one"] == ["one"]
    assert len(line.sent) == 2


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_what_a_disk_did_after_all_is_done_once(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that was given up for lost comes through later: its message is answered, and no reply doubled."""

    class Hanging(Mailbox):
        lies: tuple[str, ...] = ("receive", "finish", "mark_delivered")

        def lie(self, about: str) -> None:
            if about in self.lies:
                self.lies = tuple(one for one in self.lies if one != about)
                raise MailboxError("the inbox has not answered for 30 seconds")

        async def receive(self, message: ChannelMessage) -> Received | None:
            received = await super().receive(message)
            self.lie("receive")
            return received

        async def finish(
            self, ids: Sequence[int], replies: Sequence[ChannelMessage] = (), **claim: Any
        ) -> list[Outgoing]:
            done = await super().finish(ids, replies, **claim)
            self.lie("finish")
            return done

        async def mark_delivered(self, id: int) -> None:  # noqa: A002
            self.lie("mark_delivered")
            await super().mark_delivered(id)

    monkeypatch.setattr("bub.inbox.ledger.DISK_PAUSE", 0.01)
    monkeypatch.setattr("bub.inbox.outbox._DISK_PAUSE", 0.01)
    monkeypatch.setattr("bub.inbox.manager.LOOK_AGAIN", 0.01)
    line, mailbox = Line(), Hanging(workshop.folder / "inbox.db", workshop.folder)
    async with opened(an_office(workshop, line), mailbox=mailbox) as manager:
        with pytest.raises(MailboxError):
            await line.say("hello", once="1")
        await line.say("hello", once="1")
        with trio.move_on_after(5):
            while not line.sent:  # noqa: ASYNC110 (it is the disk that is waited for)
                await trio.sleep(0.01)
            await manager.settled()
        assert (line.said, mailbox.lies, manager.waiting) == (["you said hello"], (), 0)
    again = Line()
    async with opened(an_office(workshop, again), mailbox=Mailbox(workshop.folder / "inbox.db", workshop.folder)):
        await trio.sleep(0.05)
    assert again.said == []


class EndAtStep(trio.abc.Instrument):
    """Ends something after a number of steps of all tasks."""

    def __init__(self, steps: int, end: Callable[[], None]) -> None:
        self.steps = steps
        self.end = end

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps -= 1
        if self.steps == 0:
            self.end()


MARK = re.compile(r"m\d")


@pytest.mark.parametrize("how", ["cancelled", "killed"])
@pytest.mark.parametrize("when_busy", ["follow_up", "steer"])
async def test_C27_ended_at_any_step_each_message_is_answered_once_and_in_order(
    workshop: Workshop, how: str, when_busy: str
) -> None:
    turns, alive = count(1), True

    class Mouth(Line):
        async def send(self, message: ChannelMessage) -> None:
            await trio.lowlevel.checkpoint()
            if alive or how == "cancelled":
                await super().send(message)

    async def answer(prompt: str, state: dict[str, Any]) -> str:
        await trio.sleep(1)
        steered = [message.content for message in state["_runtime_steering_inbox"].take()]
        await trio.sleep(1)
        return f"{' '.join([prompt, *steered])} in turn {next(turns)}"

    line = Mouth(when_busy=when_busy)
    framework = an_office(workshop, line, run_model=answer)
    messages = [("m1", "1"), ("m2", "1"), ("m3", "2"), ("m4", "1")]

    async def a_life(mailbox: Mortal, steps: int) -> bool:
        """Say what nobody has confirmed yet, and wait; false where it was ended before all was done."""
        nonlocal alive
        alive, mailbox.is_dead = True, False

        def end() -> None:
            nonlocal alive
            alive, mailbox.is_dead = False, how == "killed"
            scope.cancel()

        instrument = EndAtStep(steps, end)
        with trio.CancelScope() as scope:
            async with opened(framework, mailbox=mailbox) as manager:
                trio.lowlevel.add_instrument(instrument)
                with suppress(MailboxError):  # there was nobody any more who could take it
                    for name, chat in [one for one in messages if one[0] not in confirmed]:
                        await line.say(name, chat_id=chat, once=name)
                        confirmed.add(name)
                        await trio.sleep(0.3)
                    await manager.settled()
                instrument.steps = 0
        with suppress(KeyError):
            trio.lowlevel.remove_instrument(instrument)
        return alive

    step, is_done = 0, False
    while not is_done:
        step += 1
        line.sent.clear()
        confirmed = set[str]()
        mailbox = Mortal(workshop.folder)
        is_done = await a_life(mailbox, step)
        if not is_done:
            assert await a_life(mailbox, -1), step
        where = f"ended at step {step}: {line.said}"
        forms = {name: {text for text in line.said if name in text} for name, _ in messages}
        assert all(len(texts) == 1 for texts in forms.values()), where
        assert len(line.said) - len(set(line.said)) <= (how == "killed"), where
        for chat in ("1", "2"):
            texts = dict.fromkeys(reply.content for reply in line.sent if reply.chat_id == chat)
            order = [name for text in texts for name in MARK.findall(text)]
            assert order == sorted(order), where
        assert (await mailbox.waiting(), await mailbox.outgoing()) == ([], []), where
    assert step > 40


@pytest.mark.parametrize(
    ("pipeline", "hook"),
    [("bub:classic", "normalize_inbound"), ("bub:ethos", "inbound_claim"), ("bub:default", "resolve_session")],
)
async def test_a_message_that_kills_the_process_above_the_session_is_set_aside_as_well(
    workshop: Workshop, pipeline: str, hook: str
) -> None:
    line, mailbox, deaths = Line(), Mortal(workshop.folder), count(1)

    async def die(message: Any) -> None:
        if content_of(message) == "poison":
            mailbox.is_dead = next(deaths) > 0
            scope.cancel()
            await trio.lowlevel.checkpoint()

    framework = an_office(workshop, line, pipeline=f"extends: {pipeline}", **{hook: die})
    for life in range(4):
        mailbox.is_dead = False
        with trio.CancelScope() as scope:
            async with opened(framework, mailbox=mailbox) as manager:
                if life == 0:
                    await line.say("poison", message_id="m9")
                await manager.settled()
    assert next(deaths) == 4
    (sorry,) = line.sent
    assert (sorry.kind, sorry.answers) == ("error", "m9")
    assert sorry.content.startswith("Bub was interrupted several times")


async def test_a_message_that_waits_for_its_session_is_not_to_blame_for_the_end_of_the_process(
    workshop: Workshop,
) -> None:
    line, mailbox = Line(), Mortal(workshop.folder)

    async def endless() -> str:
        await trio.sleep_forever()
        return ""

    framework = an_office(workshop, line, resolve_session=lambda message: "one for all", run_model=endless)
    for _ in range(2):
        mailbox.is_dead = False
        with trio.CancelScope() as scope:
            async with opened(framework, mailbox=mailbox):
                if not await mailbox.waiting():
                    await line.say("one")
                    await line.say("two", chat_id="2")
                await trio.sleep(50)
                mailbox.is_dead = True
                scope.cancel()
    mailbox.is_dead = False
    waiting = await mailbox.waiting()
    assert [one.message.content for one in waiting] == ["one", "two"]
    assert sum(one.attempts for one in waiting) == 2  # whichever had the session, and no other
