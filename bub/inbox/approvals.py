"""Asking people about calls, wherever they are: who waits for which answer, who may give it, and when it counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import trio
from msgspec import structs

from bub.approval import OPERATOR, Answer, Approval, CannotAskError, NotedCall, NotSpentError, Question
from bub.asking import Form
from bub.base.backoff import Backoff
from bub.channels.channel import Channel, ShownQuestion, TakenAnswer
from bub.channels.terminal.escaping import escape_invisible
from bub.channels.terminal.questions import arguments_of, reason_of
from bub.inbox.batch import Batch, surface_of
from bub.inbox.framework import Framework
from bub.inbox.questions import NO, OPEN, OVER, YES, AskedQuestion
from bub.inbox.store import InboxStore
from bub.log import log_exception

LASTS = 24 * 3600.0
"""How long, in seconds, a question may be answered."""

PARKED_AFTER = 600.0
"""How long, in seconds, a turn that waits for a person keeps its place among those that run."""

LOOK_AT_TURNS = 0.5
"""How often, in seconds, turns are looked at while all is to end."""

_CLOSING = 10.0
"""How long, in seconds, it may take to close a question of a turn that was cancelled."""

_AGAIN = Backoff(3.0, longest=60.0)

_CHANGED = "the pipeline file or the tool has changed since Bub asked"


@dataclass(eq=False, slots=True)
class _Waiting:
    """A question that a turn waits for, with the channel's name for what shows it."""

    kept: AskedQuestion
    batch: Batch
    answered: trio.Event = field(default_factory=trio.Event)
    is_shown: bool = False


