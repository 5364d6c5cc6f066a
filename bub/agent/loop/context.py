"""What the model is sent in one turn: what the tape has, what was asked, what was done, and what came meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bub.agent.calls.caller import ToolOutcome
from bub.agent.journal import Journal
from bub.agent.models.parts import Part, text_part
from bub.agent.prompting.media import fit_media, left_behind, split_result
from bub.agent.prompting.message import is_said, prompt_of
from bub.agent.task import Task
from bub.tape import Tape, TapeContext, TapeEntry
from bub.tape.context import MEDIA, NOW, entry_of_step, tell_now
from bub.tape.media import put_back
from bub.tape.plan import plan_text

PICTURES = "auto_handoff/pictures"
"""The anchor at which pictures leave because there are too many."""


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
        self._shown: dict[str, Sequence[Part]] = {}

    async def recall(self) -> None:
        """Add what the tape has since its last anchor."""
        if self._tape is not None:
            self.messages += await put_back(self._tape, await self._tape.messages())

    async def ask(self) -> None:
        """Add the prompt of the turn."""
        self.messages.append(self._told)
        await self._journal.note_message(self._asked, **self._moment)

    async def answer_calls(self, outcomes: Sequence[ToolOutcome]) -> None:
        """Add the results of its calls that the program reports, each after its call."""
        await self.note_results(outcomes)
        given = {one.call.id: {"role": "tool", "tool_call_id": one.call.id, "content": one.as_read} for one in outcomes}
        told = [given.pop(str(message.get("tool_call_id")), message) for message in self.messages]
        self.messages = [*told, *given.values()]

    def say(self, text: str) -> None:
        """Say something to the model that no person has said."""
        self.messages.append({"role": "user", "content": text})
        self._journal.note(TapeEntry.message({"role": "user", "content": text}, continued=True))

    def add_step(self, calls: TapeEntry, results: TapeEntry) -> None:
        """Add what the model called and what came of it, with what was shown when the results were noted."""
        given = self._tape.context if self._tape is not None else TapeContext()
        for message in given.messages([calls, results]):
            parts = self._shown.get(message.get("tool_call_id") or "")
            if parts:
                text = message["content"]
                text = text if isinstance(text, str) else text[0]["text"]
                message["content"] = [text_part(text), *parts]
            self.messages.append({name: value for name, value in message.items() if name != MEDIA})

    async def note_results(self, outcomes: Iterable[ToolOutcome]) -> TapeEntry:
        """Note what came of calls; what a tool has shown is kept beside the tape."""
        results, self._shown = [], {}
        for outcome in outcomes:
            self._shown[outcome.call.id] = outcome.parts
            kept = await self._journal.keep_shown(outcome.parts)
            results.append({**outcome.as_dict(), "took": round(outcome.took, 6), **({MEDIA: kept} if kept else {})})
        entry = TapeEntry.tool_result(results)
        self._journal.note(entry)
        return entry

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

    async def leave_pictures(self) -> None:
        """If there are more pictures and files than a request holds, set an anchor at which the oldest leave.

        All words stay. So each request begins as the one before it, from one anchor to the next.
        """
        fitting = fit_media(self.messages)
        if fitting is not self.messages:
            await self.begin_anew(PICTURES, {"reason": "there were more pictures than a request holds"}, fitting)

    async def begin_anew(
        self, name: str, state: Mapping[str, Any], kept: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Set an anchor, after which the context has `state` and the messages that are `kept`.

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
        elif message.get("role") == "tool":
            text, parts = split_result(message)
            entry = entry_of_step({**message, "content": text}, repeated=True)
            if kept := await self._journal.keep_shown(parts):
                entry.payload["results"][0][MEDIA] = kept
            self._journal.note(entry)
        elif message.get("tool_calls"):
            self._journal.note(entry_of_step(message, repeated=True))
        else:
            await self._journal.note_message(message, repeated=True)

    @property
    def _moment(self) -> dict[str, Any]:
        """What the tape keeps beside the prompt, and puts below it for the model."""
        return {NOW: self._task.now} if self._task.now else {}
