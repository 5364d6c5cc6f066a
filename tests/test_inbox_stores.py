"""The inbox as one state machine, and the contract of every store behind it (`bub/inbox/store.py`)."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.line import Line
from fakes.redis_server import RedisServer
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bub.base.counts import Counts
from bub.base.redis.address import StoreAddress
from bub.base.surfaces import Surface
from bub.channels import ChannelMessage, UndeliverableError
from bub.inbox.ledger import Ledger
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.outbox import Outbox
from bub.inbox.schedules.firing import Firing, Followed
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.sqlite import REMEMBERED, SqliteInbox
from bub.inbox.state import OF_MESSAGES, OF_REPLIES, TRANSITIONS, Entries, IllegalTransitionError, State
from bub.inbox.store import FencedError, InboxStore, MailboxError

pytestmark = pytest.mark.anyio

OF_TODAY = Path(__file__).parent / "fixtures" / "inbox_dbe7fbc.sql"
"""What the inbox of the commit dbe7fbc left on the disk."""

Open = Callable[[], InboxStore]


def said(content: str, **more: Any) -> ChannelMessage:
    return ChannelMessage(**{"channel": "line", "chat_id": "1", "content": content, **more})


def contents(found: Any) -> list[str]:
    return [one.message.content for one in found]


@asynccontextmanager
async def opened(store: InboxStore) -> AsyncIterator[InboxStore]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


# The contract: it holds for the file of the gateway and for the memory of `bub chat`


class LonelyInbox(RedisInbox):
    """A store of many, which one process has claimed as a whole."""

    async def open(self) -> None:
        await super().open()
        for name in ("channel:line", "channel:post", "partition:0", "partition:1"):
            lease = await self.leases.take(name, "alone")
            assert lease is not None
            await (self.claim_partition if name.startswith("partition") else self.claim_channel)(lease)

    async def close(self) -> None:
        for lease in self._claims.all():
            await self.drop_claim(lease)
        await super().close()


@pytest.fixture(params=["file", "memory", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> InboxStore:
    if request.param == "redis":
        redis: RedisServer = request.getfixturevalue("redis")
        return LonelyInbox(StoreAddress.parse(f"{redis.socket_address}?partitions=2"), "alone")
    path = inbox_file(tmp_path / "home") if request.param == "file" else None
    return Mailbox(path, tmp_path)


async def test_a_claim_gives_what_waits_in_its_partitions_in_order(store: InboxStore) -> None:
    async with opened(store):
        for content, channel in (("one", "line"), ("two", "post"), ("three", "line")):
            await store.receive(said(content, channel=channel))
        await store.finish((), [said("first"), said("elsewhere", channel="post"), said("second")])
        claim = await store.claim({"line"})
        assert (contents(claim.messages), contents(claim.replies)) == (["one", "three"], ["first", "second"])
        assert [one.id for one in claim.messages] == sorted(one.id for one in claim.messages)
        assert contents((await store.claim({"line", "post"})).messages) == ["one", "two", "three"]
        assert contents((await store.claim(())).messages) == []


async def test_what_is_fetched_by_its_ids_is_what_still_waits_in_order(store: InboxStore) -> None:
    async with opened(store):
        ids = []
        for content in ("one", "two", "three", "four"):
            received = await store.receive(said(content))
            assert received is not None
            ids.append(received.id)
        await store.finish(ids[1:2])
        await store.set_aside(ids[3:], "its turn died three times")
        await store.begin(ids[:1])
        found = await store.fetch([*reversed(ids), 1 << 40])
        assert [(one.message.content, one.attempts) for one in found] == [("one", 1), ("three", 0)]
        assert await store.fetch([]) == []


async def test_who_claims_again_goes_on_under_the_same_token(store: InboxStore) -> None:
    async with opened(store):
        first, second = await store.claim({"line"}), await store.claim({"post"})
        assert first.token == second.token
        await store.begin([], token=first.token)


@pytest.mark.parametrize("method", ["begin", "give_back", "finish", "set_aside"])
async def test_a_claim_that_is_over_changes_nothing(store: InboxStore, tmp_path: Path, method: str) -> None:
    """What was claimed before the store was closed may be somebody else's by now."""
    async with opened(store):
        old = (await store.claim({"line"})).token
    async with opened(store):
        received = await store.receive(said("hello"))
        assert received is not None
        change: dict[str, Callable[..., Awaitable[Any]]] = {
            "begin": store.begin,
            "give_back": store.give_back,
            "finish": partial(store.finish, replies=[said("never")]),
            "set_aside": partial(store.set_aside, reason="never", replies=[said("never")]),
        }
        for token in (old, "", "somebody else's"):
            with pytest.raises(FencedError):
                await change[method]([received.id], token=token)
        claim = await store.claim({"line"})
        assert (claim.messages, claim.replies) == ((received,), ())
        await change[method]([received.id], token=claim.token)


