"""Before a conversation outgrows the model's window, its older part is summed up by the model and put behind an anchor.

`Context.begin_anew` makes the anchor, this one as any other of the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bub.agent.loop.aside import Aside
from bub.agent.loop.context import Context
from bub.agent.prompting.media import fit_media
from bub.agent.window.measure import (
    correction_of,
    tokens_of_message,
    tokens_of_messages,
    tokens_of_text,
    tokens_of_tools,
)
from bub.agent.window.servers import OLDEST_OLLAMA
from bub.agent.window.sizes import Window, open_windows
from bub.agent.window.split import Split, shorten_results, split
from bub.agent.window.summary import Room, fit_summary, pieces_of, request_for
from bub.errors import BubError, ModelError, TapeError
from bub.log import log_exception, log_info
from bub.plugins.view import ProfileView
from bub.tape import Tape
from bub.tape.context import ANCHOR_CREATED
from bub.tools import Tool

FULL = "auto_handoff/context_window"
"""The anchor that is set before the context outgrows the model's window."""

OVERFLOW = "auto_handoff/context_overflow"
"""The anchor that is set when the model has refused the context as too long (BEHAVIOURS A13)."""

UNCOUNTED = 1.15
"""By how much estimates are multiplied as long as no provider has counted: many count more tokens than four bytes."""

SMALLEST = OLDEST_OLLAMA * 3 // 4
"""A request of so many tokens fits everywhere: nobody is asked about the window."""

FIND = "tape.search"
"""The tool with which a model finds what was left out."""

_PASSING = frozenset({"unreachable", "refused_key", "rate_limited", "config"})
"""Failures of the model that the turn would meet, too: the conversation stays as it is until they are over."""

_MOST_KEPT = 20_000
"""How many tokens of the conversation stay as they are, and a fifth of the window at most."""

_SHORTEST = 200
"""How many tokens there have to be for a summary to be shorter, if nobody has refused them."""

_MOST_DONE = 50
"""How many calls of the turn an anchor names."""

_LATEST_EVENTS = 8


class Compacted(msgspec.Struct, frozen=True):
    """What became of a conversation: its tokens `before` and `after`, and why there is no summary if there is none."""

    before: int
    after: int
    messages: int
    failure: str | None = None

    def __str__(self) -> str:
        sizes = f"{self.before:,} → {self.after:,} tokens"
        if self.failure is None:
            return f"the conversation was summed up: {sizes}"
        left_out = f"the conversation was too long, and its oldest {self.messages} messages are left out: {sizes}"
        return f"{left_out}; they could not be summed up ({self.failure})"


