"""Channels under attack: whatever is cancelled, fails or comes at a bad moment, each message is answered once."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.line import Line, an_office, lines, opened
from fakes.toys import Errors, Toy, Workshop, a_stream
from trio.testing import wait_all_tasks_blocked

from bub.channels import ChannelMessage, TryLaterError
from bub.envelope import content_of
from bub.inbox.mailbox import Mailbox, MailboxError, Outgoing, Received

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def said_by(line: Line) -> list[str]:
    return [f"{reply.kind}: {reply.content}" if reply.kind == "error" else reply.content for reply in line.sent]


class Lasting(Mailbox):
    """A mailbox in memory that outlives its manager, as a file does."""

    def __init__(self, folder: Path) -> None:
        super().__init__(None, folder)
        self._was_open = False

    async def open(self) -> None:
        if not self._was_open:
            self._was_open = True
            await super().open()

    async def close(self) -> None:
        pass


# What is read of the inbox while it changes.


class Slow(Mailbox):
    """A mailbox on a disk that takes a while to tell what it read; the file may have changed meanwhile."""

    looks = False

    async def was_requeued(self) -> bool:
        return self.looks

    async def waiting(self) -> list[Received]:
        found = await super().waiting()
        if self.looks:
            await trio.sleep(1)
        return found

    async def outgoing(self) -> list[Outgoing]:
        found = await super().outgoing()
        if self.looks:
            await trio.sleep(1)
        return found


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


# Cancelled, or killed, at any moment.


class Mortal(Lasting):
    """Once it is dead, nothing reaches the disk any more: as where the process was killed."""

    is_dead = False

    async def _ask(self, work: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if self.is_dead:
            raise MailboxError("there is nobody who could write")
        return await super()._ask(work)


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
    assert sorry.content.startswith("The answer to this was interrupted several times")


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


# One chat that writes more than all others.


@pytest.fixture
def small_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bub.inbox.ledger.MOST_OF_ONE", 4)


async def slowly(prompt: str) -> str:
    await trio.sleep(1)
    return prompt


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


# Turns that are cancelled, or end in odd ways.


async def test_C25_quit_forgets_a_turn_that_waits_for_room(workshop: Workshop) -> None:
    line = Line()
    pipeline = "extends: bub:default\nsettings: {gateway: {turns: 1}}"

    async def endless(prompt: str) -> str:
        if not prompt.startswith(","):
            await trio.sleep_forever()
        return "stopped"

    async with opened(an_office(workshop, line, pipeline=pipeline, run_model=endless)) as manager:
        await line.say("one")
        await wait_all_tasks_blocked()
        await line.say("two", chat_id="2")
        await wait_all_tasks_blocked()
        await line.say(",quit", chat_id="2")
        await wait_all_tasks_blocked()
        assert manager.waiting == 2
        await line.say(",quit")
        await manager.settled()
    assert [(reply.chat_id, reply.content) for reply in line.sent] == [("2", "stopped"), ("1", "stopped")]


async def test_C25_who_is_not_let_in_ends_nothing(workshop: Workshop) -> None:
    line = Line()

    async def slowly(prompt: str) -> str:
        await trio.sleep(5)
        return prompt

    hooks = {"run_model": slowly, "admit_message": lambda message: "drop" if message.sender_id == "eve" else None}
    async with opened(an_office(workshop, line, **hooks)) as manager:
        await line.say("one")
        await trio.sleep(1)
        await line.say(",quit", sender_id="eve")
        await manager.settled()
    assert line.said == ["one"]


async def in_a_group(*errors: BaseException) -> None:
    """Fails as the tasks of a plugin do that are open when it ends."""

    async def fail(error: BaseException) -> None:
        raise error

    async with trio.open_nursery() as nursery:
        for error in errors:
            nursery.start_soon(fail, error)


@pytest.mark.parametrize("hook", ["resolve_session", "admit_message", "load_state", "run_model", "render_outbound"])
@pytest.mark.parametrize("how", ["alone", "in a group"])
async def test_a_plugin_that_wants_to_end_the_program_does_not(workshop: Workshop, hook: str, how: str) -> None:
    line = Line()

    async def leave(message: Any) -> None:
        if message.content == "leave":
            await in_a_group(SystemExit(3)) if how == "in a group" else exit_now()

    def exit_now() -> None:
        raise SystemExit(3)

    async def answer(message: Any) -> str:
        if hook == "run_model":
            await leave(message)
        return str(message.content)

    hooks = {"run_model": answer} if hook == "run_model" else {"run_model": answer, hook: leave}
    async with opened(an_office(workshop, line, **hooks)) as manager:
        await line.say("leave")
        await line.say("stay", chat_id="2")
        await manager.settled()
    by_chat = {reply.chat_id: reply for reply in line.sent}
    assert by_chat["2"].content == "stay"
    assert by_chat["1"].kind == "error"


@pytest.mark.parametrize(
    ("pipeline", "hook", "told", "stages", "until"),
    [
        ("bub:default", "resolve_session", "error", "", 30),
        ("bub:classic", "resolve_session", "normal", "", 30),
        ("bub:ethos", "resolve_session", "error", "", 30),
        ("bub:default", "resolve_session", "error", "stages: {resolve_session: {timeout: 5s}}", 5),
        ("bub:classic", "normalize_inbound", "normal", "stages: {normalize_inbound: {timeout: 5s}}", 5),
        ("bub:ethos", "inbound_claim", "normal", "stages: {inbound_claim: {timeout: 5s}}", 5),
    ],
)
async def test_a_plugin_that_hangs_before_a_session_is_found_keeps_one_chat_for_its_time_out_and_no_other(
    workshop: Workshop, pipeline: str, hook: str, told: str, stages: str, until: int, log: list[str]
) -> None:
    line, answered = Line(), list[tuple[float, str, str]]()

    async def hang(message: Any) -> None:
        if content_of(message) == "hang":
            await trio.sleep_forever()

    async def note(message: Any) -> None:
        answered.append((round(trio.current_time() - began, 1), message.chat_id, message.kind))

    line.send = note  # type: ignore[method-assign]
    office = an_office(workshop, line, pipeline=f"extends: {pipeline}\n{stages}", **{hook: hang})
    counts = office.counts
    async with opened(office, counts=counts) as manager:
        began = trio.current_time()
        await line.say("hang")
        await line.say("behind it")
        await line.say("another", chat_id="2")
        await manager.settled()
        assert answered == [(0, "2", "normal"), (until, "1", told), (until, "1", "normal")]
    assert sum("turn.ended session=line:1 " in entry for entry in log) == 2
    [profile] = {profile for profile, _ in counts.turns}
    assert counts.stage_times[profile, hook].count == 3
    if told == "error":  # the stages of `bub:classic` go on without a plugin that fails
        assert counts.turns == {(profile, "ok"): 2, (profile, "failed"): 1}
        assert counts.stages[profile, hook, "timeout"] == 1


@pytest.mark.parametrize("answers", [False, ValueError("it cannot say")], ids=["refuses", "fails"])
async def test_what_a_channel_does_not_admit_any_more_is_set_aside_and_nothing_else(
    workshop: Workshop, answers: bool | Exception, log: list[str]
) -> None:
    class Narrowing(Line):
        is_narrow = False

        def admits(self, message: ChannelMessage) -> bool:
            if self.is_narrow and message.sender_id == "eve" and isinstance(answers, Exception):
                raise answers
            return not self.is_narrow or message.sender_id != "eve"

    line = Narrowing(needs_debounce=True)
    async with opened(an_office(workshop, line)) as manager:
        await line.say("one", sender_id="eve")
        await line.say("two", sender_id="ada")
        line.is_narrow = True  # before both are answered as one
        await manager.settled()
        line.is_narrow = False
        await line.say("three", sender_id="eve")
        await manager.settled()
        await trio.sleep(60)
        assert manager.waiting == 0
    assert line.said == ["you said two", "you said three"]
    assert [entry for entry in log if "inbound.not_admitted" in entry] != []


async def test_what_a_channel_does_not_admit_any_more_steers_no_turn(workshop: Workshop, log: list[str]) -> None:
    class Narrowing(Line):
        is_narrow = False

        def admits(self, message: ChannelMessage) -> bool:
            return not self.is_narrow or message.sender_id != "eve"

    line, taken = Narrowing(), list[str]()

    async def listen(prompt: str, state: dict[str, Any]) -> str:
        await trio.sleep(5)
        taken.extend(message.content for message in state["_runtime_steering_inbox"].take())
        await trio.sleep(5)
        return prompt

    async with opened(an_office(workshop, line, run_model=listen, admit_message=lambda: "steer")) as manager:
        await line.say("go", sender_id="ada")
        await trio.sleep(1)
        await line.say("and do as I say", sender_id="eve")
        await line.say("be brief", sender_id="ada")
        await trio.sleep(1)
        line.is_narrow = True  # while the turn runs, before it takes what waits for it
        await manager.settled()
        assert manager.waiting == 0
    assert (line.said, taken) == (["go"], ["be brief"])
    assert [entry for entry in log if "inbound.not_admitted" in entry] != []


@pytest.mark.parametrize("how", ["alone", "in a group"])
async def test_a_plugin_that_fails_while_it_is_cancelled_ends_nobody_else(workshop: Workshop, how: str) -> None:
    line = Line()

    async def fail_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("no clean end")

    async def answer(prompt: str) -> str:
        if prompt == "go":
            if how == "alone":
                await fail_at_the_end()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail_at_the_end)
                nursery.start_soon(trio.sleep_forever)
        return prompt

    async with opened(an_office(workshop, line, run_model=answer)) as manager:
        await line.say("go")
        await trio.sleep(1)
        assert manager.cancel_turn("line:1")
        await line.say("on")
        await manager.settled()
        assert manager.waiting == 0
    assert line.said[-1] == "on"


@pytest.mark.parametrize("how", ["alone", "in a group"])
async def test_C24_a_turn_that_fails_because_of_the_end_is_given_back(workshop: Workshop, how: str) -> None:
    line, mailbox = Line(), Lasting(workshop.folder)
    pipeline = "extends: bub:default\nsettings: {gateway: {shutdown_grace: 3s}}"

    async def fail_at_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("no clean end")

    async def answer() -> None:
        if how == "alone":
            await fail_at_the_end()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_at_the_end)
            nursery.start_soon(trio.sleep_forever)

    async with opened(an_office(workshop, line, pipeline=pipeline, run_model=answer), mailbox=mailbox):
        await line.say("hello")
        await trio.sleep(1)
    async with opened(an_office(workshop, line), mailbox=mailbox) as manager:
        await manager.settled()
    assert said_by(line) == ["you said hello"]


async def test_a_disk_that_fails_while_turns_are_cancelled_ends_nobody_else(workshop: Workshop) -> None:
    class Full(Lasting):
        async def give_back(self, ids: Sequence[int], **claim: Any) -> None:
            raise MailboxError("the disk is full")

    line, mailbox = Line(), Full(workshop.folder)
    pipeline = "extends: bub:default\nsettings: {gateway: {shutdown_grace: 3s}}"
    async with opened(an_office(workshop, line, pipeline=pipeline, run_model=trio.sleep_forever), mailbox=mailbox):
        await line.say("hello")
        await line.say("hello", chat_id="2")
        await trio.sleep(1)
    assert line.sent == []
    assert len(await mailbox.waiting()) == 2


async def test_C24_no_turn_begins_once_all_is_to_end(workshop: Workshop) -> None:
    line, asked = Line(), list[str]()
    pipeline = "extends: bub:default\nsettings: {gateway: {turns: 1}}"

    async def slowly(prompt: str) -> str:
        asked.append(prompt)
        await trio.sleep(3)
        return prompt

    async def resolve(message: Any) -> None:
        if message.content == "late":
            await trio.sleep(2)

    hooks = {"run_model": slowly, "resolve_session": resolve}
    mailbox = Lasting(workshop.folder)
    async with opened(an_office(workshop, line, pipeline=pipeline, **hooks), mailbox=mailbox):
        await line.say("one")
        await trio.sleep(1)
        await line.say("two", chat_id="2")
        await line.say("late", chat_id="3")
        await trio.sleep(1)
    assert asked == line.said == ["one"]
    assert [one.message.content for one in await mailbox.waiting()] == ["two", "late"]


async def test_C21_what_was_left_over_keeps_its_place_in_the_order(workshop: Workshop) -> None:
    line = Line()

    async def deaf(prompt: str) -> str:
        await trio.sleep(5)
        return prompt

    hooks = {"run_model": deaf, "admit_message": lambda message: None if message.kind == "command" else "steer"}
    async with opened(an_office(workshop, line, **hooks)) as manager:
        await line.say("go")
        await trio.sleep(1)
        for word in (",help", "left", ",tools", "right"):
            await line.say(word)
        await manager.settled()
    assert line.said == ["go", ",help", "left", ",tools", "right"]


# What channels do.


@pytest.mark.parametrize(
    "prepared", [None, 7, {"content": "other"}, ValueError("no picture"), ChannelMessage("other", "9")]
)
async def test_a_channel_that_prepares_badly_costs_one_turn(workshop: Workshop, prepared: Any) -> None:
    class Badly(Line):
        async def prepare(self, message: ChannelMessage) -> Any:
            if message.content != "bad":
                return message
            if isinstance(prepared, Exception):
                raise prepared
            return prepared

    line, errors = Badly(), Errors()
    async with opened(an_office(workshop, line, on_error=errors.told)) as manager:
        await line.say("bad")
        await line.say("good", chat_id="2")
        await manager.settled()
    assert errors.stages == ([] if isinstance(prepared, ChannelMessage) else ["turn"])
    assert {reply.chat_id for reply in line.sent} == {"1", "2"}
    assert "you said good" in line.said


@pytest.mark.parametrize("where", ["attending", "prepare", "on_event", "ask"])
async def test_C25_whatever_a_channel_hangs_in_quit_ends_it(workshop: Workshop, where: str) -> None:
    class Hanging(Line):
        can_ask = True

        def attending(self, message: ChannelMessage) -> Any:
            return self if where == "attending" and message.content == "go" else None

        async def __aenter__(self) -> None:
            await trio.sleep_forever()

        async def __aexit__(self, *failure: object) -> None:
            pass

        async def prepare(self, message: ChannelMessage) -> ChannelMessage:
            return await self.hang(message) if where == "prepare" else message

        async def on_event(self, event: Any, message: ChannelMessage) -> None:  # type: ignore[override]
            if where == "on_event":
                await self.hang(message)

        async def ask(self, question: Any, message: ChannelMessage) -> bool:
            await self.hang(message)
            return True

        async def hang(self, message: ChannelMessage) -> ChannelMessage:
            if message.content == "go":
                await trio.sleep_forever()
            return message

    line = Hanging()

    async with opened(an_office(workshop, line)) as manager:
        await line.say("go")
        await trio.sleep(100)
        await line.say("meanwhile", chat_id="2")
        await line.say(",quit")
        await manager.settled()
    assert set(line.said) >= {"you said meanwhile", "you said ,quit"}


@pytest.mark.parametrize("where", ["attending", "on_event", "ask"])
async def test_a_channel_that_fails_beside_the_answer_does_not_keep_it(workshop: Workshop, where: str) -> None:
    class Failing(Line):
        def attending(self, message: ChannelMessage) -> Any:
            if where == "attending":
                raise ValueError("cannot type")

        def on_event(self, event: Any, message: ChannelMessage) -> None:
            if where == "on_event":
                raise ValueError("cannot show")

    line = Failing()
    async with opened(an_office(workshop, line)) as manager:
        await line.say("hello")
        await manager.settled()
    assert line.said == ["you said hello"]


async def test_a_draft_is_kept_whatever_the_channel_prepares_and_calls_it(workshop: Workshop) -> None:
    class Early(Line):
        async def prepare(self, message: ChannelMessage) -> ChannelMessage:
            assert self.desk is not None
            await self.desk.keep_draft(message, 42)  # type: ignore[arg-type]
            return message

    line = Early()
    with trio.fail_after(60):
        async with opened(an_office(workshop, line)) as manager:
            await line.say("hello")
            await manager.settled()
    assert [(reply.content, reply.draft) for reply in line.sent] == [("you said hello", "42")]


@pytest.mark.parametrize("seconds", [0, -5, float("nan")])
async def test_a_channel_that_asks_for_no_patience_is_not_asked_without_end(workshop: Workshop, seconds: float) -> None:
    class Busy(Line):
        attempts = 0

        async def send(self, message: ChannelMessage) -> None:
            self.attempts += 1
            if self.attempts < 10_000:
                raise TryLaterError("too fast", seconds=seconds)

    line = Busy()
    async with opened(an_office(workshop, line)):
        await line.say("hello")
        await trio.sleep(10)
    assert 1 < line.attempts < 200


@pytest.mark.parametrize("where", ["send", "run"])
async def test_a_channel_that_wants_to_end_the_program_does_not(workshop: Workshop, where: str) -> None:
    class Leaving(Line):
        times = 0

        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            task_status.started()
            if where == "run":
                await self.leave()
            await trio.sleep_forever()

        async def send(self, message: ChannelMessage) -> None:
            if where == "send":
                await self.leave()
            await super().send(message)

        async def leave(self) -> None:
            self.times += 1
            if self.times < 3:
                await in_a_group(SystemExit(3))

    line = Leaving()
    async with opened(an_office(workshop, line)) as manager:
        await line.say("hello")
        await trio.sleep(60)
        await manager.settled()
    assert (line.said, line.times) == (["you said hello"], 3)


async def test_a_reply_that_comes_behind_its_turn_is_delivered(workshop: Workshop) -> None:
    line, framework = Line(), list[Any]()

    async def answer(prompt: str, message: Any) -> str:
        if prompt == "hello":
            more = {**message.as_dict(), "content": "more", "session_id": "beside"}
            beside.start_soon(framework[0].process_inbound, more)
        else:
            await trio.sleep(5)
        await trio.sleep(1)
        return prompt

    async with trio.open_nursery() as beside:
        framework.append(an_office(workshop, line, run_model=answer))
        async with opened(framework[0]):
            await line.say("hello")
            await trio.sleep(20)
    assert line.said == ["hello", "more"]


async def test_C21_what_is_asked_for_behind_a_turn_is_left_for_the_next_one(workshop: Workshop) -> None:
    line, inboxes = Line(), list[Any]()

    class Late(Mailbox):
        async def finish(
            self, ids: Sequence[int], replies: Sequence[ChannelMessage] = (), **claim: Any
        ) -> list[Outgoing]:
            await trio.sleep(1)
            assert inboxes.pop().take() == []
            return await super().finish(ids, replies, **claim)

    async def answer(prompt: str, state: dict[str, Any]) -> str:
        inboxes.append(state["_runtime_steering_inbox"])
        await trio.sleep(1)
        return prompt

    hooks = {"run_model": answer, "admit_message": lambda: "steer"}
    async with opened(an_office(workshop, line, **hooks), mailbox=Late(None, workshop.folder)) as manager:
        await line.say("go")
        await trio.sleep(1.5)
        await line.say("late")
        await manager.settled()
    assert line.said == ["go", "late"]


async def test_C10_what_was_overheard_and_listened_to_outlives_the_process(workshop: Workshop) -> None:
    line, mailbox = Line(needs_debounce=True), Lasting(workshop.folder)
    async with opened(an_office(workshop, line), mailbox=mailbox) as manager:
        await line.say("bub?")
        await manager.settled()
        await line.say("by the way", is_active=False)
        await trio.sleep(1)
    async with opened(an_office(workshop, line), mailbox=mailbox) as manager:
        await line.say("chatter", chat_id="2", is_active=False)
        await manager.settled()
        assert manager.waiting == 0
    assert line.said == ["you said bub?", "you said by the way"]


async def test_C36_the_prompt_is_made_of_what_was_said_when_the_wait_is_over(workshop: Workshop) -> None:
    line, built = Line(needs_debounce=True), list[tuple[float, str]]()

    def build(message: Any) -> str:
        built.append((trio.current_time() - began, message.content))
        return str(message.content)

    async with opened(an_office(workshop, line, build_prompt=build)) as manager:
        began = trio.current_time()
        await line.say("one")
        await trio.sleep(0.5)
        await line.say("two")
        await manager.settled()
    assert built == [(pytest.approx(1.5), "one\ntwo")]


# Other pipelines.


async def test_C26_a_turn_that_a_plugin_claims_sends_the_reply_of_the_claim(workshop: Workshop) -> None:
    line = Line()

    def claim(message: Any) -> dict[str, Any] | None:
        if message.content == "silent":
            return {"handled": True}
        return {"handled": True, "reply": {"content": "mine"}} if message.content == "claimed" else None

    hooks = {"inbound_claim": claim, "run_model_stream": lambda prompt: a_stream(f"you said {prompt}")}
    framework = workshop("extends: bub:ethos", office=Toy(provide_channels=lines(line), **hooks))
    async with opened(framework) as manager:
        for word in ("claimed", "silent", "open"):
            await line.say(word)
        await manager.settled()
        assert manager.waiting == 0
    assert [(reply.content, reply.chat_id, reply.answers) for reply in line.sent] == [
        ("mine", "1", "m1"),
        ("you said open", "1", "m3"),
    ]


async def test_C26_a_turn_that_a_gate_denies_says_so_and_nothing_of_what_broke(workshop: Workshop) -> None:
    line = Line()
    pipeline = """
    extends: bub:default
    hooks: {moderate: {takes: [prompt]}}
    stages: {moderate: {kind: gate, before: run_model}}
    """

    def moderate(prompt: str) -> dict[str, str] | None:
        if prompt == "broken":
            raise ValueError("secret detail")
        return {"deny": "not here"} if prompt == "bad" else None

    async with opened(an_office(workshop, line, pipeline=pipeline, moderate=moderate)) as manager:
        for word in ("bad", "broken", "good"):
            await line.say(word)
        await manager.settled()
    denied, broken, good = line.sent
    assert (denied.kind, denied.content, denied.answers) == ("denied", "not here", "m1")
    assert (broken.kind, "secret" in broken.content) == ("denied", False)
    assert (good.kind, good.content) == ("normal", "you said good")


async def test_T28_the_classic_turn_answers_though_a_plugin_made_something_else_of_the_message(
    workshop: Workshop,
) -> None:
    line = Line()

    def normalize(message: Any) -> dict[str, Any]:
        return {"content": message.content.upper(), "channel": message.channel, "chat_id": int(message.chat_id)}

    hooks = {"normalize_inbound": normalize, "save_state": lambda: 1 / 0}
    async with opened(an_office(workshop, line, pipeline="extends: bub:classic", **hooks)) as manager:
        await line.say("hello", chat_id="7")
        await manager.settled()
    assert [(reply.content, reply.chat_id, reply.answers) for reply in line.sent] == [("you said HELLO", "7", "m1")]


async def test_D10_turns_of_one_session_run_side_by_side_where_the_profile_says_so(workshop: Workshop) -> None:
    line = Line()
    pipeline = """
    extends: bub:default
    plugins: {office: {path: office.py}}
    profiles: {default: {plugins: [office], concurrency: parallel}}
    """

    async def slowly(prompt: str) -> str:
        await trio.sleep(0 if prompt.startswith(",") else 5)
        return prompt

    async with opened(an_office(workshop, line, pipeline=pipeline, run_model=slowly)) as manager:
        began = trio.current_time()
        for word in ("one", "two"):
            await line.say(word)
        await trio.sleep(1)
        await line.say(",help")
        await trio.sleep(1)
        assert line.said == [",help"]
        await manager.settled()
        assert trio.current_time() - began == pytest.approx(5)
    assert sorted(line.said) == [",help", "one", "two"]


async def test_C25_quit_has_the_prefix_that_the_file_gives_commands(workshop: Workshop) -> None:
    line = Line()
    pipeline = "extends: bub:default\nsettings: {command_prefix: '/'}"

    async def endless(prompt: str) -> str:
        if prompt == "go":
            await trio.sleep_forever()
        return f"did {prompt}"

    async with opened(an_office(workshop, line, pipeline=pipeline, run_model=endless)) as manager:
        await line.say("go")
        await trio.sleep(1)
        await line.say(",quit")
        await line.say("quit")
        await trio.sleep(1)
        assert manager.turns == 1
        await line.say("/quit now")
        await manager.settled()
    assert line.said == ["did /quit now"]


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
