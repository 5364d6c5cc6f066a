"""Running a graph: one turn, from the values it starts with to the values it leaves.

The engine knows kinds, stages and values, and no hook by name: any graph runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import is_dataclass, replace
from enum import Enum
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeAlias

import trio

from bub.binding import Call, Calls, Manner
from bub.calling import (
    BROKEN_GATE,
    UNCLAIMED,
    Denial,
    Failed,
    Pulled,
    broadcast,
    broadcast_shielded,
    claiming,
    firstresult,
    gate,
    join_low_to_high,
    merge_low_to_high,
    modifying,
    observer,
    stream,
    stream_error,
    void,
)
from bub.diagnostics import did_you_mean
from bub.envelope import ADDRESS, Envelope, addressed, field_of, normalize_envelope, unpack_batch
from bub.errors import BubError, NoAnswerError
from bub.frozen import FrozenDict, thaw
from bub.hook_registry import CALLED_AS, HookRegistry
from bub.kinds import OUTBOUNDS, SESSION
from bub.log import log_exception, log_info, log_warning
from bub.pipeline.graph import Chain, FiredPoint, Graph, GraphNode, Step
from bub.pipeline.plan import EMPTY_VALUES
from bub.pipeline.trace import Ending, Raw, Trace
from bub.streaming import StreamEvent
from bub.waiting import Expired, Until, Wait, Within, is_awaitable, unlimited

REPORTING_PATIENCE = 10.0
"""How long, in seconds, error observers may take while a turn is being unwound."""

OnEvent = Callable[[StreamEvent, Envelope], Any]
"""Told of each stream event as it comes, with the message of the turn; plain or async."""


Verdict: TypeAlias = Denial | Mapping[str, Any] | None
"""What a gate or claim says against what follows; None where it may go on."""

Answer: TypeAlias = tuple[Verdict, str, str]
"""What became of a stage: the verdict, the plugin that decided, and the outcome for the record."""

_DONE: Answer = (None, "", "ok")
_LATE: Answer = (None, "", "timeout")


class _TooSlow(Enum):
    """What a stage came to whose time was up, where its policy goes on."""

    TOO_SLOW = "too slow"


_TOO_SLOW: Final = _TooSlow.TOO_SLOW


class TooSlowError(BubError, trio.TooSlowError):
    """The time that the pipeline file gives a stage or a hook is up."""


MORE_TIME = "give it more `timeout` in the pipeline file, or find out what it waited for"


class _Ends(Exception):  # noqa: N818 (the turn ends; nothing went wrong)
    """A gate of the turn denied, or a claim took it over; never leaves this module."""

    def __init__(self, step: Step, verdict: Denial | Mapping[str, Any]) -> None:
        super().__init__(step.id)
        self.step = step
        self.verdict = verdict


class Turn:
    """One run of a graph. `join` is awaited with the session's id once it is made, and says "new" or "known".

    `handlers` are those that come and go at run time; a stage calls, in front of its plugins, the ones that are
    registered when it begins.
    """

    __slots__ = (
        "_cleaned",
        "_failures",
        "_graph",
        "_handlers",
        "_join",
        "_kept",
        "_known",
        "_late",
        "_on_event",
        "_records",
        "_registered",
        "_started",
        "_values",
        "_zero",
        "ended_by",
    )

    def __init__(
        self,
        graph: Graph,
        start: Mapping[str, Any],
        *,
        join: Callable[[str], Awaitable[str]],
        on_event: OnEvent | None = None,
        handlers: HookRegistry | None = None,
    ) -> None:
        values: list[Any] = [None] * graph.slots
        for name, slot in graph.start.items():
            values[slot] = start[name]
        self._graph = graph
        self._values = values
        self._join = join
        self._on_event = on_event
        self._handlers = handlers if handlers is not None else HookRegistry()
        self._registered = self._handlers.registered
        self._known: Mapping[str, str] = {}
        self._failures: list[tuple[BaseException, str]] = []
        self._late: list[BaseException] = []
        self._records: list[Raw] = []
        self._kept: dict[str, list[tuple[Call, Exception]]] = {}
        self._started: set[str] = set()
        self._cleaned: set[str] = set()
        self.ended_by: Ending | None = None
        self._zero = perf_counter()

    @property
    def trace(self) -> Trace:
        """What became of each stage so far."""
        return Trace(self._records, self._zero)

    def value(self, name: str) -> Any:
        """The last version of a value; None when no stage made it."""
        return self._values[self._graph.values.get(name, self._graph.nothing)]

    async def run(self) -> None:
        """Run every stage; raises what the first failing stage raised, after its clean-ups have run (DESIGN §5).

        A failure is told to the error observers before it leaves; a cancellation is not (BEHAVIOURS T29).
        """
        try:
            try:
                await self._run_parts()
            except _Ends as ends:
                await self._unwind()
                await self._deliver_ending(ends)
        except BaseException as error:
            await self._unwind()
            if isinstance(error, Exception):
                self.ended_by = Ending("failed", self._stage_of(error))
                log_info("turn.stages", stages=str(self.trace))
                await self._report(error.stage if isinstance(error, NoAnswerError) else "turn", error, shield=True)
            raise

    # Scheduling.

    async def _run_parts(self) -> None:
        for part in self._graph.parts:
            if isinstance(part, Chain):
                await self._run_steps(part.steps)
            elif isinstance(part, GraphNode):
                await self._run_each(part)
            else:
                await self._run_side_by_side(part.nodes)

    def _run_node(self, node: GraphNode) -> Awaitable[object]:
        return self._run_steps(node.steps) if node.each is None else self._run_each(node)

    async def _run_side_by_side(self, group: tuple[int, ...]) -> None:
        """Run nodes as tasks, each once those it waits for are over; the first failure cancels the others."""
        over = {index: trio.Event() for index in group}
        failures: list[BaseException] = []

        async def run(index: int) -> None:
            for other in self._graph.waits[index]:
                if other in over:
                    await over[other].wait()
            try:
                await self._run_node(self._graph.nodes[index])
            except trio.Cancelled:
                raise
            except BaseException as error:  # noqa: BLE001 (raised below by itself, not in a group)
                failures.append(error)
                nursery.cancel_scope.cancel()
            else:
                over[index].set()

        raised = False
        try:
            async with trio.open_nursery() as nursery:
                for index in group:
                    nursery.start_soon(run, index)
            if failures:
                raised = True
                raise failures[0]
        finally:
            for error in failures[raised:]:  # what cannot leave the turn must not be lost
                if not isinstance(error, _Ends):
                    log_exception("turn.stage_failed", error)

    async def _run_each(self, node: GraphNode) -> None:
        """Run the steps of a node item by item; one failing item does not stop the others (BEHAVIOURS T28)."""
        values = self._values
        items = unpack_batch(values[node.items])
        if node.idle and not (self._registered and any(step.hook in self._registered for step in node.steps)):
            values[node.kept] = items
            for step in node.steps:
                self._record(step, perf_counter(), "ok" if step.enabled else "off")
            return
        kept: list[Envelope] = []
        failure: Exception | None = None
        for step in node.steps:
            if step.into is not None:
                values[step.into] = []
        for item in items:
            values[node.item] = item
            try:
                if await self._run_steps(node.steps, each=True) is None:
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

    # Stages.

    async def _run_steps(self, steps: Iterable[Step], *, each: bool = False) -> Verdict:
        """Run stages one after another, each as one coroutine of its kind.

        What a gate or claim says ends the turn; where it is for one item only, it is returned and the item is done.
        """
        values, records, registered = self._values, self._records, self._registered
        began = perf_counter()
        for step in steps:
            if step.guarded and not self._begin(step, each):
                if step.marks:
                    await self._mark(step)
                began = perf_counter()
                continue
            try:
                if step.direct:
                    calls = self._calls(step) if registered else step.calls
                    raw = await step.call(calls, values, unlimited, self._failed)
                elif step.timeout is None:
                    raw = await self._stream(step, unlimited)
                else:
                    raw = await self._ask(step)
                verdict, who, outcome = _FINISH[step.kind](self, step, raw, each)
            except BaseException as error:
                self._failures.append((error, step.id))
                self._record(step, began, self._name_of_failure(error))
                raise
            ended = perf_counter()
            records.append((step.id, who, began, ended, outcome))
            began = ended
            if step.marks:
                await self._mark(step)
                began = perf_counter()  # the wait for the session is not the next stage's
            if verdict is not None:
                if not each:
                    raise _Ends(step, verdict)
                return verdict
        return None

    def _begin(self, step: Step, each: bool) -> bool:
        """Note that a stage starts; false where it is off or its `when` does not match, and what it yields is there."""
        values = self._values
        if not step.enabled or (step.when is not None and not step.when.matches(values[step.message], self._known)):
            self._yield_nothing(step, each)
            self._record(step, perf_counter(), "skipped" if step.enabled else "off")
            return False
        if step.has_cleanup:
            self._started.add(step.id)
        if step.fire is not None:
            values[step.fire] = _Fire(self, step)
        return True

    async def _mark(self, step: Step) -> None:
        """A stage has made the message or the session's id: what follows from that for the turn."""
        values, into = self._values, step.into
        assert into is not None
        if step.joins is None:
            values[into] = addressed(values[into])
            return
        session_id = values[into] = str(values[into])
        values[step.joins] = _with_session(values[step.message], session_id)
        self._known = {SESSION: session_id, "session": await self._join(session_id)}

    async def _ask(self, step: Step) -> Any:
        """Call a stage's implementations where they have only so much time: a time-out, or a clean-up's own."""
        if step.cleanup_for is not None:
            return await self._clean_up(step)
        assert step.timeout is not None
        deadline = trio.current_time() + step.timeout
        try:
            if not step.waits or step.kind == "void":
                # A scope is opened only around what turns out to be awaited; void tells of those that had ended.
                return await self._call(step, Until(deadline))
            with trio.CancelScope(deadline=deadline):
                return await self._call(step, unlimited)
        except Expired:
            pass
        late = TooSlowError(f"stage `{step.id}` took longer than {step.timeout:g} seconds", help=MORE_TIME)
        if step.on_failure == "propagate":
            self._late.append(late)
            raise late
        await self._report(step.id, late)
        return _TOO_SLOW

    def _call(self, step: Step, wait: Wait) -> Awaitable[Any]:
        if step.kind == "stream":
            return self._stream(step, wait)
        return step.call(self._calls(step), self._values, wait, self._failed)

    def _calls(self, step: Step) -> Calls:
        """Whom a stage calls: the handlers that are registered now, then what plugins bring (DESIGN §3)."""
        if step.hook not in self._registered:
            return step.calls

        def payload(values: list[Any]) -> dict[str, Any]:
            return FrozenDict({name: values[slot] for name, slot in step.offered.items()})

        return self._behind_handlers(step.calls, step.hook, step.kind, step.allowed, step.manner, payload)

    def _behind_handlers(
        self,
        calls: Calls,
        hook: str,
        kind: str,
        allowed: frozenset[str],
        manner: Manner,
        payload: Callable[[Any], dict[str, Any]],
    ) -> Calls:
        # A turn may have begun on a pipeline that gave the point another kind than what is loaded now.
        if self._handlers.points.get(hook) != CALLED_AS.get(kind):
            return calls
        return self._handlers.in_front_of(calls, hook, payload, allowed_plugins=allowed, manner=manner)

    async def _stream(self, step: Step, wait: Wait) -> Any:
        pulled = Pulled([], heard=self._on_event is not None)
        tell = partial(self._tell, step)
        try:
            return await stream(step.calls, self._values, wait, self._failed, tell, pulled, step.manner)
        except BaseException:
            # Who cleans up after this stage is told the text so far (DESIGN §2, `cleanup_for`).
            self._put(step, pulled.text, each=False)
            raise

    async def _clean_up(self, step: Step) -> Any:
        """Run a clean-up: nothing cancels it, each implementation has its own time, and all of them run.

        The first error counts where the policy propagates; the others are told.
        """
        self._cleaned.add(step.id)
        kept = self._kept[step.id] = []
        assert step.timeout is not None
        try:
            if step.kind == "broadcast" and step.waits:
                raw = await broadcast_shielded(step.calls, self._values, step.timeout, self._failed)
            else:
                wait = Within(step.timeout, shield=True)
                raw = await step.call(self._calls(step), self._values, wait, self._failed)
        finally:
            del self._kept[step.id]
        first = kept[0][1] if kept and step.on_failure == "propagate" else None
        for call, error in kept:
            if error is not first:
                await self._report(f"{call.hook}:{call.plugin}", error)
        if isinstance(first, trio.TooSlowError):
            self._late.append(first)
        if first is not None:
            raise first
        return raw

    def _name_of_failure(self, error: BaseException) -> str:
        # What is cancelled while it runs several at once comes as a group of nothing but cancellations.
        if isinstance(error, trio.Cancelled) or (
            isinstance(error, BaseExceptionGroup) and error.split(trio.Cancelled)[1] is None
        ):
            return "cancelled"
        return "timeout" if any(error is late for late in self._late) else "failed"

    def _stage_of(self, error: BaseException) -> str:
        """The stage that an error came from; "turn" where it came from none."""
        return next((stage for failure, stage in self._failures if failure is error), "turn")

    def _record(self, step: Step, began: float, outcome: str) -> None:
        self._records.append((step.id, "", began, perf_counter(), outcome))

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
            value = None if step.default is None else step.default(values)
            if value is None and step.combine is not None:
                value = EMPTY_VALUES[step.combine]()
            self._put(step, value, each)

    # What the implementations came to, by kind.

    def _finish_answer(self, step: Step, raw: tuple[Any, str] | _TooSlow, each: bool) -> Answer:
        value, who = (None, "") if raw is _TOO_SLOW else raw
        if value is None or (step.falsy and not value):
            if step.default is None:
                if step.kind == "stream":
                    self._put(step, "", each)  # the text so far, for who cleans up after it
                raise NoAnswerError(step.id, step.hook)
            self._yield_nothing(step, each)
            return _LATE if raw is _TOO_SLOW else (None, "", "default")
        self._put(step, value, each)
        return None, who, "ok"

    def _finish_broadcast(self, step: Step, raw: list[Any] | _TooSlow, each: bool) -> Answer:
        if raw is _TOO_SLOW:
            self._yield_nothing(step, each)
            return _LATE
        if step.combine is None:
            return _DONE
        value = _COMBINE[step.combine](raw)
        # An empty value says nobody answered, unless somebody did and answered with just that.
        if not value and (step.falsy or step.combine == "concat" or raw.count(None) == len(raw)):
            self._yield_nothing(step, each)
            return None, "", "default"
        self._put(step, value, each)
        return _DONE

    def _finish_telling(self, step: Step, raw: _TooSlow | None, each: bool) -> Answer:
        return _LATE if raw is _TOO_SLOW else _DONE

    def _finish_modifying(self, step: Step, raw: dict[str, Any] | _TooSlow, each: bool) -> Answer:
        if raw is _TOO_SLOW:
            self._yield_nothing(step, each)
            return _LATE
        values = self._values
        known: set[str] = set()
        for name, before, after in step.changes:
            value = thaw(raw.get(name, values[before]))
            known.add(name)
            if value is None or isinstance(value, str):
                known.update((f"prepend_{name}", f"append_{name}"))
                parts = (raw.get(f"prepend_{name}"), value, raw.get(f"append_{name}"))
                value = "\n\n".join(str(part) for part in parts if part) if any(parts) else value
            elif name == "message" and name in raw:
                value = _readdressed(value, values[before])
            values[after] = value
        for name in raw.keys() - known:
            log_warning("hook.change_not_possible", stage=step.id, value=name)
        return _DONE

    def _finish_claiming(self, step: Step, raw: tuple[Mapping[str, Any], str] | _TooSlow, each: bool) -> Answer:
        if raw is _TOO_SLOW:
            return _LATE
        claim, who = raw
        return (claim, who, "claimed") if claim.get("handled") else _DONE

    def _finish_gate(self, step: Step, raw: Denial | _TooSlow | None, each: bool) -> Answer:
        if raw is _TOO_SLOW:
            return Denial(BROKEN_GATE, "", broken=True), "", "timeout"
        return _DONE if raw is None else (raw, raw.plugin, "denied")

    # Streams.

    async def _tell(self, step: Step, event: StreamEvent) -> None:
        if event.kind == "error":
            await self._report(step.id, stream_error(event.data))
        if self._on_event is not None and (step.tells or event.kind not in ("text", "reasoning")):
            try:
                told = self._on_event(event, self._values[step.message])
                if is_awaitable(told):
                    await told
            except Exception as error:  # noqa: BLE001 (who only watches does not change the answer, T17)
                log_exception("turn.on_event_failed", error, stage=step.id)
                self._on_event = None

    # Endings.

    async def _deliver_ending(self, ends: _Ends) -> None:
        """A denied or claimed turn still sends one reply, if there is one, through the stages for each reply."""
        verdict, values = ends.verdict, self._values
        denied = isinstance(verdict, Denial)
        self.ended_by = Ending("denied" if denied else "claimed", ends.step.id)
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
                    await self._run_steps((step,))
                except Exception as error:  # noqa: BLE001 (it must not mask how the turn ended)
                    await self._report(step.id, error, shield=True)

    async def _failed(self, call: Call, error: Exception) -> None:
        """An implementation failed: kept in a clean-up, else raised or told as its stage's policy says."""
        kept = self._kept.get(call.stage)
        if kept is not None:
            kept.append((call, error))
        elif call.on_failure == "propagate":
            raise error
        else:
            await self._report(f"{call.hook}:{call.plugin}", error)

    async def _report(self, stage: str, error: Exception, *, shield: bool = False) -> None:
        """Log a failure and tell the error observers, each by itself and within its time (BEHAVIOURS H19).

        With `shield`, while a turn is unwound, they are told whatever else is cancelled.
        """
        message = self._values[self._graph.values["message"]]
        if message is None:
            message = self._values[self._graph.start["message"]]
        await tell_observers(self._graph, stage, error, message, shield=shield)

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
        if not point.implementations and name not in self._registered:
            return _UNANSWERED[point.kind]()
        seen = {value: self._values[slot] for value, slot in step.sources.items()}
        values = {**seen, "fire": _Fire(self, step), **payload}
        calls = point.calls_for(values)
        if name in self._registered:

            def told(values: Mapping[str, Any]) -> dict[str, Any]:
                return FrozenDict({key: values[key] for key in point.offered if key in values and key != "fire"})

            calls = self._behind_handlers(calls, name, point.kind, point.allowed, point.manner, told)
        for item in point.implementations:
            for argument in item.required:
                values.setdefault(argument, None)
        wait: Wait = unlimited if point.timeout is None else Until(trio.current_time() + point.timeout)
        try:
            return await _FIRE[point.kind](self, step, point, calls, values, wait, self._failed)
        except Expired:
            late = TooSlowError(f"hook `{name}` took longer than {point.timeout:g} seconds", help=MORE_TIME)
            if point.on_failure == "propagate":
                raise late from None
            await self._report(name, late)
            return {"deny": BROKEN_GATE} if point.kind == "gate" else _UNANSWERED[point.kind]()