async def test_a_token_of_another_store_is_none_of_this_one(store: InboxStore, tmp_path: Path) -> None:
    async with opened(store), opened(Mailbox(None, tmp_path)) as other:
        foreign = (await other.claim({"line"})).token
        with pytest.raises(FencedError):
            await store.begin([], token=foreign)


async def test_attempts_are_counted_and_given_back(store: InboxStore) -> None:
    async with opened(store):
        received = await store.receive(said("hello"))
        assert received is not None
        counted = []
        for change in (store.begin, store.begin, store.give_back, store.give_back, store.give_back):
            await change([received.id])
            counted.append((await store.claim({"line"})).messages[0].attempts)
        assert counted == [1, 2, 1, 0, 0]


async def test_a_message_that_is_finished_or_set_aside_is_replied_to_once(store: InboxStore) -> None:
    async with opened(store):
        one, two = await store.receive(said("one")), await store.receive(said("two"))
        assert one is not None
        assert two is not None
        assert contents(await store.finish([one.id], [said("re one")])) == ["re one"]
        assert await store.finish([one.id], [said("re one")]) == []
        assert contents(await store.set_aside([two.id], "why", [said("sorry")])) == ["sorry"]
        assert await store.set_aside([two.id], "why", [said("sorry")]) == []
        claim = await store.claim({"line"})
        assert (claim.messages, contents(claim.replies)) == ((), ["re one", "sorry"])


async def test_a_reply_stays_until_it_is_delivered_or_set_aside(store: InboxStore) -> None:
    async with opened(store):
        one, two, three = await store.finish((), [said("one"), said("two"), said("three")])
        await store.mark_delivered(one.id)
        await store.put_off(two.id, not_before=7.0)
        await store.undeliverable(three.id, "blocked")
        (left,) = (await store.claim({"line"})).replies
        assert (left.message.content, left.attempts, left.not_before) == ("two", 1, 7.0)


async def test_what_is_named_is_received_once(store: InboxStore) -> None:
    async with opened(store):
        assert await store.receive(said("hello", once="1")) is not None
        assert await store.receive(said("hello", once="1")) is None
        assert await store.receive(said("hello", once="1", channel="post")) is not None


async def test_a_message_that_is_known_by_its_name_still_waits_until_it_is_done_with_or_set_aside(
    store: InboxStore,
) -> None:
    finished, aside, other = said("a", once="1 ☃\ud800"), said("b", once="2"), said("c", once="1", chat_id="2")
    async with opened(store):
        ids = []
        for one in (finished, aside, other):
            received = await store.receive(one)
            assert received is not None
            assert await store.receive(one) is None
            ids.append(received.id)
        assert [await store.still_waits(one) for one in (finished, aside, other)] == [True] * 3
        await store.begin(ids)
        await store.finish(ids[:1])
        await store.set_aside(ids[1:2], "its turn died three times")
        assert [await store.still_waits(one) for one in (finished, aside, other)] == [False, False, True]
        assert not await store.still_waits(said("d", once="never"))


