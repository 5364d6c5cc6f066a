"""The channel of a person's own terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import trio

from bub.approval import Question
from bub.channels.attachments import attach
from bub.channels.channel import Channel, Role, WhenBusy
from bub.channels.message import COMMAND, ERROR, ChannelMessage
from bub.channels.terminal.answer import LiveAnswer, Look, Printout
from bub.channels.terminal.completion import Completions
from bub.channels.terminal.escaping import escape_invisible
from bub.channels.terminal.filling import fill_form
from bub.channels.terminal.history import history_file
from bub.channels.terminal.lines import LineSurface, PipeSurface
from bub.channels.terminal.mentions import Typed, locate, read_mentions
from bub.channels.terminal.person import ChatSurface
from bub.channels.terminal.questions import arguments_of, change_of, is_edit, reason_of
from bub.channels.terminal.screen import Screen
from bub.errors import BubError, UsageError
from bub.pipeline.edit.kept_rule import can_be_kept, draft_rule
from bub.plugins.shipped import TERMINAL
from bub.streaming import StreamEvent
from bub.tape.conversations import Conversation
from bub.tape.transcript import moment

_LEAVING = ("quit", "exit")
_MOST_REMEMBERED = 32
"""Of how many answers it is known what was shown while they were made."""

_AT_A_GLANCE = 1000
"""How many characters of arguments a person surely sees at once; of more, the beginning may have left the screen."""


@dataclass(frozen=True, slots=True)
class _AnswerSoFar:
    """An answer as it is shown while it is made, and the pieces of its text so far."""

    answer: LiveAnswer
    texts: list[str] = field(default_factory=list)


class Terminal(Channel):
    """A conversation with the person who started the program (BEHAVIOURS C35); see `bub chat`.

    `prefix` is what commands begin with, `completions` what can be completed, `greeting` what is shown first.
    What was typed in `workspace` is kept below `home`.
    """

    name = TERMINAL
    role: Role = "interface"
    when_busy: WhenBusy = "steer"
    can_ask = True
    has_schedules = False

    def __init__(
        self,
        message_handler: Callable[[ChannelMessage], Awaitable[None]],
        *,
        workspace: Path,
        home: Path,
        prefix: str,
        completions: Callable[[], Completions],
        pipeline_file: Callable[[], Path | None] = lambda: None,
        greeting: Sequence[str] = (),
    ) -> None:
        self._handle = message_handler
        self._workspace = workspace
        self._history = history_file(home, workspace)
        self._prefix = prefix
        self._completions = completions
        self._pipeline_file = pipeline_file
        self._greeting = greeting
        self._first, self._chat_id, self._session_id = "", "local", ""
        self._resumed: Conversation | None = None
        self._session_under_way = ""
        self._surface: ChatSurface | None = None
        self._numbers = count(1)
        self._shown: dict[str, _AnswerSoFar] = {}
        self._allowed: set[tuple[str, str]] = set()
        self._asking = trio.Lock()
        self.has_failed = False
        """Whether an answer was that something failed."""

    def begin_with(
        self, prompt: str = "", *, chat_id: str = "local", session_id: str = "", resumed: Conversation | None = None
    ) -> None:
        """Choose what is sent first, in which chat, and which session goes on. Call it before the channel runs.

        Of a conversation that is `resumed` a person sees where it stopped.
        """
        self._first, self._chat_id, self._session_id = prompt, chat_id, session_id
        self._resumed = resumed

    def hand_to(self, handler: Callable[[ChannelMessage], Awaitable[None]]) -> None:
        """Hand over what is typed here to `handler` from now on, which knows by this that the operator typed it."""
        self._handle = handler

    @property
    def is_conversation(self) -> bool:
        """Whether somebody was there to read each answer and to go on."""
        return self._surface is not None and not isinstance(self._surface, PipeSurface)

    @property
    def failure(self) -> OSError | None:
        """Why an answer could not be shown."""
        return self._surface.failure if self._surface is not None else None

    # What the manager asks of it.

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Let the person talk until they leave, or send what was piped in and wait for its answer."""
        surface = self._surface = self._open_surface()
        self.can_ask = self.fills_forms = self.is_conversation
        task_status.started()
        if self._resumed is not None and self.is_conversation:
            for piece in _recall(self._resumed):
                surface.show(piece)
        first, self._first = self._first, ""
        await surface.run(first)

    async def send(self, message: ChannelMessage) -> None:
        """Show a reply, unless it is what was shown while it was made."""
        surface = self._surface
        if surface is None:
            return
        shown = self._shown.get(message.answers)
        content = message.content.strip()
        if message.kind == ERROR:
            self.has_failed = True
            surface.show(Printout("error", content))
        elif content and (shown is None or "".join(shown.texts).strip() != content):
            surface.show(Printout("plain" if shown is not None and shown.answer.of_command else "markdown", content))

    def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        """Show the answer as it comes (BEHAVIOURS T18)."""
        if event.kind == "final" and event.data.get("ok") is False:
            self.has_failed = True
        if self._surface is not None:
            shown = self._answer_to(message)
            if event.kind == "text":
                shown.texts.append(str(event.data.get("delta") or ""))
            self._surface.show_event(shown.answer, event)

    def attending(self, message: ChannelMessage) -> AbstractContextManager[None]:
        """Return a block in which the answer to a message is in the making."""
        return self._attending(message)

    async def ask(self, question: Question, message: ChannelMessage) -> bool:
        """Put a question on the surface; a yes "for this session" holds for this tool with just these arguments.

        It is for what the person types here: what others hand over in the name of this channel is asked about each
        time, and about what a tool makes another turn do.
        """
        with self._answer_to(message).answer.asking(question.call_id):
            return await self._ask(question)

    async def fill(self, question: Question, message: ChannelMessage) -> Mapping[str, Any] | None:
        """Put a form on the surface, as the words of who asks."""
        with self._answer_to(message).answer.asking(question.call_id):
            async with self._asking:
                if self._surface is None or question.form is None:
                    return None
                return await fill_form(question.form, self._surface)

    async def _ask(self, question: Question) -> bool:
        async with self._asking:  # one after the other, where tools or agents of this conversation run side by side
            if self._surface is None:
                return False
            approval = question.approval
            may_last = question.is_typed and not question.why and approval is not None and not approval.again
            lasting = (approval.bound, question.stretch) if approval is not None and question.stretch else None
            if may_last and lasting in self._allowed:
                return True
            tool, beyond = escape_invisible(question.tool), ""
            if is_edit(question):
                shown, hidden = change_of(question)
                beyond = f" with {hidden:,} more line{'s' if hidden > 1 else ''}, not shown" if hidden else ""
            else:
                shown = arguments_of(question)
                beyond = f" with all {len(shown):,} characters of this" if len(shown) > _AT_A_GLANCE else ""
            look: Look = "edit" if is_edit(question) else "asked"
            self._surface.show(Printout(look, f"The agent wants to call {tool} with\n{shown}"))
            if question.why:
                self._surface.show(Printout("note", reason_of(question)))
            whose = "" if question.is_typed else ", this once, for what was not typed here"
            whose = ", this once" if question.why and not whose else whose
            file = self._pipeline_file() if may_last and can_be_kept(question) else None
            more = [*(["session"] if may_last and lasting else ()), *(["always"] if file is not None else ())]
            while (key := await self._surface.ask(f"Allow {tool}{beyond}{whose}?", more)) == "a" and file is not None:
                if await self._keep_rule(file, question):
                    break
            if key in ("s", "a") and lasting is not None:
                self._allowed.add(lasting)  # a rule of the file counts only once that is loaded again
            return key in ("y", "s", "a")

    async def _keep_rule(self, file: Path, question: Question) -> bool:
        """Show what would change in the file, and write it if the person wants that; return whether it was written."""
        assert self._surface is not None
        try:
            rule = await trio.to_thread.run_sync(draft_rule, file, question)
            change = "\n".join(f"  {line[:1]} {escape_invisible(line[1:])}".rstrip() for line in rule.difference)
            self._surface.show(Printout("edit", f"{escape_invisible(rule.own.file)} would change to\n{change}"))
            self._surface.show(
                Printout("note", "once Bub has loaded the file again, it asks nobody about this very command")
            )
            if await self._surface.ask("Write this?") != "y":
                return False
            kept = await trio.to_thread.run_sync(rule.write)
        except (BubError, OSError) as error:
            self._surface.show(Printout("error", f"{escape_invisible(file.name)} is as it was: {error}"))
            return False
        self._surface.show(Printout("note", f"{escape_invisible(rule.own.file)} is written ({kept})"))
        return True

    # What the surface asks of it (`Person`).

    def read(self, line: str) -> Typed:
        """Find the files that a line names, unless it is a command."""
        return Typed(line) if line.startswith(self._prefix) else read_mentions(line, self._workspace)

    async def submit(self, typed: Typed) -> bool:
        """Take in what was typed, with the files that it names; return whether the person wants to leave."""
        line = typed.text
        is_command = line.startswith(self._prefix)
        if is_command and line.removeprefix(self._prefix).strip() in _LEAVING:
            self.stop()
            return True
        media = await self._attach(typed)
        if media is None:
            return False
        message = ChannelMessage(
            self.name,
            self._chat_id,
            line,
            session_id=self._session_id,
            sender_id="human",
            kind=COMMAND if is_command else "normal",
            media=media,
            message_id=str(next(self._numbers)),
        )
        await self._handle(message)
        return False

    def stop(self) -> bool:
        """Cancel what is under way; return whether there was anything."""
        session = self._session_under_way or self._session_id or f"{self.name}:{self._chat_id}"
        return self.desk is not None and self.desk.cancel_turn(session)

    async def wait_until_answered(self) -> None:
        """Wait until everything that was said is answered."""
        if self.desk is not None:
            await self.desk.settled()

    def completions(self) -> Completions:
        """Return what can be completed."""
        return self._completions()

    # Its own.

    async def _attach(self, typed: Typed) -> list[dict[str, Any]] | None:
        """Read the files that were named, and show that; None if one of them cannot be handed over."""
        media = []
        try:
            for name in typed.files:
                place = locate(name, self._workspace)
                media.append(await trio.to_thread.run_sync(attach, place, name, self._workspace))
        except UsageError as error:
            self._note("error", f"not sent: {error} ({error.help})")
            return None
        for one in media:
            self._note("note", f"attached {one['name']} ({one['mime_type']})")
        for name in typed.unknown:
            self._note("note", f"there is no file {name}, so Bub sends it as text")
        return media

    def _note(self, look: Look, text: str) -> None:
        if self._surface is not None:
            self._surface.show(Printout(look, escape_invisible(text)))

    def _open_surface(self) -> ChatSurface:
        if not sys.stdin.isatty():
            return PipeSurface(self)
        if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
            return LineSurface(self)
        return Screen(
            self, prefix=self._prefix, history=self._history, greeting=self._greeting, workspace=self._workspace
        )

    @contextmanager
    def _attending(self, message: ChannelMessage) -> Iterator[None]:
        self._session_under_way = message.origin
        answer = self._answer_to(message).answer
        if self._surface is not None:
            self._surface.begin(answer)
        try:
            yield
        finally:
            if self._surface is not None:
                self._surface.end(answer)

    def _answer_to(self, message: ChannelMessage) -> _AnswerSoFar:
        shown = self._shown.get(message.message_id)
        if shown is None:
            shown = self._shown[message.message_id] = _AnswerSoFar(LiveAnswer(of_command=message.kind == COMMAND))
            while len(self._shown) > _MOST_REMEMBERED:
                del self._shown[next(iter(self._shown))]
        return shown


def _recall(resumed: Conversation) -> Iterator[Printout]:
    """Yield where a conversation stopped: what the person said last, and what was answered."""
    turns = f"{resumed.turns} turn{'s' if resumed.turns > 1 else ''}"
    yield Printout("note", f"{resumed.session} goes on: {turns}, the last one of {moment(resumed.last_date)[:16]}")
    for role, text in resumed.last:
        if text.strip():
            yield Printout("said" if role == "user" else "markdown", text)
