"""A model of leases and answers: workers that hold partitions, a store that is slow and loses requests, and a zombie.

The workers' part is Bub's own (`bub/inbox/shared/holder.py`). The model finds each mistake that is planted.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import trio
from fakes.shared_store import Faults, Line, SharedStore
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from trio.testing import MockClock

from bub.base.redis.leases import Lease
from bub.errors import BubError
from bub.inbox.shared.holder import Holder
from bub.inbox.shared.share import TURNS
from bub.inbox.shared.store import Worker
from bub.inbox.store import FencedError

SECONDS = 10.0
PARTITIONS = 1
WORKERS = ("one", "two")
HEALING = 6 * SECONDS
"""How long, in seconds, everything is well at the end: by then each message has to be answered."""

Step = tuple[Any, ...]


class Works:
    """What a worker does with its leases: it answers the messages of a partition, one after another."""

    def __init__(self, line: Line, store: SharedStore, tasks: trio.Nursery) -> None:
        self._line = line
        self._store = store
        self._tasks = tasks
        self._scopes: dict[Lease, trio.CancelScope] = {}
        self._over: dict[Lease, trio.Event] = {}

    async def begin(self, lease: Lease) -> None:
        self._scopes[lease], self._over[lease] = trio.CancelScope(), trio.Event()
        self._tasks.start_soon(self._answer, lease)

    async def end(self, lease: Lease, *, is_lost: bool) -> None:
        await self._line.pause()
        scope = self._scopes.get(lease)
        if scope is None:
            return
        if is_lost:
            scope.cancel()
        else:
            scope.deadline = trio.current_time() + 2.0  # the grace of what is given away
        await self._over[lease].wait()

    def is_busy(self, name: str) -> bool:
        return False

    def describe(self, worker: Worker) -> Worker:
        return worker

    async def _answer(self, lease: Lease) -> None:
        partition, after = int(lease.name.partition(":")[2]), 0
        if self._store.planted == "a new owner reads what is new":
            after = max((one.number for one in self._store.entries), default=0)
        with self._scopes[lease]:
            while True:
                try:
                    for entry in await self._line.read(partition, after):
                        await self._turn(lease, partition, entry.number)
                        after = max(after, entry.number)
                except FencedError:
                    break
                except BubError:
                    after = after if self._store.planted == "a new owner reads what is new" else 0
                await trio.sleep(1.0)
        self._over[lease].set()

    async def _turn(self, lease: Lease, partition: int, number: int) -> None:
        running = self._store.running.setdefault(partition, {})
        running[lease] = running.get(lease, 0) + 1
        try:
            await trio.sleep(1.0)
            await self._line.finish(lease, number, f"answer of {lease.worker} in {lease.epoch}")
        finally:
            running[lease] -= 1


class Hasty(Holder):
    """Gives a lease back before what runs under it has stopped."""

    async def _end(self, held: Any) -> None:
        await self._store.drop_claim(held.lease)
        await super()._end(held)


async def play(steps: list[Step], planted: str) -> SharedStore:
    """Let the steps happen to two workers, then let everything be well for a while."""
    store = SharedStore(PARTITIONS, SECONDS, planted)
    faults = {name: Faults() for name in WORKERS}
    lines = {name: Line(store, name, faults[name]) for name in WORKERS}
    kind = Hasty if planted == "release before stop" else Holder
    scopes: dict[str, trio.CancelScope] = {}

    async def work(name: str, tasks: trio.Nursery) -> None:
        with trio.CancelScope() as scope:
            scopes[name] = scope
            async with trio.open_nursery() as own:
                holder = kind(lines[name], Worker(name, roles=(TURNS,)), (), Works(lines[name], store, own))
                await holder.run()

    async with trio.open_nursery() as tasks:
        for name in WORKERS:
            tasks.start_soon(work, name, tasks)
        await trio.sleep(0.01)
        for what, *given in steps:
            if what == "message":
                store.receive(given[0])
            elif what == "wait":
                await trio.sleep(given[0])
            elif what == "stop" and lines[given[0]].stopped is None:
                lines[given[0]].stopped = trio.Event()
            elif what == "go":
                _let_go_on(lines[given[0]])
            elif what == "fault":
                faults[given[0]].waiting.setdefault(given[1], []).append(given[2])
            elif what == "kill":
                scopes[given[0]].cancel()
                _let_go_on(lines[given[0]])
                await trio.sleep(0.01)
                tasks.start_soon(work, given[0], tasks)
                await trio.sleep(0.01)
        for name in WORKERS:
            _let_go_on(lines[name])
            faults[name].waiting.clear()
        await trio.sleep(HEALING)
        tasks.cancel_scope.cancel()
    lost = [one.number for one in store.entries if not one.is_done]
    if lost:
        store.wrong.append(f"nobody has answered {lost}")
    store.wrong += [f"{one.number} has {one.answers}" for one in store.entries if len(one.answers) > 1]
    return store


def _let_go_on(line: Line) -> None:
    if line.stopped is not None:
        stopped, line.stopped = line.stopped, None
        stopped.set()


class LeaseMachine(RuleBasedStateMachine):
    """Collects what befalls the workers, and plays it at the end."""

    planted = ""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []

    who = st.sampled_from(WORKERS)
    long = st.sampled_from([0.5, 2.0, 8.0, 11.0, 15.0, 25.0])

    @rule()
    def a_message_comes(self) -> None:
        self.steps.append(("message", 0))

    @rule(seconds=long)
    def time_goes_by(self, seconds: float) -> None:
        self.steps.append(("wait", seconds))

    kinds = st.sampled_from(["lease", "renew", "read", "finish"])

    @rule(who=who, kind=kinds, seconds=long, is_answer=st.booleans())
    def a_request_is_slow(self, who: str, kind: str, seconds: float, is_answer: bool) -> None:
        fault = (0.0, seconds, "") if is_answer else (seconds, 0.0, "")
        self.steps.append(("fault", who, kind, fault))

    @rule(who=who, seconds=long, next_seconds=long)
    def renewals_are_slow(self, who: str, seconds: float, next_seconds: float) -> None:
        self.steps += [("fault", who, "renew", (one, 0.0, "")) for one in (seconds, next_seconds, next_seconds)]
        self.steps.append(("wait", 25.0))

    @rule(who=who, seconds=long)
    def a_renewal_comes_late_while_the_other_is_stopped(self, who: str, seconds: float) -> None:
        (other,) = {*WORKERS} - {who}
        self.steps += [("stop", other), ("fault", who, "renew", (seconds, 0.0, "")), ("wait", 25.0), ("go", other)]

    @rule(who=who, seconds=long)
    def leases_go_back_and_forth_around_an_answer(self, who: str, seconds: float) -> None:
        (other,) = {*WORKERS} - {who}
        self.steps += [("fault", who, "finish", (seconds, 0.0, "")), ("message", 0), ("wait", 2.0)]
        self.steps += [("fault", who, "renew", (11.0, 0.0, "")) for _ in range(3)]
        self.steps += [("wait", 8.0), ("stop", other), ("wait", 15.0), ("go", other)]

    @rule(who=who, kind=kinds, which=st.sampled_from(["request", "answer"]))
    def a_request_is_lost(self, who: str, kind: str, which: str) -> None:
        self.steps.append(("fault", who, kind, (0.0, 0.5, which)))

    @rule(who=who)
    def a_worker_stops(self, who: str) -> None:
        self.steps.append(("stop", who))

    @rule(who=who)
    def a_zombie_goes_on(self, who: str) -> None:
        self.steps.append(("go", who))

    @rule(who=who, before=st.sampled_from([0.5, 2.0, 4.0]), seconds=long)
    def a_worker_stops_while_it_answers(self, who: str, before: float, seconds: float) -> None:
        self.steps += [("fault", who, "finish", (0.0, 8.0, "")), ("message", 0), ("wait", before)]
        self.steps += [("stop", who), ("wait", seconds), ("go", who)]

    @rule(who=who)
    def a_worker_is_killed(self, who: str) -> None:
        self.steps.append(("kill", who))

    def teardown(self) -> None:
        if not self.steps:
            return
        store = trio.run(play, self.steps, self.planted, clock=MockClock(autojump_threshold=0))
        assert store.wrong == [], store.wrong


def check(planted: str, examples: int) -> None:
    machine: Any = type("Planted", (LeaseMachine,), {"planted": planted})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],  # it is enough to know that there is one
            suppress_health_check=list(HealthCheck),
        ),
    )


MANY = int(os.environ.get("LEASE_EXAMPLES", "25"))


def test_no_message_is_lost_or_answered_twice_whatever_befalls_workers_and_requests() -> None:
    check("", MANY)


@pytest.mark.parametrize(
    "planted",
    [
        "no epoch",
        "renewal after expiry",
        "acknowledge outside the script",
        "a new owner reads what is new",
        "release before stop",
    ],
)
def test_the_model_finds_a_planted_mistake(planted: str) -> None:
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        check(planted, 2000)