async def test_a_draft_and_a_message_come_back_as_they_were_kept(store: InboxStore) -> None:
    async with opened(store):
        message = said("hello", context={"who": "Zoë"}, media=[{"kind": "image"}], is_active=False)
        received = await store.receive(message)
        assert received is not None
        assert received.message == store.as_kept(message)
        await store.keep_draft(received.id, "d7")
        (kept,) = (await store.claim({"line"})).messages
        assert (kept.message.draft, kept.message.context, kept.message.is_active) == ("d7", {"who": "Zoë"}, False)


async def test_a_reply_under_way_comes_back_with_what_its_channel_noted_of_it(store: InboxStore) -> None:
    async with opened(store):
        (reply,) = await store.finish((), [said("hello", context={"who": "Zoë"})])
        await store.keep_reply_draft(reply.id, "two of three")
        (kept,) = (await store.claim({"line"})).replies
        assert (kept.message.content, kept.message.draft) == ("hello", "two of three")
        assert kept.message.context == {"who": "Zoë"}


async def test_each_channel_remembers_its_own_notes_the_newest_of_each_name(store: InboxStore) -> None:
    async with opened(store):
        assert await store.recall("line") == {}
        for channel, name, value in (
            ("line", "7", "1"),
            ("line", "8", "2"),
            ("post", "7", "3"),
            ("line", "7", "\ud800"),
        ):
            store.remember(channel, name, value)
        assert await store.recall("line") == {"8": "2", "7": "\ufffd"}
        assert await store.recall("post") == {"7": "3"}


async def test_a_note_is_kept_before_what_is_kept_next(tmp_path: Path) -> None:
    async with opened(Mailbox(inbox_file(tmp_path), tmp_path)) as store:
        store.remember("line", "7", "12")
        await store.receive(said("hello"))
        beside = SqliteInbox(inbox_file(tmp_path), tmp_path)
        beside.open()
        assert beside.alone(lambda: beside.recall("line")) == {"7": "12"}
        beside.close()
        store.remember("line", "8", "13")
    async with opened(Mailbox(inbox_file(tmp_path), tmp_path)) as store:
        assert await store.recall("line") == {"7": "12", "8": "13"}


async def test_a_note_that_the_disk_refuses_is_kept_later(tmp_path: Path) -> None:
    async with opened(Mailbox(inbox_file(tmp_path), tmp_path)) as store:
        await store.recall("line")
        with sqlite3.connect(inbox_file(tmp_path)) as db:
            db.execute("create trigger full before insert on notes begin select raise(abort, 'full'); end")
        store.remember("line", "7", "12")
        store.remember("line", "8", "12")
        await store.receive(said("hello"))
        store.remember("line", "7", "13")
        with sqlite3.connect(inbox_file(tmp_path)) as db:
            db.execute("drop trigger full")
        assert await store.recall("line") == {"8": "12", "7": "13"}


async def test_the_oldest_notes_of_a_channel_are_forgotten(store: InboxStore) -> None:
    async with opened(store):
        store.remember("line", "first", "old")
        store.remember("line", "second", "old")
        for number in range(REMEMBERED - 2):
            store.remember("line", str(number), "old")
        store.remember("line", "first", "new")
        store.remember("line", "last", "new")
        notes = await store.recall("line")
        assert (len(notes), notes["first"], "second" in notes) == (REMEMBERED, "new", False)


async def test_a_message_that_cannot_be_kept_is_refused_and_the_next_one_is_kept(store: InboxStore) -> None:
    unkeepable = said("hello", context={"what": object()})
    async with opened(store):
        with pytest.raises(MailboxError, match="cannot be kept"):
            store.as_kept(unkeepable)
        with pytest.raises(MailboxError, match="cannot be kept"):
            await store.receive(unkeepable)
        await store.receive(said("next"))
        assert contents((await store.claim({"line"})).messages) == ["next"]


MORNING = Firing("morning", 28_800.0, "quiet")


