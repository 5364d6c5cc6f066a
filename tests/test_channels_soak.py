"""Hours of mixed traffic on a clock of its own, with faults everywhere: all are answered, and nothing is left behind.

`make soak` lets a whole day pass, `HOURS=240 pytest tests/test_channels_soak.py` ten.
"""

from __future__ import annotations

import gc
import os
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.line import Line, lines, opened
from fakes.toys import Toy, Workshop

from bub.channels import ChannelMessage, TryLaterError, UndeliverableError
from bub.errors import ModelError, TapeError
from bub.inbox.mailbox import Mailbox
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tape import TapeEntry
from bub.tape.sqlite import SqliteTapeStore

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOURS = int(os.environ.get("HOURS", "4"))
CHATS = 12
PAUSE = 300.0
"""How long a chat is silent between two messages, in the mean, in seconds."""


class FaultyLine(Line):
    """A line that loses its connection, is told to slow down, and sometimes cannot deliver at all."""

    def __init__(self, name: str, chance: random.Random, **how: Any) -> None:
        super().__init__(name, **how)
        self.chance = chance
        self.lost: list[ChannelMessage] = []
        self.marks: dict[str, str] = {}

    async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep(self.chance.expovariate(1 / 3600))
        raise OSError("the connection is gone")

    async def send(self, message: Any) -> None:
        await trio.sleep(self.chance.uniform(0, 0.3))
        fate = self.chance.random()
        if fate < 0.05:
            raise OSError("no route")
        if fate < 0.08:
            raise TryLaterError("too fast", seconds=20)
        if fate < 0.085:
            self.lost.append(message)
            raise UndeliverableError("the chat is gone")
        await super().send(message)


class FaultyStore(SqliteTapeStore):
    """The real store, on a disk that is full now and then."""

    chance: random.Random

    def extend(self, tape: str, entries: Any) -> None:
        if self.chance.random() < 0.01:
            raise TapeError("the disk is full", reason="unavailable")
        super().extend(tape, entries)

    def append(self, tape: str, entry: TapeEntry) -> None:
        self.extend(tape, [entry])


def a_model(chance: random.Random) -> Any:
    """A model that repeats the newest message, and fails, hangs or is cut off every now and then."""

    async def events(said: str) -> AsyncIterator[StreamEvent]:
        fate = chance.random()
        if fate < 0.02:
            raise ModelError("too much to do", kind="server", provider="toy")
        await trio.sleep(chance.uniform(0.1, 20))
        for word in said.split(" "):
            yield StreamEvent.text(f"{word} ")
        if fate < 0.04:
            raise ModelError("cut off", kind="cut_stream", provider="toy")
        if fate < 0.05:
            await trio.sleep_forever()
        yield StreamEvent("final", {"finish_reason": "stop"})

    def call_model(request: dict[str, Any]) -> AsyncStreamEvents:
        return AsyncStreamEvents(events(request["messages"][-1]["content"]))

    return call_model


MARK = re.compile(r"#\d+#")

PIPELINE = """
extends: bub:default
stages: {run_model: {timeout: 60s}}
"""


@pytest.mark.timeout(60 + 20 * HOURS)  # `make soak` has a day or more
async def test_a_day_of_traffic_and_faults_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(20261122)
    plain = FaultyLine("plain", chance)
    joining = FaultyLine("joining", chance, needs_debounce=True)
    store = FaultyStore(tmp_path / "tapes.db")
    store.chance = chance

    @contextmanager
    def open_store() -> Iterator[FaultyStore]:
        yield store
        store.close()

    failed: dict[str, list[str]] = {}

    def note_failure(message: Any) -> None:
        """Which messages an error reply is about: of those that were answered as one, it names the last only."""
        failed[message.message_id] = MARK.findall(message.content)

    office = Toy(
        provide_channels=lines(plain, joining),
        on_error=note_failure,
        call_model=a_model(chance),
        provide_tape_store=open_store,
        load_state=lambda: {"anything": [0] * 100},
    )
    framework = Workshop(tmp_path, monkeypatch)(PIPELINE, office=office)
    said: dict[str, str] = {}
    cancelled: set[str] = set()

    async def chat(line: FaultyLine, chat_id: str, until: float) -> None:
        while trio.current_time() < until:
            await trio.sleep(chance.expovariate(1 / PAUSE))
            for _ in range(chance.choice((1, 1, 1, 2, 5))):
                mark = f"#{len(said) + 1}#"
                said[mark] = line.name
                content = f",help {mark}" if chance.random() < 0.05 else f"tell me about {mark}"
                await line.say(content, chat_id=chat_id, message_id=mark)
                await trio.sleep(chance.uniform(0, 2))
            if chance.random() < 0.01:
                waiting = {message.message_id for message in manager_of(line, chat_id)}
                if manager.cancel_turn(f"{line.name}:{chat_id}"):
                    cancelled.update(waiting)

    def manager_of(line: FaultyLine, chat_id: str) -> list[ChannelMessage]:
        let_in = manager._dispatcher._let_in.get(f"{line.name}:{chat_id}", [])
        return [item.message for batch in let_in for item in batch.items]

    async def traffic(hours: float) -> None:
        until = trio.current_time() + hours * 3600
        async with trio.open_nursery() as chats:
            for number in range(CHATS):
                chats.start_soon(chat, (plain, joining)[number % 2], str(number), until)

    async def at_rest() -> tuple[int, int]:
        """How many tasks there are, and how many objects, when all have been answered."""
        while manager.waiting or manager.undelivered:  # noqa: ASYNC110 (a clock of its own)
            await trio.sleep(60)
        for line in (plain, joining):
            for reply in [*line.sent, *line.lost]:
                kinds[reply.kind] += 1
                about = failed.get(reply.answers, []) if reply.kind == "error" else []
                answered.update({reply.answers, *about, *MARK.findall(reply.content)})
            line.sent.clear()
            line.lost.clear()
            line.events.clear()
        failed.clear()
        assert not (manager._dispatcher._let_in or manager._dispatcher._batches or manager._outbox._lanes)
        gc.collect()
        return trio.lowlevel.current_statistics().tasks_living, len(gc.get_objects())

    answered, kinds = Counter[str](), Counter[str]()
    async with opened(framework, mailbox=Mailbox(None, tmp_path)) as manager:
        await traffic(1)
        tasks, objects = await at_rest()
        await traffic(HOURS - 1)
        tasks_after, objects_after = await at_rest()
        assert (manager.turns, manager.waiting, manager.undelivered) == (0, 0, 0)

    assert len(said) > HOURS * 100
    assert kinds["error"] > len(said) / 100
    assert max(answered.values()) == 1, "answered twice"
    assert said.keys() - answered.keys() - cancelled == set(), "never answered"
    assert answered.keys() <= said.keys()
    assert tasks_after <= tasks
    assert objects_after - objects < 3_000, f"{objects_after - objects} objects more after {HOURS - 1} hours"
