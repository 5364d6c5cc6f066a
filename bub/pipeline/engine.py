"""Running a graph: one turn, from the values it starts with to the values it leaves.

The engine knows kinds, stages and values, and no hook by name: any graph runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import trio

from bub.calling import (
    BROKEN_GATE,
    UNCLAIMED,
    Call,
    Calls,
    Denial,
    Expired,
    Failed,
    Pulled,
    Shielded,
    Until,
    Wait,
    broadcast,
    claiming,
    firstresult,
    gate,
    is_awaitable,
    join_low_to_high,
    merge_low_to_high,
    modifying,
    observer,
    stream,
    stream_error,
    unlimited,
    void,
)
from bub.diagnostics import did_you_mean
from bub.envelope import Envelope, addressed, field_of, normalize_envelope, unpack_batch
from bub.errors import BubError, NoAnswerError
from bub.frozen import thaw
from bub.kinds import OUTBOUNDS, SESSION
from bub.log import log_exception, log_warning
from bub.pipeline.graph import FiredPoint, Graph, GraphNode, Step
from bub.pipeline.plan import EMPTY_VALUES
from bub.streaming import StreamEvent

REPORTING_PATIENCE = 10.0
"""How long, in seconds, error observers may take while a turn is being unwound."""

OnEvent = Callable[[StreamEvent, Envelope], Any]
"""Told of each stream event as it comes, with the message of the turn; plain or async."""


class TurnRecord(NamedTuple):
    """What became of one stage: `start` and `duration` in seconds since the turn began.

    `implementation` is the plugin that decided, or "" where all took part. `outcome` is one of `ok`, `default` (nobody
    answered), `skipped` (by its `when`), `off`, `failed`, `timeout`, `cancelled`, `denied`, `claimed`.
    """

    stage: str
    implementation: str
    start: float
    duration: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Ending:
    """A turn that ended before its last stage: `how` is "denied" or "claimed", `stage` the one that did it."""

    how: str
    stage: str

    def __str__(self) -> str:
        return f"{self.how}:{self.stage}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a turn left: its values by name (None: never made), how it ended, and what became of each stage."""

    values: Mapping[str, Any]
    ended_by: Ending | None
    records: tuple[TurnRecord, ...]


class _Ends(Exception):  # noqa: N818 (the turn ends; nothing went wrong)
    """A gate of the turn denied, or a claim took it over; never leaves this module."""

    def __init__(self, step: Step, verdict: Denial | Mapping[str, Any]) -> None:
        super().__init__(step.id)
        self.step = step
        self.verdict = verdict