class Approvals:
    """The questions of all turns. `start_soon` starts a task."""

    def __init__(
        self,
        framework: Framework,
        store: InboxStore,
        channels: Mapping[str, Channel],
        *,
        start_soon: Callable[..., Any],
    ) -> None:
        self._framework = framework
        self.store = store
        self._channels = channels
        self._start_soon = start_soon
        self._waiting: dict[str, _Waiting] = {}

    async def wait(self, kept: AskedQuestion, batch: Batch) -> Answer:
        """Show a question and wait until somebody has answered it, or it is too late."""
        waiting = self._waiting[kept.id] = _Waiting(kept, batch)
        answered = waiting.answered
        self._start_soon(self._show, waiting, batch.message.message_id)
        try:
            with trio.move_on_after(max(kept.approval.until - time.time(), 0)):
                with trio.move_on_after(PARKED_AFTER):
                    await answered.wait()
                if not answered.is_set():
                    if not batch.is_over:  # else the turn that asks was started by one that has no place any more
                        batch.turn.park()
                    await answered.wait()
        except trio.Cancelled:
            if batch.is_cancelled:
                self._start_soon(self._give_up, waiting.kept)
            raise
        finally:
            del self._waiting[kept.id]
        if not batch.is_over:
            await batch.turn.unpark()
        now = await self.store.find_question(kept.id)
        if now is None or now.state == OPEN:
            await self._give_up(waiting.kept)
            return Answer(False, words="nobody answered in time")
        if now.state == OVER:
            return Answer(False, words=_CHANGED)
        return Answer(now.state == YES, now.by, kept.id)

    def are_only_asking(self, batches: Iterable[Batch]) -> bool:
        """Whether turns only wait for people who were asked, so that they lose nothing if they are cut short."""
        return all(map(self._is_only_asking, batches))

    def _is_only_asking(self, batch: Batch) -> bool:
        own = [one for one in self._waiting.values() if one.batch is batch]
        if not own or any(batch.calls.values()):
            return False
        # Whoever is asked about the result of a call has it in their hands only while the turn lasts.
        return all(one.is_shown and not one.answered.is_set() and one.kept.call_id not in batch.calls for one in own)

    async def answer(self, name: str, is_yes: bool, *, channel: str, by: str) -> TakenAnswer:
        """Take an answer that a channel brings (`Desk.answer`)."""
        return await self._take(name, is_yes, f"{channel}:{by}", lambda kept: self._may_answer(kept, channel, by))

    async def answer_as_operator(self, name: str, is_yes: bool) -> TakenAnswer:
        """Take an answer of the operator, who may answer everything, from who has proved to be that one."""
        return await self._take(name, is_yes, OPERATOR, lambda kept: True)

    async def _take(self, name: str, is_yes: bool, by: str, may_answer: Callable[[Approval], bool]) -> TakenAnswer:
        kept = await self.store.find_question(name)
        if kept is None:
            return TakenAnswer(f"There is no question {name} any more: the call that asked it has ended.", True)
        if kept.state != OPEN or kept.approval.until <= time.time():
            return TakenAnswer(describe_outcome(kept), True)
        if not may_answer(kept.approval):
            return TakenAnswer(f"You may not answer {kept.id}. Who may is listed in `approvers`.", False)
        if is_yes and self.has_changed(kept.approval):
            await self.store.end_question(kept.id)
            words = f"{kept.id} is over: {_CHANGED}. Nothing was done."
            self._wake(kept, words)
            return TakenAnswer(words, True)
        counts = await self.store.answer(kept.id, is_yes, by)
        now = await self.store.find_question(kept.id) or kept
        self._wake(now, describe_outcome(now))
        return TakenAnswer(describe_outcome(now), True, counts=counts)

    async def look(self) -> None:
        """Go on with what was answered elsewhere: by `bub inbox`."""
        if not self._waiting:
            return
        still_open = {one.id for one in await self.store.open_questions()}
        for name in [one for one in self._waiting if one not in still_open]:
            now = await self.store.find_question(name)
            if now is not None:
                self._wake(now, describe_outcome(now))
            elif name in self._waiting:
                self._waiting[name].answered.set()

    def has_changed(self, approval: Approval) -> bool:
        """Whether what a yes would be for is not what it was when it was asked."""
        now = self._framework.rebind(approval)
        return (now.schema, now.rules) != (approval.schema, approval.rules)

    def describe(self, question: Question) -> str:
        """Describe a call for a person, or what somebody asks them; secrets are covered."""
        if question.form is not None:
            words = escape_invisible(f"{question.form.asker} asks:\n{question.form.text}")
            return self._framework.mask.text(words.replace("\n", "\n  "))
        told = "\n".join(filter(None, (reason_of(question), arguments_of(question))))
        return self._framework.mask.text(told)

    async def _show(self, waiting: _Waiting, answers: str) -> None:
        """Show a question in its chat as soon as that can be done; until then, the operator can answer it."""
        kept, failures = waiting.kept, 0
        channel = self._channels[kept.channel]
        while not waiting.answered.is_set() and self._waiting.get(kept.id) is waiting:
            try:
                shown = await channel.show_question(_as_shown(kept, answers))
                if shown and shown != kept.shown:
                    waiting.kept = replace(kept, shown=shown)
                    await self.store.note_shown(kept.id, shown)
            except Exception as error:  # noqa: BLE001 (whatever it is, `bub inbox` shows the question)
                failures += 1
                pause = _AGAIN.pause_after(failures)
                log_exception("question.not_shown", error, id=kept.id, channel=channel.name, again_in=pause)
                await trio.sleep(pause)
            else:
                waiting.is_shown = True
                return

    def _may_answer(self, approval: Approval, channel: str, by: str) -> bool:
        """Whether somebody was an approver when it was asked, and is one now."""
        return (channel, by) in approval.approvers and (channel, by) in self._framework.rebind(approval).approvers

    def _wake(self, kept: AskedQuestion, words: str) -> None:
        if kept.id in self._waiting:
            self._waiting[kept.id].answered.set()
        self._start_soon(self._close, kept, words)

    async def _give_up(self, kept: AskedQuestion) -> None:
        """Let a question be over that nobody has to answer any more."""
        with trio.move_on_after(_CLOSING):
            await self.store.end_question(kept.id)
            await self._close(kept, f"{kept.id} is over: nothing was done.")

    async def _close(self, kept: AskedQuestion, words: str) -> None:
        channel = self._channels.get(kept.channel)
        if channel is None or not channel.shows_questions:
            return
        try:
            await channel.close_question(_as_shown(kept), words)
        except Exception as error:  # noqa: BLE001 (the answer is kept)
            log_exception("question.not_closed", error, id=kept.id, channel=channel.name)


