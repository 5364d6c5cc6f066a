"""The data of a turn: the values that its stages hand on, and what is noted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import trio

from bub.base.trace import Ending, Raw, Trace
from bub.base.waiting import MovingDeadline, is_awaitable
from bub.envelope import Envelope
from bub.hook_registry import HookRegistry
from bub.hooks.binding import Call, Calls
from bub.hooks.facts import SESSION
from bub.hooks.frozen import FrozenDict
from bub.hooks.kinds.stream import stream_error
from bub.log import log_exception
from bub.pipeline.run.failures import tell_observers
from bub.pipeline.run.graph import FiredPoint, Graph, Step
from bub.pipeline.run.holding import Held
from bub.streaming import StreamEvent

OnEvent: TypeAlias = Callable[[StreamEvent, Envelope], Any]
"""Told of each stream event as it comes, with the message of the turn; plain or async."""


_NONE: Mapping[str, Any] = MappingProxyType({})


class Runs(Protocol):
    """What runs stages of a turn: `at` is the id of the one that runs now, "" between two of them."""

    at: str


class TurnState:
    """What a turn on a graph has made so far.

    `values` are its slots, laid out by the graph; `known` is what `when` may ask beside the message. `asked` are the
    plugins that were asked at a stage, by its id, before the turn went on from another graph. `failures` are
    what stages raised, each with the stage, `late` those of them that are time-outs, `kept` what failed in a clean-up
    that runs. `held` is what streams have said that stages below still judge. `limit` bounds what the turn does one
    after another, `bounds` are all that bound something of it now. `started` and `cleaned` are ids of stages: those
    that a clean-up waits for, and clean-ups that have run. `strands` are what runs stages of it now.
    """

    __slots__ = (
        "asked",
        "bounds",
        "cleaned",
        "ended_by",
        "failures",
        "graph",
        "handlers",
        "held",
        "kept",
        "known",
        "late",
        "limit",
        "on_event",
        "records",
        "registered",
        "started",
        "strands",
        "values",
        "zero",
    )

    def __init__(
        self,
        graph: Graph,
        start: Mapping[str, Any],
        *,
        on_event: OnEvent | None = None,
        handlers: HookRegistry | None = None,
    ) -> None:
        values: list[Any] = [None] * graph.slots
        for name, slot in graph.start.items():
            values[slot] = start[name]
        self.graph = graph
        self.values = values
        self.on_event = on_event
        self.handlers = handlers if handlers is not None else HookRegistry()
        self.registered = self.handlers.registered
        self.known: Mapping[str, str] = _NONE
        self.asked: Mapping[str, frozenset[str]] = _NONE
        self.failures: list[tuple[BaseException, str]] = []
        self.held: dict[str, Held] = {}
        self.late: list[BaseException] = []
        self.limit = MovingDeadline()
        self.bounds: list[MovingDeadline] = [self.limit]
        self.records: list[Raw] = []
        self.kept: dict[str, list[tuple[Call, Exception]]] = {}
        self.started: set[str] = set()
        self.strands: list[Runs] = []
        self.cleaned: set[str] = set()
        self.ended_by: Ending | None = None
        self.zero = perf_counter()

    @property
    def trace(self) -> Trace:
        """What became of each stage so far."""
        return Trace(self.records, self.zero)

    def value(self, name: str) -> Any:
        """The last version of a value; None when no stage made it."""
        return self.values[self.graph.values.get(name, self.graph.nothing)]

    @property
    def stages_now(self) -> tuple[str, ...]:
        """The ids of the stages that run now; a stage for each of a list is one of them item by item."""
        return tuple([strand.at for strand in self.strands if strand.at])

    @property
    def session_id(self) -> str | None:
        """The session's id once the turn has arrived; None before, and if no stage makes it."""
        slot = self.graph.arrived.get(SESSION)
        return None if slot is None else self.values[slot]

    @property
    def message(self) -> Envelope:
        """The message as the stages up to the session have left it."""
        return self.values[self.graph.arrived["message"]]

    @contextmanager
    def bounded_by(self, limit: MovingDeadline) -> Iterator[None]:
        """Count a limit among those that bound something of the turn, as long as the block lasts."""
        self.bounds.append(limit)
        try:
            yield
        finally:
            self.bounds.remove(limit)

    # What is noted.

    def record(self, step: Step, began: float, outcome: str) -> None:
        """Note what became of a stage, with nobody who decided it."""
        self.records.append((step.id, "", began, perf_counter(), outcome))

    def record_failure(self, step: Step, began: float, error: BaseException) -> None:
        """Note that a stage ended with an error."""
        self.failures.append((error, step.id))
        if step.fire is not None:
            self.values[step.fire] = None  # it names the turn
        # What is cancelled while it runs several at once comes as a group of nothing but cancellations.
        if isinstance(error, trio.Cancelled) or (
            isinstance(error, BaseExceptionGroup) and error.split(trio.Cancelled)[1] is None
        ):
            outcome = "cancelled"
        else:
            outcome = "timeout" if any(error is late for late in self.late) else "failed"
        self.record(step, began, outcome)

    def stage_of(self, error: BaseException) -> str:
        """The stage that an error came from; "turn" if it came from none."""
        return next((stage for failure, stage in self.failures if failure is error), "turn")

    # Who is called and told.

    def calls_of(self, step: Step) -> Calls:
        """Whom a stage calls: the handlers that are registered now, then what plugins bring (DESIGN §3)."""
        if step.hook not in self.registered:
            return step.calls

        def payload(values: list[Any]) -> dict[str, Any]:
            return FrozenDict({name: values[slot] for name, slot in step.offered.items()})

        return self._behind_handlers(step.calls, step.hook, step, payload)

    def calls_of_fired(self, point: FiredPoint, values: Mapping[str, Any]) -> Calls:
        """Whom firing a point calls with these values: the handlers that are registered now, then the plugins."""
        calls = point.calls_for(values)
        if point.name not in self.registered:
            return calls

        def payload(values: Mapping[str, Any]) -> dict[str, Any]:
            return FrozenDict({key: values[key] for key in point.offered if key in values and key != "fire"})

        return self._behind_handlers(calls, point.name, point, payload)

    def _behind_handlers(
        self, calls: Calls, hook: str, called: Step | FiredPoint, payload: Callable[[Any], dict[str, Any]]
    ) -> Calls:
        # A turn may have begun on a pipeline that gave the point another kind than what is loaded now.
        if self.handlers.points.get(hook) != called.kind.facts.handled_as:
            return calls
        return self.handlers.in_front_of(calls, hook, payload, allowed_plugins=called.allowed, manner=called.manner)

    async def report(self, stage: str, error: Exception, *, shield: bool = False) -> None:
        """Log a failure and tell the error observers, each by itself and within its time (BEHAVIOURS H19).

        With `shield`, while a turn is unwound, they get it whatever else is cancelled.
        """
        await tell_observers(self.graph, stage, error, self._newest_message, shield=shield)

    async def tell(self, step: Step, event: StreamEvent) -> None:
        """Hand an event of a stage's stream to whoever listens; an `error` event goes to the error observers too.

        What has to be judged first is kept until then.
        """
        if event.kind == "error":
            await self.report(step.id, stream_error(event.data))
        if self.on_event is not None and (step.tells or event.kind not in ("text", "reasoning")):
            held = self.held.get(step.id) if self.held else None
            if held is None or not held.keep(event):
                await self._hand_over(event, self.values[step.message], step.id)

    async def tell_at_once(self, event: StreamEvent) -> None:
        """Hand on an event that comes while no stream is read, such as what a tool tells while it runs.

        It waits as an event of a stream does. Raises `ValueError` for words of an answer: these come with a stream.
        """
        if event.kind in ("text", "reasoning"):
            raise ValueError(f"a `{event.kind}` event is part of the answer, and comes with its stream")
        if not any(held.keep(event) for held in self.held.values()):
            await self._hand_over(event, self._newest_message, "turn")

    @property
    def _newest_message(self) -> Envelope:
        message = self.values[self.graph.values["message"]]
        return message if message is not None else self.values[self.graph.start["message"]]

    # What waits for those who judge it.

    def hold_back(self, step: Step) -> None:
        """Keep what a stage is going to say until those below who judge it have spoken; not if nobody does."""
        hold = self.graph.holds.get(step.id)
        if hold is None or self.on_event is None:
            return
        message = self.values[step.message]
        waiting = {check.id for check, each in hold.checks if self._will_speak(check, each, step)}
        if waiting:
            self.held[step.id] = Held(hold, waiting, message)

    def _will_speak(self, check: Step, each: bool, stream: Step) -> bool:
        """Whether a stage below has somebody to ask, and may be meant for this message, as far as that is known."""
        if not check.calls.items and check.hook not in self.registered:
            return False
        if check.when is None or each or check.message != stream.message:
            return True
        return check.when.matches(self.values[check.message], self.known)

    async def hear(self, *checks: Step) -> None:
        """Tell what waited for these stages, which have allowed it or were not meant for it, and waits for no other."""
        for stage, held in list(self.held.items()):
            held.waiting.difference_update(check.id for check in checks)
            if not held.waiting:
                del self.held[stage]
                for event in held.as_judged(self.values):
                    await self._hand_over(event, held.message, stage)

    async def withhold(self) -> None:
        """Tell of what still waits no more than that it has ended: somebody was against it."""
        while self.held:
            stage, held = self.held.popitem()
            for event in held.without_words():
                await self._hand_over(event, held.message, stage)

    async def _hand_over(self, event: StreamEvent, message: Envelope, stage: str) -> None:
        if self.on_event is None:
            return
        try:
            heard = self.on_event(event, message)
            if is_awaitable(heard):
                await heard
        except Exception as error:  # noqa: BLE001 (who only watches does not change the answer, T17)
            log_exception("turn.on_event_failed", error, stage=stage)
            self.on_event = None