class Turn:
    """One run of a graph. `join` is awaited with the session's id once it is made, and says "new" or "known"."""

    __slots__ = (
        "_cleaned",
        "_ending",
        "_graph",
        "_join",
        "_on_event",
        "_records",
        "_session",
        "_started",
        "_values",
        "_zero",
    )

    def __init__(
        self,
        graph: Graph,
        start: Mapping[str, Any],
        *,
        join: Callable[[str], Awaitable[str]],
        on_event: OnEvent | None = None,
    ) -> None:
        values: list[Any] = [None] * graph.slots
        for name, slot in graph.start.items():
            values[slot] = start[name]
        self._graph = graph
        self._values = values
        self._join = join
        self._on_event = on_event
        self._session: str | None = None
        self._records: list[TurnRecord] = []
        self._started: set[str] = set()
        self._cleaned: set[str] = set()
        self._ending: Ending | None = None
        self._zero = perf_counter()

    async def run(self) -> Outcome:
        """Run every stage; raises what the first failing stage raised, after its clean-ups have run (DESIGN §5).

        A failure is told to the error observers before it leaves; a cancellation is not (BEHAVIOURS T29).
        """
        try:
            try:
                await self._run_groups()
            except _Ends as ends:
                await self._unwind()
                await self._deliver_ending(ends)
        except BaseException as error:
            await self._unwind()
            if isinstance(error, Exception):
                await self._report_turn(error)
            raise
        values = self._values
        return Outcome(
            {name: values[slot] for name, slot in self._graph.values.items()},
            self._ending,
            tuple(self._records),
        )

    # Scheduling.

    async def _run_groups(self) -> None:
        nodes = self._graph.nodes
        for group in self._graph.groups:
            if len(group) == 1:
                await self._run_node(nodes[group[0]])
            else:
                await self._run_side_by_side(group)

    async def _run_side_by_side(self, group: tuple[int, ...]) -> None:
        """Run nodes as tasks, each once those it waits for are over; the first failure cancels the others."""
        over = {index: trio.Event() for index in group}
        failure: Exception | None = None

        async def run(index: int) -> None:
            nonlocal failure
            for other in self._graph.waits[index]:
                if other in over:
                    await over[other].wait()
            try:
                await self._run_node(self._graph.nodes[index])
            except Exception as error:  # noqa: BLE001 (raised below by itself, not in a group)
                failure = failure or error
                nursery.cancel_scope.cancel()
            else:
                over[index].set()

        async with trio.open_nursery() as nursery:
            for index in group:
                nursery.start_soon(run, index)
        if failure is not None:
            raise failure

    async def _run_node(self, node: GraphNode) -> None:
        if node.each is not None:
            await self._run_each(node)
            return
        step = node.steps[0]
        verdict = await self._run_step(step)
        if verdict is not None:
            raise _Ends(step, verdict)

    async def _run_each(self, node: GraphNode) -> None:
        """Run the steps of a node item by item; one failing item does not stop the others (BEHAVIOURS T28)."""
        values = self._values
        kept: list[Envelope] = []
        failure: Exception | None = None
        for step in node.steps:
            if step.into is not None:
                values[step.into] = []
        for item in unpack_batch(values[node.items]):
            values[node.item] = item
            try:
                for step in node.steps:
                    if await self._run_step(step, each=True) is not None:
                        break
                else:
                    kept.append(values[node.item])
            except Exception as error:  # noqa: BLE001 (the first is raised when every item had its turn)
                kept.append(values[node.item])
                if failure is None:
                    failure = error
                else:
                    log_exception("turn.item_failed", error, list=node.each)
        values[node.kept] = kept
        if failure is not None:
            raise failure

    # One stage.

    async def _run_step(self, step: Step, *, each: bool = False) -> Denial | Mapping[str, Any] | None:
        """Run one stage; returns the denial or claim that keeps what follows from running, if there is one."""
        values = self._values
        began = perf_counter()
        if not step.enabled:
            self._yield_nothing(step, each)
            self._record(step, "", began, "off")
            return None
        if step.when is not None and not step.when.matches(values[step.message], self._session):
            self._yield_nothing(step, each)
            self._record(step, "", began, "skipped")
            return None
        if step.has_cleanup:
            self._started.add(step.id)
        if step.fire is not None:
            values[step.fire] = partial(self._fire, step)
        failures = _Failures(self, step)
        wait: Wait = unlimited
        if step.cleanup_for is not None:
            self._cleaned.add(step.id)
            wait = Shielded(step.timeout or REPORTING_PATIENCE)
        elif step.timeout is not None:
            wait = Until(trio.current_time() + step.timeout)
        verdict: Denial | Mapping[str, Any] | None
        try:
            verdict, who, outcome = await _RUN[step.kind](self, step, wait, failures, each)
            if failures.kept is not None:
                await failures.tell_kept()
        except Expired:
            verdict, who, outcome = await self._expire(step, began, each)
        except BaseException as error:
            name = "cancelled" if isinstance(error, trio.Cancelled) else "failed"
            self._record(step, failures.last, began, name)
            raise
        self._record(step, who, began, outcome)
        if step.makes_message and step.into is not None:
            values[step.into] = addressed(values[step.into])
        if step.joins is not None and step.into is not None:
            session_id = values[step.into] = str(values[step.into])
            values[step.joins] = _with_session(values[step.message], session_id)
            self._session = await self._join(session_id)
        return verdict

    async def _expire(self, step: Step, began: float, each: bool) -> tuple[Denial | None, str, str]:
        """The time of a stage is up: `on_failure` says what that means."""
        late = trio.TooSlowError(f"stage `{step.id}` took longer than {step.timeout:g} seconds")
        if step.on_failure == "propagate":
            self._record(step, "", began, "timeout")
            raise late
        await self._report(step.id, late)
        if step.on_failure == "deny":
            return Denial(BROKEN_GATE, "", broken=True), "", "timeout"
        self._yield_nothing(step, each)
        return None, "", "timeout"

    def _record(self, step: Step, who: str, began: float, outcome: str) -> None:
        self._records.append(TurnRecord(step.id, who, began - self._zero, perf_counter() - began, outcome))

    def _put(self, step: Step, value: Any, each: bool) -> None:
        if step.into is None:
            return
        if each:
            self._values[step.into].append(value)
        else:
            self._values[step.into] = value

    def _yield_nothing(self, step: Step, each: bool) -> None:
        """What a stage yields that is off, skipped or unanswered: its `default`, else its `combine`'s empty value."""
        values = self._values
        for _, before, after in step.changes:
            values[after] = values[before]
        if step.into is not None:
            value = self._default(step)
            if value is None and step.kind == "broadcast" and step.combine is not None:
                value = thaw(EMPTY_VALUES[step.combine]) or type(EMPTY_VALUES[step.combine])()
            self._put(step, value, each)

    def _default(self, step: Step) -> Any:
        if step.default is None:
            return None
        return step.default.fill(partial(self._look_up, step))

    def _look_up(self, step: Step, name: str) -> Any:
        slot = step.sources.get(name)
        if slot is not None:
            return self._values[slot]
        return field_of(self._values[step.message], name)

    def _answer(self, step: Step, value: Any, who: str, each: bool) -> tuple[None, str, str]:
        """Take the answer of a stage that must have one, or its default."""
        if value is None or (step.falsy and not value):
            value = self._default(step)
            if value is None:
                raise NoAnswerError(step.id, step.hook)
            self._put(step, value, each)
            return None, "", "default"
        self._put(step, value, each)
        return None, who, "ok"

    # One stage, by kind.

    async def _firstresult(self, step: Step, wait: Wait, failures: _Failures, each: bool) -> Any:
        value, who = await firstresult(step.calls, self._values, wait, failures)
        return self._answer(step, value, who, each)

    async def _stream(self, step: Step, wait: Wait, failures: _Failures, each: bool) -> Any:
        pulled = Pulled([])
        tell = partial(self._tell, step)
        try:
            value, who = await stream(step.calls, self._values, wait, failures, tell, pulled, step.manner)
        except BaseException:
            # Who cleans up after this stage is told the text so far (DESIGN §2, `cleanup_for`).
            self._put(step, pulled.text, each)
            raise
        return self._answer(step, value, who, each)

    async def _broadcast(self, step: Step, wait: Wait, failures: _Failures, each: bool) -> Any:
        results = await broadcast(step.calls, self._values, wait, failures)
        if step.into is None:
            return None, "", "ok"
        value = _COMBINE[step.combine or "list"](results)
        answered = any(result is not None for result in results) and not (step.combine == "concat" and not value)
        if not answered or (step.falsy and not value):
            self._yield_nothing(step, each)
            return None, "", "default"
        self._put(step, value, each)
        return None, "", "ok"

    async def _observer(self, step: Step, wait: Wait, failures: _Failures, each: bool) -> Any:
        await observer(step.calls, self._values, wait, failures)
        return None, "", "ok"

    async def _void(self, step: Step, wait: Wait, failures: _Failures, each: bool) -> Any:
        await void(step.calls, self._values, wait, failures)
        return None, "", "ok"

    async def _modifying(self, step: Step, wait: Wait, failures: _Failures, each: bool) -> Any:
        merged = await modifying(step.calls, self._values, wait, failures)
        values = self._values
        known: set[str] = set()
        for name, before, after in step.changes:
            parts = (merged.get(f"prepend_{name}"), merged.get(name, values[before]), merged.get(f"append_{name}"))
            known.update((name, f"prepend_{name}", f"append_{name}"))
            if parts[0] is None and parts[2] is None:
                values[after] = thaw(parts[1])
            else:
                values[after] = "\n\n".join(str(part) for part in parts if part)
        for name in merged.keys() - known:
            log_warning("hook.change_not_permitted", stage=step.id, value=name)
        return None, "", "ok"

    async def _claiming(self, step: Step, wait: Wait, failures: _Failures, each: bool) -> Any:
        claim, who = await claiming(step.calls, self._values, wait, failures)
        return (claim, who, "claimed") if claim.get("handled") else (None, "", "ok")

    async def _gate(self, step: Step, wait: Wait, failures: _Failures, each: bool) -> Any:
        denial = await gate(step.calls, self._values, wait, failures)
        return (None, "", "ok") if denial is None else (denial, denial.plugin, "denied")

    # Streams.

    async def _tell(self, step: Step, event: StreamEvent) -> None:
        if event.kind == "error":
            await self._report(step.id, stream_error(event.data))
        if self._on_event is not None and step.tells:
            told = self._on_event(event, self._values[step.message])
            if is_awaitable(told):
                await told

    # Endings.

    async def _deliver_ending(self, ends: _Ends) -> None:
        """A denied or claimed turn still sends one reply, if there is one, through the stages for each reply."""
        verdict, values = ends.verdict, self._values
        denied = isinstance(verdict, Denial)
        self._ending = Ending("denied" if denied else "claimed", ends.step.id)
        replies: list[Envelope] = []
        if isinstance(verdict, Denial):
            replies = [self._reply({"content": verdict.reason, "kind": "denied"}, ends.step)]
        elif verdict.get("reply") is not None:
            replies = [self._reply(normalize_envelope(verdict["reply"]), ends.step)]
        for node in self._graph.nodes:
            if node.each == OUTBOUNDS:
                values[node.items] = replies
                await self._run_node(node)
                replies = values[node.kept]
        slot = self._graph.values.get(OUTBOUNDS)
        if slot is not None:
            values[slot] = replies

    def _reply(self, reply: dict[str, Any], step: Step) -> dict[str, Any]:
        message = self._values[step.message]
        for name in (SESSION, "channel", "chat_id"):
            slot = step.sources.get(name)
            value = self._values[slot] if slot is not None else field_of(message, name)
            if value is not None:
                reply.setdefault(name, value)
        return reply

    # Failures.

    async def _unwind(self) -> None:
        """Run the clean-ups whose target has started and that have not run yet, in reverse order.

        Their own failures are told and logged: how the turn ended is what leaves it (BEHAVIOURS T20, T22).
        """
        for step in reversed(self._graph.cleanups):
            if step.cleanup_for in self._started and step.id not in self._cleaned:
                try:
                    await self._run_step(step)
                except Exception as error:  # noqa: BLE001 (it must not mask how the turn ended)
                    await self._report(step.id, error)

    async def _report_turn(self, error: Exception) -> None:
        await self._report(error.stage if isinstance(error, NoAnswerError) else "turn", error)

    async def _report(self, stage: str, error: Exception) -> None:
        """Log a failure and tell the error observers, each by itself, whatever else is cancelled (BEHAVIOURS H19)."""
        log_exception("turn.failure", error, stage=stage)
        calls = self._graph.observers
        if not calls.items:
            return
        values = {"stage": stage, "error": error, "message": self._values[self._graph.values["message"]]}
        if values["message"] is None:
            values["message"] = self._values[self._graph.start["message"]]

        async def log(call: Call, failure: Exception) -> None:
            log_warning("hook.on_error_failed", stage=stage, adapter=call.plugin, error=failure)

        await observer(calls, values, Shielded(REPORTING_PATIENCE), log)

    # Points that implementations fire themselves.

    async def _fire(self, step: Step, name: str, /, **payload: Any) -> Any:
        """Call a hook point that the pipeline declares under `hooks:`; returns what its kind combines.

        It may name the payload and every value that the firing stage can see. A gate gives {"deny": reason} or None.
        """
        point = self._graph.fired.get(name)
        if point is None:
            known = self._graph.fired
            advice = did_you_mean(name, known) or "declare it under `hooks:` in the pipeline file"
            raise BubError(f"stage `{step.id}` fires `{name}`, which this pipeline does not have", help=advice)
        seen = {value: self._values[slot] for value, slot in step.sources.items()}
        values = {**seen, "fire": partial(self._fire, step), **payload}
        calls = point.calls_for(values)
        for item in point.implementations:
            for argument in item.required:
                values.setdefault(argument, None)
        wait: Wait = unlimited if point.timeout is None else Until(trio.current_time() + point.timeout)
        failures = _Failures(self, replace(step, on_failure=point.on_failure, cleanup_for=None))
        try:
            return await _FIRE[point.kind](self, step, point, calls, values, wait, failures)
        except Expired:
            late = trio.TooSlowError(f"hook `{name}` took longer than {point.timeout:g} seconds")
            if point.on_failure == "propagate":
                raise late from None
            await self._report(name, late)
            return {"deny": BROKEN_GATE} if point.kind == "gate" else _UNANSWERED[point.kind]()


