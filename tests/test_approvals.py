"""Who says yes to a call, where they are, what it is for, and what is left of it when the process ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from fakes.line import Line, lines, opened
from fakes.redis_server import RedisServer
from fakes.toys import Toy, Workshop
from msgspec import structs

from bub import BubFramework, tool
from bub.agent.calls.asking import current_call
from bub.approval import Approval, NotedCall, NotSpentError
from bub.asking import Form, Query
from bub.base.redis.address import StoreAddress
from bub.channels import ChannelManager
from bub.channels.channel import ShownQuestion
from bub.channels.message import ChannelMessage
from bub.envelope import field_of
from bub.inbox import approvals
from bub.inbox.approvals import PARKED_AFTER, Approvals, TurnCalls
from bub.inbox.batch import Batch, as_one, may_steer
from bub.inbox.mailbox import Mailbox
from bub.inbox.manager import SHUTDOWN_GRACE
from bub.inbox.questions import NO, SPENT, YES, AskedQuestion
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.shared.store import Worker
from bub.inbox.store import Received
from bub.tools import Tool

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ADA, BOB = "7", "8"


PIPELINE = """
extends: bub:default
profiles:
  default:
    plugins: [office]
    tools: {{allow: ["*"], ask: [{ask}]}}
    approvers: {{telegram: ["{approver}"]}}
