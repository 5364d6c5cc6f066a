"""Running stages: what one task of a turn runs, one stage after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import is_dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

from bub.base.waiting import MovingDeadline, Wait, unlimited
from bub.envelope import Envelope, add_address, unpack_batch
from bub.hooks.binding import Call
from bub.hooks.facts import SESSION
from bub.hooks.kinds.runnable import Outcome, Verdict
from bub.hooks.kinds.silence import Silence
from bub.hooks.kinds.stream import Pulled
from bub.hooks.kinds.verdicts import Denial
from bub.hooks.loops import explain
from bub.log import log_exception
from bub.pipeline.run.cleanups import clean_up
from bub.pipeline.run.failures import MORE_TIME, TooSlowError
from bub.pipeline.run.firing import Fire
from bub.pipeline.run.graph import GraphNode, Step
from bub.pipeline.run.state import TurnState

EXPIRED = object()
"""The result of a stage whose time is up."""


class Ends(Exception):  # noqa: N818 (the turn ends; nothing went wrong)
    """A gate of the turn denied, or a claim took it over; never leaves `Turn.run`."""

    def __init__(self, step: Step, verdict: Denial | Mapping[str, Any]) -> None:
        super().__init__(step.id)
        self.step = step
        self.verdict = verdict


class Strand:
    """Runs stages of a turn one after another in one task; `limit` bounds those that have a time-out.

    `at` is the id of the stage that runs, "" between two of them.
    """

    __slots__ = ("_limit", "_turn", "at")

    def __init__(self, turn: TurnState, limit: MovingDeadline) -> None:
        self._turn = turn
        self._limit = limit
        self.at = ""
        turn.strands.append(self)

    @property
    def turn(self) -> TurnState:
        """The turn whose stages it runs."""
        return self._turn

    async def run_node(self, node: GraphNode) -> None:
        """Run the stages of a node, item by item if it has a list."""
        await (self.run(node.steps) if node.each is None else self.run_each(node))

    async def run_each(self, node: GraphNode) -> None:
        """Run the stages of a node item by item; one failing item does not stop the others (BEHAVIOURS T28)."""
        turn = self._turn
        values, registered = turn.values, turn.registered
        items = unpack_batch(values[node.items])
        if node.idle and not (registered and any(step.hook in registered for step in node.steps)):
            if node.sifts:
                values[node.kept] = items
            for step in node.steps:
                turn.record(step, perf_counter(), "ok" if step.enabled else "off")
            await self._let_hear(*node.steps)
            return
        kept: list[Envelope] = []
        failures: list[Exception] = []
        for step in node.steps:
            if step.into is not None:
                values[step.into] = []
        for item in items:
            values[node.item] = item
            try:
                if await self.run(node.steps, each=True) is None:
                    kept.append(values[node.item])
            except Exception as error:  # noqa: BLE001 (the first is raised when every item had its turn)
                kept.append(values[node.item])
                if failures:
                    log_exception("turn.item_failed", error, list=node.each)
                else:
                    failures.append(error)
        if node.sifts:
            values[node.kept] = kept
        if failures:
            raise failures.pop()  # no variable names it here: this frame is in its traceback
        await self._let_hear(*node.steps)

    async def run(self, steps: Iterable[Step], *, each: bool = False) -> Verdict:
        """Run stages, each as one coroutine of its kind.

        What a gate or claim says ends the turn (`Ends`); what it says of one item only is returned, and the item is
        done.
        """
        turn, limit, failed = self._turn, self._limit, self._handle_failure
        values, records, registered, held = turn.values, turn.records, turn.registered, turn.held
        began = perf_counter()
        for step in steps:
            if step.guarded and not self._begin(step, each):
                if step.marks:
                    self._mark(step)
                if held and not each:
                    await self._let_hear(step)
                began = perf_counter()
                continue
            self.at = step.id
            try:
                if step.direct:  # what nearly every stage is, so the shortest way
                    if limit.is_set:
                        limit.release()
                    calls = turn.calls_of(step) if registered else step.calls
                    came = await step.call(calls, values, unlimited, failed)
                elif step.cleanup_for:
                    came = await clean_up(turn, step, limit, failed)
                elif step.timeout is None:
                    limit.release()
                    came = await self._stream(step, unlimited)
                else:
                    limit.start(step.timeout)
                    try:
                        if step.kind.pulls:
                            came = await self._stream(step, limit)
                        else:
                            calls = turn.calls_of(step) if registered else step.calls
                            came = await step.call(calls, values, limit, failed)
                        if limit.has_passed():
                            came = EXPIRED
                    except BaseException as error:
                        if not limit.has_ended(error):
                            raise
                        came = EXPIRED
                if came is EXPIRED:
                    verdict, who, outcome = await self._go_on_late(step, each)
                else:
                    verdict, who, outcome = step.kind.finish(step, values, came, each)
            except BaseException as error:
                self.at = ""
                turn.record_failure(step, began, error)
                raise
            ended = perf_counter()
            records.append((step.id, who, began, ended, outcome))
            began = ended
            if step.fire is not None:
                values[step.fire] = None  # it names the turn
            if step.marks:
                self._mark(step)
            if verdict is not None:
                self.at = ""
                if not each:
                    raise Ends(step, verdict)
                return verdict
            if held and not each:
                await self._let_hear(step)
                began = perf_counter()
        self.at = ""
        return None

    async def _let_hear(self, *steps: Step) -> None:
        """Let what waited for these stages be told, which takes as long as whoever listens needs."""
        if self._turn.held:
            self._limit.release()
            await self._turn.hear(*steps)

    def _begin(self, step: Step, each: bool) -> bool:
        """Note that a stage starts; false if it is off or its `when` does not match, and what it yields is there."""
        turn = self._turn
        values = turn.values
        if not step.enabled or (step.when is not None and not step.when.matches(values[step.message], turn.known)):
            step.yield_nothing(values, each)
            turn.record(step, perf_counter(), "skipped" if step.enabled else "off")
            return False
        if step.has_cleanup:
            turn.started.add(step.id)
        if step.fire is not None:
            values[step.fire] = Fire(turn, step)
        return True

    def _mark(self, step: Step) -> None:
        """Do what follows for the turn once a stage has made the message or the session's id."""
        values, into = self._turn.values, step.into
        assert into is not None
        if step.joins is None:
            values[into] = add_address(values[into])
        elif values[into] is None:
            values[step.joins] = values[step.message]
        else:
            session_id = values[into] = str(values[into])
            values[step.joins] = with_session(values[step.message], session_id)

    async def _go_on_late(self, step: Step, each: bool) -> Outcome:
        """Finish a stage whose time is up, as its policy says: the turn fails, or the error observers are told."""
        turn, took = self._turn, f"stage `{step.id}` took longer than {step.timeout:g} seconds"
        if step.on_failure == "propagate":
            turn.late.append(TooSlowError(took, help=MORE_TIME))
            raise turn.late[-1]
        await turn.report(step.id, TooSlowError(took, help=MORE_TIME))
        return step.kind.late(step, turn.values, each)

    async def _stream(self, step: Step, wait: Wait) -> Any:
        turn = self._turn
        turn.hold_back(step)
        idle = step.manner.idle
        if idle is None:
            return await self._pull(step, wait, None)
        silence = Silence(idle)
        with turn.bounded_by(silence.limit):
            return await self._pull(step, wait, silence)

    async def _pull(self, step: Step, wait: Wait, silence: Silence | None) -> Any:
        turn = self._turn
        pulled = Pulled([], heard=turn.on_event is not None, silence=silence)
        tell = partial(turn.tell, step)
        try:
            return await step.call(step.calls, turn.values, wait, self._handle_failure, tell, pulled, step.manner)
        except BaseException:  # also when it is cancelled: its clean-up gets the text so far (DESIGN §2, `cleanup_for`)
            step.put(turn.values, pulled.text, each=False)
            raise

    async def _handle_failure(self, call: Call, error: Exception) -> None:
        """Keep what an implementation failed with, in a clean-up; else raise it or tell of it as the policy says."""
        error = explain(error, call.plugin)
        kept = self._turn.kept.get(call.stage)
        if kept is not None:
            kept.append((call, error))
        elif call.on_failure == "propagate":
            try:
                raise error
            finally:
                del error  # its traceback names this frame: the two would keep each other
        else:
            self._limit.move()
            await self._turn.report(f"{call.hook}:{call.plugin}", error)


strand_of_task: ContextVar[Strand | None] = ContextVar("bub_strand", default=None)
"""What runs the stages of the task which asks, if its turn runs several beside each other."""


def with_session(message: Envelope, session_id: str) -> Envelope:
    """The message with its session's id; a copy, since the caller's own is not ours to change (BEHAVIOURS T6)."""
    if isinstance(message, dict):
        return {**message, SESSION: session_id}
    if is_dataclass(message) and not isinstance(message, type) and hasattr(message, SESSION):
        try:
            return replace(message, **{SESSION: session_id})
        except (TypeError, ValueError):  # it will not be made again with another session
            return message
    return message