class _Failures:
    """What is done with an implementation that fails in one stage, as its policy says.

    A clean-up runs all its implementations: there the first error is kept, and raised or told when all have run.
    """

    __slots__ = ("_step", "_turn", "kept", "last")

    def __init__(self, turn: Turn, step: Step) -> None:
        self._turn = turn
        self._step = step
        self.kept: list[tuple[Call, Exception]] | None = None
        self.last = ""

    async def __call__(self, call: Call, error: Exception) -> None:
        self.last = call.plugin
        if self._step.cleanup_for is not None:
            self.kept = [*(self.kept or ()), (call, error)]
        elif self._step.on_failure == "propagate":
            raise error
        else:
            await self._turn._report(f"{call.hook}:{call.plugin}", error)

    async def tell_kept(self) -> None:
        """Raise the first error of a clean-up where its policy propagates; tell the others."""
        kept = self.kept or []
        first = kept[0][1] if self._step.on_failure == "propagate" else None
        for call, error in kept:
            if error is not first:
                await self._turn._report(f"{call.hook}:{call.plugin}", error)
        if first is not None:
            raise first


def _with_session(message: Envelope, session_id: str) -> Envelope:
    """The message with its session's id; a copy, since the caller's own is not ours to change (BEHAVIOURS T6)."""
    if isinstance(message, dict):
        return {**message, SESSION: session_id}
    if is_dataclass(message) and not isinstance(message, type) and hasattr(message, SESSION):
        return replace(message, **{SESSION: session_id})
    return message