async def test_a_firing_is_claimed_once_and_its_message_is_kept_with_it(store: InboxStore) -> None:
    async with opened(store):
        await store.follow("morning", "0 8 * * *", 0.0)
        first = await store.fire(MORNING, said("good morning"), until=28_801.0, missed=2)
        assert first is not None
        assert (first.firing, first.surface) == (MORNING, Surface.SCHEDULE)
        assert await store.fire(MORNING, said("good morning"), until=28_802.0, missed=0) is None
        (waiting,) = (await store.claim({"line"})).messages
        assert (waiting.message.content, waiting.firing, waiting.surface) == (
            "good morning",
            MORNING,
            Surface.SCHEDULE,
        )
        assert await store.followed() == [Followed("morning", 28_802.0, 28_800.0, 2)]
        await store.finish([first.id])
        assert await store.fire(MORNING, said("good morning"), until=28_803.0, missed=0) is None


async def test_what_the_agent_has_scheduled_is_no_word_of_the_operator(store: InboxStore) -> None:
    async with opened(store):
        await store.fire(replace(MORNING, is_own=True), said("go on"), until=0.0, missed=0)
        (waiting,) = (await store.claim({"line"})).messages
        assert waiting.surface is Surface.PROGRAM


async def test_a_schedule_is_followed_from_where_it_is_and_anew_with_another_rule(store: InboxStore) -> None:
    async with opened(store):
        assert await store.follow("morning", "0 8 * * *", 10.0) == Followed("morning", 10.0)
        assert await store.follow("morning", "0 8 * * *", 20.0) == Followed("morning", 10.0)
        await store.pass_over("morning", until=30.0, missed=3)
        assert await store.follow("morning", "0 9 * * *", 40.0) == Followed("morning", 40.0, None, 3)
        await store.unfollow("morning")
        assert await store.followed() == []
        assert await store.follow("morning", "0 9 * * *", 50.0) == Followed("morning", 50.0)


async def test_a_schedule_that_is_forgotten_fires_no_moment_again(store: InboxStore) -> None:
    async with opened(store):
        await store.follow("morning", "0 8 * * *", 0.0)
        await store.fire(MORNING, said("good morning"), until=28_801.0, missed=0)
        await store.unfollow("morning")
        await store.follow("morning", "0 8 * * *", 0.0)
        assert await store.fire(MORNING, said("good morning"), until=28_801.0, missed=0) is None


async def test_a_firing_whose_message_cannot_be_kept_is_not_claimed(store: InboxStore) -> None:
    async with opened(store):
        await store.follow("morning", "0 8 * * *", 0.0)
        with pytest.raises(MailboxError):
            await store.fire(MORNING, said("good morning", context={"no": object()}), until=1.0, missed=0)
        assert await store.followed() == [Followed("morning", 0.0)]
        assert await store.fire(MORNING, said("good morning"), until=1.0, missed=0) is not None


async def test_a_store_that_is_closed_says_so(store: InboxStore) -> None:
    with pytest.raises(MailboxError, match="not open"):
        await store.claim({"line"})
    async with opened(store):
        pass
    with pytest.raises(MailboxError, match="not open"):
        await store.receive(said("hello"))


# The file of today


