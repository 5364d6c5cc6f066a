"""From a turn that is over to its spans: the turn, its stages, and what it did in them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from bub import __version__
from bub.base.trace import TurnRecord
from bub.base.tracing.activity import Activity
from bub.telemetry import names
from bub.telemetry.ended import EndedTurn
from bub.telemetry.facts import attributes_of, plain_facts
from bub.telemetry.said import as_texts

LONGEST_TEXT = 32_000
"""How many characters of one text a span holds, if content is wanted."""

_NOT_RUN = ("off", "skipped")
_FAILED = ("failed", "timeout")
_MCP = "mcp"
"""The surface of `bub mcp serve`: each turn of it answers a call of a tool."""

_CLIENTS = ("model", "server")


class SpanMaker:
    """Makes the spans of turns. `cover` takes secrets out of every text; `resource` says which process they are of."""

    def __init__(self, resource: Resource, cover: Callable[[str], str]) -> None:
        self._resource = resource
        self._cover = cover
        self._scope = InstrumentationScope("bub", __version__)
        self._steps: dict[int, Mapping[str, Any]] = {}
        self._graphs: list[Any] = []

    def make(self, turn: EndedTurn) -> Iterator[ReadableSpan]:
        """Make all spans of a turn, the turn's own first; none if it is not sampled."""
        if not turn.is_sampled:
            return
        trace = _Trace(turn, self._resource, self._scope)
        above = trace.context(turn.parent_id, is_remote=turn.is_remote) if turn.parent_id else None
        root = trace.context(turn.id)
        yield trace.span(
            f"{names.INVOKE_AGENT} {turn.profile}",
            root,
            above,
            turn.began,
            turn.ended,
            self._cover_all(_facts_of_turn(turn)),
            SpanKind.SERVER if above is not None and turn.is_remote else SpanKind.INTERNAL,
            turn.outcome == "failed",
        )
        steps = self._steps_of(turn.graph)
        ran: list[tuple[TurnRecord, SpanContext]] = []
        for record in turn.stages:
            if record.outcome in _NOT_RUN:
                continue
            context = trace.context(os.urandom(8).hex())
            ran.append((record, context))
            began = turn.zero + record.start
            facts = self._cover_all(_facts_of_stage(record, steps.get(record.stage)))
            is_wrong = record.outcome in _FAILED
            name = f"{names.STAGE} {record.stage}"
            yield trace.span(name, context, root, began, began + record.duration, facts, failed=is_wrong)
        for activity in turn.activities:
            yield self._span_of(activity, trace, ran, root)

    def _span_of(
        self, activity: Activity, trace: _Trace, ran: list[tuple[TurnRecord, SpanContext]], root: SpanContext
    ) -> ReadableSpan:
        turn = trace.turn
        parent = activity.parent
        above = trace.context(parent.id) if parent is not None else _stage_of(activity, turn, ran) or root
        ended = activity.ended if activity.ended is not None else turn.ended
        name, facts = attributes_of(activity, turn)
        return trace.span(
            self._cover(name),
            trace.context(activity.id),
            above,
            activity.began,
            ended,
            self._cover_all(facts),
            SpanKind.CLIENT if activity.kind in _CLIENTS else SpanKind.INTERNAL,
            activity.outcome == "failed",
        )

    def _cover_all(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Cover the secrets in all texts of the attributes, and cut those that are too long."""
        return {name: self._cover_one(value) for name, value in facts.items() if value not in (None, "", ())}

    def _cover_one(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._cover(value)[:LONGEST_TEXT]
        if isinstance(value, tuple):
            return tuple(map(self._cover_one, value))
        if isinstance(value, bool | int | float):
            return value
        return self._cover(json.dumps(value, ensure_ascii=False, default=str))[:LONGEST_TEXT]

    def _steps_of(self, graph: Any) -> Mapping[str, Any]:
        """What a graph has for its stages, by their ids: there is one graph for each profile that is loaded."""
        if id(graph) not in self._steps:
            if len(self._graphs) > 100:  # after as many reloads
                self._graphs.clear()
                self._steps.clear()
            self._graphs.append(graph)  # as long as it is kept, nothing else has its id
            self._steps[id(graph)] = {step.id: step for step in graph.steps}
        return self._steps[id(graph)]


class _Trace(msgspec.Struct):
    """What the spans of one turn share."""

    turn: EndedTurn
    resource: Resource
    scope: InstrumentationScope

    def context(self, span_id: str, *, is_remote: bool = False) -> SpanContext:
        turn = self.turn
        state = TraceState.from_header([turn.state]) if turn.state else None
        return SpanContext(int(turn.trace_id, 16), int(span_id, 16), is_remote, TraceFlags(TraceFlags.SAMPLED), state)

    def span(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        began: float,
        ended: float,
        attributes: Mapping[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
        failed: bool = False,
    ) -> ReadableSpan:
        return ReadableSpan(
            name,
            context,
            parent,
            self.resource,
            attributes,
            kind=kind,
            status=Status(StatusCode.ERROR) if failed else Status(StatusCode.UNSET),
            start_time=self._nanoseconds(began),
            end_time=self._nanoseconds(max(began, ended)),
            instrumentation_scope=self.scope,
        )

    def _nanoseconds(self, moment: float) -> int:
        return int((self.turn.at + moment - self.turn.began) * 1e9)


def _stage_of(activity: Activity, turn: EndedTurn, ran: list[tuple[TurnRecord, SpanContext]]) -> SpanContext | None:
    """The stage that an activity began in: of several runs of it, one for each item, the one at that time."""
    found: SpanContext | None = None
    for record, context in ran:
        if record.stage == activity.stage:
            began = turn.zero + record.start
            if began <= activity.began <= began + record.duration:
                return context
            found = found or context
    return found


def _facts_of_turn(turn: EndedTurn) -> dict[str, Any]:
    models = [one for one in turn.activities if one.kind == "model"]
    facts: dict[str, Any] = {
        names.OPERATION: names.INVOKE_AGENT,
        names.AGENT_NAME: turn.profile,
        names.CONVERSATION: turn.session,
        names.ERROR_TYPE: turn.error,
        "bub.turn.outcome": turn.outcome,
        "bub.channel": turn.channel,
        "bub.surface": turn.surface,
        "bub.message.kind": turn.kind,
    }
    if turn.surface == _MCP:
        facts |= {names.MCP_METHOD: "tools/call", names.NETWORK_TRANSPORT: "pipe"}
    for name, key in ((names.INPUT_TOKENS, "input"), (names.OUTPUT_TOKENS, "output")):
        total = sum(one.data.get(key) or 0 for one in models)
        facts[name] = total or None
    if models:
        facts |= {name: value for name, value in plain_facts(models[-1]).items() if name in _OF_LAST_MODEL}
    if turn.asked is not None:
        facts[names.INPUT_MESSAGES] = as_texts("user", [turn.asked])
    if turn.said:
        facts[names.OUTPUT_MESSAGES] = as_texts("assistant", turn.said)
    return facts


_OF_LAST_MODEL = (names.PROVIDER, names.REQUEST_MODEL)


def _facts_of_stage(record: TurnRecord, step: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "bub.stage.id": record.stage,
        "bub.stage.outcome": record.outcome,
        "bub.stage.plugin": record.implementation,
    }
    if step is not None:
        facts |= {"bub.stage.kind": step.kind.name, "bub.stage.hook": step.hook}
    if record.outcome in _FAILED:
        facts[names.ERROR_TYPE] = "timeout" if record.outcome == "timeout" else "_OTHER"
    return facts
