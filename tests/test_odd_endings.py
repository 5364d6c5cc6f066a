"""Turns of channels that are cancelled, or end in odd ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from fakes.line import Line, an_office, opened
from fakes.mailboxes import Lasting, in_a_group
from fakes.toys import Workshop
from trio.testing import wait_all_tasks_blocked

from bub.channels import ChannelMessage
from bub.envelope import content_of
from bub.inbox.mailbox import MailboxError

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def said_by(line: Line) -> list[str]:
    return [f"{reply.kind}: {reply.content}" if reply.kind == "error" else reply.content for reply in line.sent]


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
