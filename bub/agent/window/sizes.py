"""How large the window of a model is: as the settings, its server or Bub's table says, in this order of what counts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from bub.agent.models.client import open_client
from bub.agent.models.endpoint import Endpoint, resolve_endpoint
from bub.agent.window.servers import Told, ask_for_window, is_own_server
from bub.agent.window.table import known_window
from bub.errors import ModelError
from bub.log import log_warning
from bub.pipeline.plan.providers import LOCAL, split_model
from bub.plugins.view import ProfileView

SETTINGS, SERVER, TABLE = "as the settings say", "as its server says", "as Bub's table says"
LEAST = "the least that such a server has, since it does not say"
"""Who says how large a window is, as the end of a sentence."""

_KEPT_SECONDS = 60.0
"""How long the answer of a server counts that people start themselves: they may start it with another window."""


class Window(msgspec.Struct, frozen=True):
    """How many tokens a request to a model and its answer may have together, and who says so.

    What is longer, a server that `cuts` makes shorter without a word; any other refuses it.
    """

    tokens: int
    source: str
    cuts: bool = False

    @property
    def room_for_answer(self) -> int:
        """What is kept free for the answer."""
        return min(self.tokens // 4, 16_384)

    @property
    def most(self) -> int:
        """How large a request may be at all: what is longer leaves too little for an answer."""
        return self.tokens - min(self.tokens // 8, 2_048)

    @property
    def threshold(self) -> int:
        """How large a request may be before its older part is summed up."""
        return min(self.tokens - self.room_for_answer, self.tokens * 17 // 20)


class Windows:
    """The windows of the models that one runtime asks. What a server tells is kept for a while."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[float, Told | None]] = {}

    async def find(self, view: ProfileView, model: str) -> Window | None:
        """The window of a model, "" for that of the settings; None if nobody knows it.

        A server that people start themselves goes before the settings if its window is smaller: what is too long for
        it, it may cut without a word.
        """
        wanted = model or str(view.settings.get("model") or "")
        provider, name = split_model(wanted)
        if not wanted or provider == LOCAL:
            return None  # the small model in this process reads the end of what is too long for it
        said = _said_in(view.settings, provider, name)
        try:
            endpoint = resolve_endpoint(view.settings, wanted)
        except ModelError:  # a plugin may bring the model, or asking it says what is wrong
            endpoint = None
        is_own = endpoint is not None and is_own_server(endpoint)
        known = None if is_own else known_window(name)
        told = await self._ask(view, endpoint) if endpoint is not None and (is_own or not (said or known)) else None
        if told is not None and told.is_sure and said is not None and told.tokens < said:
            log_warning("window.smaller", model=wanted, settings=said, server=told.tokens)
            return Window(told.tokens, SERVER, told.cuts)
        if said is not None:
            return Window(said, SETTINGS, told is not None and told.cuts)
        if told is not None:
            return Window(told.tokens, SERVER if told.is_sure else LEAST, told.cuts)
        known = known_window(name)
        return Window(known, TABLE) if known is not None else None

    async def _ask(self, view: ProfileView, endpoint: Endpoint) -> Told | None:
        key, now = (endpoint.base_url, endpoint.model), time.monotonic()
        asked_at, told = self._told.get(key, (None, None))
        if asked_at is None or (now - asked_at > _KEPT_SECONDS and is_own_server(endpoint)):
            told = await ask_for_window(await view.shared(open_client), endpoint)
            self._told[key] = now, told
        return told


@asynccontextmanager
async def open_windows() -> AsyncIterator[Windows]:
    """What is known of windows, to be shared by everybody in a runtime."""
    yield Windows()


def _said_in(settings: Mapping[str, Any], provider: str, model: str) -> int | None:
    """What `providers: {name: {context: {glob: …}}}` says; the first glob that fits the model's name counts."""
    entry = (settings.get("providers") or {}).get(provider) or {}
    said = (entry.get("context") or {}).items()
    return next((int(tokens) for glob, tokens in said if fnmatchcase(model, glob)), None)