async def test_the_file_of_today_opens_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "inbox.db"
    with sqlite3.connect(path) as db:
        db.executescript(OF_TODAY.read_text(encoding="utf-8"))
        tables = db.execute("select sql from sqlite_master order by name").fetchall()
    db.close()
    mailbox = Mailbox(path, Path("/workspace"))
    async with opened(mailbox):
        claim = await mailbox.claim({"telegram", "line"})
        again = await mailbox.receive(said("waits", channel="telegram", once="1"))
        new = await mailbox.receive(said("new", channel="telegram", once="5"))
    assert [(one.id, one.message.content, one.attempts, one.message.draft) for one in claim.messages] == [
        (1, "waits", 0, ""),
        (2, "was interrupted", 1, "draft 7"),
        (5, "from elsewhere", 0, ""),
    ]
    assert claim.messages[2].message.context == {"sender": "Zoë"}
    assert [(one.id, one.message.content, one.attempts, one.not_before) for one in claim.replies] == [
        (1, "sorry", 0, 0.0),
        (2, "an answer", 0, 0.0),
        (4, "put off", 1, 2e9),
    ]
    assert again is None
    assert new is not None
    assert new.id == 7
    inbox = SqliteInbox(path, Path("/workspace"))
    inbox.open()
    aside = {one.id: one.reason for one in inbox.alone(inbox.list_entries) if one.reason}
    elsewhere = inbox.alone(inbox.count_dead_letters_elsewhere)
    inbox.close()
    assert (aside, elsewhere) == ({3: "its turn was interrupted 3 times", 5: "the bot was blocked"}, {})
    with sqlite3.connect(path) as db:
        assert db.execute("select sql from sqlite_master order by name").fetchall() == tables
        assert db.execute("pragma user_version").fetchone() == (1,)
    db.close()


def test_nothing_above_the_mailbox_knows_its_file() -> None:
    """`bub inbox` and `bub schedules` work beside a gateway that runs, so they open the file themselves.

    A copy takes out of the file, and puts into it, what no mailbox hands out.
    """
    root = Path(__file__).parent.parent
    named = {
        "bub.inbox.sqlite": {"bub/inbox/mailbox.py", "bub/cli/inboxes.py", "bub/inbox/copying/sqlite_records.py"},
        "sqlite3": {
            *("bub/inbox/sqlite.py", "bub/inbox/notes.py", "bub/inbox/questions.py"),
            *("bub/inbox/schedules/records.py", "bub/inbox/copying/sqlite_records.py"),
        },
    }
    paths = [*(root / "bub" / "inbox").rglob("*.py"), *(root / "bub" / "cli").glob("*.py")]
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    for name, allowed in named.items():
        assert {
            path for path, text in texts.items() if f"import {name}\n" in text or f"from {name} " in text
        } == allowed


# The state machine


def test_every_way_of_a_message_leads_to_its_end() -> None:
    assert set(TRANSITIONS) == set(State)
    way = [State.RECEIVED, State.BATCHED, State.ADMITTED, State.RUNNING, State.ANSWERED, State.DELIVERED]
    assert all(after in TRANSITIONS[before] for before, after in itertools.pairwise(way))
    assert {state for state, after in TRANSITIONS.items() if State.SET_ASIDE in after} == set(way[:-1])
    assert [state for state, after in TRANSITIONS.items() if not after] == [State.DELIVERED, State.SET_ASIDE]


def test_only_a_turn_that_was_cut_short_or_has_to_wait_leads_back() -> None:
    order = list(State)
    back = [(a, b) for a, after in TRANSITIONS.items() for b in after if order.index(b) <= order.index(a)]
    assert set(back) == {(State.RUNNING, State.RECEIVED), (State.RUNNING, State.ADMITTED)}


@pytest.mark.parametrize(("state", "to"), list(itertools.product(State, State)))
def test_an_illegal_transition_is_an_error_and_moves_nothing(state: State, to: State) -> None:
    entries = Entries(OF_MESSAGES)
    assert entries.enter(1, state)
    assert entries.enter(2, State.RECEIVED)
    if to in TRANSITIONS[state]:
        entries.advance([1], to)
        assert entries.state(1) == (None if to in OF_MESSAGES else to)
        return
    other = next(iter(TRANSITIONS[State.RECEIVED]))
    with pytest.raises(IllegalTransitionError, match=f"1 of the inbox cannot become {to.value}: it is {state.value}"):
        entries.advance([1], to)
    with pytest.raises(IllegalTransitionError):
        entries.advance([2, 1], other if other not in TRANSITIONS[state] else to)
    assert (entries.state(1), entries.state(2)) == (state, State.RECEIVED)


def test_what_nobody_claimed_goes_nowhere() -> None:
    entries = Entries(OF_REPLIES)
    with pytest.raises(IllegalTransitionError, match="is none that waits") as caught:
        entries.advance([7], State.DELIVERED)
    assert (caught.value.id, caught.value.state, caught.value.to) == (7, None, State.DELIVERED)


