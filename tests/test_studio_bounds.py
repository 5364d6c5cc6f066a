"""What the page remembers and what a browser costs: bounded, however much happens and however little is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from bub.base.trace import Trace
from bub.base.tracing.activity import Activities
from bub.secrets.redactor import Redactor
from bub.studio.chatlog import RELOAD, ChatEvent, ChatLog
from bub.studio.feed import MOST_ROWS, Feed, Reader, pause_after
from bub.studio.live import Live
from bub.studio.numbers import MINUTE, MOST_MINUTES, Minutes, StageNumbers, percentile
from bub.studio.recorder import MOST_TURNS, Recorder

pytestmark = pytest.mark.anyio


@dataclass(eq=False)
class FakeTurn:
    """A turn as a watcher sees it."""

    number: int = 0
    phase: str = "answering"
    outcome: str = ""
    stages_now: Sequence[str] = ("run_model",)
    trace: Trace = field(default_factory=lambda: Trace((), 0.0))
    error: BaseException | None = None
    above: Any = None
    at: float = 1.0
    held_at: float | None = None
    began: float = field(default_factory=perf_counter)
    activities: Activities = field(default_factory=Activities)

    @property
    def id(self) -> str:
        return f"{self.number:016x}"

    @property
    def session_id(self) -> str:
        return f"post:{self.number}"

    @property
    def profile(self) -> Any:
        return SimpleNamespace(name="default")

    @property
    def message(self) -> dict[str, str]:
        return {"channel": "post", "chat_id": str(self.number), "sender_id": "1", "content": "hello" * 40}

    def end(self, outcome: str = "ok") -> FakeTurn:
        self.phase, self.outcome, self.stages_now = "over", outcome, ()
        return self


class FakePulse:
    """What is at the page's edge does not change; how often it was looked at is counted."""

    looks = 0

    def look_at_questions(self) -> None:
        self.looks += 1

    def describe(self) -> dict[str, Any]:
        return {"approvals": 0}


class World:
    """A runtime with turns that come and go, as the page sees it."""

    def __init__(self) -> None:
        self.turns: dict[FakeTurn, None] = {}
        self.recorder: Any = Recorder()
        self.chats = ChatLog()
        self.pulse = FakePulse()
        self.framework = SimpleNamespace(mask=Redactor.of(["hellohello-not-there"]))
        self.live = Live(lambda: self.turns.keys())  # type: ignore[arg-type, return-value]
        self.live_for = 0.0

    def begin(self, *numbers: int) -> list[FakeTurn]:
        turns = [FakeTurn(number) for number in numbers]
        self.turns |= dict.fromkeys(turns)
        self.look_anew()
        return turns

    def end(self, *turns: FakeTurn) -> None:
        for turn in turns:
            del self.turns[turn]
            self.recorder.turn_ended(turn.end())
        self.look_anew()

    def look_anew(self) -> None:
        """As if some time had passed."""
        self.live._taken = -1.0

    def reader(self) -> Reader:
        return Reader(self)  # type: ignore[arg-type]


def ids(batch: dict[str, Any] | None) -> list[str]:
    assert batch is not None
    return [row["id"] for row in batch["turns"]["changed"]]


async def test_a_browser_is_told_what_changed_and_nothing_twice() -> None:
    world = World()
    reader = world.reader()
    one, two = world.begin(1, 2)
    batch = reader.make_batch()
    assert ids(batch) == [one.id, two.id]
    assert batch is not None
    assert batch["running"] == {"default": {"run_model": 2}}
    assert reader.make_batch() is None
    world.end(one)
    batch = reader.make_batch()
    assert batch is not None
    assert [(row["id"], row["outcome"]) for row in batch["turns"]["changed"]] == [(one.id, "ok")]
    assert batch["turns"]["gone"] == []
    world.look_anew()
    assert reader.make_batch() is None


async def test_a_turn_that_came_and_went_between_two_batches_is_told_once() -> None:
    world = World()
    reader = world.reader()
    world.end(*world.begin(1, 2, 3))
    assert ids(reader.make_batch()) == [f"{number:016x}" for number in (1, 2, 3)]
    assert reader.make_batch() is None


