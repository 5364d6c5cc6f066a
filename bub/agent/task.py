"""A task for the agent, and what commands and the loop share in doing it: events on request, and a tape."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from bub.agent import late
from bub.agent.calls.caller import Caller
from bub.agent.calls.consent import Consent
from bub.agent.journal import Journal
from bub.agent.marks.files import FileMarks
from bub.agent.marks.flow import Flow
from bub.agent.marks.marks import Marks
from bub.agent.marks.session import SessionMarks, marks_of_writers
from bub.agent.prompting.prefix import Prefixes
from bub.agent.runtime_events import EventfulTape, are_kept, events_file
from bub.base.clients.request import ClientRequest
from bub.base.confinement.value import Confinement, narrow
from bub.envelope import Envelope
from bub.errors import TapeError
from bub.hooks.admission import Steering
from bub.hookspecs import Fire
from bub.log import log_exception
from bub.plugins.servers import server_of
from bub.plugins.view import ProfileView
from bub.streaming import StreamEvent, StreamState
from bub.tape import Tape, TapeContext, TapeEntry
from bub.tape.frames import new_frame
from bub.tape.opening import archive_folder
from bub.tape.spill import is_long, spill
from bub.tape.tape import tape_name
from bub.tools import AgentTurn, ToolBox, ToolContext

TEMPORARY = "temp/"
"""Sessions whose name begins like this leave nothing behind (BEHAVIOURS P16)."""

LONGEST_RESULT = 4_000
"""How many letters of a long result the context keeps where the rest cannot be laid aside."""

_T = TypeVar("_T")


class Task(msgspec.Struct, frozen=True):
    """What an agent is asked to do: the prompt, and the turn that asks.

    `steering` holds what comes while it is done. `now` is what the model reads about the moment, below the prompt;
    `prefixes` watches what plugins make of the requests. `confinement` is what the agent that asks may reach, if it is
    another profile. `request` is what a program brings that asks as it would ask a model; if the task is not `is_kept`,
    there is no tape for it. `frame` makes the mark around what strangers may have written of that.
    `put_away` ends what a session has left running, if nobody can come back to it.
    """

    prompt: str | list[dict[str, Any]]
    session_id: str
    state: dict[str, Any]
    message: Envelope = None
    system: str | None = None
    fire: Fire | None = None
    steering: Steering | None = None
    now: str = ""
    prefixes: Prefixes | None = None
    confinement: Confinement | None = None
    request: ClientRequest | None = None
    is_kept: bool = True
    frame: Callable[[str], str] = lambda text: new_frame()
    put_away: Callable[[str], Awaitable[None]] | None = None


class Run:
    """The events of an answer, made as they are asked for. What happens is noted, also where it ends early.

    `_next` is what is done when there is no event left to tell; None at the end.
    """

    def __init__(self, framework: ProfileView, task: Task, box: ToolBox) -> None:
        self.state = StreamState()
        self._framework = framework
        self._task = task
        self._silence: float | None = None
        self._box = box if task.fire is not None else box.narrow(())  # nobody could guard a call
        self._ready: deque[StreamEvent] = deque()
        self._troubles: set[str] = set()
        self._next: Callable[[], Awaitable[None]] | None = self._begin
        self._tape = self._open_tape()
        self._held = SessionMarks(self._tape)
        self._journal = Journal(self._tape, framework.mask.value)

    def bound_silence(self, seconds: float) -> None:
        """Give up on a model that is silent for so long; what else is done has bounds of its own."""
        self._silence = seconds

    def follow(self, held: SessionMarks) -> None:
        """Let what this run and its caller hold be one: what either of them reads, both have read."""
        self._held = SessionMarks(self._tape, held)

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
            self._next = None
            self.state.error = error
            await self._leave(error)
            raise
        return await self.__anext__()

    async def aclose(self) -> None:
        """Leave, perhaps early: what has happened so far is on the tape."""
        self._ready.clear()
        if self._next is not None:
            self._next = None
            await self._leave(None)
        if self._task.put_away is not None:
            await self._task.put_away(self._task.session_id)

    async def _begin(self) -> None:
        """What is done first; each kind of run has its own."""
        raise NotImplementedError

    async def _leave(self, error: Exception | None) -> None:
        """The run ends early: with an error, or because nobody wants to hear more."""
        if error is not None:
            self._journal.note(TapeEntry.error(error))
        await self._journal.write_last()

    def _refuse(self, why: str) -> None:
        """End with a sentence that says why nothing is done."""
        self._next = None
        self._tell("text", delta=f"error: {why}")
        problem = {"problem": why} if self._task.request is not None else {}  # for a program, it is no answer
        self._tell("final", finish_reason="error", steps=0, ok=False, **problem)

    def _tell(self, kind: str, **data: Any) -> None:
        self._ready.append(StreamEvent(kind, data))

    async def _know_servers(self, *, for_people: bool = False) -> bool:
        """Learn which tools the servers of the profile offer by now; True if others than were known.

        No model learns of what is `for_people`. The person reads once what is wrong with a server.
        """
        framework, policy = self._framework, self._box.policy
        wanted = {spec.name for spec in framework.served.specs if policy.wants(spec.name)}
        if not wanted:
            return False
        for trouble in await (await framework.shared(late.open_servers)).offer(framework, policy):
            if trouble not in self._troubles:
                self._troubles.add(trouble)
                self._tell("notice", text=trouble)
        before, now = self._box.tools, framework.served.tools
        tools = {name: tool for name, tool in before.items() if server_of(name) not in wanted}
        for name, tool in now.items():
            if server_of(name) in wanted and (for_people or not tool.for_people):
                tools[name] = tool
        self._box = replace(self._box, tools=tools)
        return before != tools

    def _open_tape(self) -> Tape | None:
        session_id, store = self._task.session_id, self._framework.get_tape_store()
        if store is None or not self._task.is_kept or session_id.startswith(TEMPORARY):
            return None
        framework, given = self._framework, self._framework.build_tape_context()
        name, context = tape_name(framework.workspace, session_id), given if isinstance(given, TapeContext) else None
        if are_kept(framework.settings):
            events = events_file(framework.workspace, session_id)
            return EventfulTape(name, store, context or TapeContext(), events=events)
        return Tape(name, store, context or TapeContext())

    async def _recall_marks(self) -> None:
        """Find what the conversation holds before anything is said: from earlier turns, and in the system prompt."""
        await self._held.recall()
        await self._held.add(await self._file_marks().of_prompt(self._framework.workspace))

    def _file_marks(self) -> FileMarks:
        return FileMarks(self._framework.get_tape_store())

    async def _note_writers(self) -> None:
        """Note whether strangers have written what the turn answers, the messages among it that came meanwhile."""
        await self._held.add(self._marks_of_writers())

    def _marks_of_writers(self) -> Marks:
        return marks_of_writers(self._framework.writers, self._framework.rules.approvers)

    def _caller(self, *, turn: AgentTurn | None = None, from_person: bool = False) -> Caller:
        framework, task = self._framework, self._task
        context = ToolContext(
            session_id=task.session_id,
            workspace=framework.workspace,
            message=task.message,
            state=task.state,
            settings=framework.settings,
            tape=self._tape,
            archive=archive_folder(framework.home),
            own_files=framework.own_files,
            confinement=narrow(framework.confinement, task.confinement),
            policy=self._box.policy,
            turn=turn,
            from_person=from_person,
            may_approve=from_person or not self._marks_of_writers(),
            fire=task.fire,
        )
        consent = Consent(
            lambda: framework.ask,
            lambda: framework.notes,
            framework.rules,
            self._journal.event,
            self._begun,
            self._notify,
        )
        flow = Flow(self._held, self._file_marks(), context)
        return Caller(self._box, context, task.fire, consent, flow, framework.mask.text)

    async def _notify(self, text: str) -> None:
        """Say something while a tool runs, at once."""
        await self._framework.tell(StreamEvent("notice", {"text": self._framework.mask.text(text)}))

    async def _begun(self) -> str:
        """When the conversation began, which a reset begins again; "" if nobody keeps it."""
        first = await self._tape.fetch(self._tape.query().limit(1)) if self._tape is not None else []
        return first[0].date if first else ""

    async def _in_short(self, content: str) -> str:
        """A result that would fill the context is laid aside, and its beginning shown (BEHAVIOURS P22)."""
        if not is_long(content):
            return content
        if self._tape is not None:
            try:
                return (await spill(self._tape, content)).preview
            except TapeError as error:  # what lies beside the tape never breaks a turn (P21)
                log_exception("tape.spill_failed", error, tape=self._tape.name)
        return f"{content[:LONGEST_RESULT]}\n[… {len(content) - LONGEST_RESULT:,} characters left out …]"