def test_what_ended_while_the_store_was_read_does_not_begin_again() -> None:
    entries = Entries(OF_REPLIES)
    assert entries.enter(1, State.ANSWERED)
    assert not entries.enter(1, State.ANSWERED)
    with entries.reading():
        entries.advance([1], State.DELIVERED)
        assert not entries.enter(1, State.ANSWERED)
    assert entries.enter(1, State.ANSWERED)
    assert len(entries) == 1


async def test_each_step_is_the_ledgers_and_out_of_turn_it_is_refused(store: InboxStore) -> None:
    outbox = Outbox(store, {}, Counts(), start_soon=lambda *_: None, settled=lambda: None)
    ledger = Ledger(store, outbox, Counts(), settled=lambda: None)
    async with opened(store):
        await ledger.take_up(["line"])
        received = await ledger.receive(said("hello"))
        assert received is not None
        ids = [received.id]
        with pytest.raises(IllegalTransitionError):
            await ledger.begin(ids)
        assert (await store.claim({"line"})).messages[0].attempts == 0
        ledger.batch(ids)
        with pytest.raises(IllegalTransitionError):
            ledger.batch(ids)
        ledger.admit(ids)
        await ledger.begin(ids)
        assert ledger.state(received.id) is State.RUNNING
        await ledger.finish(ids, [said("hi")])
        with pytest.raises(IllegalTransitionError):
            await ledger.finish(ids, [said("hi again")])
        assert (len(ledger), outbox.waiting) == (0, 1)
        assert contents((await store.claim({"line"})).replies) == ["hi"]


async def test_a_ledger_whose_claim_is_over_answers_nothing(store: InboxStore) -> None:
    outbox = Outbox(store, {}, Counts(), start_soon=lambda *_: None, settled=lambda: None)
    ledger = Ledger(store, outbox, Counts(), settled=lambda: None)
    async with opened(store):
        await ledger.take_up(["line"])
    async with opened(store):
        received = await ledger.receive(said("hello"))
        assert received is not None
        await ledger.finish([received.id], [said("hi")])
        assert (len(ledger), outbox.waiting) == (0, 0)
        assert contents((await store.claim({"line"})).messages) == ["hello"]


numbers = st.integers(0, 50)