async def test_a_turn_that_asks_has_the_questions_looked_at() -> None:
    world = World()
    reader = world.reader()
    (turn,) = world.begin(1)
    reader.make_batch()
    assert world.pulse.looks == 0
    turn.phase = "asking"
    for _ in range(10):
        world.look_anew()
        reader.make_batch()
    assert world.pulse.looks == 3
    turn.phase = "answering"
    world.look_anew()
    reader.make_batch()
    assert world.pulse.looks == 4


async def test_a_batch_has_a_bound_and_each_turn_has_its_turn() -> None:
    world = World()
    reader = world.reader()
    turns = world.begin(*range(1_000))
    seen: set[str] = set()
    for _ in range(1_000 // MOST_ROWS + 1):
        told = ids(reader.make_batch())
        assert len(told) <= MOST_ROWS
        seen |= set(told)
    assert len(seen) == 1_000
    for step in range(40):  # all of them change all the time
        for turn in turns:
            turn.trace = Trace([("a", "", 0.0, 0.0, "ok")] * (step + 1), 0.0)
        world.look_anew()
        told = ids(reader.make_batch())
        seen -= set(told)
    assert len(seen) == 0


async def test_all_that_end_at_once_are_told_of_in_the_end() -> None:
    world = World()
    reader = world.reader()
    turns = world.begin(*range(200))
    while (batch := reader.make_batch()) is not None:
        assert len(ids(batch)) <= MOST_ROWS
    world.end(*turns)
    over: set[str] = set()
    while (batch := reader.make_batch()) is not None:
        assert len(ids(batch)) <= MOST_ROWS
        over |= {row["id"] for row in batch["turns"]["changed"] if row["outcome"] == "ok"}
    assert len(over) == 200
    assert reader._looks == {}


async def test_what_is_not_remembered_any_more_is_gone() -> None:
    world = World()
    reader = world.reader()
    (turn,) = world.begin(1)
    reader.make_batch()
    del world.turns[turn]
    world.look_anew()
    batch = reader.make_batch()
    assert batch is not None
    assert batch["turns"] == {"changed": [], "gone": [turn.id]}


async def test_what_is_remembered_of_turns_is_bounded() -> None:
    world = World()
    for number in range(MOST_TURNS + 500):
        world.end(*world.begin(number))
    assert len(world.recorder) == MOST_TURNS
    assert world.recorder.find(f"{0:016x}") is None
    for number in range(150):
        (turn,) = world.begin(number)
        for _ in range(400):
            turn.activities.begin("tool", "bash").end(text="x")
        world.end(turn)
    kept = list(world.recorder.newest())
    assert sum(past.weight for past in kept) <= 41_000
    assert max(len(past.activities) for past in kept) <= 300


async def test_stages_count_and_failures_have_their_errors() -> None:
    recorder: Any = Recorder()
    for number in range(1_000):
        records = [("a", "", 0.0, number / 1_000, "ok")]
        turn = FakeTurn(number, trace=Trace(records, 0.0))
        if number % 100 == 0:
            records.append(("b", "", 0.0, 0.5, "failed"))
            turn.error = ValueError(f"number {number}" * 1_000)
        recorder.turn_ended(turn.end("failed" if turn.error else "ok"))
    numbers: StageNumbers = recorder.stages["default", "a"]
    assert numbers.summary() == (1_000, 0, 0.744, 0.974, 0.994)
    assert len(numbers.times) == 512
    failing: StageNumbers = recorder.stages["default", "b"]
    assert (failing.count, failing.failed) == (10, 10)
    assert [error.turn for error in failing.errors] == [f"{number:016x}" for number in (500, 600, 700, 800, 900)]
    assert all(len(error.text) <= 1_000 for error in failing.errors)


async def test_turns_that_nobody_looks_at_are_counted_too_and_each_for_the_minute_in_which_it_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder: Any = Recorder()
    for number in range(3 * MOST_TURNS):
        recorder.turn_ended(FakeTurn(number, at=60.0 * (number // MOST_TURNS)).end())
    assert len(recorder._new) < 64
    assert len(recorder._turns) <= MOST_TURNS
    failed = FakeTurn(1, at=120.0, error=ValueError("no"), trace=Trace([("a", "", 0.0, 0.1, "failed")], 0.0))
    recorder.turn_ended(failed.end("failed"))
    monkeypatch.setattr("time.time", lambda: 200.0)
    told: dict[str, Any] = recorder.minutes.describe()
    assert told["from"] == 0
    assert told["turns"] == {"failed": [0, 0, 1, 0], "ok": [MOST_TURNS] * 3 + [0]}
    (error,) = recorder.stages["default", "a"].errors
    assert 120.0 <= error.at < 180.0


@pytest.mark.parametrize(
    ("took", "browsers", "pause"),
    [(0.0, 1, 0.25), (0.001, 1, 0.5), (0.001, 4, 2.0), (0.2, 3, 5.0)],
    ids=["nothing to tell", "dear", "dear, for four", "a page just opened, or the garbage was looked through"],
)
def test_batches_are_fewer_if_they_are_dear_and_come_every_few_seconds_all_the_same(
    took: float, browsers: int, pause: float
) -> None:
    assert pause_after(took, browsers) == pytest.approx(pause)


async def test_minutes_are_kept_for_six_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = Minutes()
    for minute in range(0, 2 * MOST_MINUTES, 2):
        for number in range(3):
            minutes.add(minute * MINUTE + 5.0, "ok" if number else "failed", (10, 1), number)
    monkeypatch.setattr("time.time", lambda: (2 * MOST_MINUTES - 2) * MINUTE + 5.0)
    told: dict[str, Any] = minutes.describe()
    assert told["step"] == MINUTE
    assert len(told["p50"]) == MOST_MINUTES - 1
    assert told["turns"]["ok"][:2] == [2, 0]
    assert told["tokens"]["input"][:2] == [30, 0]
    assert (told["p50"][0], told["p50"][1], told["p95"][0]) == (1.0, None, 2.0)
    assert told["from"] == (2 * MOST_MINUTES - 2) * MINUTE - (MOST_MINUTES - 2) * MINUTE
    assert percentile([], 0.5) is None


async def test_pieces_of_a_text_come_as_one_and_who_reads_too_late_reads_the_tape() -> None:
    log = ChatLog()
    early = log.end
    for number in range(10):
        log.add(ChatEvent("main", "m1", "text", {"delta": str(number)}))
    log.add(ChatEvent("main", "m1", "final", {"ok": True}))
    (told,) = log.since(early)
    assert told["events"] == [
        {"kind": "text", "data": {"delta": "0123456789"}},
        {"kind": "final", "data": {"ok": True}},
    ]
    assert log.since(log.end) == []
    for _ in range(6_000):
        log.add(ChatEvent("other", "m2", "text", {"delta": "x" * 200}))
    assert len(log) <= 4_000
    assert sum(event.letters for event in log._events) <= 1_000_300
    assert log.since(early) == [{"chat": "other", "message_id": "", "events": [{"kind": RELOAD, "data": {}}]}]
    log.add(ChatEvent("other", "m2", "text", {"delta": "y" * 3_000_000}))
    assert len(log) == 1


async def test_a_browser_that_does_not_read_has_no_queue() -> None:
    world = World()
    known = SimpleNamespace(knows=lambda cookie: True)
    looking = SimpleNamespace(describe=dict, looking=trio.CancelScope, browsers=1, look_at_questions=list)
    studio = SimpleNamespace(**{**vars(world), "access": known, "pulse": looking})
    sent: list[bytes] = []
    reading, told = trio.Event(), trio.Event()

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))
        if len(sent) > 2:
            told.set()
        elif len(sent) == 2:
            await reading.wait()

    async def receive() -> Any:
        await trio.sleep_forever()

    async with trio.open_nursery() as tasks:
        tasks.start_soon(Feed(studio).serve, "cookie", {}, receive, send)  # type: ignore[arg-type]
        for number in range(2_000):
            world.end(*world.begin(number))
            world.chats.add(ChatEvent("main", str(number), "text", {"delta": "x" * 1_000}))
            await trio.lowlevel.checkpoint()
        assert len(sent) <= 2  # the head, and one batch that nobody has taken
        reading.set()
        with trio.fail_after(20):
            await told.wait()
        tasks.cancel_scope.cancel()
    assert b"reload" in sent[2]
    assert len(sent[2]) < 200_000
