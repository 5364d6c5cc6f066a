"""What the model is sent in one turn: what the tape has, what was asked, what was done, and what came meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bub.agent.journal import Journal
from bub.agent.prompting.media import left_behind
from bub.agent.prompting.message import is_said, prompt_of
from bub.agent.task import Task
from bub.tape import Tape, TapeContext, TapeEntry
from bub.tape.context import NOW, entry_of_step, tell_now
from bub.tape.media import put_back
from bub.tape.plan import plan_text


class Context:
    """The messages of one turn, and the tape's notes of them. `inherited` is what a sub-agent knows from its caller."""

    def __init__(
        self, task: Task, tape: Tape | None, journal: Journal, inherited: Sequence[dict[str, Any]] = ()
    ) -> None:
        self.messages = list(inherited)
        self._task = task
        self._tape = tape
        self._journal = journal
        self._asked: dict[str, Any] = {"role": "user", "content": task.prompt}
        self._told = tell_now(self._asked, task.now)
        self._heard: list[dict[str, Any]] = []

    async def recall(self) -> None:
        """Add what the tape has since its last anchor."""
        if self._tape is not None:
            self.messages += await put_back(self._tape, await self._tape.messages())

    async def ask(self) -> None:
        """Add the prompt of the turn."""
        self.messages.append(self._told)
        await self._journal.note_message(self._asked, **self._moment)

    def say(self, text: str) -> None:
        """Say something to the model that no person has said."""
        self.messages.append({"role": "user", "content": text})
        self._journal.note(TapeEntry.message({"role": "user", "content": text}, continued=True))

    def add_step(self, calls: TapeEntry, results: TapeEntry) -> None:
        """Add what the model called and what came of it."""
        given = self._tape.context if self._tape is not None else TapeContext()
        self.messages += given.messages([calls, results])

    async def hear(self, *, behind: dict[str, Any] | None = None) -> bool:
        """Add what came for the turn meanwhile (BEHAVIOURS A10); return whether anything did.

        It comes `behind` what the model said last, if that is given.
        """
        came = self._task.steering.take() if self._task.steering is not None else []
        heard = [{"role": "user", "content": prompt} for prompt in map(prompt_of, came) if is_said(prompt)]
        if not heard:
            return False
        self.messages += [*([behind] if behind is not None and behind["content"] else []), *heard]
        self._heard += heard
        for message in heard:
            await self._journal.note_message(message, steered=True)
        return True

    @property
    def words(self) -> set[int]:
        """The places of what a person has said in this turn."""
        own = [id(said) for said in (self._told, *self._heard)]
        return {place for place, message in enumerate(self.messages) if id(message) in own}

    async def begin_anew(
        self, name: str, state: Mapping[str, Any], kept: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Set an anchor, behind which the context has `state` and the messages that are `kept`.

        Left out, that is what a person said in this turn.
        """
        kept = [self._told, *self._heard] if kept is None else kept
        left = left_behind(self.messages, (message.get("content") for message in kept))
        plan = await plan_text(self._tape) if self._tape is not None else ""
        state = {**state, **({"plan": plan} if plan else {}), **({"seen before": left} if left else {})}
        anchor = TapeEntry.anchor(name, state)
        self._journal.note(anchor, TapeEntry.event("handoff", {"name": name, "state": dict(state)}))
        for message in kept:
            await self._repeat(message)
        await self._journal.write()
        self.messages = [*TapeContext().messages([anchor]), *kept]

    async def _repeat(self, message: dict[str, Any]) -> None:
        """Note a message again, behind an anchor."""
        if message is self._told:
            await self._journal.note_message(self._asked, repeated=True, **self._moment)
        elif message.get("role") == "tool" or message.get("tool_calls"):
            self._journal.note(entry_of_step(message, repeated=True))
        else:
            await self._journal.note_message(message, repeated=True)

    @property
    def _moment(self) -> dict[str, Any]:
        """What the tape keeps beside the prompt, and puts below it for the model."""
        return {NOW: self._task.now} if self._task.now else {}
