"""The tool calls of one step: each is amended, judged, asked about, run and reported by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from bub.agent.calls.asking import RunningCall, current_call
from bub.agent.calls.consent import Consent
from bub.agent.calls.program import ProgramTool
from bub.agent.marks.flow import Flow
from bub.agent.models.parts import Part, part_of
from bub.agent.tools.unasked import find_unasked
from bub.base.failures import flatten_error
from bub.base.tracing.activity import Activity, doing
from bub.base.waiting import split_cancelled
from bub.errors import BubError
from bub.hooks.frozen import freeze
from bub.hooks.kinds.verdicts import BROKEN_GATE
from bub.hooks.loops import explain
from bub.hookspecs import Fire
from bub.log import log_exception
from bub.plugins.simple_commands import Words
from bub.tape.entry import mend
from bub.tape.frames import FRAME, OUTSIDE, new_frame, put_in_frame
from bub.tools import Tool, ToolBox, ToolContext, ToolError, ToolResult


class ToolCall(msgspec.Struct, frozen=True):
    """A call as the model wrote it: `arguments` is None if what was `written` is no JSON object."""

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    written: str = ""
    extra: Any = None
    """What the provider wants back with the call, such as a signature."""
    is_cut: bool = False
    """Whether the answer had reached its longest before the arguments were complete."""

    @property
    def asked(self) -> Mapping[str, Any] | str:
        """Its arguments, or what was written in their place."""
        return self.arguments if self.arguments is not None else self.written

    @property
    def in_short(self) -> str:
        """The beginning of its arguments, as text."""
        return f"{self.written or as_text(self.arguments):.200}"

    def as_dict(self) -> dict[str, Any]:
        """As a tape keeps it."""
        kept = {"id": self.id, "name": self.name, "arguments": self.asked}
        return {**kept, "extra_content": self.extra} if self.extra else kept


NOT_YET = "not called yet: Bub ran your other calls first; call this tool again if you still want to"
"""What a model reads of a call that is for the program that asks, in an answer that does not go back to it."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """The outcome of a call: the text that the model gets.

    `took` is how long it took, in seconds, without the time that a person thought about the question.
    """

    call: ToolCall
    content: str
    is_error: bool = False
    took: float = 0.0
    is_denied: bool = False
    """Whether it never ran, because a rule or a person was against it."""
    outside: str = ""
    """The place its text comes from, if strangers may have written it."""
    frame: str = ""
    """The mark that is around such a text when a model reads it."""
    parts: tuple[Part, ...] = ()
    """The pictures and files that the model looks at beside the text."""
    handed_back: Mapping[str, Any] | None = None
    """What the program that asks is to call it with; None if it is not that program's to call."""

    @property
    def as_read(self) -> str:
        """Its text as a model reads it."""
        return put_in_frame(self.content, self.outside, self.frame) if self.outside else self.content

    def as_dict(self) -> dict[str, Any]:
        """As a tape keeps it."""
        said: dict[str, Any] = {"id": self.call.id, "name": self.call.name, "content": self.content}
        if self.outside:
            said |= {OUTSIDE: self.outside, FRAME: self.frame}
        return {**said, "is_error": True} if self.is_error else said


class _RejectedError(ToolError):
    """A plugin rejected the call before it was one (`before_tool_call`)."""


class _Announced(msgspec.Struct, frozen=True):
    """A call that `before_tool_call` was told of: the tool and what it is given, or why it comes to nothing."""

    call: ToolCall
    tool: Tool | None = None
    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)
    failure: Exception | SystemExit | None = None
    took: float = 0.0

    @property
    def reads(self) -> bool:
        """Whether it changes nothing: its tool only reads, or it never runs."""
        return self.tool is None or self.tool.read_only


