"""What a call needs before it runs: a person's yes if the profile or a crash wants one, and a note that it begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from bub.approval import (
    Answer,
    Approval,
    Ask,
    CallNotes,
    CannotAskError,
    NotedCall,
    NotSpentError,
    Question,
    Rules,
    digest,
)
from bub.asking import Form
from bub.log import log_exception
from bub.tools import Tool, ToolError

_NOTING = 10.0
"""How long, in seconds, it may take to note that a call has ended while everything is being ended."""

_NOBODY = "nobody can be asked here"

_AGAIN = "Bub called `{}` for this message before the process ended, and nobody knows whether that call took effect"


class Consent(msgspec.Struct, frozen=True):
    """Asks about the calls of one turn, and has them noted.

    `ask` puts a question to a person, None if nobody can be asked. `notes` keeps the calls, None if nobody does.
    `rules` are the profile's. `tell` puts on the tape what a person said. `begun` is when the session's conversation
    began, "" if nothing of it is kept. `notify` says something to who listens to the turn.
    """

    ask: Callable[[], Ask | None]
    notes: Callable[[], CallNotes | None]
    rules: Rules
    tell: Callable[..., None]
    begun: Callable[[], Awaitable[str]]
    notify: Callable[[str], Awaitable[None]]

    def is_needed(self, tool: Tool, *, asks: bool) -> bool:
        """Whether a person has to be asked: the profile `asks`, or the tool may have taken effect before a crash.

        Raises `ToolError` for one that is never to be called a second time.
        """
        if not self._was_called(tool):
            return asks
        if tool.once:
            words = f"{_AGAIN.format(tool.name)}; Bub never calls this tool twice"
            raise ToolError(words, help="tell the person, who can check whether the call took effect", kind="denied")
        return True

    async def obtain(
        self, tool: Tool, call_id: str, arguments: Mapping[str, Any], session_id: str, why: str = ""
    ) -> Answer:
        """Get a person's yes. Raises `ToolError` without one; a question that breaks is a no.

        `why` says why they are asked, if it is not only the profile that wants it.
        """
        ask = self.ask()
        if ask is None:
            raise self._refuse(tool, _NOBODY, why)
        approval = replace(self._bind(tool, digest(arguments), session_id), again=self._was_called(tool), why=why)
        try:
            begun = await self.begun()
            stretch = f"{self.rules.loaded} {begun}" if begun else ""
            said = await ask(
                Question(session_id, tool.name, arguments, call_id=call_id, approval=approval, stretch=stretch)
            )
        except CannotAskError as error:
            raise self._refuse(tool, str(error), why) from None
        except Exception as error:  # noqa: BLE001 (whatever breaks, it was no yes)
            log_exception("tool.ask_failed", error, tool=tool.name)
            said = False
        answer = said if isinstance(said, Answer) else Answer(said is True)
        self.tell("approval", id=call_id, tool=tool.name, answer="yes" if answer.is_yes else "no", by=answer.by)
        if not answer.is_yes:
            words = f": {answer.words}" if answer.words else ""
            raise ToolError(f"the person said no to `{tool.name}`{words}", kind="denied")
        return answer

    async def fill(self, form: Form, tool: Tool, call_id: str, session_id: str) -> Answer:
        """Put to a person what somebody asks while a tool runs; what they answer is not kept, and is no yes to a call.

        Without `content` in the answer they did not fill it in, or could not be asked; `words` say why they could not.
        """
        ask = self.ask()
        approval = replace(self._bind(tool, digest(form.text), session_id), asker=form.asker)
        try:
            if ask is None:
                raise CannotAskError(_NOBODY)
            said = await ask(Question(session_id, tool.name, call_id=call_id, approval=approval, form=form))
            answer = said if isinstance(said, Answer) else Answer(False, words="nobody can fill in a form here")
        except CannotAskError as error:
            answer = Answer(False, words=str(error))
        except Exception as error:  # noqa: BLE001 (whatever breaks, nobody has answered)
            log_exception("tool.ask_failed", error, tool=tool.name)
            answer = Answer(False, words="Bub could not ask")
        is_answered = answer.content is not None
        self.tell("elicitation", id=call_id, tool=tool.name, answered=is_answered, by=answer.by)
        return answer

    async def begin(self, tool: Tool, call_id: str, arguments: Mapping[str, Any], answer: Answer | None) -> None:
        """Note that a call begins, and spend the yes to it in the same step. Raises `ToolError` if it does not count.

        One that may be repeated is not noted, unless a yes has to be spent.
        """
        notes, approval = self.notes(), answer.approval if answer is not None else ""
        if notes is None or (_may_be_repeated(tool) and not approval):
            return
        try:
            await notes.begin(NotedCall(call_id, tool.name, digest(arguments)), approval)
        except NotSpentError as error:
            raise ToolError(f"the yes to `{tool.name}` does not count: {error}", kind="denied") from None

    async def end(self, tool: Tool, call_id: str, arguments: Mapping[str, Any]) -> None:
        """Note that a call has ended, however it did. If that cannot be noted, the call keeps its result."""
        notes = self.notes()
        if notes is None or _may_be_repeated(tool):
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _NOTING):
            try:
                await notes.end(NotedCall(call_id, tool.name, digest(arguments)))
            except Exception as error:  # noqa: BLE001 (at worst it is asked about once more)
                log_exception("tool.end_not_noted", error, tool=tool.name)

    def _bind(self, tool: Tool, about: str, session_id: str) -> Approval:
        """What a yes is bound to that concerns a tool and what the digest `about` names."""
        rules, schema = self.rules, digest(tool.parameters)
        return Approval(session_id, tool.name, schema, about, rules.profile, rules.digest, rules.approvers)

    def _refuse(self, tool: Tool, reason: str, why: str) -> ToolError:
        what = f"{_AGAIN.format(tool.name)}: calling it again" if self._was_called(tool) else f"`{tool.name}`"
        refusal = f"{what} needs a person's yes, and {reason}"
        return ToolError(f"{refusal}: {why}" if why else refusal, kind="denied")

    def _was_called(self, tool: Tool) -> bool:
        """Whether a tool that may not be repeated was called in this turn before the process ended."""
        notes = self.notes()
        if notes is None or _may_be_repeated(tool):
            return False
        return any(call.tool == tool.name and call.has_begun for call in notes.earlier)


def _may_be_repeated(tool: Tool) -> bool:
    """Whether a tool may be called again after a crash with nobody asked: it only reads, and is not for `once`."""
    return tool.read_only and not tool.once
