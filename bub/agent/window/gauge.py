"""How full the window of a model is: what a request consists of, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bub.agent.loop.context import Context
from bub.agent.models.request import ToolSpec
from bub.agent.prompting.media import fit_media
from bub.agent.window.measure import (
    correction_of,
    tokens_of_message,
    tokens_of_messages,
    tokens_of_text,
    tokens_of_tools,
)
from bub.agent.window.offer import WHOLE, offer
from bub.agent.window.servers import OLDEST_OLLAMA
from bub.agent.window.sizes import Window, open_windows
from bub.errors import ModelError, TapeError
from bub.plugins.view import ProfileView
from bub.tape import Tape
from bub.tape.context import ANCHOR_CREATED
from bub.tools import Tool

UNCOUNTED = 1.15
"""By how much estimates are multiplied as long as no provider has counted: many count more tokens than four bytes."""

SMALLEST = OLDEST_OLLAMA * 3 // 4
"""A request of so many tokens fits everywhere: nobody is asked about the window."""

_LATEST_EVENTS = 8


class Gauge:
    """Knows how full the window of a turn's model is, as far as that can be known before a request is sent."""

    def __init__(self, framework: ProfileView, tape: Tape | None, context: Context) -> None:
        self._framework = framework
        self._tape = tape
        self._context = context
        self.offered: Sequence[ToolSpec] = ()
        """The tools as the model reads about them."""
        self._system = ""
        self._chosen: Mapping[str, Any] = {}
        self._correction = UNCOUNTED
        self._has_looked = False
        self.window: Window | None = None
        self.estimated = 0
        """The estimate of the last request, uncorrected."""

    async def begin(self, system: str, tools: Sequence[Tool], chosen: Mapping[str, Any]) -> None:
        """Learn what each request of the turn begins with, which model is `chosen`, and what was counted before."""
        self._system, self._chosen = system, chosen
        self.offered = offer(tools, None)
        if tokens_of_tools(self.offered) > WHOLE:
            window = await self.find_window()
            self.offered = offer(tools, window.tokens if window is not None else None)
        if self._tape is not None:
            self._correction = await _recall_correction(self._tape, self.model) or UNCOUNTED

    @property
    def model(self) -> str:
        """The model that is asked."""
        return str(self._chosen.get("model") or self._framework.settings.get("model") or "")

    def estimate(self) -> int:
        """About how many tokens a request has now, uncorrected."""
        messages = tokens_of_messages(fit_media(self._context.messages))
        self.estimated = tokens_of_text(self._system) + tokens_of_tools(self.offered) + messages
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

    def expect_fit(self) -> None:
        """Raise ModelError, with the numbers, if a request does not fit and the server would not say so."""
        window = self.window
        if window is not None and window.cuts and self.tokens > window.most:
            raise self.explain_misfit()

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
        fixed = {"system prompt": tokens_of_text(self._system), _count(self.offered): tokens_of_tools(self.offered)}
        sizes = {**fixed, **said}
        return [(what, int(tokens * self._correction)) for what, tokens in sizes.items()]


def _kind_of(message: Mapping[str, Any], *, is_own: bool) -> str:
    if is_own:
        return "what was asked now"
    if message.get("role") == "tool":
        return "results of tools"
    is_anchor = str(message.get("content")).startswith(ANCHOR_CREATED)
    return "what was summed up" if is_anchor else "the rest of the conversation"


def _count(tools: Sequence[ToolSpec]) -> str:
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
