"""Before a conversation outgrows the model's window, its older part is summed up by the model and put behind an anchor.

`Context.begin_anew` makes the anchor, this one as any other of the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bub.agent.loop.aside import Aside
from bub.agent.loop.context import Context
from bub.agent.window.gauge import Gauge
from bub.agent.window.measure import tokens_of_messages
from bub.agent.window.split import Split, shorten_results, split
from bub.agent.window.summary import Room, fit_summary, pieces_of, request_for
from bub.errors import BubError, ModelError
from bub.log import log_exception, log_info
from bub.plugins.view import ProfileView
from bub.tape import Tape

FULL = "auto_handoff/context_window"
"""The anchor that is set before the context outgrows the model's window."""

OVERFLOW = "auto_handoff/context_overflow"
"""The anchor that is set when the model has refused the context as too long (BEHAVIOURS A13)."""

FIND = "tape.search"
"""The tool with which a model finds what was left out."""

_PASSING = frozenset({"unreachable", "refused_key", "rate_limited", "config"})
"""Failures of the model that the turn would meet, too: the conversation stays as it is until they are over."""

_MOST_KEPT = 20_000
"""How many tokens of the conversation stay as they are, and a fifth of the window at most."""

_SUMMED_UP = "the conversation was summed up"
_SHORTENED = "results of tools were shortened, since they are longer than the window"
_LEFT_OUT = "the oldest {} messages are left out, since they could not be summed up"

_SHORTEST = 200
"""How many tokens there have to be for a summary to be shorter, if nobody has refused them."""

_MOST_DONE = 50
"""How many calls of the turn an anchor names."""


class Compacted(msgspec.Struct, frozen=True):
    """What became of a conversation, in words, its tokens `before` and `after`, and why it was not summed up, if so."""

    what: str
    before: int
    after: int
    failure: str = ""

    @property
    def in_short(self) -> str:
        """In a sentence for a chat, which tells nothing of this machine."""
        return f"{self.what}: {self.before:,} → {self.after:,} tokens"

    def __str__(self) -> str:
        return f"{self.in_short} ({self.failure})" if self.failure else self.in_short


class Compaction(Gauge):
    """Makes room in the window of a turn's model, by asking it `aside` for a summary."""

    def __init__(self, framework: ProfileView, tape: Tape | None, context: Context, aside: Aside) -> None:
        super().__init__(framework, tape, context)
        self._aside = aside
        self._refused_at: int | None = None

    def bound_silence(self, seconds: float | None) -> None:
        """Give up on a model that is silent for so long."""
        self._aside.silence = seconds

    def note_refusal(self) -> None:
        """The model has refused a request of this size as too long."""
        self._refused_at = self.tokens

    async def make_room(
        self, name: str, *, hint: str = "", done: Sequence[str] = (), step: int = 0, is_asked: bool = False
    ) -> Compacted | None:
        """Put a summary in the place of the older messages, behind an anchor; None if there is nothing to sum up.

        `done` is what was called for this prompt. If the model cannot sum up, the older messages are left out, and the
        anchor says so. Raises BubError for a failure that the turn would meet in any case, and for each if a person
        asked for the summary (`is_asked`); then nothing is changed.
        """
        state: dict[str, Any]
        before = self.tokens
        limit = self._limit(before)
        room = Room.within(limit, self._correction)
        parts = self._split(limit, is_asked=is_asked)
        is_too_long = self._refused_at is not None or (self.window is not None and before > self.window.most)
        if is_too_long and tokens_of_messages(parts.older) <= _SHORTEST:
            shortened = self._shorten(self._context.messages, limit)
            if self._refused_at is None and shortened != self._context.messages:
                state = {"left out": "most of the last results, which were too long for your window"}
                return await self._begin_anew(name, state, shortened, Compacted(_SHORTENED, before, 0))
            parts = self._split(limit, keeps_step=False)
        if tokens_of_messages(parts.older) <= (0 if is_too_long else _SHORTEST):
            return None
        state = {"left out": self._tell_left_out(parts.older)}
        made = Compacted(_SUMMED_UP, before, 0)
        if is_too_long and done:
            state["done for this prompt already"] = list(done[-_MOST_DONE:])  # it is not to be done again
        try:
            state["summary"] = await self._sum_up(parts.older, room, hint, step)
        except BubError as error:
            if is_asked or (isinstance(error, ModelError) and error.kind in _PASSING):
                raise
            log_exception("window.no_summary", error)
            made = Compacted(_LEFT_OUT.format(len(parts.older)), before, 0, str(error))
            state["not summed up"] = f"{error}. Nobody has told you what was said before"
            if done:
                state["done for this prompt already"] = list(done[-_MOST_DONE:])
        return await self._begin_anew(name, state, self._shorten(parts.kept, limit - room.summary), made)

    async def _begin_anew(
        self, name: str, state: Mapping[str, Any], kept: list[dict[str, Any]], made: Compacted
    ) -> Compacted:
        await self._context.begin_anew(name, state, kept)
        made = msgspec.structs.replace(made, after=self.tokens)
        log_info("window.compacted", model=self.model, before=made.before, after=made.after, failure=made.failure)
        return made

    def _shorten(self, messages: Sequence[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
        """Messages that fit into three quarters of the window, if shorter results are enough for that."""
        fixed = self.estimate() - tokens_of_messages(self._context.messages)
        return shorten_results(messages, max(int(limit * 3 // 4 / self._correction) - fixed, 0))

    def _limit(self, tokens: int) -> int:
        """The tokens that a request may have: the window, or less than was refused, or half if nothing is known."""
        known = [self.window.tokens] if self.window is not None else []
        refused = [self._refused_at * 9 // 10] if self._refused_at is not None else []
        return min([*known, *refused], default=tokens)

    def _split(self, limit: int, *, keeps_step: bool = True, is_asked: bool = False) -> Split:
        said = tokens_of_messages(self._context.messages)
        fixed = self.estimate() - said
        free = int(limit * 3 // 4 / self._correction) - fixed
        room = max(min(_MOST_KEPT, limit // 5, free // 2), 0) if keeps_step else 0
        room = min(room, said // 4) if is_asked else room
        return split(self._context.messages, self._context.words, room, keeps_step=keeps_step)

    def _tell_left_out(self, older: Sequence[Mapping[str, Any]]) -> str:
        said = f"{len(older)} messages from before are not in the conversation any more"
        if self._tape is not None and any(tool.name == FIND for tool in self.offered):
            said += f"; they are on the tape, and {FIND} finds what you miss of them"
        return said

    async def _sum_up(self, older: Sequence[Mapping[str, Any]], room: Room, hint: str, step: int) -> str:
        said = ""
        for piece in pieces_of(older, room):
            answer = await self._aside.ask(request_for(piece, said, room, hint), self._chosen, step)
            if not answer.text.strip():
                raise BubError("the model's summary is empty")
            said = fit_summary(answer.text, room)
        return said