class Compaction:
    """Knows how full the window of a turn's model is, and makes room in it."""

    def __init__(self, framework: ProfileView, tape: Tape | None, context: Context, aside: Aside) -> None:
        self._framework = framework
        self._tape = tape
        self._context = context
        self._aside = aside
        self._tools: Sequence[Tool] = ()
        self._system = ""
        self._chosen: Mapping[str, Any] = {}
        self._correction = UNCOUNTED
        self._refused_at: int | None = None
        self._has_looked = False
        self.window: Window | None = None
        self.estimated = 0
        """The estimate of the last request, uncorrected."""

    async def begin(
        self, system: str, tools: Sequence[Tool], chosen: Mapping[str, Any], silence: float | None = None
    ) -> None:
        """Learn what each request of the turn begins with, which model is `chosen`, and what was counted before.

        After `silence` seconds without a word the model is given up.
        """
        self._system, self._tools, self._chosen, self._aside.silence = system, tools, chosen, silence
        if self._tape is not None:
            self._correction = await _recall_correction(self._tape, self.model) or UNCOUNTED

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self._chosen.get("model") or self._framework.settings.get("model") or "")

    # How full it is.

    def estimate(self) -> int:
        """About how many tokens a request has now, uncorrected."""
        messages = tokens_of_messages(fit_media(self._context.messages))
        self.estimated = tokens_of_text(self._system) + tokens_of_tools(self._tools) + messages
        return self.estimated

    @property
    def tokens(self) -> int:
        """How many tokens a request has now, as far as that can be known before it is sent."""
        return int(self.estimate() * self._correction)

    def learn(self, usage: Mapping[str, Any] | None) -> None:
        """Learn from what a provider counted of the last request."""
        self._correction = correction_of(usage, self.estimated) or self._correction

    async def find_window(self) -> Window | None:
        """The window of the model, looked for once in a turn; None if nobody knows it."""
        if not self._has_looked:
            self._has_looked = True
            windows = await self._framework.shared(open_windows)
            self.window = await windows.find(self._framework, str(self._chosen.get("model") or ""))
        return self.window

    async def is_due(self) -> bool:
        """Whether the conversation has to be summed up before the model is asked."""
        tokens = self.tokens
        if tokens <= SMALLEST:
            return False
        window = await self.find_window()
        return window is not None and tokens > window.threshold

    # Making room.

    async def make_room(
        self, name: str, *, hint: str = "", done: Sequence[str] = (), step: int = 0, is_asked: bool = False
    ) -> Compacted | None:
        """Put a summary in the place of the older messages, behind an anchor; None if there is nothing to sum up.

        `done` is what was called for this prompt. If the model cannot sum up, the older messages are left out, and the
        anchor says so. Raises BubError for a failure that the turn would meet in any case, and for each if a person
        asked for the summary (`is_asked`); then nothing is changed.
        """
        before = self.tokens
        limit = self._limit(before)
        room = Room.within(limit, self._correction)
        parts = self._split(limit, is_asked=is_asked)
        is_too_long = self._refused_at is not None or (self.window is not None and before > self.window.most)
        if is_too_long and tokens_of_messages(parts.older) <= _SHORTEST:
            parts = self._split(limit, keeps_step=False)
        if tokens_of_messages(parts.older) <= (0 if is_too_long else _SHORTEST):
            return None
        state: dict[str, Any] = {"left out": self._tell_left_out(parts.older)}
        if is_too_long and done:
            state["done for this prompt already"] = list(done[-_MOST_DONE:])  # it is not to be done again
        try:
            state["summary"], failure = await self._sum_up(parts.older, room, hint, step), None
        except BubError as error:
            if is_asked or (isinstance(error, ModelError) and error.kind in _PASSING):
                raise
            log_exception("window.no_summary", error)
            failure = str(error)
            state["not summed up"] = f"{failure}. Nobody has told you what was said before"
            if done:
                state["done for this prompt already"] = list(done[-_MOST_DONE:])
        fixed = int((self.estimate() - tokens_of_messages(self._context.messages)) * self._correction)
        kept = shorten_results(parts.kept, max(int((limit * 3 // 4 - fixed) / self._correction) - room.summary, 0))
        await self._context.begin_anew(name, state, kept)
        made = Compacted(before, self.tokens, len(parts.older), failure)
        log_info("window.compacted", model=self.model, before=made.before, after=made.after, failure=failure)
        return made

    def note_refusal(self) -> None:
        """The model has refused a request of this size as too long."""
        self._refused_at = self.tokens

    def find_misfit(self) -> ModelError | None:
        """Why the model cannot be asked, with the numbers; None if the request fits, or if the server says itself."""
        window = self.window
        if window is None or not window.cuts or self.tokens <= window.most:
            return None
        return self.explain_misfit()

    def explain_misfit(self) -> ModelError:
        """Why nothing more can be done: what the request consists of, and how large the window is."""
        told = ", ".join(f"{what} {tokens:,}" for what, tokens in self.parts() if tokens)
        window = self.window
        size = f"; its window has {window.tokens:,}, {window.source}" if window is not None else ""
        provider = self.model.partition(":")[0]
        return ModelError(
            f"the request does not fit into the window of `{self.model}`: "
            f"it has about {self.tokens:,} tokens ({told}){size}",
            kind="context_overflow",
            provider=provider,
            help="offer fewer tools (`tools.allow` of the profile), write less at once, or give the server a larger "
            f"window; if it has one, say so with `providers.{provider}.context`",
        )

    def parts(self) -> list[tuple[str, int]]:
        """What a request consists of now, each part with its tokens, corrected by what was counted."""
        messages, words = fit_media(self._context.messages), self._context.words
        said = {
            "what was asked now": 0,
            "what was summed up": 0,
            "results of tools": 0,
            "the rest of the conversation": 0,
        }
        for place, message in enumerate(messages):
            said[_kind_of(message, is_own=place in words)] += tokens_of_message(message)
        fixed = {"system prompt": tokens_of_text(self._system), _count(self._tools): tokens_of_tools(self._tools)}
        sizes = {**fixed, **said}
        return [(what, int(tokens * self._correction)) for what, tokens in sizes.items()]

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
        if self._tape is not None and any(tool.name == FIND for tool in self._tools):
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


def _kind_of(message: Mapping[str, Any], *, is_own: bool) -> str:
    if is_own:
        return "what was asked now"
    if message.get("role") == "tool":
        return "results of tools"
    is_anchor = str(message.get("content")).startswith(ANCHOR_CREATED)
    return "what was summed up" if is_anchor else "the rest of the conversation"


def _count(tools: Sequence[Tool]) -> str:
    return f"{len(tools)} tool{'' if len(tools) == 1 else 's'}"


async def _recall_correction(tape: Tape, model: str) -> float | None:
    """What the end of the last turn tells of a model's way to count, if it was this one that answered."""
    try:
        events = await tape.search(tape.query().last_anchor().kinds("event"), most=_LATEST_EVENTS)
    except TapeError as error:
        if error.reason != "not_found":
            raise
        return None  # a tape from elsewhere, without an anchor
    for entry in events:
        data = entry.payload.get("data")
        if entry.payload.get("name") == "run" and isinstance(data, Mapping) and data.get("model") == model:
            estimated = data.get("estimated")
            return correction_of(data.get("usage"), estimated) if isinstance(estimated, int) else None
    return None