plugins: {{office: {{path: office.py}}}}
"""


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not holds():  # noqa: ASYNC110 (nothing tells of it)
            await trio.sleep(0.01)


class Chat(Line):
    """A chat that shows questions, and in which people answer."""

    def __init__(self) -> None:
        super().__init__("telegram", shows_questions=True)
        self.questions: list[ShownQuestion] = []
        self.closed: list[str] = []

    async def show_question(self, question: ShownQuestion) -> str:
        self.questions.append(question)
        return f"shown {question.id}"

    async def close_question(self, question: ShownQuestion, words: str) -> None:
        assert question.shown == f"shown {question.id}"
        self.closed.append(words)

    async def answer(self, is_yes: bool, by: str, question: str = "") -> str:
        assert self.desk is not None
        name = question or self.questions[-1].id
        return (await self.desk.answer(name, is_yes, channel=self.name, by=by)).words

    async def until_asked(self, count: int = 1) -> ShownQuestion:
        await until(lambda: len(self.questions) >= count)
        return self.questions[-1]


@tool(read_only=True)
async def peek() -> str:
    """Look at something."""
    return "nothing new"


class Office:
    """A chat with an agent that has a tool which changes things; `done` is what it did."""

    def __init__(self, workshop: Workshop, mailbox: Mailbox | None = None) -> None:
        self.workshop = workshop
        self.done: list[str] = []
        self.hangs = False
        self.once = False
        self.read_only = False
        self.more: list[Tool] = []

    def file(self, *, ask: str = "work", approver: str = ADA) -> str:
        return PIPELINE.format(ask=ask, approver=approver)

    def framework(self, chat: Chat, **file: str) -> BubFramework:
        @tool(once=self.once, read_only=self.read_only)
        async def work(what: str) -> str:
            """Do something."""
            self.done.append(what)
            if self.hangs:
                await trio.sleep_forever()
            return f"did {what}"

        office = Toy(provide_channels=lines(chat), provide_tools=lambda: [work, peek, *self.more])
        return self.workshop(self.file(**file), office=office)

    @asynccontextmanager
    async def opened(self, chat: Chat, mailbox: Mailbox | None = None, **file: str) -> AsyncIterator[ChannelManager]:
        async with opened(self.framework(chat, **file), mailbox=mailbox) as manager:
            yield manager


@pytest.fixture
def office(workshop: Workshop) -> Office:
    return Office(workshop)


async def test_what_a_yes_for_a_session_lasts_for_ends_with_a_reload(office: Office) -> None:
    async with office.opened(Chat()) as manager:
        framework = manager._framework  # type: ignore[attr-defined]
        before = framework.rules.loaded
        await trio.to_thread.run_sync(framework.reload)
        assert before not in ("", framework.rules.loaded)


async def test_a_call_runs_once_an_approver_says_yes_where_they_are(office: Office) -> None:
    chat = Chat()
    async with office.opened(chat) as manager:
        await chat.say(",work tidy", sender_id=BOB)
        question = await chat.until_asked()
        assert (question.tool, question.text, question.approvers) == ("work", "  what: tidy", (ADA,))
        assert office.done == []
        assert "said yes to work" in await chat.answer(True, ADA)
        await manager.settled()
    assert office.done == ["tidy"]
    assert chat.said == ["did tidy"]
    assert chat.closed == [f"{question.id}: {ADA} said yes to work."]


def asking(form: Form, came: list[Any]) -> Tool:
    @tool(name="poll")
    async def poll() -> str:
        """Ask something for somebody else, as a server does."""
        call = current_call.get()
        assert call is not None
        came.append((await call.fill(form)).content)
        return "polled"

    return poll


DRAFTS = Form("the server `docs`", "Some are drafts.", (Query("drafts", "confirm", "Drafts, too?"),))


async def test_what_somebody_else_asks_for_a_yes_or_no_is_answered_by_who_wrote_the_message(office: Office) -> None:
    chat, came = Chat(), []
    office.more = [asking(DRAFTS, came)]
    async with office.opened(chat, ask="work") as manager:
        await chat.say(",poll", sender_id=ADA)
        question = await chat.until_asked()
        assert (question.asker, question.tool, question.approvers) == ("the server `docs`", "poll", (ADA,))
        assert question.text == "the server `docs` asks:\n  Some are drafts.\n  Drafts, too?"
        assert "may not answer" in await chat.answer(True, BOB)
        assert await chat.answer(True, ADA) == f"{question.id}: {ADA} said yes to the server `docs`."
        await manager.settled()
        await chat.say(",poll", sender_id=ADA)
        await chat.until_asked(2)  # a yes from before is none to this
        await chat.answer(False, ADA)
        await manager.settled()
        await chat.say(",poll", sender_id=BOB)
        question = await chat.until_asked(3)
        assert question.approvers == ()  # whoever may say yes to calls answers nothing for somebody else
        assert "may not answer" in await chat.answer(True, ADA)
        await chat.say(",quit", sender_id=BOB)
        await manager.settled()
    assert came == [{"drafts": True}, {"drafts": False}]
    assert chat.said[:2] == ["polled", "polled"]


async def test_a_form_with_more_than_a_yes_or_no_is_declined_in_a_chat_that_shows_questions(office: Office) -> None:
    chat, came = Chat(), []
    office.more = [asking(Form("the server `docs`", "Where to?", (Query("city", "text", "City"),)), came)]
    async with office.opened(chat, ask="work") as manager:
        await chat.say(",poll", sender_id=ADA)
        await manager.settled()
    assert came == [None]
    assert chat.questions == []


@pytest.mark.parametrize("minutes", [1, 30])
async def test_who_began_a_turn_is_asked_about_what_it_has_started_though_it_is_over(
    office: Office, minutes: int
) -> None:
    """Half an hour is longer than a turn that waits for a person keeps its place."""
    chat, has_begun, may_go_on = Chat(), trio.Event(), trio.Event()

    @tool
    async def work(what: str) -> str:
        """Do something."""
        office.done.append(what)
        return f"did {what}"

    @tool(read_only=True)
    async def start() -> str:
        """Start a turn that goes on behind this one."""
        nursery.start_soon(framework.process_inbound, {"channel": "telegram", "chat_id": "2", "content": ",work tidy"})
        await has_begun.wait()
        return "started"

    async def load_state(message: Any) -> None:
        if field_of(message, "chat_id") == "2":
            has_begun.set()
            await may_go_on.wait()

    toy = Toy(provide_channels=lines(chat), provide_tools=lambda: [work, start], load_state=load_state)
    framework = office.workshop(office.file(), office=toy)
    async with opened(framework) as manager, trio.open_nursery() as nursery:
        await chat.say(",start")
        await manager.settled()
        assert chat.said == ["started"]
        may_go_on.set()
        await chat.until_asked()
        await trio.sleep(minutes * 60)
        await chat.answer(True, ADA)
        await until(lambda: len(chat.sent) == 2)
    assert office.done == ["tidy"]
    assert chat.said == ["started", "did tidy"]


async def test_a_no_is_told_to_the_agent(office: Office) -> None:
    chat = Chat()
    async with office.opened(chat) as manager:
        await chat.say(",work tidy", sender_id=ADA)
        await chat.until_asked()
        await chat.answer(False, ADA)
        await manager.settled()
    assert office.done == []
    assert chat.said == ["error: the person said no to `work`"]


async def test_nobody_else_and_not_the_asker_because_they_asked_can_say_yes(office: Office) -> None:
    chat = Chat()
    async with office.opened(chat) as manager:
        await chat.say(",work tidy", sender_id=BOB)
        await chat.until_asked()
        for somebody in (BOB, "", "*", "operator"):
            assert "may not answer" in await chat.answer(True, somebody)
        assert office.done == []
        await chat.answer(False, ADA)
        await manager.settled()
    assert office.done == []


async def test_a_second_answer_changes_nothing(office: Office) -> None:
    chat = Chat()
    async with office.opened(chat) as manager:
        await chat.say(",work tidy")
        question = await chat.until_asked()
        await chat.answer(False, ADA)
        assert "said no" in await chat.answer(True, ADA)
        await manager.settled()
        assert "no question" in await chat.answer(True, ADA, question.id)
        assert "no question" in await chat.answer(True, ADA, "q9999")
    assert office.done == []


@pytest.mark.parametrize("changed", [{"ask": '"*"'}, {"approver": BOB}], ids=["rules", "approvers"])
async def test_a_click_that_is_late_says_that_the_file_has_changed(office: Office, changed: dict[str, str]) -> None:
    chat = Chat()
    async with office.opened(chat) as manager:
        await chat.say(",work tidy")
        await chat.until_asked()
        (office.workshop.folder / "pipelines.yaml").write_text("version: 1\n" + office.file(**changed))
        manager._framework.reload()  # type: ignore[attr-defined]
        said = await chat.answer(True, ADA)
        assert ("changed since" in said) if "ask" in changed else ("may not answer" in said)
        if "approver" in changed:
            await chat.say(",quit")
        await manager.settled()
    assert office.done == []


async def test_a_quit_closes_the_question(office: Office) -> None:
    chat = Chat()
    async with office.opened(chat) as manager:
        await chat.say(",work tidy")
        question = await chat.until_asked()
        await chat.say(",quit")
        await manager.settled()
        await trio.sleep(1)
        assert "no question" in await chat.answer(True, ADA)
    assert chat.closed == [f"{question.id} is over: nothing was done."]
    assert office.done == []


async def test_a_question_that_nobody_answers_in_time_is_a_no(office: Office, monkeypatch: Any) -> None:
    monkeypatch.setattr(approvals, "LASTS", 900.0)  # a day takes the test's clock too many steps
    chat = Chat()
    async with office.opened(chat) as manager:
        await chat.say(",work tidy")
        await chat.until_asked()
        await trio.sleep(960)
        await manager.settled()
    assert chat.said == ["error: the person said no to `work`: nobody answered in time"]


async def test_a_question_open_for_ten_minutes_leaves_room_for_another_turn(office: Office) -> None:
    chat = Chat()
    async with office.opened(chat) as manager:
        manager._framework.limit_turns(1)
        await chat.say(",work tidy")
        await chat.until_asked()
        await chat.say(",peek", chat_id="2")
        await trio.sleep(PARKED_AFTER - 60)
        assert chat.sent == []
        await trio.sleep(120)
        assert [message.chat_id for message in chat.sent] == ["2"]
        await chat.say(",peek")  # its own session goes on waiting
        await trio.sleep(60)
        assert len(chat.sent) == 1
        await chat.answer(True, ADA)
        await manager.settled()
    assert [message.chat_id for message in chat.sent] == ["2", "1", "1"]
    assert office.done == ["tidy"]


# An end in order


async def end_in_order(manager: ChannelManager) -> float:
    """End, and say how many seconds of the test's clock that took."""
    began = trio.current_time()
    manager.drain()
    await until(lambda: manager.turns == 0)
    return trio.current_time() - began


