"""The durable inbox and outbox: whatever happens to the process, the disk or a caller, nothing is lost or doubled."""

from __future__ import annotations

import gc
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.command_line import SOURCES
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from trio.testing import wait_all_tasks_blocked

from bub.base.database import open_database, transaction
from bub.channels.message import ChannelMessage
from bub.inbox.mailbox import Mailbox, MailboxError, Outgoing, Received, inbox_file
from bub.inbox.sqlite import SqliteInbox

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent
CRASHES = int(os.environ.get("CRASHES", "5"))
"""How often two gateways are killed; `make crash` does it more often."""


def said(content: str, **more: Any) -> ChannelMessage:
    return ChannelMessage(**{"channel": "telegram", "chat_id": "1", "content": content, **more})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return inbox_file(tmp_path / "home")


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, path: Path) -> Path | None:
    return path if request.param == "file" else None


@asynccontextmanager
async def opened(path: Path | None, workspace: Path = ROOT) -> AsyncIterator[Mailbox]:
    box = Mailbox(path, workspace)
    await box.open()
    try:
        yield box
    finally:
        await box.close()


async def post(box: Mailbox, message: ChannelMessage) -> Outgoing:
    """Put a reply into the outbox that no turn made."""
    (outgoing,) = await box.finish((), (message,))
    return outgoing


async def received(box: Mailbox, *contents: str) -> list[Received]:
    found = [await box.receive(said(content)) for content in contents]
    assert None not in found
    return [one for one in found if one is not None]


def contents(found: Sequence[Any]) -> list[str]:
    return [one.message.content for one in found]


