"""The agent: asks the model, runs the tools it calls, and asks again until it has nothing more to call."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from bub.asking import Ask
from bub.builtin.budget import Budget, BudgetError, DailySpending, estimated
from bub.builtin.commands import call_of, command_line, prefix_of
from bub.builtin.journal import Journal
from bub.builtin.models.asking import ask_model
from bub.builtin.models.request import ChatRequest, ToolSpec
from bub.builtin.models.usage import tokens_of
from bub.builtin.tapes import archive_folder
from bub.builtin.toolcalls import Caller, ToolCall, ToolOutcome
from bub.calling import close_stream
from bub.envelope import Envelope, field_of
from bub.errors import ModelError, TapeError
from bub.hookspecs import Fire
from bub.log import log_exception
from bub.masks import Mask
from bub.streaming import AsyncStreamEvents, StreamEvent, StreamState
from bub.tape import Tape, TapeContext, TapeEntry
from bub.tape.settings import session_settings
from bub.tape.spill import is_long, spill
from bub.tape.tape import tape_name
from bub.tools import ToolBox, ToolContext, ToolError

OWN_TERMINAL = "cli"
"""The channel of a person's own terminal: a command typed there is its own yes (DESIGN §6)."""

TEMPORARY = "temp/"
"""Sessions whose name begins like this leave nothing behind (BEHAVIOURS P16)."""

OVERFLOW = "auto_handoff/context_overflow"
"""The anchor that is set when the context has become too long for the model (BEHAVIOURS A13)."""

TEMP, INHERIT = "temp", "inherit"
"""Where a sub-agent works: in a session of its own that leaves nothing behind, without or with what was said before."""

LONGEST_RESULT = 4_000
"""How many letters of a long result the context keeps where the rest cannot be laid aside."""

_T = TypeVar("_T")
_AMENDABLE = ("model", "messages", "tool_choice", "max_tokens", "temperature")