async def test_an_end_waits_for_no_person(office: Office) -> None:
    chat = Chat()
    async with office.opened(chat) as manager:
        await chat.say(",work tidy")
        await chat.until_asked()
        assert await end_in_order(manager) < 1
    assert (office.done, chat.said, chat.closed) == ([], [], [])


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_nor_does_the_end_of_a_gateway_that_shares_its_inbox(office: Office, redis: RedisServer) -> None:
    chat = Chat()
    inbox = RedisInbox(StoreAddress.parse(f"{redis.address}?partitions=2&lease=600ms"), "office")
    framework = office.framework(chat)
    async with framework.running(), trio.open_nursery() as tasks:
        manager = ChannelManager(framework, mailbox=inbox, worker=Worker("first"))
        await tasks.start(manager.run)
        await until(lambda: manager.states["telegram"] == "running")
        await chat.say(",work tidy")
        await chat.until_asked()
        began = trio.current_time()
        manager.drain()
    assert trio.current_time() - began < SHUTDOWN_GRACE / 2
    assert (office.done, chat.closed) == ([], [])


async def test_an_end_waits_for_a_call_that_runs_though_it_asks_somebody(office: Office) -> None:
    chat = Chat()
    office.more = [asking(DRAFTS, [])]
    async with office.opened(chat, ask="work") as manager:
        await chat.say(",poll", sender_id=ADA)
        await chat.until_asked()
        assert await end_in_order(manager) >= SHUTDOWN_GRACE


