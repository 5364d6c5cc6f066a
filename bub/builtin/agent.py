"""The agent: asks the model, runs the tools it calls, and asks again until it has nothing more to call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from types import UnionType
from typing import Any
from uuid import uuid4

import trio

from bub.builtin.budget import Budget, BudgetError, DailySpending, estimated
from bub.builtin.commands import CommandRun, command_line, prefix_of
from bub.builtin.journal import WRITING_PATIENCE, without_media
from bub.builtin.models.asking import ask_model
from bub.builtin.models.request import ChatRequest, ToolSpec, call_ids_in
from bub.builtin.models.usage import sent_and_received, tokens_of
from bub.builtin.prompt import is_said, prompt_of
from bub.builtin.task import TEMPORARY, Framework, Run, Task
from bub.builtin.toolcalls import ToolCall, ToolOutcome
from bub.calling import close_stream
from bub.errors import BubError, ModelError
from bub.kinds import RESERVED_STATE
from bub.log import log_exception
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tape import TapeContext, TapeEntry
from bub.tape.settings import session_settings
from bub.tools import ToolBox, ToolError

OVERFLOW = "auto_handoff/context_overflow"
"""The anchor that is set when the context has become too long for the model (BEHAVIOURS A13)."""

TALLY = f"{RESERVED_STATE}turn"
"""Where the state of a turn tells what its agent has done so far: `steps`, `tokens`, and what it called."""

TEMP, INHERIT = "temp", "inherit"
"""Where a sub-agent works: in a session of its own that leaves nothing behind, without or with what was said before."""

_AMENDABLE: Mapping[str, tuple[str, type | UnionType]] = {
    "model": ("a name", str),
    "messages": ("a list of messages", list),
    "tool_choice": ("a text", str),
    "max_tokens": ("a whole number", int),
    "temperature": ("a number", int | float),
}
"""What `before_llm_call` may change in a request, and what it has to be."""


def answer(framework: Framework, task: Task) -> AsyncStreamEvents:
    """The agent's answer as a stream: a command's result, else what the model says and its tools do on the way.

    `text`, `reasoning`, `tool_call`, `tool_result` and `usage` events, then one `final` with the `finish_reason`, the
    number of `steps`, and `ok`. Nothing is done before it is read. A failure of the model leaves it as a `ModelError`,
    a limit that is reached as a `BudgetError`.
    """
    line = command_line(task.prompt, prefix_of(framework.settings))
    run = CommandRun(framework, task, line) if line is not None else _Loop(framework, task, framework.tools)
    return AsyncStreamEvents(run, run.state)


@dataclass(slots=True)
class _Answer:
    """One answer of the model, as far as it has come, to one `request`."""

    request: dict[str, Any] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    outcomes: list[ToolOutcome | None] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    finish_reason: str | None = None
    asked_at: float = field(default_factory=perf_counter)
    is_asked: bool = False
    """Whether a model was asked for it, and that was not counted yet."""
    is_last: bool = False
    """Whether a plugin said that the turn ends with it."""
    is_observed: bool = False
    """Whether `after_llm_call` was told of it."""
    is_noted: bool = False
    """Whether the journal has what it says and calls."""
    are_results_noted: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def as_response(self, error: Exception | None) -> dict[str, Any]:
        """As `after_llm_call` is told of it."""
        return {
            "text": self.text,
            "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.calls],
            "usage": self.usage,
            "finish_reason": self.finish_reason,
            "took": perf_counter() - self.asked_at,
            "error": str(error) if error is not None else None,
        }


class _Loop(Run):
    """The agent's loop (BEHAVIOURS A10): a step is one answer of the model and the tools that it calls."""

    def __init__(
        self,
        framework: Framework,
        task: Task,
        box: ToolBox,
        budget: Budget | None = None,
        inherited: Sequence[dict[str, Any]] = (),
    ) -> None:
        super().__init__(framework, task, box.for_model())
        self._budget = budget or Budget(framework.budget)
        self._spending = DailySpending(framework.get_tape_store(), framework.profile)
        self._offered = [self._box.tools[name] for name in self._box.usable()]
        self._model = ""
        self._system = ""
        self._messages = list(inherited)
        self._steps = 0
        self._answer = _Answer(is_observed=True, is_noted=True)
        self._events: AsyncStreamEvents | None = None
        self._reading: AsyncIterator[StreamEvent] | None = None
        self._has_spoken = False
        self._has_handed_off = False
        self._heard: list[dict[str, Any]] = []
        self._done: list[str] = []
        counted = dict.fromkeys(("steps", "tokens", "tool_calls", "successful_tool_calls"), 0)
        self._tally: dict[str, Any] = {**counted, "tools": []}
        if budget is None:
            task.state[TALLY] = self._tally  # a sub-agent's is not that of the turn
        self._anew: Callable[[], Awaitable[None]] | None = None
        self._named_sessions: dict[str, trio.Lock] = {}

    async def __anext__(self) -> StreamEvent:
        # What the model says goes straight through: this is done for every token.
        while self._reading is not None and not self._ready:
            try:
                event = await self._reading.__anext__()
                is_passed_on = self._take(event)
            except StopAsyncIteration:
                self._reading = None
            except Exception as error:  # noqa: BLE001 (raised by what comes next, unless there is a way out)
                self._reading = None
                self._next = partial(self._go_on_after, error)
            else:
                if is_passed_on:
                    return self._ready.popleft() if self._ready else event
        return await super().__anext__()

    # The steps of a turn, each of which says what comes next.

    async def _begin(self) -> None:
        framework, task = self._framework, self._task
        if not task.prompt or (isinstance(task.prompt, str) and not task.prompt.strip()):
            self._next = None
            self._tell("text", delta="error: the message is empty")  # BEHAVIOURS A9
            self._tell("final", finish_reason="error", steps=0, ok=False)
            return
        if self._tape is not None:
            await self._tape.ensure_bootstrap_anchor(task.session_id, framework.workspace)
            self._model = str((await session_settings(self._tape)).get("model") or "")
            self._messages += await self._tape.messages()
        if task.system is None:
            self._system = framework.get_system_prompt(task.prompt, dict(task.state))
        else:
            self._system = task.system
        await self._journal.note_system(self._system)
        self._messages.append({"role": "user", "content": task.prompt})
        self._journal.note(TapeEntry.message(without_media({"role": "user", "content": task.prompt})))
        self._journal.event("loop.start", model=self._model or str(framework.settings.get("model") or ""))
        self._next = self._ask

    async def _ask(self) -> None:
        if self._budget.is_daily:
            self._budget.used_today = await self._spending.today()
        self._budget.step()
        self._steps += 1
        self._tally["steps"] = self._steps
        self._answer = _Answer(is_observed=True)
        self._journal.event("loop.step.start", step=self._steps)
        request, finish = await self._amended()
        self._answer = _Answer(request)
        if finish is not None:
            self._answer.finish_reason, self._answer.is_last = "stop", True
            said = StreamEvent.text(finish)
            self._take(said)
            if not self._ready:
                self._ready.append(said)
            self._next = self._take_answer
            return
        asked = ChatRequest(
            request["messages"],
            request["max_tokens"],
            request["temperature"],
            [ToolSpec(tool.name, tool.description, tool.parameters) for tool in self._offered],
            request["tool_choice"],
        )
        self._answer.is_asked = True
        try:
            self._events, model = await ask_model(self._framework, request["model"], asked, self._task.session_id)
        except ModelError as error:
            await self._go_on_after(error)
            return
        request["model"] = model
        self._reading, self._next = aiter(self._events), self._take_answer

    async def _go_on_after(self, error: Exception) -> None:
        """Where the context was too long for the model, begin anew, once; any other failure is raised."""
        answer = self._answer
        is_overflow = isinstance(error, ModelError) and error.kind == "context_overflow"
        if not is_overflow or self._has_handed_off or answer.parts or answer.calls:
            raise error
        self._has_handed_off = True
        await self._end_answer("failed")
        await self._observe(answer, error)
        self._journal.event("loop.step", step=self._steps, status="auto_handoff", error=str(error))
        state: dict[str, Any] = {"reason": "the conversation had become too long for the model"}
        if self._done:
            state["done for this prompt already"] = self._done  # what was done once is not to be done again
        await self._begin_anew(OVERFLOW, state)
        self._next = self._ask

    async def _take_answer(self) -> None:
        """The model has said all it had to say."""
        answer = self._answer
        await self._end_answer("ok")
        await self._observe(answer)
        self._has_spoken = self._has_spoken or bool(answer.parts)
        if answer.calls:
            self._next = self._run_tools
            return
        answer.is_noted = True
        said = {"role": "assistant", "content": answer.text}
        self._journal.note(TapeEntry.message(said))
        if not answer.is_last and self._hear(behind=said):
            self._note_step("continue")
            self._next = self._ask
            return
        self._note_step("ok")
        cost = {"usage": answer.usage, "tokens": self._budget.tokens}  # of the last answer, and of the whole turn
        self._journal.event("run", status="ok", **cost, model=answer.request["model"], steps=self._steps)
        await self._journal.write()
        self._next = None
        self._tell("final", finish_reason=answer.finish_reason, steps=self._steps, ok=True)

    async def _run_tools(self) -> None:
        answer = self._answer
        answer.is_noted = True
        asked = TapeEntry.tool_call([call.as_dict() for call in answer.calls], content=answer.text or None)
        self._journal.note(asked)
        # On the tape before anything is done: should this process die, nothing is done twice (BEHAVIOURS P14).
        await self._journal.write()
        answer.outcomes = [None] * len(answer.calls)
        try:
            for call in answer.calls:
                self._budget.call(call.name, call.arguments if call.arguments is not None else call.written)
        except BudgetError as error:
            said = f"error: not done, since {error}"
            answer.outcomes = [ToolOutcome(call, said, is_error=True) for call in answer.calls]
            raise
        await self._caller(turn=self).run(answer.calls, self._take_outcome)
        for outcome in answer.outcomes:
            self._budget.note_denial(outcome is not None and outcome.is_denied)
        results = await self._results()
        self._note_results(results)
        for result in results.payload["results"]:
            self._tell("tool_result", **result)
        self._note_step("continue")
        self._done += [f"{call.name} {call.in_short}" for call in answer.calls]
        step = self._tape_context().messages([asked, results])
        self._messages += step
        if self._anew is not None:
            begin, self._anew = self._anew, None
            await begin()
            self._journal.note(asked, results)
            self._messages += step
        said_next = await self._continue_prompt()
        if said_next:
            self._messages.append({"role": "user", "content": said_next})
            self._journal.note(TapeEntry.message({"role": "user", "content": said_next}, continued=True))
        self._hear()
        self._next = self._ask

    # The answer under way.

    def _take(self, event: Any) -> bool:
        """Keep what an event says; whether it is passed on, itself or what is ready in its place."""
        answer = self._answer
        data = event.data if isinstance(event, StreamEvent) else {}
        if isinstance(event, StreamEvent) and event.kind == "text":
            if not isinstance(data.get("delta"), str):
                raise _bad_answer("a text event without a text")
            answer.parts.append(data["delta"])
            if self._has_spoken and len(answer.parts) == 1:
                self._ready += (StreamEvent.text("\n\n"), event)  # what an earlier step said is another paragraph
        elif not isinstance(event, StreamEvent):
            raise _bad_answer(f"a {type(event).__name__} among its events")
        elif event.kind == "tool_call":
            call = self._call_of(data)
            answer.calls.append(call)
            self._ready.append(StreamEvent("tool_call", {**data, "id": call.id, "name": call.name}))
        elif event.kind == "usage":
            answer.usage = self.state.usage = dict(data)
        elif event.kind == "final":
            answer.finish_reason = data.get("finish_reason")
            return False
        return True

    def _call_of(self, data: Mapping[str, Any]) -> ToolCall:
        """A call as the model made it, with an id that no other one has."""
        answer, call_id, arguments = self._answer, data.get("id"), data.get("arguments")
        taken = call_ids_in(self._messages) | {call.id for call in answer.calls}
        if not isinstance(call_id, str) or not call_id or call_id in taken:
            call_id = uuid4().hex[:9]
        return ToolCall(
            call_id,
            str(data.get("name") or ""),
            arguments if isinstance(arguments, Mapping) else None,
            str(data.get("raw") or ("" if arguments is None else arguments)),
            data.get("extra_content"),
        )

    async def _end_answer(self, outcome: str) -> None:
        """Close the stream of an answer, and count what it cost: what nobody counted is estimated (E21)."""
        answer = self._answer
        if answer.is_asked:
            answer.is_asked = False
            model = str(answer.request["model"] or self._framework.settings.get("model") or "")
            sent, received = sent_and_received(answer.usage)
            took = perf_counter() - answer.asked_at
            self._framework.counts.model(model, outcome, took, sent=sent, received=received)
        events, self._events = self._events, None
        if events is None:
            return
        await close_stream(events)
        tokens = tokens_of(self._answer.usage)
        if not tokens and self._budget.counts_tokens:
            tokens = estimated(self._answer.request["messages"], self._answer.text)
        self._budget.spend_tokens(tokens)
        self._tally["tokens"] = self._budget.tokens
        if self._budget.is_daily:
            await self._spending.add(tokens)

    def _take_outcome(self, index: int, outcome: ToolOutcome) -> None:
        self._answer.outcomes[index] = outcome
        tally, name = self._tally, outcome.call.name
        tally["tool_calls"] += 1
        tally["successful_tool_calls"] += not outcome.is_error
        if name not in tally["tools"]:
            tally["tools"].append(name)

    async def _results(self) -> TapeEntry:
        """What the tools have come to so far, in the order of the calls."""
        outcomes = [outcome for outcome in self._answer.outcomes if outcome is not None]
        short = [replace(outcome, content=await self._in_short(outcome.content)) for outcome in outcomes]
        return TapeEntry.tool_result([{**outcome.as_dict(), "took": round(outcome.took, 6)} for outcome in short])

    def _note_results(self, results: TapeEntry) -> None:
        self._journal.note(results)
        self._answer.are_results_noted = True

    def _note_step(self, status: str, **more: Any) -> None:
        self._journal.event("loop.step", step=self._steps, status=status, **more)

    # Ending early.

    async def _leave(self, error: Exception | None) -> None:
        self._reading = None
        if self._steps:
            await self._note_rest()
            if error is None:
                self._note_step("cancelled")
            else:
                self._note_step("error", error=str(error))
        await super()._leave(error)
        try:
            await self._end_answer("failed" if error is not None else "cancelled")
            if error is not None:
                await self._observe(self._answer, error)
        except Exception as late:  # noqa: BLE001 (it must not mask how the turn ended)
            log_exception("turn.end_failed", late)

    async def _note_rest(self) -> None:
        """What was said and done before the turn ended: the person has seen it, so the model must know of it."""
        answer = self._answer
        if not answer.is_noted:
            answer.is_noted = True
            if answer.parts:
                self._journal.note(TapeEntry.message({"role": "assistant", "content": answer.text}, partial=True))
        elif any(answer.outcomes) and not answer.are_results_noted:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITING_PATIENCE):
                self._note_results(await self._results())

    # What is fired on the way.

    async def _amended(self) -> tuple[dict[str, Any], str | None]:
        """The request of this step as the plugins want it, and the text to finish with instead of asking (A19)."""
        system = [{"role": "system", "content": self._system}] if self._system else []
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [*system, *self._messages],
            "tools": [tool.name for tool in self._offered],
            "tool_choice": None,
            "max_tokens": None,
            "temperature": None,
            "step": self._steps,
        }
        amended = await self._fire("before_llm_call", request=_as_shown(request)) or {}
        for name, (expected, types) in _AMENDABLE.items():
            value = amended.get(name)
            if value is None:
                continue
            if not isinstance(value, types) or (isinstance(value, list) and not all(map(_is_message, value))):
                what = f"`before_llm_call` changed `{name}` into something that is not {expected}"
                raise BubError(what, help=f"a plugin of the profile returned {value!r:.100}")
            request[name] = value
        finish = amended.get("finish")
        return request, str(finish) if finish is not None else None

    async def _observe(self, answer: _Answer, error: Exception | None = None) -> None:
        """Tell of an answer, or of why there is none, once (BEHAVIOURS A22)."""
        if not answer.is_observed:
            answer.is_observed = True
            await self._fire("after_llm_call", request=_as_shown(answer.request), response=answer.as_response(error))

    def _hear(self, *, behind: dict[str, Any] | None = None) -> bool:
        """Put what came for the turn meanwhile before the model (BEHAVIOURS A10); says whether anything did.

        It stands `behind` what the model said last, if that is given. Where the model may not be asked any more, it is
        left to another turn.
        """
        steering = self._task.steering
        if steering is None or self._budget.is_used_up:
            return False
        came = steering.take()
        told = [{"role": "user", "content": prompt} for prompt in map(prompt_of, came) if is_said(prompt)]
        if not told:
            return False
        self._messages += [*([behind] if behind is not None and behind["content"] else []), *told]
        self._heard += told
        for message in told:
            self._journal.note(TapeEntry.message(without_media(message), steered=True))
        return True

    async def _continue_prompt(self) -> str | None:
        said = await self._fire("continue_prompt", step=self._steps)
        return str(said) if said else None

    async def _fire(self, point: str, **payload: Any) -> Any:
        """What a hook point of the loop comes to; None where this turn does not have it."""
        fire = self._task.fire
        if fire is None or point not in fire:
            return None
        return await fire(point, session_id=self._task.session_id, **payload)

    # What is sent, and beginning anew.

    def _tape_context(self) -> TapeContext:
        return self._tape.context if self._tape is not None else TapeContext()

    async def _begin_anew(self, name: str, state: Mapping[str, Any]) -> None:
        """Set an anchor: what came before is left behind, but for what a person said in this turn."""
        anchor = TapeEntry.anchor(name, state)
        prompts = [{"role": "user", "content": self._task.prompt}, *self._heard]
        self._journal.note(anchor, TapeEntry.event("handoff", {"name": name, "state": dict(state)}))
        self._journal.note(*(TapeEntry.message(without_media(prompt), repeated=True) for prompt in prompts))
        await self._journal.write()
        self._messages = [*TapeContext().messages([anchor]), *prompts]

    # What tools ask of the turn (`AgentTurn`).

    def hand_off(self, name: str, state: Mapping[str, Any]) -> None:
        """Begin anew behind this step."""
        self._anew = partial(self._begin_anew, name, state)

    async def delegate(self, prompt: str, *, session: str, tools: Sequence[str] | None) -> str:
        """Let an agent of its own work on a prompt; it may at most what this one may, and starts none itself (A25)."""
        passing = session in (TEMP, INHERIT)
        child = f"{TEMPORARY}{uuid4().hex[:12]}" if passing else f"{self._task.session_id}/{session}"
        box = self._box.narrowed(tools, without=("subagent", "tape.*"))
        framework = self._framework
        changed = await self._fire("subagent_spawning", prompt=prompt, personality=framework.profile) or {}
        task = replace(self._task, prompt=str(changed.get("prompt") or prompt), session_id=child, steering=None)
        chosen = str(changed.get("personality") or framework.profile)
        if chosen != framework.profile:
            if chosen not in framework.profiles:
                raise ToolError(f"a plugin wants the sub-agent to be `{chosen}`, and there is no such personality")
            framework, task = framework.seen_by(chosen), replace(task, system=None)
            own = framework.tools.for_model()
            box = own.narrowed([name for name in own.usable() if name in box.usable()])
        async with self._named_sessions.setdefault(child, trio.Lock()):  # two in one session would interleave (P24)
            inherited = self._messages if session == INHERIT else ()
            inner = _Loop(framework, task, box, self._budget.for_subagent(), inherited)
            await self._fire("subagent_spawned", child_session_id=child)
            events, parts, result = AsyncStreamEvents(inner, inner.state), list[str](), None
            try:
                async for event in events:
                    if event.kind == "text":
                        parts.append(event.data["delta"])
                result = "".join(parts)
            finally:
                await close_stream(events)
                await self._fire("subagent_ended", child_session_id=child, result=result)
            return result


def _as_shown(request: dict[str, Any]) -> dict[str, Any]:
    """A request for those who only look at it: what they change of it changes nothing."""
    return {**request, "messages": [dict(message) for message in request["messages"]]}


def _is_message(message: Any) -> bool:
    return isinstance(message, Mapping) and isinstance(message.get("role"), str)


def _bad_answer(what: str) -> ModelError:
    return ModelError(
        f"the model's answer has {what}",
        kind="bad_answer",
        provider="plugin",
        help="the plugin that brings the model has to give a stream of `StreamEvent`",
    )
