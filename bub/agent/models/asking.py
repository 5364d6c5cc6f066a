"""Asking for an answer: the plugin that brings the model itself, else a provider, else the models to fall back on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bub.agent.models.chat import ChatRequest, stream_chat
from bub.agent.models.client import open_client
from bub.agent.models.endpoint import resolve_endpoint
from bub.errors import ModelError
from bub.hooks.kinds.silence import Silence
from bub.log import log_warning
from bub.plugins.view import ProfileView
from bub.streaming import AsyncStreamEvents


async def ask_model(
    view: ProfileView, model: str, request: ChatRequest, session_id: str, silence: float | None = None
) -> tuple[AsyncStreamEvents, str]:
    """The answer, once it has begun, and the model that gives it; `model` is "" for that of the settings.

    A model that says nothing for `silence` seconds is given up, unless the settings say another `timeout`.
    Where the settings' own model fails before its answer began, their `fallback_models` are asked in turn (BEHAVIOURS
    A14). Raises `ModelError`; a context that is too long is one at once, since another model is no way out of it.
    """
    candidates = list(_candidates(view.settings, model))
    for index, candidate in enumerate(candidates, start=1):
        try:
            return await _ask(view, candidate, request, session_id, silence), candidate
        except ModelError as error:
            if error.kind == "context_overflow" or index == len(candidates):
                raise
            log_warning("model.fallback", model=candidate, next=candidates[index], error=error)
    raise AssertionError("there is always a model to ask")


def _candidates(settings: Mapping[str, Any], model: str) -> Iterator[str]:
    own = str(settings.get("model") or "")
    yield model or own
    if not model or model == own:
        yield from (str(other) for other in settings.get("fallback_models") or () if other != own)


async def _ask(
    view: ProfileView, model: str, request: ChatRequest, session_id: str, silence: float | None
) -> AsyncStreamEvents:
    asked = {
        "model": model,
        "messages": list(request.messages),
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
        ],
        "tool_choice": request.tool_choice,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
    }
    events = await view.call_model(asked, session_id)
    if events is not None:
        return events if silence is None else Silence(silence).within("the model", events)
    endpoint = resolve_endpoint(view.settings, model or None, silence)
    return await stream_chat(await view.shared(open_client), endpoint, request)