async def test_an_end_waits_for_whoever_cannot_be_asked_yet(office: Office, monkeypatch: Any) -> None:
    """Only the operator could answer it then, and would be asked by nothing."""
    chat = Chat()

    async def fail(question: ShownQuestion) -> str:
        chat.questions.append(question)
        raise OSError("no line")

    monkeypatch.setattr(chat, "show_question", fail)
    async with office.opened(chat) as manager:
        await chat.say(",work tidy")
        await chat.until_asked()
        assert await end_in_order(manager) >= SHUTDOWN_GRACE


@pytest.mark.parametrize(("call_id", "keeps"), [("c1", True), ("c2", False)])
async def test_an_end_waits_for_who_is_asked_about_the_result_of_a_call(
    tmp_path: Path, call_id: str, keeps: bool
) -> None:
    """The turn alone holds what the call brought."""
    store = Mailbox(None, tmp_path)
    await store.open()
    item = await store.receive(ChannelMessage("telegram", "1", "tidy"))
    assert item is not None
    batch, chat = Batch([item], item.message, lambda _: True), Chat()
    async with trio.open_nursery() as nursery:
        approvals = Approvals(None, store, {"telegram": chat}, start_soon=nursery.start_soon)  # type: ignore[arg-type]
        calls = TurnCalls(approvals, chat, batch)
        await calls.begin(CALL, "")
        await calls.end(CALL)
        kept = await store.ask(asked(call_id=call_id, channel="telegram"))
        nursery.start_soon(approvals.wait, kept, batch)
        await chat.until_asked()
        await trio.testing.wait_all_tasks_blocked()
        assert approvals.are_only_asking([batch]) is not keeps
        nursery.cancel_scope.cancel()
    await store.close()


# What is left when the process ends: the inbox of the first manager is taken up by the next one.


async def killed(office: Office, mailbox: Callable[[], Mailbox], until: Callable[[Chat], Any], **file: str) -> Chat:
    """A manager that is cancelled as a kill would, with nothing put in order."""
    chat = Chat()
    with trio.CancelScope() as scope:
        async with office.opened(chat, mailbox(), **file):
            await chat.say(",work tidy")
            await until(chat)
            scope.cancel()
    return chat


@pytest.fixture
def mailbox(tmp_path: Path) -> Callable[[], Mailbox]:
    return lambda: Mailbox(tmp_path / "inbox.db", tmp_path)