class _Fire:
    """What an implementation is given as `fire` (DESIGN §2): the points that its pipeline declares."""

    __slots__ = ("_step", "_turn")

    def __init__(self, turn: Turn, step: Step) -> None:
        self._turn = turn
        self._step = step

    def __call__(self, name: str, /, **payload: Any) -> Awaitable[Any]:
        return self._turn._fire(self._step, name, **payload)

    def __contains__(self, name: object) -> bool:
        return name in self._turn._graph.fired


async def tell_observers(
    graph: Graph, stage: str, error: Exception, message: Envelope, *, shield: bool = False
) -> None:
    """Log a failure and tell the error observers of a graph, each by itself and within its time (BEHAVIOURS H19).

    With `shield` they are told whatever else is cancelled.
    """
    log_exception("turn.failure", error, stage=stage)
    if not graph.observers.items:
        return
    values = {"stage": stage, "error": error, "message": message}

    async def log(call: Call, failure: Exception) -> None:
        log_warning("hook.on_error_failed", stage=stage, adapter=call.plugin, error=failure)

    await observer(graph.observers, values, Within(REPORTING_PATIENCE, shield), log)


def _with_session(message: Envelope, session_id: str) -> Envelope:
    """The message with its session's id; a copy, since the caller's own is not ours to change (BEHAVIOURS T6)."""
    if isinstance(message, dict):
        return {**message, SESSION: session_id}
    if is_dataclass(message) and not isinstance(message, type) and hasattr(message, SESSION):
        try:
            return replace(message, **{SESSION: session_id})
        except (TypeError, ValueError):  # it will not be made anew with another session
            return message
    return message


def _readdressed(message: Envelope, before: Envelope) -> Envelope:
    """A message that replaces another one goes where that one went, in what it does not say itself."""
    if not isinstance(message, Mapping):
        return addressed(message)
    kept = {name: field_of(before, name) for name in (*ADDRESS, SESSION) if message.get(name) is None}
    return {**message, **{name: value for name, value in kept.items() if value is not None}}


def _concat(results: list[Any]) -> list[Envelope]:
    return [item for batch in results for item in unpack_batch(batch)]


_COMBINE: Mapping[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "merge": merge_low_to_high,
    "concat": _concat,
    "join": join_low_to_high,
}

_FINISH: Mapping[str, Callable[..., Answer]] = {
    "firstresult": Turn._finish_answer,
    "stream": Turn._finish_answer,
    "broadcast": Turn._finish_broadcast,
    "observer": Turn._finish_telling,
    "void": Turn._finish_telling,
    "modifying": Turn._finish_modifying,
    "claiming": Turn._finish_claiming,
    "gate": Turn._finish_gate,
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
    "gate": lambda: None,
    "stream": lambda: None,
}
"""What firing a point comes to that nobody implements, or whose time is up where its policy goes on."""
