"""The agent: asks the model, runs the tools it calls, and asks again until it has nothing more to call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import trio
from msgspec.structs import replace

from bub.agent import late
from bub.agent.calls.caller import ToolOutcome
from bub.agent.calls.interrupted import note_interrupted
from bub.agent.calls.program import ProgramBox, refuse_names
from bub.agent.costs.budget import Budget, BudgetError
from bub.agent.costs.ledger import Ledger
from bub.agent.journal import WRITING_PATIENCE
from bub.agent.loop.amendments import as_asked, new_request
from bub.agent.loop.answer import ModelAnswer
from bub.agent.loop.aside import Aside
from bub.agent.loop.context import Context
from bub.agent.loop.hooks import LoopHooks
from bub.agent.loop.program import HANDED_BACK, Program
from bub.agent.loop.subagents import Subagents
from bub.agent.loop.tally import TALLY, count_call, new_tally
from bub.agent.task import Run, Task
from bub.agent.window.compaction import FULL, OVERFLOW, Compaction
from bub.errors import ModelError, UsageError
from bub.hooks.kinds.stream import close_stream
from bub.log import log_exception
from bub.plugins.view import ProfileView
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tape import TapeEntry
from bub.tape.context import MEDIA
from bub.tape.settings import session_settings
from bub.tools import ToolBox

SHORTEST_TOLD = 3.0
"""The shortest pause, in seconds, that Bub announces to a person before it asks the model again."""

LIMIT = "limit"
"""The `finish_reason` of an answer that sums up, because the turn had reached a limit."""


class Loop(Run):
    """The agent's loop (BEHAVIOURS A10): a step is one answer of the model and the tools that it calls."""

    def __init__(
        self,
        framework: ProfileView,
        task: Task,
        box: ToolBox,
        budget: Budget | None = None,
        inherited: Sequence[dict[str, Any]] = (),
    ) -> None:
        super().__init__(framework, task, ProgramBox.of(box.for_model(), task.request))
        self._budget = budget or Budget(framework.budget)
        self._ledger = Ledger(framework, self._budget)
        self._chosen: Mapping[str, Any] = {}
        self._system = ""
        self._program = Program(task)
        self._context = Context(task, self._tape, self._journal, [*inherited, *self._program.earlier()])
        self._hooks = LoopHooks(task)
        aside = Aside(framework, task, self._hooks, self._ledger)
        self._window = Compaction(framework, self._tape, self._context, aside)
        self._steps = 0
        self._answer = ModelAnswer(is_observed=True, is_noted=True)
        self._events: AsyncStreamEvents | None = None
        self._reading: AsyncIterator[StreamEvent] | None = None
        self._has_spoken = False
        self._compacted: Mapping[str, str] = {}
        self._has_handed_off = False
        self._done: list[str] = []
        self._tally = new_tally()
        if budget is None:
            task.state[TALLY] = self._tally  # a sub-agent's is not that of the turn
        self._anew: Callable[[], Awaitable[None]] | None = None
        self._subagents = Subagents(framework, task, self._box, fire=self._hooks.fire)

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
            self._refuse("the message is empty")  # BEHAVIOURS A9
            return
        if self._tape is not None:
            await self._tape.ensure_bootstrap_anchor(task.session_id, framework.workspace)
            self._chosen = await session_settings(self._tape)
            await note_interrupted(self._tape, framework.notes)
            await self._context.recall()
        if task.system is None:
            self._system = framework.get_system_prompt(task.prompt, dict(task.state))
        else:
            self._system = task.system
        await self._journal.note_system(self._system)
        if not self._program.brings_results:
            await self._context.ask()
        await self._recall_marks()
        model = self._chosen.get("model") or framework.settings.get("model") or ""
        self._journal.event("loop.start", model=str(model))
        self._window.bound_silence(self._silence)
        self._next = self._make_room
        try:
            if self._program.brings_results:
                await self._program.take_results(self._context, self._caller(turn=self), self._in_short)
            await self._offer_tools()
        except UsageError as error:
            if task.request is None:
                raise
            self._refuse(str(error))

    async def _offer_tools(self) -> None:
        """Tell the model what there is; the tools of servers may change from one request to the next."""
        if await self._know_servers() or not self._steps:
            refuse_names(self._program.request.tools, self._box.tools)
            self._subagents.box = self._box
            tools = [self._box.find(name) for name in self._box.usable()]
            await self._window.begin(self._system, tools, self._chosen)

    async def _make_room(self) -> None:
        """Before the conversation outgrows the window, its older part is summed up; then the model is asked."""
        self._next = self._ask
        if self._steps:
            await self._offer_tools()
        await self._context.leave_pictures()
        if await self._window.is_due() and not self._budget.is_used_up:
            await self._sum_up(FULL)
        self._window.expect_fit()

    async def _sum_up(self, anchor: str) -> bool:
        made = await self._window.make_room(anchor, done=self._done, step=self._steps)
        if made is not None:
            self._tell("compaction", before=made.before, after=made.after, text=str(made))
            self._compacted = {"compaction": made.in_short}
        return made is not None

    async def _ask(self) -> None:
        await self._note_writers()
        await self._ledger.read_day()
        heard = self._budget.take_step()
        if heard is not None:
            self._context.say(heard)
        self._steps += 1
        self._tally["steps"] = self._steps
        self._answer = ModelAnswer(is_observed=True)
        self._journal.event("loop.step.start", step=self._steps)
        request, finish = await self._amend_request()
        self._answer = ModelAnswer(request, is_last=self._budget.ended_by is not None)
        if finish is not None:
            self._answer.finish_reason, self._answer.is_last = "stop", True
            said = StreamEvent.text(finish)
            self._take(said)
            if not self._ready:
                self._ready.append(said)
            self._next = self._take_answer
            return
        asked = as_asked(request, self._window.offered)
        self._answer.is_asked = True
        asking = late.Asking(self._framework, request["model"], asked, self._task.session_id, self._silence, self._tape)
        await self._await_answer(asking)

    async def _amend_request(self) -> tuple[dict[str, Any], str | None]:
        """The request of this step as the plugins want it, and the text to finish with instead of asking (A19)."""
        system = [{"role": "system", "content": self._system}] if self._system else []
        offered = self._window.offered
        request = new_request(self._chosen, [*system, *self._context.messages], self._steps, offered)
        if self._budget.ended_by is not None and offered:
            request["tool_choice"] = "none"
        self._program.amend(request, self._framework.settings.get("max_tokens"))
        return await self._hooks.amend(self._system, request)

    async def _await_answer(self, asking: Any) -> None:
        """Let the answer begin; the person hears of a pause before it is waited for."""
        try:
            came = await asking.go_on()
        except ModelError as error:
            await self._go_on_after(error)
            return
        if not isinstance(came, AsyncStreamEvents):
            if came.seconds >= SHORTEST_TOLD:
                self._tell("waiting", seconds=came.seconds, reason=str(came.reason))
            self._next = partial(self._await_answer, asking)
            return
        self._events, self._answer.activity, self._answer.request["model"] = came, asking.activity, asking.model
        self._reading, self._next = aiter(came), self._take_answer

    async def _go_on_after(self, error: Exception) -> None:
        """Where the context was too long for the model, begin again, once; any other failure is raised."""
        if self._budget.ended_by is not None:
            raise self._budget.ended_by.copy() from error
        answer = self._answer
        is_overflow = isinstance(error, ModelError) and error.kind == "context_overflow"
        if not is_overflow or answer.parts or answer.calls:
            try:
                raise error
            finally:
                del error  # its traceback names this frame: the two would keep each other
        await self._end_answer("failed", error)
        await self._hooks.observe(answer, error)
        self._window.note_refusal()
        self._journal.event("loop.step", step=self._steps, status="auto_handoff", error=str(error))
        if self._has_handed_off or not await self._sum_up(OVERFLOW):
            raise self._window.explain_misfit() from error
        self._has_handed_off = True
        self._next = self._ask

    async def _take_answer(self) -> None:
        """The model has said all it had to say."""
        answer = self._answer
        await self._end_answer("ok")
        await self._hooks.observe(answer)
        self._has_spoken = self._has_spoken or bool(answer.parts)
        if answer.calls:
            self._next = self._run_tools
            return
        if self._budget.ended_by is not None and not answer.text.strip():
            raise self._budget.ended_by.copy()
        answer.is_noted = True
        said = answer.with_thoughts({"role": "assistant", "content": answer.text})
        self._journal.note(TapeEntry.message(said))
        if not answer.is_last and await self._hear(behind=said):
            self._note_step("continue")
            self._next = self._make_room
            return
        await self._finish()

    async def _finish(self, **more: Any) -> None:
        """End the turn with the answer as it is."""
        answer = self._answer
        self._note_step("ok")
        cost = {"usage": answer.usage, "tokens": self._budget.tokens}  # of the last answer, and of the whole turn
        cost["estimated"] = self._window.estimated
        self._journal.event("run", status="ok", **cost, model=answer.request["model"], steps=self._steps)
        await self._journal.write()
        self._next = None
        told = self._budget.bill.as_dict()
        if self._budget.ended_by is not None:
            answer.finish_reason = LIMIT
            told["cut"] = f"{self._budget.ended_by} ({self._budget.ended_by.help})"
        told |= {**self._compacted, **more}
        self._tell("final", finish_reason=answer.finish_reason, steps=self._steps, ok=True, **told)

    async def _run_tools(self) -> None:
        answer = self._answer
        answer.is_noted = True
        asked = TapeEntry.tool_call([call.as_dict() for call in answer.calls], content=answer.text or None)
        asked.payload.update(answer.with_thoughts({}))
        self._journal.note(asked)
        # On the tape before anything is done: should this process die, nothing is done twice (BEHAVIOURS P14).
        await self._journal.write()
        answer.outcomes = [None] * len(answer.calls)
        try:
            self._budget.take_calls(answer.calls)
        except BudgetError as error:
            said = f"error: not done, because {error}"
            answer.outcomes = [ToolOutcome(call, said, is_error=True) for call in answer.calls]
            if answer.is_last:
                raise
        else:
            await self._caller(turn=self).run(answer.calls, self._take_outcome)
            self._budget.note_outcomes([outcome for outcome in answer.outcomes if outcome is not None])
            if handed := self._program.find_handed_back(answer.outcomes):
                answer.are_results_noted, answer.finish_reason = True, "tool_calls"
                self._journal.event(HANDED_BACK, ids=[call["id"] for call in handed])
                await self._finish(calls=handed)  # the next request of the program brings their results
                return
        results = await self._collect_results()
        answer.are_results_noted = True
        for result in results.payload["results"]:
            self._tell("tool_result", **{name: value for name, value in result.items() if name != MEDIA})
        self._note_step("continue")
        self._done += [f"{call.name} {call.in_short}" for call in answer.calls]
        self._context.add_step(asked, results)
        if self._anew is not None:
            begin, self._anew = self._anew, None
            await begin()
            self._journal.note(asked, results)
            self._context.add_step(asked, results)
        self._next = self._make_room
        if self._budget.ended_by is not None:
            return
        said_next = await self._hooks.ask_to_go_on(self._steps)
        if said_next:
            self._context.say(said_next)
        await self._hear()

    async def _hear(self, *, behind: dict[str, Any] | None = None) -> bool:
        """Let the model hear what came meanwhile; if it may not be asked any more, that is left to another turn."""
        return not self._budget.is_used_up and await self._context.hear(behind=behind)

    # The answer under way.

    def _take(self, event: Any) -> bool:
        """Keep what an event says; tell whether it is passed on, itself or what is ready in its place."""
        answer = self._answer
        passed = answer.keep(event, self._context.messages)
        if passed is None:
            return False
        if passed is not event:
            self._ready.append(passed)
        elif event.kind == "usage":
            self.state.usage = answer.usage
        elif event.kind == "text" and self._has_spoken and len(answer.parts) == 1:
            self._ready += (StreamEvent.text("\n\n"), event)  # what an earlier step said is another paragraph
        return True

    async def _end_answer(self, outcome: str, error: Exception | None = None) -> None:
        """Close the stream of an answer, and count what it cost: what nobody counted is estimated (E21)."""
        answer = self._answer.end(outcome, error)
        if answer.is_asked:
            answer.is_asked = False
            self._ledger.note(answer.request["model"], answer.usage, outcome, perf_counter() - answer.asked_at)
            self._window.learn(answer.usage)
        events, self._events = self._events, None
        if events is None:
            return
        await close_stream(events)
        await self._ledger.spend(answer.usage, answer.request["messages"], answer.text)
        self._tally["tokens"] = self._budget.tokens

    def _take_outcome(self, index: int, outcome: ToolOutcome) -> None:
        self._answer.outcomes[index] = outcome
        count_call(self._tally, outcome)

    async def _collect_results(self) -> TapeEntry:
        """What the tools have come to so far, in the order of the calls."""
        outcomes = [outcome for outcome in self._answer.outcomes if outcome is not None]
        short = [replace(outcome, content=await self._in_short(outcome.content)) for outcome in outcomes]
        return await self._context.note_results(short)

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
            await self._end_answer("failed" if error is not None else "cancelled", error)
            if error is not None:
                await self._hooks.observe(self._answer, error)
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
                await self._collect_results()
                answer.are_results_noted = True

    # What tools ask of the turn (`AgentTurn`).

    def hand_off(self, name: str, state: Mapping[str, Any]) -> None:
        """Start the context over after this step."""
        self._anew = partial(self._context.begin_anew, name, state)

    async def delegate(self, prompt: str, *, session: str, tools: Sequence[str] | None) -> str:
        """Let another agent work on a prompt; it may do at most what this one may, and starts none itself (A25)."""
        return await self._subagents.run(prompt, self._start_subagent, session=session, tools=tools)

    def _start_subagent(self, framework: ProfileView, task: Task, box: ToolBox, *, inherits: bool) -> Run:
        run = Loop(framework, task, box, self._budget.for_subagent(), self._context.messages if inherits else ())
        run.follow(self._held)
        if self._silence is not None:
            run.bound_silence(self._silence)
        return run
