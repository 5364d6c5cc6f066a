"""Channels that run: what they bring is answered, in order, and what goes wrong costs nobody else anything."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fakes.line import Line, an_office, lines, opened
from fakes.toys import Errors, Toy, Workshop, a_stream

from bub.channels import Channel, ChannelManager, ChannelMessage, TryLaterError, UndeliverableError, joined
from bub.channels.enabling import choose_channels
from bub.errors import BubError, UsageError
from bub.inbox.mailbox import Mailbox, MailboxError

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


real_time = pytest.mark.parametrize("anyio_backend", ["trio"])  # a file is written in a thread


# Which channels run.


def test_C1_of_two_channels_with_one_name_the_higher_priority_counts(workshop: Workshop) -> None:
    low, high = Line("line"), Line("line")
    framework = workshop(low=Toy(provide_channels=lines(low)), high=Toy(provide_channels=lines(high)))
    assert framework.get_channels(low.say)["line"] is high


def test_H32_a_plugin_that_brings_no_channels_is_fine(workshop: Workshop) -> None:
    line = Line()
    framework = workshop(line=Toy(provide_channels=lines(line)), none=Toy(provide_channels=lambda: None))
    assert framework.get_channels(line.say)["line"] is line


def test_C2_a_channel_says_no_more_than_what_it_does_differently() -> None:
    channel = Channel()
    assert (channel.role, channel.enabled, channel.needs_debounce, channel.can_ask) == ("chat", True, False, False)
    assert channel.attending(ChannelMessage()) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["all"], ["chat", "other", "clock"]),
        (["all", "!chat"], ["other", "clock"]),
        (["chat"], ["chat", "clock"]),
        (["clock"], ["clock"]),
        (["desk"], ["desk", "clock"]),
        (["!chat"], []),
        (["all", "desk"], ["chat", "other", "clock"]),
        ([], []),
    ],
)
def test_C3_which_channels_are_meant(names: list[str], expected: list[str]) -> None:
    channels = [
        Line("chat"),
        Line("other"),
        Line("desk", role="interface"),
        Line("off", enabled=False),
        Line("clock", role="service"),
    ]
    assert [one.name for one in choose_channels({one.name: one for one in channels}, names)] == expected


def test_C3_an_unknown_name_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is no channel `telegran`") as caught:
        choose_channels({"telegram": Line("telegram")}, ["!telegran"])
    assert "telegram" in str(caught.value.help)


def test_C3_naming_a_channel_that_cannot_run_says_why() -> None:
    with pytest.raises(BubError, match="`line` cannot run") as caught:
        choose_channels({"line": Line(enabled=False)}, ["line"])
    assert caught.value.help == "set `settings.line.token`"


# What comes in is answered.


async def test_a_message_gets_its_reply(workshop: Workshop) -> None:
    line = Line()
    async with opened(an_office(workshop, line)) as manager:
        await line.say("hello", chat_id="7")
        await manager.settled()
    (reply,) = line.sent
    assert (reply.content, reply.channel, reply.chat_id, reply.session_id) == ("you said hello", "line", "7", "line:7")
    assert reply.answers == "m1"


async def test_C5_a_message_of_an_unknown_channel_is_dropped(workshop: Workshop) -> None:
    line = Line()
    async with opened(an_office(workshop, line)) as manager:
        await line.say("hello", channel="elsewhere")
        await manager.settled()
        assert manager.waiting == 0
    assert line.sent == []


async def test_a_channel_learns_whether_a_turn_follows_what_it_hands_over(workshop: Workshop) -> None:
    go = trio.Event()

    async def run_model(prompt: str) -> str:
        await go.wait()
        return "once"

    line = Line()
    async with opened(an_office(workshop, line, run_model=run_model)) as manager:
        assert await line.say("hello", once="7")
        assert await line.say("hello", once="7")  # its turn is under way
        go.set()
        await manager.settled()
        assert await line.say("hello", once="7") is False
        assert await line.say("hello", channel="elsewhere") is False
        assert await line.say("hello")
        await manager.settled()
    assert line.said == ["once", "once"]


async def test_C6_two_channels_with_one_session_are_buffered_apart(workshop: Workshop) -> None:
    quick, slow = Line("quick"), Line("slow", needs_debounce=True)
    async with opened(an_office(workshop, quick, slow)) as manager:
        began = trio.current_time()
        await slow.say("a", session_id="shared")
        await quick.say("b", session_id="shared")
        await trio.testing.wait_all_tasks_blocked()
        assert (quick.said, slow.said) == (["you said b"], [])
        await manager.settled()
        assert trio.current_time() - began == pytest.approx(1.0)
    assert slow.said == ["you said a"]


async def test_C9_messages_that_follow_each_other_are_answered_as_one(workshop: Workshop) -> None:
    line = Line(needs_debounce=True)
    async with opened(an_office(workshop, line)) as manager:
        for word in ("one", "two", "three"):
            await line.say(word)
            await trio.sleep(0.5)
        await manager.settled()
    assert line.said == ["you said one\ntwo\nthree"]


async def test_C8_what_is_only_overheard_gets_no_turn_and_leaves_the_inbox(workshop: Workshop) -> None:
    line = Line(needs_debounce=True)
    async with opened(an_office(workshop, line)) as manager:
        await line.say("chatter", is_active=False)
        await manager.settled()
    assert line.sent == []


async def test_C11_an_active_message_brings_a_waiting_batch_forward(workshop: Workshop) -> None:
    line = Line(needs_debounce=True)
    async with opened(an_office(workshop, line)) as manager:
        await line.say("bub?")
        await manager.settled()
        began = trio.current_time()
        await line.say("by the way", is_active=False)
        await trio.sleep(0.5)
        await line.say("well?")
        await manager.settled()
        assert trio.current_time() - began == pytest.approx(1.5)
    assert line.said == ["you said bub?", "you said by the way\nwell?"]


async def test_C13_a_steady_flow_is_answered_after_max_wait(workshop: Workshop) -> None:
    line = Line(needs_debounce=True)
    async with opened(an_office(workshop, line)) as manager:
        for number in range(30):
            await line.say(str(number))
            await trio.sleep(0.5)
        assert len(line.sent) == 1
        await manager.settled()
    assert "\n".join(line.said).replace("you said ", "").split() == [str(number) for number in range(30)]


async def test_C14_a_command_flushes_what_was_said_before(workshop: Workshop) -> None:
    line = Line(needs_debounce=True)
    async with opened(an_office(workshop, line)) as manager:
        await line.say("first")
        await line.say(",help")
        await trio.testing.wait_all_tasks_blocked()
        assert line.said == ["you said first", "you said ,help"]
        await manager.settled()


async def test_C15_a_comma_command_is_of_that_kind(workshop: Workshop) -> None:
    line, kinds = Line(), list[str]()
    hooks = {"run_model": lambda message: kinds.append(message.kind) or "done"}
    async with opened(an_office(workshop, line, **hooks)) as manager:
        await line.say(",help")
        await line.say("hello", kind="normal")
        await manager.settled()
    assert kinds == ["command", "normal"]


def test_C16_a_batch_keeps_texts_media_and_contexts() -> None:
    entered = object()
    first = ChannelMessage("line", "1", "one", media=[{"kind": "image"}], context={"from": "ann"}, lifespan=entered)
    last = ChannelMessage("line", "1", "two", media=[{"kind": "audio"}], context={"topic": "x"}, message_id="m2")
    both = joined([first, last])
    assert (both.content, [one["kind"] for one in both.media]) == ("one\ntwo", ["image", "audio"])
    assert (both.context, both.message_id) == ({"from": "ann", "topic": "x"}, "m2")
    assert both.lifespan is entered


async def test_C17_a_turn_that_fails_leaves_the_session_usable(workshop: Workshop) -> None:
    line = Line(needs_debounce=True)

    def fail(prompt: str) -> str:
        if prompt == "bad":
            raise ValueError("secret detail")
        return prompt

    async with opened(an_office(workshop, line, run_model=fail)) as manager:
        await line.say("bad")
        await manager.settled()
        await line.say("good")
        await manager.settled()
    sorry, good = line.sent
    assert (sorry.kind, good.content) == ("error", "good")


async def test_T30_the_sender_reads_a_sentence_and_an_id_and_the_log_has_the_rest(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    line, errors = Line(), Errors()

    def fail() -> str:
        raise ValueError("secret detail")

    async with opened(an_office(workshop, line, run_model=fail, on_error=errors.told)) as manager:
        await line.say("hello")
        await manager.settled()
    (sorry,) = line.sent
    assert sorry.content.startswith("Something went wrong while answering. (error ")
    assert "secret" not in sorry.content
    assert errors.stages == ["turn"]


async def test_D6_a_turn_without_a_model_is_told_and_not_echoed(workshop: Workshop) -> None:
    line, errors = Line(), Errors()
    framework = an_office(workshop, line, pipeline=_NO_MODEL, run_model=lambda: None, on_error=errors.told)
    async with opened(framework) as manager:
        await line.say("hello")
        await manager.settled()
    (sorry,) = line.sent
    assert sorry.kind == "error"
    assert "hello" not in sorry.content
    assert errors.stages == ["run_model"]


_NO_MODEL = """
extends: bub:default
stages: {run_model: {only: [office]}}
"""


async def test_D14_a_session_that_cannot_be_found_is_told(workshop: Workshop) -> None:
    line, errors = Line(), Errors()

    def lost() -> str:
        raise ValueError("no map")

    async with opened(an_office(workshop, line, resolve_session=lost, on_error=errors.told)) as manager:
        await line.say("hello")
        await manager.settled()
    assert [reply.kind for reply in line.sent] == ["error"]
    assert errors.stages == ["resolve_session"]


async def test_C22_sessions_are_answered_side_by_side_and_one_after_another_in_each(workshop: Workshop) -> None:
    line, running, most = Line(), dict[str, int](), list[int]()

    async def slowly(session_id: str, prompt: str) -> str:
        running[session_id] = running.get(session_id, 0) + 1
        assert running[session_id] == 1
        most.append(sum(running.values()))
        await trio.sleep(5)
        running[session_id] -= 1
        return prompt

    async with opened(an_office(workshop, line, run_model=slowly)) as manager:
        began = trio.current_time()
        for number in range(3):
            for chat in ("a", "b", "c", "d"):
                await line.say(f"{chat}{number}", chat_id=chat)
        await manager.settled()
        assert trio.current_time() - began == pytest.approx(15)
    assert max(most) == 4
    for chat in ("a", "b", "c", "d"):
        assert [reply.content for reply in line.sent if reply.chat_id == chat] == [f"{chat}{n}" for n in range(3)]


async def test_a_limit_on_turns_in_all(workshop: Workshop) -> None:
    line, running, most = Line(), [0], list[int]()

    async def slowly() -> str:
        running[0] += 1
        most.append(running[0])
        await trio.sleep(1)
        running[0] -= 1
        return "done"

    pipeline = "extends: bub:default\nsettings: {gateway: {turns: 2}}"
    async with opened(an_office(workshop, line, pipeline=pipeline, run_model=slowly)) as manager:
        for chat in range(6):
            await line.say("hello", chat_id=str(chat))
        await manager.settled()
    assert (max(most), len(line.sent)) == (2, 6)


# Admission.


async def test_C19_follow_up_waits_for_the_session_and_keeps_its_order(workshop: Workshop) -> None:
    line, asked = Line(), list[Any]()

    async def slowly(prompt: str) -> str:
        await trio.sleep(5)
        return prompt

    def admit(session_id: str, message: Any, turn: Any) -> str:
        asked.append((message.content, turn.is_running, turn.pending_count))
        return "follow_up"

    async with opened(an_office(workshop, line, run_model=slowly, admit_message=admit)) as manager:
        for word in ("one", "two", "three"):
            await line.say(word)
            await trio.sleep(0.1)
        await manager.settled()
    assert line.said == ["one", "two", "three"]
    assert asked == [("one", False, 0), ("two", True, 0), ("three", True, 1)]


async def test_C19_drop_discards_also_when_nothing_runs(workshop: Workshop) -> None:
    line = Line()
    async with opened(an_office(workshop, line, admit_message=lambda: "drop")) as manager:
        await line.say("hello")
        await manager.settled()
        assert (line.sent, manager.waiting) == ([], 0)


async def test_C19_steer_reaches_the_turn_under_way_and_is_a_turn_where_none_runs(workshop: Workshop) -> None:
    line, taken = Line(), list[str]()

    async def listening(prompt: str, state: dict[str, Any]) -> str:
        await trio.sleep(5)
        inbox = state.get("_runtime_steering_inbox")
        taken.extend(message.content for message in inbox.take()) if inbox is not None else None
        return prompt

    async with opened(an_office(workshop, line, run_model=listening, admit_message=lambda: "steer")) as manager:
        await line.say("go")
        await trio.sleep(1)
        await line.say("left")
        await line.say("right")
        await manager.settled()
        assert manager.waiting == 0
    assert (line.said, taken) == (["go"], ["left", "right"])


async def test_each_channel_learns_that_its_own_message_is_done_with_if_a_turn_of_another_channel_took_it(
    workshop: Workshop,
) -> None:
    told: list[tuple[str, str]] = []

    class Telling(Line):
        def on_answered(self, message: ChannelMessage, replies: Any) -> None:
            told.append((self.name, message.content))

    async def listening(prompt: str, state: dict[str, Any]) -> str:
        await trio.sleep(5)
        state["_runtime_steering_inbox"].take()
        return prompt

    line, door = Telling(), Telling("door")
    hooks = {"admit_message": lambda: "steer", "resolve_session": lambda: "one", "run_model": listening}
    async with opened(an_office(workshop, line, door, **hooks)) as manager:
        await line.say("go")
        await trio.sleep(1)
        await door.say("left", draft="d1")
        await manager.settled()
    assert told == [("line", "go"), ("door", "left")]
    assert [(one.content, one.draft, one.answers) for one in door.sent] == [("", "d1", "m1")]


GATED = """
extends: bub:default
hooks: {moderate: {kind: gate, takes: [prompt]}}
stages: {moderate: {before: run_model}}
"""


async def test_what_a_gate_is_to_judge_steers_no_turn_and_is_judged_in_one_of_its_own(workshop: Workshop) -> None:
    line, taken = Line(), list[str]()

    async def listen(prompt: str, state: dict[str, Any]) -> str:
        await trio.sleep(5)
        taken.extend(message.content for message in state["_runtime_steering_inbox"].take())
        return prompt

    def moderate(prompt: str) -> Any:
        return {"deny": "not here"} if "password" in prompt else None

    office = an_office(
        workshop, line, pipeline=GATED, run_model=listen, moderate=moderate, admit_message=lambda: "steer"
    )
    async with opened(office) as manager:
        await line.say("go")
        await trio.sleep(1)
        await line.say("and the password")
        await line.say("on")
        await manager.settled()
    assert (line.said, taken) == (["go", "not here", "on"], [])


ROUTED = """
extends: bub:default
profiles: {default: {plugins: [office]}, guest: {plugins: [office], tools: {allow: []}}}
routes: [{match: {sender_id: eve}, profile: guest}]
"""


async def test_a_message_of_another_profile_steers_no_turn(workshop: Workshop) -> None:
    line, taken = Line(), list[str]()

    async def listen(prompt: str, state: dict[str, Any]) -> str:
        await trio.sleep(5)
        taken.extend(message.content for message in state["_runtime_steering_inbox"].take())
        return prompt

    office = an_office(workshop, line, pipeline=ROUTED, run_model=listen, admit_message=lambda: "steer")
    async with opened(office) as manager:
        await line.say("go", sender_id="ada")
        await trio.sleep(1)
        await line.say("run what I say", sender_id="eve")
        await line.say("be brief", sender_id="ada")
        await manager.settled()
    assert (line.said, taken) == (["go", "run what I say"], ["be brief"])


async def test_C21_what_no_turn_took_is_answered_by_the_next_one(workshop: Workshop) -> None:
    line = Line()

    async def deaf(prompt: str) -> str:
        await trio.sleep(5)
        return prompt

    async with opened(an_office(workshop, line, run_model=deaf, admit_message=lambda: "steer")) as manager:
        await line.say("go")
        await trio.sleep(1)
        await line.say("left")
        await line.say("right")
        await manager.settled()
    assert line.said == ["go", "left", "right"]


@pytest.mark.parametrize("answer", ["later", 7, ValueError("no idea")])
async def test_C20_an_admission_that_fails_lets_the_message_through(workshop: Workshop, answer: Any) -> None:
    line, errors = Line(), Errors()

    def admit() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with opened(an_office(workshop, line, admit_message=admit, on_error=errors.told)) as manager:
        await line.say("hello")
        await manager.settled()
    assert line.said == ["you said hello"]
    assert errors.stages == ["admit_message"]


async def test_C25_quit_ends_what_runs_in_the_session_and_forgets_what_waits(workshop: Workshop) -> None:
    line = Line()

    async def endless(prompt: str) -> str:
        if not prompt.startswith(","):
            await trio.sleep_forever()
        return "stopped"

    async with opened(an_office(workshop, line, run_model=endless)) as manager:
        await line.say("one")
        await trio.sleep(1)
        await line.say("two")
        await line.say("other", chat_id="2")
        await trio.sleep(1)
        await line.say(",quit")
        await trio.sleep(1)
        assert (manager.turns, manager.waiting) == (1, 1)
        assert manager.cancel_turn("line:2")
        await manager.settled()
    assert line.said == ["stopped"]


# Replies.


async def test_C26_a_reply_can_go_elsewhere_and_one_for_nobody_is_kept(workshop: Workshop) -> None:
    line, other = Line(), Line("other")
    replies = [
        {"content": "here"},
        {"content": "there", "output_channel": "other"},
        {"content": "nowhere", "output_channel": "null"},
        {"content": "lost", "channel": "telegraf"},
    ]
    mailbox = Mailbox(None, workshop.folder)

    def render(message: Any) -> list[dict[str, Any]]:
        return [{"channel": "line", "chat_id": message.chat_id, **reply} for reply in replies]

    async with opened(an_office(workshop, line, other, render_outbound=render), mailbox=mailbox) as manager:
        await line.say("hello")
        await manager.settled()
    assert (line.said, other.said) == (["here"], ["there"])


@pytest.mark.parametrize(("elsewhere", "there"), [("other", ["you said hello"]), ("null", [])])
async def test_C26_a_message_says_where_its_answer_goes(workshop: Workshop, elsewhere: str, there: list[str]) -> None:
    line, other = Line(), Line("other")
    async with opened(an_office(workshop, line, other)) as manager:
        await line.say("hello", output_channel=elsewhere)
        await line.say("and here")
        await manager.settled()
    assert (line.said, other.said) == (["you said and here"], there)


async def test_T28_a_reply_that_fails_is_tried_again_and_stays_in_front(workshop: Workshop) -> None:
    line = Line()
    line.fails = [OSError("gone"), TryLaterError("too fast", seconds=30)]
    async with opened(an_office(workshop, line)) as manager:
        await line.say("one")
        await line.say("two")
        await trio.sleep(2)
        assert (line.fails, manager.undelivered) == ([], 2)
        await line.say("three", chat_id="2")
        await trio.sleep(0.1)
        assert line.said == ["you said three"]
        await trio.sleep(25)
        assert manager.undelivered == 2
        await trio.sleep(10)
        assert manager.undelivered == 0
    assert line.said == ["you said three", "you said one", "you said two"]


async def test_a_reply_that_can_never_arrive_does_not_keep_the_others(workshop: Workshop) -> None:
    line = Line()
    line.fails = [UndeliverableError("the chat is gone")]
    async with opened(an_office(workshop, line)) as manager:
        await line.say("one")
        await line.say("two")
        await manager.settled()
        assert manager.undelivered == 0
    assert line.said == ["you said two"]


async def test_T18_each_event_reaches_the_channel_with_the_message_it_answers(workshop: Workshop) -> None:
    line = Line()
    stream = Toy(provide_channels=lines(line), run_model_stream=lambda: a_stream("Hel", "lo"))
    framework = workshop(office=stream)
    async with opened(framework) as manager:
        await line.say("hello")
        await manager.settled()
    assert [event.data["delta"] for event, _ in line.events if event.kind == "text"] == ["Hel", "lo"]
    assert {message.message_id for _, message in line.events} == {"m1"}
    assert line.said == ["Hello"]


async def test_a_draft_becomes_the_reply(workshop: Workshop) -> None:
    class Drafting(Line):
        async def on_event(self, event: Any, message: ChannelMessage) -> None:  # type: ignore[override]
            if event.kind == "text" and self.desk is not None:
                await self.desk.keep_draft(message, "d1")

    line = Drafting()
    async with opened(an_office(workshop, line)) as manager:
        await line.say("hello")
        await manager.settled()
    assert [(reply.content, reply.draft) for reply in line.sent] == [("you said hello", "d1")]


@pytest.mark.parametrize(
    ("reply", "others"),
    [({"output_channel": "null"}, []), ({"channel": "line", "chat_id": "2"}, ["over there"])],
    ids=["nowhere", "elsewhere"],
)
async def test_a_draft_without_a_reply_is_put_away_by_a_blank_one(
    workshop: Workshop, reply: dict[str, str], others: list[str]
) -> None:
    class Drafting(Line):
        async def on_event(self, event: Any, message: ChannelMessage) -> None:  # type: ignore[override]
            if event.kind == "text" and self.desk is not None:
                await self.desk.keep_draft(message, "d1")

    line = Drafting()
    replies = [{"content": "over there", **reply}]
    async with opened(an_office(workshop, line, render_outbound=lambda: replies)) as manager:
        await line.say("hello")
        await manager.settled()
    [blank] = [sent for sent in line.sent if sent.chat_id == "1"]
    assert (blank.content, blank.draft, blank.answers) == ("", "d1", "m1")
    assert [sent.content for sent in line.sent if sent.chat_id == "2"] == others


async def test_a_channel_remembers_what_it_noted(workshop: Workshop) -> None:
    class Remembering(Line):
        async def send(self, message: ChannelMessage) -> None:
            assert self.desk is not None
            found.append(await self.desk.recall(self.name))
            self.desk.remember(self.name, message.chat_id, message.content)

    line, found = Remembering(), []
    async with opened(an_office(workshop, line)) as manager:
        await line.say("hello")
        await line.say("bye")
        await manager.settled()
    assert found == [{}, {"1": "you said hello"}]


async def test_T23_what_a_channel_holds_open_is_open_while_the_turn_runs(workshop: Workshop) -> None:
    seen: list[str] = []

    class Typing(Line):
        def attending(self, message: ChannelMessage) -> Any:
            return self

        def __enter__(self) -> None:
            seen.append("types")

        def __exit__(self, *failure: object) -> None:
            seen.append("rests")

    line = Typing()
    async with opened(an_office(workshop, line, run_model=lambda: seen.append("thinks") or "done")) as manager:
        await line.say("hello")
        await manager.settled()
    assert seen == ["types", "thinks", "rests"]


# Beginning and ending.


async def test_C23_a_channel_that_cannot_begin_ends_those_that_have(workshop: Workshop) -> None:
    seen: list[str] = []

    class Telling(Line):
        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            if self.name == "broken":
                raise OSError("no such port")
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                seen.append(f"{self.name} ended")

    framework = an_office(workshop, Telling("one"), Telling("two"), Telling("broken"))
    with pytest.raises(OSError, match="no such port"):
        async with framework.running():
            await ChannelManager(framework, mailbox=Mailbox(None, workshop.folder)).run()
    assert seen == ["two ended", "one ended"]


async def test_C23_a_channel_that_fails_to_end_does_not_keep_the_others(workshop: Workshop) -> None:
    seen: list[str] = []

    class Sticky(Line):
        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                seen.append(self.name)
                if self.name == "sticky":
                    with trio.CancelScope(shield=True):
                        await trio.sleep(60)

    async with opened(an_office(workshop, Sticky("one"), Sticky("sticky"))):
        pass
    assert seen == ["sticky", "one"]


async def test_a_channel_that_fails_is_run_again(workshop: Workshop) -> None:
    class Shaky(Line):
        runs = 0

        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            self.runs += 1
            task_status.started()
            if self.runs < 3:
                raise OSError("connection lost")
            await trio.sleep_forever()

    line = Shaky()
    async with opened(an_office(workshop, line)) as manager:
        assert manager.states == {"line": "failed"}
        await trio.sleep(20)
        assert (line.runs, manager.states) == (3, {"line": "running"})
        await line.say("hello")
        await manager.settled()
    assert line.said == ["you said hello"]


async def test_an_interface_that_is_left_ends_everything(workshop: Workshop) -> None:
    class Desk(Line):
        role = "interface"

        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            task_status.started()
            await self.say("hello")
            assert self.desk is not None
            await self.desk.settled()

    line = Desk("cli")
    framework = an_office(workshop, line)
    async with framework.running():
        await ChannelManager(framework, ["cli"], mailbox=Mailbox(None, workshop.folder)).run()
    assert line.said == ["you said hello"]


async def test_C24_turns_under_way_are_finished_and_what_comes_in_is_only_kept(workshop: Workshop) -> None:
    line = Line()

    async def slowly(prompt: str) -> str:
        await trio.sleep(10)
        return prompt

    async with opened(an_office(workshop, line, run_model=slowly)) as manager:
        await line.say("one")
        await trio.sleep(1)
        await line.say("two")
        manager.drain()
        await line.say("three")
        assert manager.is_draining
        began = trio.current_time()
    assert line.said == ["one"]
    assert trio.current_time() - began == pytest.approx(9)


async def test_C24_a_turn_that_takes_too_long_is_cancelled_and_given_back(workshop: Workshop) -> None:
    line, saved = Line(), list[str]()
    framework = an_office(
        workshop,
        line,
        pipeline="extends: bub:default\nsettings: {gateway: {shutdown_grace: 3s}}",
        run_model=trio.sleep_forever,
        save_state=lambda model_output: saved.append(model_output),
    )
    async with opened(framework) as manager:
        await line.say("one")
        await trio.sleep(1)
        manager.drain()
        began = trio.current_time()
    assert (trio.current_time() - began, saved) == (pytest.approx(3), [""])
    assert line.sent == []


async def test_a_plugin_that_wants_to_end_the_program_ends_its_turn_only(workshop: Workshop) -> None:
    line = Line()

    def leave(prompt: str) -> str:
        if prompt == "leave":
            raise SystemExit(3)
        return prompt

    async with opened(an_office(workshop, line, run_model=leave)) as manager:
        await line.say("leave")
        await line.say("stay")
        await manager.settled()
    assert [(reply.kind, reply.content) for reply in line.sent][1:] == [("normal", "stay")]
    assert line.sent[0].kind == "error"


async def test_an_answer_waits_for_a_disk_that_is_full(workshop: Workshop) -> None:
    class Full(Mailbox):
        refusals = 2

        async def finish(self, ids: Any, replies: Any = (), **claim: Any) -> Any:
            if self.refusals:
                self.refusals -= 1
                raise MailboxError("the disk is full", help="make room")
            return await super().finish(ids, replies, **claim)

    line, answers = Line(), list[str]()
    hooks = {"run_model": lambda prompt: answers.append(prompt) or "done"}
    framework = an_office(workshop, line, **hooks)
    async with opened(framework, mailbox=Full(None, workshop.folder)) as manager:
        await line.say("hello")
        await manager.settled()
    assert (line.said, answers) == (["done"], ["hello"])


@real_time
async def test_what_was_kept_before_the_start_is_answered_first(workshop: Workshop) -> None:
    class Eager(Line):
        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            await self.say("after")
            task_status.started()
            await trio.sleep_forever()

    line = Eager()
    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    await mailbox.open()
    await mailbox.receive(ChannelMessage("line", "1", "before"))
    await mailbox.close()
    async with opened(an_office(workshop, line), mailbox=mailbox) as manager:
        await manager.settled()
    assert line.said == ["you said before", "you said after"]


@real_time
async def test_a_turn_that_the_end_of_the_process_interrupted_three_times_is_set_aside(workshop: Workshop) -> None:
    line = Line()
    mailbox = Mailbox(workshop.folder / "inbox.db", workshop.folder)
    await mailbox.open()
    received = await mailbox.receive(ChannelMessage("line", "1", "poison", message_id="m9"))
    assert received is not None
    for _ in range(3):
        await mailbox.begin([received.id])
    await mailbox.close()
    async with opened(an_office(workshop, line), mailbox=mailbox) as manager:
        await manager.settled()
    (sorry,) = line.sent
    assert (sorry.kind, sorry.answers) == ("error", "m9")
    assert sorry.content.startswith("Bub was interrupted several times")
    await mailbox.open()
    assert await mailbox.waiting() == []
    await mailbox.close()


async def test_a_reply_that_is_no_json_fails_the_turn_of_who_made_it(workshop: Workshop) -> None:
    line = Line()
    hooks = {"render_outbound": lambda: [{"content": "x", "channel": "line", "context": {"what": object()}}]}
    async with opened(an_office(workshop, line, **hooks)) as manager:
        await line.say("hello")
        await manager.settled()
    assert [reply.kind for reply in line.sent] == ["error"]


async def test_a_plugin_reads_a_message_of_a_channel_as_one_of_the_command_line(workshop: Workshop) -> None:
    line = Line()
    seen: list[Any] = []

    def read(message: Any) -> str:
        seen.append((message["content"], message.get("chat_id"), message.get("colour", "none"), {**message}["channel"]))
        return "done"

    async with opened(an_office(workshop, line, run_model=read)) as manager:
        await line.say("hello")
        await manager.settled()
    assert seen == [("hello", "1", "none", "line")]
    with pytest.raises(KeyError):
        ChannelMessage()["colour"]