class InboxMachine(RuleBasedStateMachine):
    """Whatever happens when, each message is in one place, and each reply arrives once or lies in one."""

    folder: Path

    @initialize()
    def begin_anew(self) -> None:
        self.path = self.folder / f"{time.monotonic_ns()}.db"
        self.count = 0
        self.fates: dict[str, str] = {}
        self.replies: set[str] = set()
        self.line = Line()
        self._open()

    def _open(self) -> None:
        self.tasks: list[tuple[Any, ...]] = []
        self.box = Mailbox(self.path, self.folder)
        self.outbox = Outbox(
            self.box, {"line": self.line}, Counts(), start_soon=lambda *task: self.tasks.append(task), settled=int
        )
        self.ledger = Ledger(self.box, self.outbox, Counts(), settled=int)
        trio.run(self.box.open)
        self.here: dict[int, str] = {}
        self._take_up()

    def _take_up(self) -> None:
        for one in trio.run(self.ledger.take_up, ["line"]):
            assert one.id not in self.here
            self.here[one.id] = one.message.content

    def _pick(self, number: int, *states: State) -> list[int]:
        able = [key for key in self.here if self.ledger.state(key) in states]
        return [able[number % len(able)]] if able else []

    @rule(once=st.sampled_from(["", "", "a", "b"]))
    def receive(self, once: str) -> None:
        self.count += 1
        received = trio.run(self.ledger.receive, said(f"m{self.count}", once=once))
        if received is not None:
            self.here[received.id] = received.message.content
            self.fates[received.message.content] = "waits"

    @rule(number=numbers)
    def batch(self, number: int) -> None:
        self.ledger.batch(self._pick(number, State.RECEIVED))

    @rule(number=numbers)
    def admit(self, number: int) -> None:
        self.ledger.admit(self._pick(number, State.BATCHED))

    @rule(number=numbers)
    def begin(self, number: int) -> None:
        trio.run(self.ledger.begin, self._pick(number, State.BATCHED, State.ADMITTED))

    @rule(number=numbers)
    def let_wait(self, number: int) -> None:
        trio.run(self.ledger.let_wait, self._pick(number, State.RUNNING))

    @rule(number=numbers)
    def give_back(self, number: int) -> None:
        trio.run(self.ledger.give_back, self._pick(number, State.RUNNING))

    @rule(number=numbers, answers=st.booleans())
    def finish(self, number: int, answers: bool) -> None:
        for key in self._pick(number, State.RECEIVED, State.BATCHED, State.ADMITTED, State.RUNNING):
            content = self.here.pop(key)
            self.fates[content] = "answered"
            replies = [said(f"re {content}")] if answers else []
            self.replies |= set(contents_of(replies))
            trio.run(self.ledger.finish, [key], replies)

    @rule(number=numbers)
    def set_aside(self, number: int) -> None:
        waiting = trio.run(self.box.waiting)
        for key in self._pick(number, State.RECEIVED):
            content = self.here.pop(key)
            self.fates[content] = "aside"
            self.replies.add(f"sorry {content} {self.count}")
            received = next(one for one in waiting if one.id == key)
            trio.run(self.ledger.give_up, received, "why not", [said(f"sorry {content} {self.count}")])
            self.count += 1

    @rule(bounces=st.booleans())
    def deliver(self, bounces: bool) -> None:
        self.line.fails = [UndeliverableError("the chat is gone")] if bounces else []

        async def work() -> None:
            async with trio.open_nursery() as nursery:
                for task in self.tasks:
                    nursery.start_soon(*task)

        trio.run(work)
        self.tasks.clear()

    @rule(of_messages=st.booleans())
    def retry(self, of_messages: bool) -> None:
        beside = SqliteInbox(self.path, self.folder)
        beside.open()
        kind: Any = "message" if of_messages else "reply"
        aside = [one for one in beside.alone(beside.list_entries) if one.kind == kind and one.reason is not None]
        beside.alone(lambda: beside.retry(kind, [one.id for one in aside]))
        beside.close()
        for one in aside if of_messages else ():
            assert one.message is not None
            self.fates[one.message.content] = "waits"
        assert trio.run(self.ledger.has_changed)
        self._take_up()

    @rule()
    def look_again(self) -> None:
        self._take_up()

    @rule()
    def crash(self) -> None:
        trio.run(self.box.close)
        self._open()

    @invariant()
    def nothing_is_lost_and_nothing_doubled(self) -> None:
        if not hasattr(self, "box"):
            return
        beside = SqliteInbox(self.path, self.folder)
        beside.open()
        entries = beside.alone(beside.list_entries)
        beside.close()
        kept: dict[str, str] = {}
        left: Counter[str] = Counter(self.line.said)
        for one in entries:
            assert one.message is not None
            if one.kind == "message":
                assert one.message.content not in kept
                kept[one.message.content] = "waits" if one.reason is None else "aside"
            else:
                left[one.message.content] += 1
        assert kept == {content: fate for content, fate in self.fates.items() if fate != "answered"}
        assert left == Counter(self.replies)
        assert sorted(self.here.values()) == sorted(content for content, fate in kept.items() if fate == "waits")
        assert len(self.ledger) == len(self.here)

    def teardown(self) -> None:
        if hasattr(self, "box"):
            trio.run(self.box.close)


def contents_of(messages: list[ChannelMessage]) -> list[str]:
    return [message.content for message in messages]


def test_whatever_happens_when_no_message_is_lost_or_doubled(tmp_path: Path) -> None:
    InboxMachine.folder = tmp_path
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        InboxMachine,
        settings=settings(
            max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
