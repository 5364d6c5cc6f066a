"""Asking a server how large the window of a model is: those that people start themselves know it best.

Ollama cuts what is too long from the front and says nothing. The size it runs a model with depends on the machine, on a
variable and on the model's file, so only the server knows it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import trio

from bub.agent.models.endpoint import Endpoint
from bub.agent.models.probe import headers_of

if TYPE_CHECKING:
    import httpx

PATIENCE = 3.0
"""How many seconds a server has to answer one question."""

LOADING_PATIENCE = 120.0
"""How many seconds a server has to load a model, which it does before the first answer in any case."""

OLDEST_OLLAMA = 2_048
"""The window of an Ollama that is too old to tell: the smallest default there was."""

_LARGEST = 4 * 1024 * 1024
_NAMES = (
    "loaded_context_length",
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
    "max_input_tokens",
)
"""What servers call the size in their list of models, what counts most first."""


class Told(msgspec.Struct, frozen=True):
    """What a server tells of a model: its window in tokens.

    `is_sure` is False if that is only the least there is. A server that `cuts` does so without a word.
    """

    tokens: int
    is_sure: bool = True
    cuts: bool = False


class _Asking:
    """Questions to the server of one endpoint."""

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint) -> None:
        self._client = client
        self.endpoint = endpoint
        self._root = re.sub(r"/v\d\w*$", "", endpoint.base_url)

    async def ask(self, path: str, body: Any = None, patience: float = PATIENCE) -> Any:
        """What the server answers, as JSON; None if it does not, or if that is an error."""
        import httpx

        base = self.endpoint.base_url if path == "/models" else self._root
        given = {"json": body} if body is not None else {}
        with trio.move_on_after(patience):
            try:
                answer = await self._client.request(
                    "GET" if body is None else "POST", f"{base}{path}", headers=headers_of(self.endpoint), **given
                )
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError):
                return None
            if answer.is_success and len(answer.content) <= _LARGEST:
                try:
                    return msgspec.json.decode(answer.content)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    return None
        return None


async def ask_for_window(client: httpx.AsyncClient, endpoint: Endpoint) -> Told | None:
    """The window of an endpoint's model as its server tells it; None if it does not."""
    asking = _Asking(client, endpoint)
    others = tuple(_QUESTIONS.values()) if is_own_server(endpoint) else ((_ask_list,),)
    for question in _QUESTIONS.get(endpoint.provider) or chain.from_iterable(others):
        told = await question(asking)
        if told is not None:
            return told
    return None


def is_own_server(endpoint: Endpoint) -> bool:
    """Whether people may have started the server themselves: then it has windows of its own, whatever the model."""
    quirks = endpoint.quirks
    return endpoint.provider in _QUESTIONS or not (quirks.is_own or endpoint.base_url == quirks.base_url)


async def _ask_ollama(asking: _Asking) -> Told | None:
    """The window that a model runs with; one that does not run yet is loaded, unless its file tells the size."""
    model = asking.endpoint.model
    running = await asking.ask("/api/ps")
    if not isinstance(running, Mapping) or not isinstance(running.get("models"), list):
        return None
    told = _running_window(running, model)
    if told is not None:
        return told
    shown = await asking.ask("/api/show", {"model": model})
    if not isinstance(shown, Mapping):
        return None  # whoever has no such model will say so when it is asked
    found = re.search(r"^num_ctx\s+(\d+)", str(shown.get("parameters") or ""), re.MULTILINE)
    if found:
        return Told(int(found[1]), cuts=True)
    await asking.ask("/api/generate", {"model": model, "stream": False}, LOADING_PATIENCE)
    return _running_window(await asking.ask("/api/ps"), model) or Told(OLDEST_OLLAMA, is_sure=False, cuts=True)


def _running_window(running: Any, model: str) -> Told | None:
    models = running.get("models") if isinstance(running, Mapping) else None
    names = {model, f"{model}:latest"}
    for one in models if isinstance(models, list) else ():
        if isinstance(one, Mapping) and names & {one.get("name"), one.get("model")}:
            return _cutting(_read_tokens(one.get("context_length")))
    return None


def _cutting(told: Told | None) -> Told | None:
    return msgspec.structs.replace(told, cuts=True) if told is not None else None


async def _ask_llamacpp(asking: _Asking) -> Told | None:
    said = await asking.ask("/props")
    settings = said.get("default_generation_settings") if isinstance(said, Mapping) else None
    return _read_tokens(settings.get("n_ctx")) if isinstance(settings, Mapping) else None


async def _ask_lmstudio(asking: _Asking) -> Told | None:
    said = await asking.ask(f"/api/v0/models/{quote(asking.endpoint.model)}")
    return _cutting(_told_in(said)) if isinstance(said, Mapping) else None


async def _ask_list(asking: _Asking) -> Told | None:
    said = await asking.ask("/models")
    models = said.get("data") if isinstance(said, Mapping) else said
    for one in models if isinstance(models, list) else ():
        if isinstance(one, Mapping) and one.get("id") == asking.endpoint.model:
            return _told_in(one)
    return None


_QUESTIONS: Mapping[str, tuple[Callable[[_Asking], Awaitable[Told | None]], ...]] = MappingProxyType(
    {"ollama": (_ask_ollama,), "llamacpp": (_ask_llamacpp,), "lmstudio": (_ask_lmstudio,), "vllm": (_ask_list,)}
)
"""How the servers are asked that people start themselves."""


def _told_in(said: Mapping[str, Any]) -> Told | None:
    return next(filter(None, (_read_tokens(said.get(name)) for name in _NAMES)), None)


def _read_tokens(tokens: Any) -> Told | None:
    return Told(tokens) if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0 else None
