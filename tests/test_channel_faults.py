"""Channels that fail, and pipelines of other shapes behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from fakes.line import Line, an_office, lines, opened
from fakes.mailboxes import Lasting, in_a_group
from fakes.toys import Errors, Toy, Workshop, a_stream

from bub.channels import ChannelMessage, TryLaterError
from bub.inbox.mailbox import Mailbox, Outgoing

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


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