@pytest.mark.parametrize("anyio_backend", ["trio"])
class TestAfterACrash:
    async def test_an_open_question_is_taken_up_and_nobody_is_asked_twice(
        self, office: Office, mailbox: Callable[[], Mailbox]
    ) -> None:
        first = await killed(office, mailbox, Chat.until_asked)
        second = Chat()
        async with office.opened(second, mailbox()) as manager:
            question = await second.until_asked()
            assert (question.id, question.shown) == (first.questions[0].id, f"shown {question.id}")
            await second.answer(True, ADA)
            await manager.settled()
        assert office.done == ["tidy"]

    async def test_so_is_one_that_was_open_at_an_end_in_order(
        self, office: Office, mailbox: Callable[[], Mailbox]
    ) -> None:
        first, second = Chat(), Chat()
        async with office.opened(first, mailbox()):
            await first.say(",work tidy")
            await first.until_asked()
        async with office.opened(second, mailbox()) as manager:
            question = await second.until_asked()
            assert (question.id, question.shown) == (first.questions[0].id, f"shown {question.id}")
            await second.answer(True, ADA)
            await manager.settled()
        assert (office.done, first.said, second.said) == (["tidy"], [], ["did tidy"])

    async def test_a_yes_that_was_not_used_up_counts_for_the_same_call(
        self, office: Office, mailbox: Callable[[], Mailbox]
    ) -> None:
        first = await killed(office, mailbox, Chat.until_asked)
        store = mailbox()
        await store.open()
        assert await store.answer(first.questions[0].id, True, "operator")
        await store.close()
        second = Chat()
        async with office.opened(second, mailbox()) as manager:
            await manager.settled()
        assert (office.done, second.questions) == (["tidy"], [])

    async def test_what_was_cut_short_is_not_done_again_without_a_new_yes(
        self, office: Office, mailbox: Callable[[], Mailbox]
    ) -> None:
        office.hangs = True

        async def begun(_: Chat) -> None:
            await until(lambda: bool(office.done))

        await killed(office, mailbox, begun, ask="")
        office.hangs = False
        chat = Chat()
        async with office.opened(chat, mailbox(), ask="") as manager:
            question = await chat.until_asked()
            assert question.is_again
            assert office.done == ["tidy"]
            await chat.answer(True, ADA)
            await manager.settled()
        assert office.done == ["tidy", "tidy"]

    @pytest.mark.parametrize("read_only", [False, True], ids=["it changes something", "it only reads"])
    async def test_what_is_to_be_called_once_is_never_called_again(
        self, office: Office, mailbox: Callable[[], Mailbox], read_only: bool
    ) -> None:
        office.hangs = office.once = True
        office.read_only = read_only

        async def begun(_: Chat) -> None:
            await until(lambda: bool(office.done))

        await killed(office, mailbox, begun, ask="")
        chat = Chat()
        async with office.opened(chat, mailbox(), ask="") as manager:
            await manager.settled()
        assert office.done == ["tidy"]
        assert "never calls this tool twice" in chat.said[0]

    async def test_what_only_reads_is_called_again_without_a_question(
        self, office: Office, mailbox: Callable[[], Mailbox]
    ) -> None:
        office.hangs = office.read_only = True

        async def begun(_: Chat) -> None:
            await until(lambda: bool(office.done))

        await killed(office, mailbox, begun, ask="")
        office.hangs = False
        chat = Chat()
        async with office.opened(chat, mailbox(), ask="") as manager:
            await manager.settled()
        assert (office.done, chat.questions) == (["tidy", "tidy"], [])


# The store


def asked(**more: Any) -> AskedQuestion:
    approval = Approval("s", "work", "schema", "arguments", "default", "rules", until=4e9)
    given = {"approval": approval, "turn": 1, "call_id": "c1", "asked": "what: tidy", **WHERE}
    return AskedQuestion(**{**given, **more})


WHERE: dict[str, Any] = {"channel": "line", "chat_id": "1", "at": 1.0}
CALL = NotedCall("c1", "work", "arguments")


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("other", [NotedCall("c1", "work", "others"), NotedCall("c1", "rest", "arguments")])
async def test_a_yes_counts_for_no_other_call_than_it_was_given_for(tmp_path: Path, other: NotedCall) -> None:
    store = Mailbox(None, tmp_path)
    await store.open()
    kept = await store.ask(asked())
    assert await store.answer(kept.id, True, "operator")
    with pytest.raises(NotSpentError, match="another call"):
        await store.begin_call([1], other, kept.id)
    await store.begin_call([1], CALL, kept.id)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_yes_to_what_somebody_else_asks_counts_for_no_call(tmp_path: Path) -> None:
    store = Mailbox(None, tmp_path)
    await store.open()
    approval = asked().approval
    others = structs.replace(approval, asker="the server `docs`")
    assert others.bound != approval.bound
    kept = await store.ask(asked(approval=others))
    assert await store.answer(kept.id, True, "operator")
    assert (await store.ask(asked())).state == "open"  # it is not taken for a yes to the call
    with pytest.raises(NotSpentError, match="an answer to the server `docs`"):
        await store.begin_call([1], CALL, kept.id)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_call_is_noted_for_all_messages_of_its_turn_or_for_none(tmp_path: Path) -> None:
    store = Mailbox(None, tmp_path)
    await store.open()
    kept = await store.ask(asked())
    with pytest.raises(NotSpentError):
        await store.begin_call([1, 2], CALL, kept.id)
    assert await store.begin([2]) == []
    assert await store.answer(kept.id, True, "operator")
    await store.begin_call([1, 2], CALL, kept.id)
    assert [await store.begin([one]) for one in (1, 2)] == [[CALL], [CALL]]
    await store.end_call([1, 2], CALL)
    assert [call.has_ended for one in (1, 2) for call in await store.begin([one])] == [True, True]