class _Stopwatch(msgspec.Struct):
    """How long a call has taken since `began`, except the blocks in which it was stopped."""

    began: float

    @property
    def took(self) -> float:
        return perf_counter() - self.began

    @contextmanager
    def stopped(self) -> Iterator[None]:
        stopped_at = perf_counter()
        try:
            yield
        finally:
            self.began += perf_counter() - stopped_at


class Caller(msgspec.Struct, frozen=True):
    """Calls tools for one turn.

    `fire` is the turn's; without it nobody could guard a call, so nothing is called. `consent` asks the person of the
    turn. `flow` says which calls are asked about for what the conversation holds. `cover` takes secrets out of a text.
    """

    box: ToolBox
    context: ToolContext
    fire: Fire | None
    consent: Consent
    flow: Flow
    cover: Callable[[str], str] = str

    async def run(self, calls: Sequence[ToolCall], done: Callable[[int, ToolOutcome], None]) -> None:
        """Run the calls; `done` gets each outcome with its place as it comes (BEHAVIOURS A16).

        Calls that only read run side by side. One that may change something runs alone, at its place among the calls,
        so that questions come in this order, too. Before any of them runs, all have been announced (E17). Whatever
        fails is an outcome; only a cancellation, or what ends the program, leaves it.
        """
        announced = [await self._announce(call) for call in calls]
        for reads, group in groupby(enumerate(announced), key=lambda each: each[1].reads):
            together = [partial(self._carry_out, one, partial(done, index)) for index, one in group]
            if reads and len(together) > 1:
                await _run_side_by_side(together)
            else:
                for carry_out in together:
                    await carry_out()

    async def call(self, call: ToolCall, done: Callable[[ToolOutcome], None]) -> ToolOutcome:
        """Run one call through hooks, gates and questions, in the order of DESIGN §3 (BEHAVIOURS A21)."""
        return await self._carry_out(await self._announce(call), done)

    async def _announce(self, call: ToolCall) -> _Announced:
        """Let `before_tool_call` change or reject a call, before anything is done (BEHAVIOURS E17, E19)."""
        began, tool = perf_counter(), None
        try:
            if call.arguments is None:
                raise self._explain_arguments(call)
            tool = self.box.find(call.name)
            given = await self._amend_arguments(tool, call, call.arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (it is an outcome, at its turn)
            return _Announced(call, tool, call.arguments or {}, error, perf_counter() - began)
        return _Announced(call, tool, given, None, perf_counter() - began)

    def _explain_arguments(self, call: ToolCall) -> ToolError:
        if call.is_cut:
            problem = f"not called, because `max_tokens` cut your answer within the arguments of `{call.name}`"
            return ToolError(problem, help="write less at once, in several calls", kind="invalid_input")
        problem = f"the arguments of `{call.name}` are not a JSON object: {self.cover(call.written)[:200]}"
        return ToolError(problem, help="write them as one", kind="invalid_input")

    async def _carry_out(self, announced: _Announced, done: Callable[[ToolOutcome], None]) -> ToolOutcome:
        """Judge a call, ask about it and run it; whoever watches the turn sees it as one thing that was done."""
        call = announced.call
        with doing("tool", call.name, call_id=call.id) as activity:
            activity.began -= announced.took
            activity.keep(arguments=call.asked)
            return await self._judge_and_run(announced, done, activity)

    async def _judge_and_run(
        self, announced: _Announced, done: Callable[[ToolOutcome], None], activity: Activity
    ) -> ToolOutcome:
        """Do all that a call is about.

        `done` is told before the observers are, so that a cancellation among them does not lose the outcome.
        """
        watch, call = _Stopwatch(perf_counter() - announced.took), announced.call
        tool, arguments = announced.tool, announced.arguments
        runs, observed, denied, outside, shown, kind = False, True, False, "", ToolResult(""), ""
        try:
            if announced.failure is not None:
                raise announced.failure
            assert tool is not None
            checked = tool.check(arguments)
            arguments = msgspec.to_builtins(checked)
            words = await self._permit(tool, call, arguments, watch)
            if isinstance(tool, ProgramTool):  # the observers hear of it when its result comes
                outcome = ToolOutcome(call, NOT_YET, is_error=True, took=watch.took, handed_back=arguments)
                done(outcome)
                return outcome
            runs = True
            value = await self._run_noted(tool, call, checked, arguments, words)
            content, is_error = as_text(value), False
            shown = value if isinstance(value, ToolResult) else shown
        except ToolError as error:
            content, is_error, kind = f"error: {error}", True, error.kind
            observed = not isinstance(error, _RejectedError)
            denied = not runs and error.kind == "denied"
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a failing tool is a result like any other, A17)
            failure = explain(error, what=f"the tool `{call.name}`")
            log_exception("tool.failed", failure, tool=call.name, session=self.context.session_id)
            content, is_error, kind = f"error: {_words(failure)}", True, type(failure).__name__
        if runs and tool is not None:
            try:
                outside = await self._admit(tool, call, arguments, content, watch)
            except (Exception, SystemExit) as error:  # noqa: BLE001 (what cannot be noted, the model does not get)
                content, is_error = f"error: the tool ran, but Bub keeps back its result: {_words(error)}", True
                kind = "kept_back"
                shown = ToolResult("")
        frame = new_frame() if outside else ""
        outcome = ToolOutcome(
            call, self.cover(content), is_error, watch.took, denied, self.cover(outside), frame, _parts_of(shown)
        )
        _note_end(activity, outcome, kind)
        done(outcome)
        if observed:
            await self.observe(tool, arguments, outcome, shown.paths)
        return outcome

    async def _permit(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], watch: _Stopwatch) -> Words:
        """Ask the gates, and a person if the profile wants that; note that the call begins. Raises `ToolError`.

        Of a command that `unasked` lets through, the words are returned that are to run. What the gates judge is what
        runs: nothing can change it from here on (BEHAVIOURS decision 2).
        """
        await self._judge(tool, call, freeze(arguments))
        answer = None
        asks = self.box.policy.asks(tool) and not self.context.from_person
        words = await find_unasked(tool, arguments, self.box.policy, self.context) if asks else ()
        why = "" if self.context.from_person else self.flow.find_reason(tool, arguments)
        if self.consent.is_needed(tool, asks=(asks and not words) or bool(why)):
            with watch.stopped():
                answer = await self.consent.obtain(tool, call.id, arguments, self.context.session_id, self.cover(why))
        await self.consent.begin(tool, call.id, arguments, answer)
        return words

    async def _admit(
        self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], content: str, watch: _Stopwatch
    ) -> str:
        """Note what a result brings into the conversation, and return where it comes from if that is outside.

        A person is asked first about what only the result shows to be a secret. Raises `ToolError` without their yes,
        `TapeError` if it cannot be noted.
        """
        why = "" if self.context.from_person else self.flow.find_reason_to_keep_back(tool, arguments, content)
        if why:
            with watch.stopped():
                answer = await self.consent.obtain(tool, call.id, arguments, self.context.session_id, why)
            await self.consent.begin(tool, call.id, arguments, answer)
            await self.consent.end(tool, call.id, arguments)
        return await self.flow.take(tool, arguments, content)

    async def _run_noted(
        self, tool: Tool, call: ToolCall, checked: Mapping[str, Any], arguments: Mapping[str, Any], words: Words
    ) -> Any:
        """Run a call that was noted, and note that it has ended unless it was cut short: nobody knows its outcome."""
        undo = None
        running = current_call.set(RunningCall(self.consent, tool, call.id, self.context.session_id))
        try:
            undo = await self.flow.note_writing(tool, arguments)
            value = await tool.call(checked, replace(self.context, call_id=call.id, words=words))
        except (Exception, SystemExit):
            if undo is not None:
                await undo()
            await self.consent.end(tool, call.id, arguments)
            raise
        finally:
            current_call.reset(running)
        await self.consent.end(tool, call.id, arguments)
        return value

    async def _amend_arguments(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.fire is None:
            raise ToolError(f"the tool `{tool.name}` can only be called in a turn", kind="denied")
        if "before_tool_call" not in self.fire:
            return arguments
        amended = await self.fire("before_tool_call", tool=tool.name, args=dict(arguments), **self._who(call))
        amended = amended or {}
        if amended.get("error"):
            raise _RejectedError(str(amended["error"]), kind="denied")
        given = amended.get("args", arguments)
        if not isinstance(given, Mapping):
            raise ToolError("a plugin replaced the arguments by something that is no mapping", kind="denied")
        return given

    async def _judge(self, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> None:
        assert self.fire is not None
        if "tool_gate" not in self.fire:
            return
        try:
            verdict = await self.fire("tool_gate", tool=tool.name, args=arguments, **self._who(call))
        except Exception as error:  # noqa: BLE001 (whatever breaks a gate, it denies)
            log_exception("tool.gate_failed", error, tool=tool.name)
            verdict = {"deny": BROKEN_GATE}
        if verdict is not None:
            raise ToolError(str(verdict["deny"]), kind="denied")

    async def observe(
        self, tool: Tool | None, arguments: Mapping[str, Any], outcome: ToolOutcome, paths: Iterable[str] = ()
    ) -> None:
        """Tell the observers of a call, once, also if it was denied or failed (BEHAVIOURS A22)."""
        fire, call = self.fire, outcome.call
        if fire is None:
            return
        try:
            if "after_tool_call" in fire:
                result = {"content": outcome.content, "is_error": outcome.is_error, "took": outcome.took}
                await fire("after_tool_call", tool=call.name, args=dict(arguments), result=result, **self._who(call))
            if tool is not None and not outcome.is_error and "tool_end_with_path" in fire:
                named = [str(arguments[tool.path])] if tool.path is not None else []
                for given in (*named, *paths):
                    path = str(self.context.workspace / Path(given))
                    await fire("tool_end_with_path", tool=call.name, path=path, session_id=self.context.session_id)
        except Exception as error:  # noqa: BLE001 (who only watches does not change what came of it)
            log_exception("tool.observer_failed", error, tool=call.name)

    def _who(self, call: ToolCall) -> dict[str, Any]:
        return {"session_id": self.context.session_id, "call_id": call.id}


def _note_end(activity: Activity, outcome: ToolOutcome, kind: str) -> None:
    """Note what came of a call, and the kind of failure, for whoever watches the turn."""
    how = "denied" if outcome.is_denied else "failed" if outcome.is_error else "ok"
    activity.keep(result=outcome.content)
    activity.end(how, took=outcome.took, **({"error": kind or "tool"} if outcome.is_error else {}))


async def _run_side_by_side(functions: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Run all of them. Each failure of a tool is an outcome: what leaves one of them ends all."""
    interrupt: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            for function in functions:
                nursery.start_soon(function)
    except BaseExceptionGroup as group:
        # This is a cancellation, or what ends the program, which goes first.
        _, failure = split_cancelled(group)
        if failure is None:
            raise
        interrupt = next(flatten_error(failure))
    if interrupt is not None:
        raise interrupt


def as_text(value: Any) -> str:
    """Return the text that the model gets of what a tool returned."""
    if value is None:
        return "done"
    if isinstance(value, ToolResult):
        value = value.text
    value = mend(value)  # names of files may hold what no encoding can carry
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def _parts_of(result: ToolResult) -> tuple[Part, ...]:
    given = (
        (str(one.get("kind")), str(one.get("mime_type")), str(one.get("url")), str(one.get("name") or ""))
        for one in result.media
    )
    return tuple(part for one in given if (part := part_of(*one)) is not None)


def _words(error: BaseException) -> str:
    if isinstance(error, BubError):
        return f"{error} ({error.help})" if error.help else str(error)
    return f"execution failed: {error!r}"