class TurnCalls:
    """The calls of one turn, and what is asked about them (`CallNotes`)."""

    def __init__(self, approvals: Approvals, channel: Channel, batch: Batch) -> None:
        self._approvals = approvals
        self._store = approvals.store
        self._channel = channel
        self._batch = batch
        self._asked: set[str] = set()

    @property
    def earlier(self) -> Sequence[NotedCall]:
        """The calls that an earlier process noted for this turn."""
        return self._batch.earlier

    async def begin(self, call: NotedCall, approval: str) -> None:
        """Note that a call begins, and spend its yes. Raises `NotSpentError` if that does not count any more."""
        if approval:
            kept = await self._store.find_question(approval)
            if kept is not None and self._approvals.has_changed(kept.approval):
                raise NotSpentError(_CHANGED)
        # Each message has a note: what steered the turn may be answered by another one after a crash.
        await self._store.begin_call(self._batch.ids, call, approval)
        self._batch.calls[call.call_id] = True

    async def end(self, call: NotedCall) -> None:
        """Note that a call has ended."""
        await self._store.end_call(self._batch.ids, call)
        self._batch.calls[call.call_id] = False

    async def ask(self, question: Question) -> Answer | bool:
        """Put a question to who may answer it, and wait for that; an answer from before a crash is one."""
        channel, approval = self._channel, question.approval
        if question.form is not None:
            return await self._fill(question, question.form)
        if approval is None:
            return await self._ask_at_once(question)
        kept = await self._keep(question, approval)
        if kept.state == YES:
            return Answer(True, kept.by, kept.id)
        if channel.can_ask:
            is_yes = await self._ask_at_once(question)
            await self._store.answer(kept.id, is_yes, self._by)
            return Answer(is_yes, self._by, kept.id)
        return await self._wait(kept)

    async def _fill(self, question: Question, form: Form) -> Answer:
        """Have a form filled in by who wrote what the turn answers. What they type is not kept."""
        channel, approval = self._channel, question.approval
        if any(item.firing is not None for item in self._batch.items):
            raise CannotAskError("a schedule began this turn, not a person")
        if channel.fills_forms:
            content = await channel.fill(question, self._batch.message)
            return Answer(content is not None, self._by, content=content)
        if approval is None or not channel.shows_questions:
            raise CannotAskError(f"the channel `{channel.name}` cannot put the questions of servers to a person")
        if not form.is_yes_or_no:
            raise CannotAskError(
                f"the channel `{channel.name}` can only ask for a yes or a no, but this question needs more"
            )
        writers = {(writer.channel, writer.id) for writer in self._batch.writers}
        own = tuple(one for one in approval.approvers if one in writers)
        kept = await self._keep(question, structs.replace(approval, approvers=own))
        answer = Answer(True, kept.by) if kept.state == YES else await self._wait(kept)
        await self._store.end_question(kept.id)
        return structs.replace(answer, content=None if answer.words else form.fill(answer.is_yes))

    @property
    def _by(self) -> str:
        return OPERATOR if self._channel.role == "interface" else self._channel.name

    async def _keep(self, question: Question, approval: Approval) -> AskedQuestion:
        """Keep a question, or take up one of an earlier process."""
        message, now = self._batch.message, time.time()
        asked = AskedQuestion(
            structs.replace(approval, until=now + LASTS),
            self._batch.ids[0],
            question.call_id,
            self._approvals.describe(question),
            message.channel,
            message.chat_id,
            now,
        )
        kept = await self._store.ask(asked, other_than=self._asked)
        self._asked.add(kept.id)
        return kept

    async def _wait(self, kept: AskedQuestion) -> Answer:
        """Wait until somebody has answered a question that is shown."""
        batch, begun = self._batch, list(self._batch.begun)
        await self._store.give_back(begun)  # what ends the process while a person thinks is none of its fault
        answer = await self._approvals.wait(kept, batch)
        await self._store.begin(begun)
        return answer

    async def _ask_at_once(self, question: Question) -> bool:
        # What came in since, and from whom, may have steered the turn.
        batch = self._batch
        is_typed = question.is_typed and surface_of(batch.items).is_operator
        return await self._channel.ask(structs.replace(question, is_typed=is_typed), batch.message) is True


def _as_shown(kept: AskedQuestion, answers: str = "") -> ShownQuestion:
    approval = kept.approval
    own = tuple(one for channel, one in approval.approvers if channel == kept.channel)
    return ShownQuestion(
        kept.id, approval.tool, kept.asked, kept.chat_id, own, approval.again, answers, kept.shown, approval.asker
    )


def describe_outcome(kept: AskedQuestion) -> str:
    """Say what came of a question, in a sentence."""
    who = "the operator" if kept.by == OPERATOR else kept.by.rpartition(":")[2]
    what = kept.approval.asker or kept.approval.tool
    said = {
        OPEN: f"{kept.id} was not answered in time.",
        NO: f"{kept.id}: {who} said no to {what}.",
        OVER: f"{kept.id} is over: nothing was done.",
    }
    return said.get(kept.state, f"{kept.id}: {who} said yes to {what}.")