def _concat(results: list[Any]) -> list[Envelope]:
    return [item for batch in results for item in unpack_batch(batch)]


_COMBINE: Mapping[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "merge": merge_low_to_high,
    "concat": _concat,
    "join": join_low_to_high,
}

_RUN: Mapping[str, Callable[..., Awaitable[Any]]] = {
    "firstresult": Turn._firstresult,
    "broadcast": Turn._broadcast,
    "observer": Turn._observer,
    "void": Turn._void,
    "modifying": Turn._modifying,
    "claiming": Turn._claiming,
    "gate": Turn._gate,
    "stream": Turn._stream,
}


async def _fire_first(turn: Turn, step: Step, point: FiredPoint, *call: Any) -> Any:
    value, _ = await firstresult(*call)
    return value


async def _fire_stream(
    turn: Turn, step: Step, point: FiredPoint, calls: Calls, values: Any, wait: Wait, failed: Failed
) -> Any:
    value, _ = await stream(calls, values, wait, failed, partial(turn._tell, step), Pulled([]), point.manner)
    return value


async def _fire_claiming(turn: Turn, step: Step, point: FiredPoint, *call: Any) -> Any:
    claim, _ = await claiming(*call)
    return claim


async def _fire_gate(turn: Turn, step: Step, point: FiredPoint, *call: Any) -> Any:
    denial = await gate(*call)
    return None if denial is None else {"deny": denial.reason}


def _plainly(kind: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def fire(turn: Turn, step: Step, point: FiredPoint, *call: Any) -> Any:
        return await kind(*call)

    return fire


_FIRE: Mapping[str, Callable[..., Awaitable[Any]]] = {
    "firstresult": _fire_first,
    "broadcast": _plainly(broadcast),
    "observer": _plainly(observer),
    "void": _plainly(void),
    "modifying": _plainly(modifying),
    "claiming": _fire_claiming,
    "gate": _fire_gate,
    "stream": _fire_stream,
}

_UNANSWERED: Mapping[str, Callable[[], Any]] = {
    "firstresult": lambda: None,
    "broadcast": list,
    "observer": lambda: None,
    "void": lambda: None,
    "modifying": dict,
    "claiming": lambda: dict(UNCLAIMED),
    "stream": lambda: None,
}
"""What firing a point comes to when its time is up and its policy goes on."""