def begun(worker: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """A process that has said that it is under way."""
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"ready\n"
    return worker


def python(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another program writes to the file."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    try:
        yield
    finally:
        other.close()


# What it keeps.


async def test_messages_wait_in_the_order_received_until_they_are_finished(place: Path | None) -> None:
    async with opened(place) as box:
        one, two, three = await received(box, "one", "two", "three")
        assert one.id < two.id < three.id
        assert abs(one.at - time.time()) < 60
        assert await box.waiting() == [one, two, three]
        assert await box.finish([one.id, three.id]) == []
        assert await box.waiting() == [two]


async def test_a_message_comes_back_whole_but_for_its_lifespan(place: Path | None) -> None:
    message = said(
        "ü\u2028\0",
        session_id="s",
        sender_id="7",
        kind="command",
        is_active=False,
        context={"a": [1, None, 2.5, {"b": True}]},
        media=[{"kind": "image", "url": "data:"}],
        message_id="m",
        once="u1",
        answers="q",
        draft="d",
        output_channel="cli",
        lifespan=object(),
    )
    async with opened(place) as box:
        kept = await box.receive(message)
        assert kept is not None
        assert kept.message == message
        assert kept.message.lifespan is message.lifespan
        (back,) = await box.waiting()
        assert back.message == message
        assert back.message.lifespan is None
        assert (await post(box, message)).message == message
        (reply,) = await box.outgoing()
        assert reply.message == message


async def test_what_no_encoding_can_carry_costs_a_letter_not_the_message(place: Path | None) -> None:
    async with opened(place) as box:
        kept = await box.receive(said("a\ud800b", once="\ud800", context={"\udfff": "\ud800", "file": Path("x")}))
        assert kept is not None
        assert (kept.message.content, dict(kept.message.context)) == ("a\ufffdb", {"\ufffd": "\ufffd", "file": "x"})
        assert contents(await box.waiting()) == ["a\ufffdb"]
        assert await box.receive(said("again", once="\ud800")) is None
        await box.keep_draft(kept.id, "\ud800")
        await box.set_aside([kept.id], "it said \ud800")


async def test_what_is_no_json_is_refused_and_nothing_of_it_done(place: Path | None) -> None:
    async with opened(place) as box:
        (one,) = await received(box, "one")
        wrongs: list[dict[str, Any]] = [{"context": {"a": object()}}, {"content": 5}, {"media": ["x"]}, {"context": 3}]
        for wrong in wrongs:
            with pytest.raises(MailboxError, match="a message of the channel `telegram` cannot be kept"):
                await box.receive(said(**{"content": "bad", **wrong}))
            with pytest.raises(MailboxError):
                box.as_kept(said(**{"content": "bad", **wrong}))
            with pytest.raises(MailboxError):
                await box.finish([one.id], [said("good"), said(**{"content": "bad", **wrong})])
        assert await box.waiting() == [one]
        assert await box.outgoing() == []


async def test_the_same_update_of_a_channel_is_taken_once(path: Path) -> None:
    async with opened(path) as box:
        first = await box.receive(said("one", once="u1"))
        assert first is not None
        assert await box.receive(said("one", once="u1")) is None
        assert await box.receive(said("one", once="u1", channel="slack")) is not None
        assert await box.receive(said("no name")) is not None
        assert await box.receive(said("no name")) is not None
        await box.finish([first.id])
    async with opened(path) as box:
        assert await box.receive(said("one", once="u1")) is None
    async with opened(path, ROOT / "tests") as box:
        assert await box.receive(said("one", once="u1")) is not None


async def test_the_newest_names_of_each_channel_are_remembered(
    place: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bub.inbox.sqlite.REMEMBERED", 3)
    async with opened(place) as box:
        await box.receive(said("other", channel="slack", once="1"))
        for name in "12345":
            assert await box.receive(said("x", once=name)) is not None
        for name in "345":
            assert await box.receive(said("x", once=name)) is None
        assert await box.receive(said("x", once="2")) is not None
        assert await box.receive(said("other", channel="slack", once="1")) is None


async def test_attempts_are_counted_before_a_turn_and_given_back_by_a_shutdown(path: Path) -> None:
    async with opened(path) as box:
        one, two = await received(box, "one", "two")
        await box.begin([one.id, two.id])
        await box.begin([one.id])
        await box.give_back([two.id])
        await box.give_back([two.id])  # never below none
    async with opened(path) as box:
        assert [each.attempts for each in await box.waiting()] == [2, 0]


async def test_a_message_keeps_the_draft_that_shows_its_answer(path: Path) -> None:
    async with opened(path) as box:
        (one,) = await received(box, "one")
        await box.keep_draft(one.id, "17")
        await box.keep_draft(one.id, "18")
    async with opened(path) as box:
        assert await box.waiting() == [replace(one, message=replace(one.message, draft="18"))]


async def test_replies_wait_in_order_until_they_are_delivered(path: Path) -> None:
    async with opened(path) as box:
        (one,) = await received(box, "one")
        first, second = await box.finish([one.id], [said("first", draft="d"), said("second")])
        third = await post(box, said("third"))
        assert (first.attempts, first.not_before) == (0, 0.0)
        await box.put_off(first.id, not_before=12.5)
        await box.mark_delivered(second.id)
    async with opened(path) as box:
        assert await box.waiting() == []
        assert await box.outgoing() == [replace(first, attempts=1, not_before=12.5), third]


async def test_what_was_set_aside_is_kept_out_of_the_way(place: Path | None) -> None:
    async with opened(place) as box:
        one, two = await received(box, "one", "two")
        reply = await post(box, said("reply"))
        (sorry,) = await box.set_aside([one.id], "its turn died three times", [said("sorry")])
        await box.undeliverable(reply.id, "the chat is gone")
        assert await box.waiting() == [two]
        assert await box.outgoing() == [sorry]


async def test_no_id_is_given_twice(path: Path) -> None:
    ids: list[int] = []
    for _ in range(2):
        async with opened(path) as box:
            (one,) = await received(box, "one")
            (reply,) = await box.finish([one.id], [said("reply")])
            await box.mark_delivered(reply.id)
            ids += [one.id, reply.id]
    assert ids == [1, 1, 2, 2]


async def test_workspaces_share_a_file_and_see_nothing_of_each_other(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ROOT)
    async with opened(path) as ours, opened(path, tmp_path) as theirs:
        await received(ours, "ours")
        await post(theirs, said("theirs"))
        assert contents(await ours.waiting()) == ["ours"]
        assert await theirs.waiting() == []
        assert await ours.outgoing() == []
    async with opened(path, tmp_path / "link") as ours:
        assert contents(await ours.waiting()) == ["ours"]


async def test_a_change_by_somebody_else_is_noticed_once(path: Path, tmp_path: Path) -> None:
    async with opened(path) as box, opened(path, tmp_path) as neighbour:
        (one,) = await received(box, "one")
        await box.set_aside([one.id], "why not")
        await received(neighbour, "nothing that concerns us")
        assert not await box.was_requeued()
        beside = SqliteInbox(path, ROOT)
        beside.open()
        beside.alone(lambda: beside.retry("message", [one.id]))
        beside.close()
        assert await box.was_requeued()
        assert not await box.was_requeued()
        assert not await neighbour.was_requeued()
        assert await box.waiting() == [one]


async def test_the_inbox_is_for_its_owner_only(path: Path) -> None:
    async with opened(path) as box:
        await received(box, "one")
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_what_was_kept_outlives_a_power_cut(path: Path) -> None:
    async with opened(path) as box:
        assert box._store._db.execute("pragma synchronous").fetchone() == (2,), "each commit waits for the disk"


async def test_a_row_that_somebody_spoilt_is_set_aside(path: Path) -> None:
    async with opened(path) as box:
        spoilt = await received(box, *(f"m{number}" for number in range(8)))
        (good,) = await received(box, "good")
        bad, fine = await box.finish([], [said("bad"), said("fine")])
    with closing(sqlite3.connect(path)) as db, db:
        for one, change in zip(
            spoilt,
            (
                "body = '{'", "body = '[]'", "body = x'ff'", "body = 5", "body = '" + "[" * 5000 + "'",
                "attempts = 'many'", "at = 'noon'", "body = cast(x'7b22ff' as text)",
            ),
            strict=True,
        ):  # fmt: skip
            db.execute(f"update messages set {change} where id = ?", (one.id,))
        db.execute("update replies set not_before = 'noon' where id = ?", (bad.id,))
    async with opened(path) as box:
        assert await box.waiting() == [good]
        assert await box.outgoing() == [fine]
    with closing(sqlite3.connect(path)) as db:
        reasons = db.execute("select reason from messages where reason is not null").fetchall()
        assert len(reasons) == len(spoilt)
        assert all("cannot be read" in reason for (reason,) in reasons)


# Many at once.


async def test_those_who_ask_at_the_same_time_share_a_transaction(path: Path) -> None:
    statements: list[str] = []
    async with opened(path) as box:
        await received(box, *("waiting" for _ in range(10)))
        box._store._db.set_trace_callback(statements.append)
        kept: list[int] = []

        async def one(number: int) -> None:
            got = await box.receive(said(str(number), once=str(number)))
            assert got is not None
            kept.append(got.id)

        began = time.process_time()
        async with trio.open_nursery() as nursery:
            for number in range(1000):
                nursery.start_soon(one, number)
        worked = time.process_time() - began
        box._store._db.set_trace_callback(None)
        assert len(set(kept)) == 1000
    assert sum("commit" in statement.lower() for statement in statements) <= 5
    assert worked < 1, "a millisecond a message is plenty"


async def test_one_that_fails_takes_no_other_along_and_leaves_nothing_half_done(path: Path) -> None:
    async with opened(path) as box:
        kept = await received(box, "one", "two")
        failed: list[MailboxError] = []

        async def fail(number: int) -> None:
            wrong: Any = object()
            with pytest.raises(MailboxError) as caught:
                await box.finish([kept[number].id, wrong], [said("never")])
            failed.append(caught.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(post, box, said("a"))
            nursery.start_soon(fail, 0)
            nursery.start_soon(box.receive, said("three"))
            nursery.start_soon(fail, 1)
            nursery.start_soon(post, box, said("b"))
        assert len(failed) == 2
        assert contents(await box.waiting()) == ["one", "two", "three"]
        assert sorted(contents(await box.outgoing())) == ["a", "b"]


async def test_who_is_cancelled_before_has_asked_nothing(place: Path | None) -> None:
    async with opened(place) as box:
        with trio.CancelScope() as scope:
            scope.cancel()
            await box.receive(said("one"))
        assert scope.cancelled_caught
        assert await box.waiting() == []


async def test_what_is_under_way_is_done_whoever_is_cancelled(path: Path) -> None:
    """The first leads the transaction, the others are in line; another program holds the file meanwhile."""
    async with opened(path) as box:
        scopes = {name: trio.CancelScope() for name in ("leads", "cancelled", "stays")}
        kept: list[str] = []

        async def one(name: str) -> None:
            with scopes[name]:
                got = await box.receive(said(name))
                assert got is not None
                kept.append(name)

        async with trio.open_nursery() as nursery:
            with held(path):
                nursery.start_soon(one, "leads")
                await wait_all_tasks_blocked()
                nursery.start_soon(one, "cancelled")
                nursery.start_soon(one, "stays")
                await wait_all_tasks_blocked()
                scopes["leads"].cancel()
                scopes["cancelled"].cancel()
                await wait_all_tasks_blocked()
                assert kept == []
        assert sorted(kept) == ["cancelled", "leads", "stays"]
        assert sorted(contents(await box.waiting())) == sorted(kept)


# Law and order.


@dataclass(slots=True)
class Kept:
    """What a plain model knows of a message or a reply."""

    content: str
    attempts: int = 0
    draft: str = ""
    not_before: float = 0.0
    aside: bool = False


some = st.lists(st.integers(0, 30), max_size=3)
a_text = st.text(st.characters(codec="utf-8"), max_size=5)


class MailboxMachine(RuleBasedStateMachine):
    """Whatever is asked in whatever order, the mailbox knows what two dictionaries know."""

    folder: Path

    @initialize()
    def begin_anew(self) -> None:
        self.path = self.folder / f"{time.monotonic_ns()}.db"
        self.messages: dict[int, Kept] = {}
        self.replies: dict[int, Kept] = {}
        self.names: set[str] = set()
        self._open()

    def _open(self) -> None:
        self.box = Mailbox(self.path, ROOT)
        trio.run(self.box.open)

    def _ask(self, method: Callable[..., Awaitable[Any]], *given: Any) -> Any:
        async def ask() -> Any:
            return await method(*given)

        return trio.run(ask)

    def _pick(self, among: dict[int, Kept], numbers: list[int], *, aside: bool = False) -> list[int]:
        able = [key for key, kept in among.items() if kept.aside == aside]
        return list(dict.fromkeys(able[number % len(able)] for number in numbers)) if able else []

    @rule(content=a_text, once=st.sampled_from(["", "", "a", "b", "c"]))
    def receive(self, content: str, once: str) -> None:
        kept = self._ask(self.box.receive, said(content, once=once))
        assert (kept is None) == (once in self.names)
        if kept is not None:
            assert kept.id not in self.messages
            self.messages[kept.id] = Kept(content)
        self.names |= {once} - {""}

    @rule(numbers=some)
    def begin(self, numbers: list[int]) -> None:
        ids = self._pick(self.messages, numbers)
        self._ask(self.box.begin, ids)
        for key in ids:
            self.messages[key].attempts += 1

    @rule(numbers=some)
    def give_back(self, numbers: list[int]) -> None:
        ids = [key for key in self._pick(self.messages, numbers) if self.messages[key].attempts]
        self._ask(self.box.give_back, ids)
        for key in ids:
            self.messages[key].attempts -= 1

    @rule(numbers=some, draft=a_text)
    def keep_draft(self, numbers: list[int], draft: str) -> None:
        for key in self._pick(self.messages, numbers[:1]):
            self._ask(self.box.keep_draft, key, draft)
            self.messages[key].draft = draft

    @rule(numbers=some, replies=st.lists(a_text, max_size=2))
    def finish(self, numbers: list[int], replies: list[str]) -> None:
        ids = self._pick(self.messages, numbers)
        out = self._ask(self.box.finish, ids, [said(reply) for reply in replies])
        for key in ids:
            del self.messages[key]
        assert not {one.id for one in out} & set(self.replies)
        self.replies |= {one.id: Kept(reply) for one, reply in zip(out, replies, strict=True)}

    @rule(numbers=some)
    def deliver(self, numbers: list[int]) -> None:
        for key in self._pick(self.replies, numbers[:1]):
            self._ask(self.box.mark_delivered, key)
            del self.replies[key]

    @rule(numbers=some, moment=st.floats(0, 1e9))
    def put_off(self, numbers: list[int], moment: float) -> None:
        for key in self._pick(self.replies, numbers[:1]):
            self._ask(partial(self.box.put_off, key, not_before=moment))
            self.replies[key].attempts += 1
            self.replies[key].not_before = moment

    @rule(numbers=some)
    def set_aside(self, numbers: list[int]) -> None:
        ids = self._pick(self.messages, numbers)
        self._ask(self.box.set_aside, ids, "why not")
        for key in ids:
            self.messages[key].aside = True

    @rule(numbers=some)
    def undeliverable(self, numbers: list[int]) -> None:
        for key in self._pick(self.replies, numbers[:1]):
            self._ask(self.box.undeliverable, key, "why not")
            self.replies[key].aside = True

    @rule(numbers=some, of_messages=st.booleans(), drop=st.booleans())
    def decide(self, numbers: list[int], of_messages: bool, drop: bool) -> None:
        among = self.messages if of_messages else self.replies
        ids = self._pick(among, numbers, aside=True)
        beside = SqliteInbox(self.path, ROOT)
        beside.open()
        change = beside.drop if drop else beside.retry
        beside.alone(lambda: change("message" if of_messages else "reply", ids))
        beside.close()
        for key in ids:
            if drop:
                del among[key]
            else:
                among[key].aside, among[key].attempts, among[key].not_before = False, 0, 0.0
        assert self._ask(self.box.was_requeued)
        assert not self._ask(self.box.was_requeued)

    @rule()
    def restart(self) -> None:
        trio.run(self.box.close)
        self._open()

    @invariant()
    def it_knows_what_the_model_knows(self) -> None:
        if not hasattr(self, "box"):
            return
        waiting, outgoing = self._ask(self.box.waiting), self._ask(self.box.outgoing)
        assert [(one.id, Kept(one.message.content, one.attempts, one.message.draft)) for one in waiting] == [
            (key, kept) for key, kept in sorted(self.messages.items()) if not kept.aside
        ]
        assert [(one.id, Kept(one.message.content, one.attempts, "", one.not_before)) for one in outgoing] == [
            (key, kept) for key, kept in sorted(self.replies.items()) if not kept.aside
        ]

    def teardown(self) -> None:
        if hasattr(self, "box"):
            trio.run(self.box.close)


def test_whatever_is_asked_it_knows_what_a_plain_model_knows(tmp_path: Path) -> None:
    MailboxMachine.folder = tmp_path
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        MailboxMachine,
        settings=settings(
            max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


# What happens to the file.


async def test_only_one_gateway_works_on_a_workspace(path: Path) -> None:
    async with opened(path) as box:
        await received(box, "one")
        with pytest.raises(MailboxError) as caught:
            await Mailbox(path, ROOT / "." / "tests" / "..").open()
        assert str(caught.value) == f"another gateway works on {ROOT} (process {os.getpid()})"
        assert caught.value.help == "end it, or name another --workspace"
    async with opened(path):
        pass


HOLDER = """
import sys
from pathlib import Path
import trio
from bub.inbox.mailbox import Mailbox
from bub.base.database import open_database, transaction
from bub.channels.message import ChannelMessage

async def hold():
    box = Mailbox(Path(sys.argv[1]), Path(sys.argv[2]))
    await box.open()
    kept = await box.receive(ChannelMessage(content="one"))
    await box.begin([kept.id])
    print("ready", flush=True)
    await trio.sleep_forever()

trio.run(hold)
"""


async def test_a_gateway_that_was_killed_leaves_nothing_locked_and_its_attempt_counted(path: Path) -> None:
    holder = begun(python(HOLDER, path, ROOT))
    try:
        with pytest.raises(MailboxError, match=f"process {holder.pid}"):
            await Mailbox(path, ROOT).open()
    finally:
        holder.kill()
        holder.communicate(timeout=30)
    async with opened(path) as box:
        assert [(one.message.content, one.attempts) for one in await box.waiting()] == [("one", 1)]


async def test_a_mailbox_that_is_closed_says_so(place: Path | None) -> None:
    box = Mailbox(place, ROOT)
    with pytest.raises(MailboxError, match="not open"):
        await box.waiting()
    async with opened(place) as box:
        pass
    await box.close()
    with pytest.raises(MailboxError, match="not open"):
        await box.receive(said("one"))


async def test_closing_waits_for_what_was_asked(path: Path) -> None:
    async with opened(path) as box, trio.open_nursery() as nursery:
        with held(path):
            nursery.start_soon(box.receive, said("one"))
            await wait_all_tasks_blocked()
            nursery.start_soon(box.receive, said("two"))
            await wait_all_tasks_blocked()
            nursery.start_soon(box.close)
            await wait_all_tasks_blocked()
    async with opened(path) as box:
        assert contents(await box.waiting()) == ["one", "two"]


async def test_a_file_that_cannot_be_used_is_told(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(parents=True)
    text, newer, nowhere = path.with_name("text.db"), path.with_name("newer.db"), path.with_name("text.db") / "x.db"
    text.write_text("this is no database, " * 100)
    with closing(sqlite3.connect(newer)) as db:
        db.execute("pragma user_version = 99")
    for file, remedy in (
        (text, "move the file away"), (newer, "update Bub"), (nowhere, "make the folder"), (tmp_path, "see that")
    ):  # fmt: skip
        with pytest.raises(MailboxError) as caught:
            await Mailbox(file, ROOT).open()
        assert str(file.with_suffix("") if file == nowhere else file) in str(caught.value)
        assert remedy in str(caught.value.help)
        with pytest.raises(MailboxError):  # and nothing of the first attempt is left locked
            await Mailbox(file, ROOT).open()


async def test_a_file_that_another_program_holds_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bub.inbox.sqlite.PATIENCE", 0.05)
    async with opened(path) as box:
        with held(path):
            for _ in range(2):
                with pytest.raises(MailboxError, match="locked") as caught:
                    await box.receive(said("one", once="1"))
                assert caught.value.help == "another program holds the file; end it, or try again"
        await box.receive(said("one", once="1"))
        assert contents(await box.waiting()) == ["one"]


async def test_a_disk_that_does_not_answer_keeps_nobody_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unanswered: list[str] = []
    async with opened(path) as box:
        monkeypatch.setattr("bub.inbox.mailbox.GIVEN_UP", 0.05)

        async def ask(content: str) -> None:
            with pytest.raises(MailboxError, match=r"has not answered for 0\.05 seconds"):
                await box.receive(said(content))
            unanswered.append(content)

        with held(path):
            async with trio.open_nursery() as nursery:
                for content in ("leads", "in line", "in line, too"):
                    nursery.start_soon(ask, content)
        assert len(unanswered) == 3
        monkeypatch.setattr("bub.inbox.mailbox.GIVEN_UP", 10)
        await received(box, "later")
        assert contents(await box.waiting())[-1] == "later"


def test_a_disk_that_is_full_costs_nothing_that_was_received_and_heals(path: Path) -> None:
    script = """
import resource, signal, sys
from pathlib import Path
import trio
from bub.inbox.mailbox import Mailbox, MailboxError
from bub.base.database import open_database, transaction
from bub.channels.message import ChannelMessage

async def work():
    box = Mailbox(Path(sys.argv[1]), Path(sys.argv[2]))
    await box.open()
    one = await box.receive(ChannelMessage(content="one"))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    told = []

    async def receive(content):
        try:
            await box.receive(ChannelMessage(content=content, once=content[:5]))
        except MailboxError as error:
            told.append(content[:3])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(receive, "leads")
        for content in ("big" * 1_000_000, "two", "BIG" * 1_000_000):
            nursery.start_soon(receive, content)
    print(sorted(told), sorted(kept.message.content for kept in await box.waiting()))
    await box.finish([one.id], [ChannelMessage(content="reply")])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await receive("big" * 1_000_000)
    print(sorted(len(kept.message.content) for kept in await box.waiting()), len(await box.outgoing()))
    await box.close()

trio.run(work)
"""
    worker = python(script, path, ROOT)
    out, _ = worker.communicate(timeout=60)
    assert out.decode().splitlines() == ["['BIG', 'big'] ['leads', 'one', 'two']", "[3, 5, 3000000] 1"]


# Death.

WORKER = """
import gc
import os
import random
import sys
from pathlib import Path

import trio
from bub.inbox.mailbox import Mailbox
from bub.base.database import open_database, transaction
from bub.channels.message import ChannelMessage

path, folder, most = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
OFFSET, SENT = folder / "offset", folder / "sent"


async def work():
    box = Mailbox(path, folder)
    await box.open()
    turns_in, turns = trio.open_memory_channel(100_000)
    replies_in, replies = trio.open_memory_channel(100_000)
    under_way = 0

    def take_turn(received):
        nonlocal under_way
        under_way += 1
        turns_in.send_nowait(received)

    for received in await box.waiting():
        take_turn(received)
    for outgoing in await box.outgoing():
        under_way += 1
        replies_in.send_nowait(outgoing)

    async def source():
        # Like a server of messages: what was not confirmed comes again, and some of what was.
        offset = int(OFFSET.read_text()) if OFFSET.exists() else 0
        for first in range(max(0, offset - 3), most, 4):
            async with trio.open_nursery() as nursery:
                for number in range(first, min(first + 4, most)):
                    nursery.start_soon(come, number)
            new = OFFSET.with_suffix(".new")
            new.write_text(str(min(first + 4, most)))
            new.replace(OFFSET)
            while under_way > 20:
                await trio.sleep(0.001)

    async def come(number):
        message = ChannelMessage(channel="c", chat_id=str(number % 7), content=str(number), once=str(number))
        received = await box.receive(message)
        if received is not None:
            take_turn(received)

    async def lane():
        async for received in turns:
            await box.begin([received.id])
            await box.keep_draft(received.id, f"draft of {received.message.content}")
            said = f"{received.message.content} {random.random()}"
            for outgoing in await box.finish([received.id], [ChannelMessage(content=said)]):
                replies_in.send_nowait(outgoing)

    async def sender():
        async for outgoing in replies:
            with SENT.open("a") as sent:
                sent.write(f"{outgoing.message.content}\\n")
            await box.mark_delivered(outgoing.id)
            nonlocal under_way
            under_way -= 1

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(lane)
        nursery.start_soon(sender)
        print("ready", flush=True)
        await source()
        while under_way:
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    await box.close()


trio.run(work)
"""


@pytest.mark.timeout(60 + 20 * CRASHES)  # `make crash` has 200
def test_nothing_is_lost_or_answered_twice_after_kill_9_of_two_gateways(path: Path, tmp_path: Path) -> None:
    """Two gateways work on one file, each on its workspace; both are killed again and again, at random moments."""
    chance = random.Random(6)
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    for _ in range(CRASHES):
        workers = [begun(python(WORKER, path, folder, 1_000_000)) for folder in folders]
        time.sleep(chance.random() * 0.1)
        for worker in workers:
            worker.send_signal(signal.SIGKILL)
        for worker in workers:
            worker.communicate(timeout=30)
            assert worker.returncode == -signal.SIGKILL, "it ended by itself"

    received = repeated = 0
    for folder in folders:
        most = int((folder / "offset").read_text()) + 4  # what was kept beyond comes once more
        worker = python(WORKER, path, folder, most)
        worker.communicate(timeout=60)
        assert worker.returncode == 0
        sent = Counter((folder / "sent").read_text().splitlines())
        answers = Counter(line.split()[0] for line in sent)
        assert set(answers) >= {str(number) for number in range(most)}, "a message was lost"
        assert set(answers.values()) == {1}, "a message was answered twice, with different texts"
        repeated += sent.total() - len(sent)
        received += len(answers)
    assert repeated <= 2 * CRASHES, "a crash costs one repeat of the same text at most"
    print(f"{CRASHES} crashes of two gateways, {received} messages, each answered; {repeated} repeats of the same text")


def test_a_transaction_that_is_left_behind_says_nothing_when_it_is_collected(tmp_path: Path) -> None:
    """Ctrl-C can come between its beginning and the `with`; what warns here ends the test."""
    db = open_database(tmp_path / "x.db", "create table x (y);", 1, synchronous="normal", patience=1)
    left = transaction(db)
    left.__enter__()
    db.close()
    del left
    gc.collect()


def test_a_transaction_that_fails_is_undone(tmp_path: Path) -> None:
    db = open_database(tmp_path / "x.db", "create table x (y);", 1, synchronous="normal", patience=1)
    with closing(db):
        with suppress(ZeroDivisionError), transaction(db):
            db.execute("insert into x values (1)")
            _ = 1 / 0
        with transaction(db):
            db.execute("insert into x values (2)")
        assert db.execute("select y from x").fetchall() == [(2,)]