@pytest.mark.parametrize("anyio_backend", ["trio"])
@pytest.mark.parametrize("is_file", [True, False])
async def test_a_yes_is_used_up_with_the_note_that_the_call_begins_or_neither(tmp_path: Path, is_file: bool) -> None:
    store = Mailbox(tmp_path / "inbox.db" if is_file else None, tmp_path)
    await store.open()
    kept = await store.ask(asked())
    for answer in (None, False):
        if answer is not None:
            assert await store.answer(kept.id, answer, "operator")
        with pytest.raises(NotSpentError):
            await store.begin_call([1], CALL, kept.id)
        assert [call.has_begun for call in await store.begin([1])] == ([False] if answer is None else [])
    other = await store.ask(asked(), other_than=[kept.id])
    assert other.id != kept.id
    assert await store.answer(other.id, True, "operator")
    await store.begin_call([1], CALL, other.id)
    assert await store.begin([1]) == [CALL]
    with pytest.raises(NotSpentError):
        await store.begin_call([1], CALL, other.id)
    await store.end_call([1], CALL)
    assert [call.has_ended for call in await store.begin([1])] == [True]
    found = [await store.find_question(one.id) for one in (kept, other)]
    assert [one.state for one in found if one] == [NO, SPENT]
    await store.finish([1])
    assert await store.begin([1]) == []
    assert await store.find_question(other.id) is None
    await store.close()


async def test_a_question_is_taken_up_only_if_it_is_bound_to_just_the_same(tmp_path: Path) -> None:
    store = Mailbox(None, tmp_path)
    await store.open()
    first = await store.ask(asked())
    assert (await store.ask(asked())).id == first.id
    for name in ("session_id", "tool", "schema", "arguments", "profile", "rules", "again"):
        differs: dict[str, Any] = {**{key: getattr(first.approval, key) for key in first.approval.__struct_fields__}}
        differs[name] = True if name == "again" else "another"
        assert (await store.ask(asked(approval=Approval(**differs)))).id != first.id
    assert (await store.ask(asked(turn=2))).id != first.id
    await store.answer(first.id, True, "operator")
    assert (await store.ask(asked())).state == YES
    assert not await store.answer(first.id, False, "operator")
    await store.close()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_call_is_noted_for_each_message_that_its_turn_answers_by_then(tmp_path: Path) -> None:
    """After a crash each of them may be answered by a turn of its own, and none of these steers past the question."""
    store = Mailbox(None, tmp_path)
    await store.open()
    received = [await store.receive(ChannelMessage("line", "1", text)) for text in ("tidy", "and wash")]
    items = [one for one in received if one is not None]
    batch = Batch(items[:1], as_one(items[:1]), lambda _: True)
    calls = TurnCalls(Approvals(None, store, {}, start_soon=None), None, batch)  # type: ignore[arg-type]
    batch.items += items[1:]  # it steered the turn
    await calls.begin(CALL, "")
    assert [(one.attempts, one.has_calls) for one in await store.waiting()] == [(0, True)] * 2
    assert [await store.begin([one.id]) for one in items] == [[CALL]] * 2
    await calls.end(CALL)
    assert [call.has_ended for one in items for call in await store.begin([one.id])] == [True] * 2
    await store.close()


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_message_whose_turn_was_ended_in_the_middle_of_a_call_steers_no_other_one(tmp_path: Path) -> None:
    item = Received(1, ChannelMessage("line", "1", "tidy"), 0, 0.0)
    turn = SimpleNamespace(profile=SimpleNamespace(name="default"), is_judged=False)
    for has_calls in (False, True):
        batch = Batch([replace(item, has_calls=has_calls)], item.message, lambda _: True)
        batch.turn = turn  # type: ignore[assignment]
        assert may_steer(batch, batch) is not has_calls