class Framework(Protocol):
    """What the agent asks of the framework."""

    workspace: Path
    profile: str

    @property
    def home(self) -> Path: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def tools(self) -> ToolBox: ...

    @property
    def budget(self) -> Mapping[str, int]: ...

    @property
    def mask(self) -> Mask: ...

    @property
    def ask(self) -> Ask | None: ...

    def get_system_prompt(self, prompt: Any, state: dict[str, Any]) -> str: ...

    def get_tape_store(self) -> Any: ...

    def build_tape_context(self) -> Any: ...

    async def call_model(self, request: Mapping[str, Any], session_id: str) -> AsyncStreamEvents | None: ...

    async def shared(self, factory: Callable[[], AbstractAsyncContextManager[_T]]) -> _T: ...


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is asked to do: the prompt, and the turn that asks."""

    prompt: str | list[dict[str, Any]]
    session_id: str
    state: Mapping[str, Any]
    message: Envelope = None
    system: str | None = None
    fire: Fire | None = None


def answer(framework: Framework, task: Task) -> AsyncStreamEvents:
    """The agent's answer as a stream: a command's result, else what the model says and its tools do on the way.

    `text`, `reasoning`, `tool_call`, `tool_result` and `usage` events, then one `final` with the `finish_reason`, the
    number of `steps`, and `ok`. Nothing is done before it is read. A failure of the model leaves it as a `ModelError`,
    a limit that is reached as a `BudgetError`.
    """
    line = command_line(task.prompt, prefix_of(framework.settings))
    run = _Command(framework, task, line) if line is not None else _Loop(framework, task, framework.tools)
    return AsyncStreamEvents(run, run.state)


class _Run:
    """What commands and the loop share: events that are made as they are asked for, and a tape that gets it all."""

    def __init__(self, framework: Framework, task: Task, box: ToolBox) -> None:
        self.state = StreamState()
        self._framework = framework
        self._task = task
        self._box = box if task.fire is not None else box.narrowed(())  # nobody could guard a call
        self._ready: deque[StreamEvent] = deque()
        self._next: Callable[[], Awaitable[None]] | None = self._begin
        self._tape = self._open_tape()
        self._journal = Journal(self._tape, framework.mask.value)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self

    async def __anext__(self) -> StreamEvent:
        if self._ready:
            return self._ready.popleft()
        if self._next is None:
            raise StopAsyncIteration
        try:
            await self._next()
        except Exception as error:
            await self._break(error)
            raise
        return await self.__anext__()

    async def _break(self, error: Exception) -> None:
        self._next = None
        self.state.error = error
        await self._fail(error)

    async def aclose(self) -> None:
        """Leave early: what has happened so far is on the tape."""
        self._ready.clear()
        if self._next is not None:
            self._next = None
            await self._leave()

    async def _begin(self) -> None:
        raise NotImplementedError

    async def _fail(self, error: Exception) -> None:
        self._journal.note(TapeEntry.error(error))
        await self._journal.write_last()

    async def _leave(self) -> None:
        await self._journal.write_last()

    def _tell(self, kind: str, **data: Any) -> None:
        self._ready.append(StreamEvent(kind, data))

    def _open_tape(self) -> Tape | None:
        session_id, store = self._task.session_id, self._framework.get_tape_store()
        if store is None or session_id.startswith(TEMPORARY):
            return None
        context = self._framework.build_tape_context()
        name = tape_name(self._framework.workspace, session_id)
        return Tape(name, store, context if isinstance(context, TapeContext) else TapeContext())

    def _caller(self, *, from_person: bool = False) -> Caller:
        framework, task = self._framework, self._task
        context = ToolContext(
            session_id=task.session_id,
            workspace=framework.workspace,
            message=task.message,
            state=task.state,
            settings=framework.settings,
            tape=self._tape,
            archive=archive_folder(framework.home),
            policy=self._box.policy,
            turn=self if isinstance(self, _Loop) else None,
            from_person=from_person,
        )
        return Caller(self._box, context, task.fire, lambda: framework.ask, framework.mask.text)

    async def _in_short(self, content: str) -> str:
        """A result that would fill the context is laid aside, and its beginning shown (BEHAVIOURS P22)."""
        if not is_long(content):
            return content
        if self._tape is not None:
            try:
                return (await spill(self._tape, content)).preview
            except TapeError as error:  # what stands beside the tape never breaks a turn (P21)
                log_exception("tape.spill_failed", error, tape=self._tape.name)
        return f"{content[:LONGEST_RESULT]}\n[… {len(content) - LONGEST_RESULT:,} characters left out …]"


class _Command(_Run):
    """One comma command."""

    def __init__(self, framework: Framework, task: Task, line: str) -> None:
        super().__init__(framework, task, framework.tools)
        self._line = line

    async def _begin(self) -> None:
        self._next = None
        task, began = self._task, perf_counter()
        if self._tape is not None:
            await self._tape.ensure_bootstrap_anchor(task.session_id, self._framework.workspace)
        name = self._line.split(maxsplit=1)[0] if self._line else ""
        try:
            name, arguments = call_of(self._line, self._box)
        except ToolError as error:
            said, ok = f"error: {error}", False
        else:
            own = field_of(task.message, "channel") == OWN_TERMINAL
            caller = self._caller(from_person=own)
            outcome = await caller.call(ToolCall(f"command-{uuid4().hex[:12]}", name, arguments, self._line))
            said, ok = outcome.content, not outcome.is_error
        # Noted also where it failed, secrets covered (BEHAVIOURS A6).
        self._journal.event(
            "command",
            raw=self._line,
            name=name,
            status="ok" if ok else "error",
            elapsed_ms=round((perf_counter() - began) * 1000, 3),
            output=said,
            date=datetime.now(UTC).isoformat(),
        )
        await self._journal.write_last()
        self._tell("text", delta=said)
        self._tell("final", finish_reason="stop" if ok else "error", steps=0, ok=ok)


class _Loop(_Run):
    """The agent's loop (BEHAVIOURS A10): a step is one answer of the model and the tools that it calls."""

    def __init__(
        self,
        framework: Framework,
        task: Task,
        box: ToolBox,
        budget: Budget | None = None,
        inherited: Sequence[dict[str, Any]] = (),
    ) -> None:
        super().__init__(framework, task, box)
        self._budget = budget or Budget(framework.budget)
        self._spending = DailySpending(framework.get_tape_store(), framework.profile)
        self._model = ""
        self._system = ""
        self._messages = list(inherited)
        self._steps = 0
        self._events: AsyncStreamEvents | None = None
        self._reading: AsyncIterator[StreamEvent] | None = None
        self._request: dict[str, Any] = {}
        self._parts: list[str] = []
        self._said = False
        self._calls: list[ToolCall] = []
        self._outcomes: list[ToolOutcome | None] = []
        self._usage: dict[str, Any] | None = None
        self._finish_reason: str | None = None
        self._asked_at = 0.0
        self._is_asked = False
        self._anew: Callable[[], Awaitable[None]] | None = None
        self._has_handed_off = False

    async def __anext__(self) -> StreamEvent:
        # What the model says goes straight through: this is done for every token.
        while self._reading is not None and not self._ready:
            try:
                event = await self._reading.__anext__()
            except StopAsyncIteration:
                self._reading = None
                break
            except Exception as error:
                self._reading = None
                await self._break(error)
                raise
            if event.kind == "text":
                self._parts.append(event.data["delta"])
                if self._said and len(self._parts) == 1:
                    self._ready.append(event)
                    return StreamEvent.text("\n\n")  # what was said in an earlier step is a paragraph of its own
                return event
            if self._note(event):
                return event
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
        self._journal.note(TapeEntry.message(_kept({"role": "user", "content": task.prompt})))
        self._journal.event("loop.start", model=self._model or str(framework.settings.get("model") or ""))
        self._next = self._ask

    async def _ask(self) -> None:
        if self._budget.is_daily:
            self._budget.used_today = await self._spending.today()
        self._budget.step()
        self._steps += 1
        self._parts, self._usage, self._finish_reason = [], None, None
        self._journal.event("loop.step.start", step=self._steps)
        request, finish = await self._amended()
        self._request = request
        self._asked_at, self._is_asked = perf_counter(), True
        if finish is not None:
            self._parts = [finish]
            self._tell("text", delta=finish)
            self._finish_reason = "stop"
            self._next = self._take_answer
            return
        specs = {tool.name: tool for tool in self._box.for_model()}
        asked = ChatRequest(
            request["messages"],
            request["max_tokens"],
            request["temperature"],
            [ToolSpec(name, tool.description, tool.parameters) for name, tool in specs.items()],
            request["tool_choice"],
        )
        try:
            self._events, model = await ask_model(self._framework, request["model"], asked, self._task.session_id)
        except ModelError as error:
            await self._observe_answer(error)
            if error.kind != "context_overflow" or self._has_handed_off:
                raise
            self._has_handed_off = True
            self._journal.event("loop.step", step=self._steps, status="auto_handoff", error=str(error))
            await self._begin_anew(OVERFLOW, {"reason": "the conversation had become too long for the model"})
            return
        self._request["model"] = model
        self._reading, self._next = aiter(self._events), self._take_answer

    async def _take_answer(self) -> None:
        """The model has said all it had to say."""
        await self._close_answer()
        await self._spend()
        await self._observe_answer()
        text = "".join(self._parts)
        self._said = self._said or bool(text)
        if self._calls:
            self._next = self._run_tools
            return
        self._journal.note(TapeEntry.message({"role": "assistant", "content": text}))
        self._note_step("ok")
        self._journal.event("run", status="ok", usage=self._usage, model=self._request["model"], steps=self._steps)
        await self._journal.write()
        self._tell("final", finish_reason=self._finish_reason, steps=self._steps, ok=True)
        self._next = None

    async def _spend(self) -> None:
        """Count what an answer has cost; what no provider has counted is estimated, so that a limit is one."""
        tokens = tokens_of(self._usage)
        if not tokens and self._reading is None and self._budget.counts_tokens:
            tokens = estimated(self._request["messages"], "".join(self._parts))
        self._budget.spend_tokens(tokens)
        if self._budget.is_daily:
            await self._spending.add(tokens)

    async def _run_tools(self) -> None:
        text = "".join(self._parts) or None
        asked = TapeEntry.tool_call([_as_kept(call) for call in self._calls], content=text)
        self._journal.note(asked)
        # On the tape before anything is done: should this process die, nothing is done twice (BEHAVIOURS P14).
        await self._journal.write()
        self._outcomes = [None] * len(self._calls)
        try:
            for call in self._calls:
                self._budget.call(call.name, call.arguments if call.arguments is not None else call.written)
        except BudgetError as error:
            self._outcomes = [
                ToolOutcome(call, f"error: not done, since {error}", is_error=True) for call in self._calls
            ]
            raise
        await self._caller().run(self._calls, self._take_outcome)
        results = TapeEntry.tool_result(await self._results())
        self._journal.note(results)
        self._calls, self._outcomes = [], []
        self._note_step("continue")
        step = self._tape_context().messages([asked, results])
        self._messages += step
        if self._anew is not None:
            begin, self._anew = self._anew, None
            await begin()
            self._journal.note(asked, results)
            self._messages += step
        said = await self._continue_prompt()
        if said:
            self._messages.append({"role": "user", "content": said})
            self._journal.note(TapeEntry.message({"role": "user", "content": said}, continued=True))
        self._next = self._ask

    def _take_outcome(self, index: int, outcome: ToolOutcome) -> None:
        self._outcomes[index] = outcome

    async def _results(self) -> list[dict[str, Any]]:
        """What the tools came to, in the order of the calls."""
        results = []
        for outcome in self._outcomes:
            assert outcome is not None
            content = await self._in_short(outcome.content)
            told = {**replace(outcome, content=content).as_dict(), "took": round(outcome.took, 6)}
            self._tell("tool_result", **told)
            results.append(told)
        return results

    # What is fired on the way.

    async def _amended(self) -> tuple[dict[str, Any], str | None]:
        """The request of this step as the plugins want it, and the text to finish with instead of asking (A19)."""
        request: dict[str, Any] = {
            "model": self._model,
            "messages": self._whole(),
            "tools": [tool.name for tool in self._box.for_model()],
            "tool_choice": None,
            "max_tokens": None,
            "temperature": None,
            "step": self._steps,
        }
        fire = self._task.fire
        if fire is None or "before_llm_call" not in fire:
            return request, None
        amended = await fire("before_llm_call", session_id=self._task.session_id, request=request) or {}
        request.update({name: amended[name] for name in _AMENDABLE if amended.get(name) is not None})
        finish = amended.get("finish")
        return request, str(finish) if finish is not None else None

    async def _observe_answer(self, error: Exception | None = None) -> None:
        """Tell of an answer, or of why there is none, once (BEHAVIOURS A22)."""
        fire, was_asked = self._task.fire, self._is_asked
        self._is_asked = False
        if fire is None or not was_asked or "after_llm_call" not in fire:
            return
        response = {
            "text": "".join(self._parts),
            "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self._calls],
            "usage": self._usage,
            "finish_reason": self._finish_reason,
            "took": perf_counter() - self._asked_at,
            "error": str(error) if error is not None else None,
        }
        await fire(
            "after_llm_call", session_id=self._task.session_id, request=copy.copy(self._request), response=response
        )

    async def _continue_prompt(self) -> str | None:
        fire = self._task.fire
        if fire is None or "continue_prompt" not in fire:
            return None
        said = await fire("continue_prompt", session_id=self._task.session_id, step=self._steps)
        return str(said) if said else None

    # The answer under way.

    def _note(self, event: StreamEvent) -> bool:
        """Keep what an event other than text says; whether it is passed on."""
        if event.kind == "tool_call":
            data = event.data
            self._calls.append(ToolCall(data["id"], data["name"], data.get("arguments"), data.get("raw", "")))
        elif event.kind == "usage":
            self._usage = self.state.usage = dict(event.data)
        elif event.kind == "final":
            self._finish_reason = event.data.get("finish_reason")
            return False
        return True

    async def _close_answer(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            await close_stream(events)

    async def _fail(self, error: Exception) -> None:
        self._note_partial()
        self._note_step("error", error=str(error))
        await self._close_answer()
        await self._observe_answer(error)
        await super()._fail(error)

    async def _leave(self) -> None:
        self._reading = None
        self._note_partial()
        self._note_step("cancelled")
        await self._close_answer()
        await super()._leave()

    def _note_partial(self) -> None:
        """What was said before the turn ended early: the person has read it, so the model must know of it."""
        finished = [outcome.as_dict() for outcome in self._outcomes if outcome is not None]
        if self._calls and finished:
            self._journal.note(TapeEntry.tool_result(finished))
        elif self._parts and not self._calls:
            self._journal.note(TapeEntry.message({"role": "assistant", "content": "".join(self._parts)}, partial=True))

    def _note_step(self, status: str, **more: Any) -> None:
        self._journal.event("loop.step", step=self._steps, status=status, **more)

    # What is sent, and beginning anew.

    def _whole(self) -> list[dict[str, Any]]:
        return [*([{"role": "system", "content": self._system}] if self._system else []), *self._messages]

    def _tape_context(self) -> TapeContext:
        return self._tape.context if self._tape is not None else TapeContext()

    async def _begin_anew(self, name: str, state: Mapping[str, Any]) -> None:
        """Set an anchor: what came before is left behind, but for the prompt of this turn."""
        anchor = TapeEntry.anchor(name, state)
        prompt = {"role": "user", "content": self._task.prompt}
        self._journal.note(anchor, TapeEntry.event("handoff", {"name": name, "state": dict(state)}))
        self._journal.note(TapeEntry.message(_kept(prompt), repeated=True))
        await self._journal.write()
        self._messages = [*TapeContext().messages([anchor]), prompt]

    # What tools ask of the turn (`AgentTurn`).

    def hand_off(self, name: str, state: Mapping[str, Any]) -> None:
        """Begin anew behind this step."""

        async def begin() -> None:
            await self._begin_anew(name, state)

        self._anew = begin

    async def delegate(self, prompt: str, *, session: str, tools: Sequence[str] | None) -> str:
        """Let an agent of its own work on a prompt; it may at most what this one may, and starts none itself (A25)."""
        task, fire = self._task, self._task.fire
        passing = session in (TEMP, INHERIT)
        child = f"{TEMPORARY}{uuid4().hex[:12]}" if passing else f"{task.session_id}/{session}"
        if fire is not None and "subagent_spawning" in fire:
            changed = await fire("subagent_spawning", session_id=task.session_id, prompt=prompt, personality=None) or {}
            prompt = changed.get("prompt") or prompt
        box = self._box.narrowed(tools, without=("subagent", "tape.*"))
        inner = _Loop(
            self._framework,
            replace(task, prompt=prompt, session_id=child, fire=fire),
            box,
            self._budget.for_subagent(),
            self._messages if session == INHERIT else (),
        )
        if fire is not None and "subagent_spawned" in fire:
            await fire("subagent_spawned", session_id=task.session_id, child_session_id=child)
        events, parts = AsyncStreamEvents(inner, inner.state), list[str]()
        result: Any = None
        try:
            async for event in events:
                if event.kind == "text":
                    parts.append(event.data["delta"])
            result = "".join(parts)
        finally:
            await close_stream(events)
            if fire is not None and "subagent_ended" in fire:
                await fire("subagent_ended", session_id=task.session_id, child_session_id=child, result=result)
        return str(result)


def _as_kept(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments if call.arguments is not None else call.written,
    }


def _kept(message: dict[str, Any]) -> dict[str, Any]:
    """A message as the tape keeps it: what is no text is named, not stored (BEHAVIOURS P19)."""
    content = message["content"]
    if isinstance(content, str):
        return message
    parts = [part if part.get("type") == "text" else {"type": "text", "text": _named(part)} for part in content]
    return {**message, "content": parts}


def _named(part: Mapping[str, Any]) -> str:
    kind = str(part.get("type") or "attachment")
    inner = part.get(kind)
    url = str((inner.get("url") if isinstance(inner, Mapping) else inner) or "")
    kind = kind.removesuffix("_url")
    if url.startswith(("http:", "https:")):
        return f"[{kind}: {url}]"
    about, comma, data = url.partition(",")
    if not url.startswith("data:") or not comma:
        return f"[{kind}]"
    size = len(data) * 3 // 4 - data[-2:].count("=") if about.endswith(";base64") else len(data)
    return f"[{kind}: {about[5:].partition(';')[0]}, {size:,} bytes]"
