"""The outbox by itself: when a reply is sent, when it is tried again, and when it is given up."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.line import Line

from bub.base.counts import Counts
from bub.channels import ChannelMessage, TryLaterError, UndeliverableError
from bub.inbox.mailbox import Mailbox, MailboxError
from bub.inbox.outbox import LONGEST_PATIENCE, LONGEST_PAUSE, MOST_FAILURES, SHORTEST_PAUSE, Outbox
from bub.inbox.store import Outgoing

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Timed(Line):
    """A line that knows when it was asked to send what, and that takes `seconds` over each."""

    def __init__(self, name: str = "line", seconds: float = 0.0) -> None:
        super().__init__(name)
        self.asked: list[tuple[float, str]] = []
        self.seconds = seconds

    async def send(self, message: ChannelMessage) -> None:
        self.asked.append((round(trio.current_time() - self.began, 3), message.content))
        await trio.sleep(self.seconds)
        await super().send(message)

    began = 0.0


class Refusing(Mailbox):
    """A mailbox in memory that refuses to note so many times, and keeps what it was asked."""

    refusals = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(None, folder)
        self.notes: list[tuple[Any, ...]] = []

    def _note(self, *what: Any) -> None:
        self.notes.append(what)
        if self.refusals:
            self.refusals -= 1
            raise MailboxError("the disk is full")

    async def mark_delivered(self, id: int) -> None:  # noqa: A002
        self._note("delivered", id)
        await super().mark_delivered(id)

    async def put_off(self, id: int, *, not_before: float) -> None:  # noqa: A002
        self._note("put_off", id, not_before - time.time())
        await super().put_off(id, not_before=not_before)

    async def undeliverable(self, id: int, reason: str) -> None:  # noqa: A002
        self._note("undeliverable", id, reason)
        await super().undeliverable(id, reason)


class Bench:
    """An outbox on a mailbox in memory, and what it does."""

    def __init__(self, folder: Path, *lines: Line) -> None:
        self.box, self.counts = Refusing(folder), Counts()
        self.lines = {line.name: line for line in lines}
        self.settled: list[tuple[bool, int]] = []
        self.nursery: trio.Nursery

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Bench]:
        async with trio.open_nursery() as nursery:
            await self.box.open()
            self.nursery = nursery
            self.outbox = Outbox(
                self.box, self.lines, self.counts, start_soon=nursery.start_soon, settled=self._note_settled
            )
            for line in self.lines.values():
                line.began = trio.current_time()  # type: ignore[attr-defined]
            yield self

    def _note_settled(self) -> None:
        self.settled.append((self.outbox.is_settled, self.outbox.waiting))

    async def reply(self, *contents: str, **more: Any) -> list[Outgoing]:
        messages = [ChannelMessage(**{"channel": "line", "chat_id": "1", "content": one, **more}) for one in contents]
        outgoing = await self.box.finish((), messages)
        for one in outgoing:
            self.outbox.add(one)
        return outgoing


async def test_replies_of_a_chat_go_one_after_another_and_chats_side_by_side(tmp_path: Path) -> None:
    line = Timed(seconds=2)
    async with Bench(tmp_path, line).open() as bench:
        await bench.reply("a", "b")
        await bench.reply("c", chat_id="2")
        assert (bench.outbox.waiting, bench.outbox.is_settled) == (3, False)
    assert sorted(line.asked) == [(0, "a"), (0, "c"), (2, "b")]
    assert (bench.outbox.waiting, bench.outbox.is_settled) == (0, True)
    assert [note[0] for note in bench.box.notes] == ["delivered"] * 3
    assert bench.counts.deliveries == {("line", "sent"): 3}
    assert bench.settled[-1] == (True, 0)
    assert await bench.box.outgoing() == []


async def test_one_chat_name_on_two_channels_is_two_chats(tmp_path: Path) -> None:
    line, post = Timed(seconds=2), Timed("post", seconds=2)
    async with Bench(tmp_path, line, post).open() as bench:
        await bench.reply("a")
        await bench.reply("b", channel="post")
    assert (line.asked, post.asked) == ([(0, "a")], [(0, "b")])


async def test_what_is_known_is_sent_once(tmp_path: Path) -> None:
    line = Timed(seconds=1)
    async with Bench(tmp_path, line).open() as bench:
        (one,) = await bench.reply("a")
        bench.outbox.add(one)
        assert bench.outbox.waiting == 1
    assert line.asked == [(0, "a")]


async def test_a_reply_that_has_to_wait_keeps_those_behind_it_and_is_no_work_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Timed()
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    async with Bench(tmp_path, line).open() as bench:
        one, two = await bench.box.finish((), [ChannelMessage("line", "1", "a"), ChannelMessage("line", "1", "b")])
        bench.outbox.add(Outgoing(one.id, one.message, 3, 1030.0))
        bench.outbox.add(two)
        await trio.sleep(1)
        assert (bench.outbox.is_settled, bench.outbox.waiting) == (True, 2)
        assert bench.settled == [(True, 2)]
    assert line.asked == [(30, "a"), (30, "b")]


async def test_a_clock_that_was_set_back_keeps_no_reply_for_longer_than_the_longest_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    line = Timed()
    monkeypatch.setattr(time, "time", lambda: 90_000.0)
    async with Bench(tmp_path, line).open() as bench:
        line.fails = [TryLaterError("slow down", seconds=5)]
        (one,) = await bench.reply("a")
        await trio.sleep(1)
        (put_off,) = await bench.box.outgoing()
        bench.nursery.cancel_scope.cancel()
    monkeypatch.setattr(time, "time", lambda: 3_600.0)  # a day earlier, for all that this machine knows
    again = Timed()
    async with Bench(tmp_path, again).open() as bench:
        bench.outbox.add(put_off)
    assert again.asked == [(LONGEST_PAUSE, "a")]
    [told] = [line for line in log if "outbound.wait_shortened" in line]
    assert f"reply={one.id}" in told and "wanted=86405.0" in told and "seconds=300.0" in told


async def test_a_clock_that_jumps_while_it_runs_moves_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, clocks = Timed(), itertools.cycle((90_000.0, 3_600.0, 9e12))
    monkeypatch.setattr(time, "time", lambda: next(clocks))
    async with Bench(tmp_path, line).open() as bench:
        line.fails = [TryLaterError("slow down", seconds=5) for _ in range(4)]
        await bench.reply("a", "b", "c")
    assert line.asked == [(0, "a"), (5, "a"), (10, "a"), (15, "a"), (20, "a"), (20, "b"), (20, "c")]


@pytest.mark.parametrize(
    ("wanted", "waits"),
    [(7.5, 7.5), (0.0, SHORTEST_PAUSE), (-3.0, SHORTEST_PAUSE), (400.0, 400.0), (1e9, LONGEST_PATIENCE)],
)
async def test_a_channel_says_how_long_to_wait_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: float, waits: float
) -> None:
    line = Timed()
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    async with Bench(tmp_path, line).open() as bench:
        line.fails = [TryLaterError("slow down", seconds=wanted)]
        (one,) = await bench.reply("a")
        await trio.sleep(SHORTEST_PAUSE / 2)
        assert bench.outbox.is_settled
        assert await bench.box.outgoing() == [Outgoing(one.id, one.message, 1, 1000.0 + waits)]
    assert line.asked == [(0, "a"), (waits, "a")]
    assert bench.counts.deliveries == {("line", "again"): 1, ("line", "sent"): 1}


async def test_pauses_double_up_to_the_longest_and_chance_shortens_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, spreads = Timed(), list[tuple[float, float]]()

    def most(least: float, most: float) -> float:
        spreads.append((least, most))
        return most

    monkeypatch.setattr("random.uniform", most)
    async with Bench(tmp_path, line).open() as bench:
        line.fails = [OSError("down") for _ in range(11)]
        await bench.reply("a")
    moments = [at for at, _ in line.asked]
    pauses = [after - before for before, after in itertools.pairwise(moments)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST_PAUSE, LONGEST_PAUSE]
    assert set(spreads) == {(0.5, 1.0)}


async def test_who_fails_too_often_is_given_up_and_who_asks_for_patience_has_not_failed(tmp_path: Path) -> None:
    line = Timed()
    async with Bench(tmp_path, line).open() as bench:
        patience = [TryLaterError("slow down", seconds=1) for _ in range(MOST_FAILURES)]
        line.fails = [*patience, *(OSError(f"down {number}") for number in range(MOST_FAILURES))]
        first, _ = await bench.reply("a", "b")
    reason = f"{MOST_FAILURES} attempts have failed, the last one with: down {MOST_FAILURES - 1}"
    assert [note for note in bench.box.notes if note[0] == "undeliverable"] == [("undeliverable", first.id, reason)]
    assert len(line.asked) == 2 * MOST_FAILURES + 1
    assert line.said == ["b"]
    assert bench.counts.deliveries == {
        ("line", "again"): 2 * MOST_FAILURES - 1,
        ("line", "given_up"): 1,
        ("line", "sent"): 1,
    }
    assert bench.outbox.waiting == 0


async def test_a_server_that_is_away_costs_one_line_a_minute_and_no_transaction_for_each_try(
    tmp_path: Path, log: list[str]
) -> None:
    class Away(Timed):
        async def send(self, message: ChannelMessage) -> None:
            if trio.current_time() - self.began < 70:
                raise OSError("no route")
            await super().send(message)

    line = Away()
    async with Bench(tmp_path, line).open() as bench:
        for number in range(10):
            await bench.reply("a", chat_id=str(number))
        await trio.sleep(30)
        assert (len(log), bench.box.notes) == (1, [])
        assert "outbound.put_off" in log[0] and "no route" in log[0]
    assert len(log) <= 2
    assert len(line.sent) == 10
    assert [note[0] for note in bench.box.notes].count("delivered") == 10


async def test_failures_are_counted_for_each_reply_by_itself(tmp_path: Path) -> None:
    line = Timed()
    async with Bench(tmp_path, line).open() as bench:
        line.fails = [OSError("down")] * (MOST_FAILURES - 1)
        await bench.reply("a", "b")
        await trio.sleep(80_000)
        line.fails = [OSError("down")] * (MOST_FAILURES - 1)
        await bench.reply("c")
    assert line.said == ["a", "b", "c"]


async def test_what_can_never_be_delivered_is_given_up_at_once(tmp_path: Path) -> None:
    line = Timed()
    async with Bench(tmp_path, line).open() as bench:
        line.fails = [UndeliverableError("the chat is gone")]
        one, two = await bench.reply("a", "b")
    assert bench.box.notes == [("undeliverable", one.id, "the chat is gone"), ("delivered", two.id)]
    assert bench.counts.deliveries == {("line", "given_up"): 1, ("line", "sent"): 1}
    assert (line.said, bench.outbox.waiting) == (["b"], 0)


async def test_a_reply_for_a_channel_that_does_not_run_is_given_up_and_not_counted(tmp_path: Path) -> None:
    async with Bench(tmp_path).open() as bench:
        (one,) = await bench.reply("a", channel="gone")
    assert bench.box.notes == [("undeliverable", one.id, "there is no channel `gone` here")]
    assert bench.counts.deliveries == {}


@pytest.mark.parametrize("note", ["delivered", "put_off", "undeliverable"])
async def test_what_became_of_a_reply_is_noted_as_soon_as_the_disk_takes_it_and_it_is_not_sent_again(
    tmp_path: Path, note: str
) -> None:
    line = Timed()
    errors = {"put_off": [TryLaterError("slow", seconds=1)], "undeliverable": [UndeliverableError("gone")]}
    async with Bench(tmp_path, line).open() as bench:
        bench.box.refusals = 2
        line.fails = list(errors.get(note, []))
        await bench.reply("a")
    assert [one[0] for one in bench.box.notes][:3] == [note] * 3
    assert line.asked == [(0, "a"), (11, "a")] if note == "put_off" else [(0, "a")]
    assert sum(bench.counts.deliveries.values()) == len(line.asked)
    assert await bench.box.outgoing() == []


async def test_what_has_arrived_is_noted_although_everything_is_being_ended(tmp_path: Path) -> None:
    line = Timed()

    class Slow(Refusing):
        async def mark_delivered(self, id: int) -> None:  # noqa: A002
            bench.nursery.cancel_scope.cancel()
            await trio.sleep(9)
            await super().mark_delivered(id)

    bench = Bench(tmp_path, line)
    bench.box = Slow(tmp_path)
    began = trio.current_time()
    async with bench.open():
        await bench.reply("a")
    assert trio.current_time() - began == 9
    assert await bench.box.outgoing() == []


async def test_a_disk_that_hangs_keeps_the_end_for_ten_seconds_only(tmp_path: Path) -> None:
    class Hanging(Refusing):
        async def mark_delivered(self, id: int) -> None:  # noqa: A002
            bench.nursery.cancel_scope.cancel()
            await trio.sleep_forever()

    bench = Bench(tmp_path, Timed())
    bench.box = Hanging(tmp_path)
    began = trio.current_time()
    async with bench.open():
        await bench.reply("a")
    assert trio.current_time() - began == 10


@pytest.mark.parametrize("error", [SystemExit(3), OSError("down")], ids=repr)
async def test_a_channel_that_ends_the_program_only_fails(tmp_path: Path, error: BaseException) -> None:
    line = Timed()
    async with Bench(tmp_path, line).open() as bench:
        line.fails = [error]  # type: ignore[list-item]
        await bench.reply("a")
    assert line.said == ["a"]


async def test_an_interruption_of_the_program_passes(tmp_path: Path) -> None:
    line = Timed()
    with pytest.raises(BaseExceptionGroup) as caught:
        async with Bench(tmp_path, line).open() as bench:
            line.fails = [KeyboardInterrupt()]  # type: ignore[list-item]
            await bench.reply("a")
    assert caught.group_contains(KeyboardInterrupt)
    assert bench.settled[-1] == (True, 1)


async def test_a_chat_that_was_quiet_is_served_anew(tmp_path: Path) -> None:
    line = Timed()
    async with Bench(tmp_path, line).open() as bench:
        await bench.reply("a")
        await trio.sleep(10)
        await bench.reply("b")
    assert line.asked == [(0, "a"), (10, "b")]


async def test_what_arrived_while_the_store_was_read_is_not_sent_again(tmp_path: Path) -> None:
    line = Timed()
    async with Bench(tmp_path, line).open() as bench:
        (one,) = await bench.reply("a")
        with bench.outbox.reading():
            await trio.sleep(1)
            bench.outbox.add(one)
    assert line.asked == [(0, "a")]


async def test_a_reply_that_is_tried_again_is_work_for_now(tmp_path: Path) -> None:
    line = Timed(seconds=2)
    async with Bench(tmp_path, line).open() as bench:
        line.fails = [TryLaterError("slow down", seconds=5)]
        await bench.reply("a")
        settled = []
        for seconds in (1, 3, 4):  # while it is sent, while it waits, while it is sent again
            await trio.sleep(seconds)
            settled.append(bench.outbox.is_settled)
    assert settled == [False, True, False]
    assert line.asked == [(0, "a"), (7, "a")]


async def test_what_is_shown_in_a_chat_can_wait_until_its_replies_are_sent(tmp_path: Path) -> None:
    line = Timed(seconds=2)
    line.fails = [OSError("no route")]
    here, there = (ChannelMessage("line", chat_id, "?") for chat_id in ("1", "2"))
    async with Bench(tmp_path, line).open() as bench:
        assert not bench.outbox.has_replies(here)
        await bench.reply("a", "b")
        assert (bench.outbox.has_replies(here), bench.outbox.has_replies(there)) == (True, False)
        await bench.outbox.replies_sent(there)
        await bench.outbox.replies_sent(here)
        assert (line.said, bench.outbox.has_replies(here)) == (["a", "b"], False)


async def test_what_a_channel_notes_of_a_reply_is_there_when_it_is_sent_again(tmp_path: Path) -> None:
    drafts: list[str] = []

    class InParts(Timed):
        async def send(self, message: ChannelMessage) -> None:
            drafts.append(message.draft)
            for part in ("a part", f"part {len(drafts)}"):
                assert await bench.outbox.keep_draft(message, part)
            assert not await bench.outbox.keep_draft(replace(message, content="another one"), "")
            [kept, *_] = (await bench.box.claim({"line"})).replies
            assert (kept.message.content, kept.message.draft) == (message.content, f"part {len(drafts)}")
            await super().send(message)

    line = InParts()
    line.fails = [OSError("no route"), OSError("no route")]
    async with Bench(tmp_path, line).open() as bench:
        await bench.reply("a", "b")
        await bench.outbox.replies_sent(ChannelMessage("line", "1"))
    assert (line.said, drafts) == (["a", "b"], ["", "part 1", "part 2", ""])
