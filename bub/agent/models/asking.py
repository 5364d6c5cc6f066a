"""Asking for an answer: the plugin that brings the model itself, else a provider, else the models to fall back on."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import msgspec
import trio

from bub.agent.documents.fitting import Taken, has_images, has_media, open_documents
from bub.agent.models.chat import LONGEST_PAUSE, Chat, ChatRequest, Pause
from bub.agent.models.client import open_client
from bub.agent.models.conversation import shown_behind, well_formed
from bub.agent.models.endpoint import resolve_endpoint
from bub.base.tracing.activity import Activity, begin, current_activity
from bub.errors import ModelError
from bub.hooks.kinds.silence import Silence
from bub.log import log_warning
from bub.pipeline.plan.providers import split_model
from bub.plugins.view import ProfileView
from bub.streaming import AsyncStreamEvents
from bub.tape import Tape

_ABOUT_IMAGES = r"(?i)image|vision|multi-?modal|modalit|content\b.*\b(string|type)"
"""What servers say when they refuse pictures: llama.cpp, Ollama, vLLM, OpenRouter, DeepSeek, Mistral, Groq, Z.ai."""

PAUSE_BEFORE_ANOTHER = 30.0
"""Seconds that a model may let wait in all if there is another one to ask."""


class Asking:
    """A request on its way to an answer; `model` is who is asked, "" at first for that of the settings.

    A model that says nothing for `silence` seconds is given up, unless the settings say another `timeout`. If the
    settings' own model fails before its answer began, their `fallback_models` are asked in turn (BEHAVIOURS A14).
    """

    activity: Activity | None = None
    """The request that is under way, for whoever watches the turn; whoever hears the answer ends it."""

    def __init__(
        self,
        view: ProfileView,
        model: str,
        request: ChatRequest,
        session_id: str,
        silence: float | None = None,
        tape: Tape | None = None,
    ) -> None:
        self.model, *self._others = _candidates(view.settings, model)
        self._view = view
        self._request = msgspec.structs.replace(request, messages=well_formed(request.messages))
        self._session_id = session_id
        self._silence = silence
        self._tape = tape
        self._chat: Chat | None = None

    async def go_on(self) -> AsyncStreamEvents | Pause:
        """The answer once it has begun; or a pause that begins with the next call of this, and why there is one.

        Raises `ModelError`; a context that is too long is one at once, since another model is no way out of it.
        """
        while True:
            activity = self.activity = self.activity or self._begin()
            entered = current_activity.set(activity)
            try:
                came = await self._ask()
            except ModelError as error:
                activity.end("failed", error=error.kind)
                self.activity = None
                if await self._goes_without_images(error):
                    log_warning("model.refused_pictures", model=self.model, error=error)
                    self._chat = None
                    continue
                if error.kind == "context_overflow" or not self._others:
                    raise
                log_warning("model.fallback", model=self.model, next=self._others[0], error=error)
                self.model, self._chat = self._others.pop(0), None
                continue
            except BaseException as error:
                activity.end("cancelled" if isinstance(error, trio.Cancelled) else "failed", error=type(error).__name__)
                raise
            finally:
                current_activity.reset(entered)
            if isinstance(came, Pause):
                activity.data["pauses"] = activity.data.get("pauses", 0) + 1
                log_warning("model.paused", model=self.model, seconds=round(came.seconds, 1), error=came.reason)
            elif self._chat is not None and "pauses" not in activity.data:
                activity.data["first"] = perf_counter() - activity.began
            return came

    def _begin(self) -> Activity:
        """Note that a model is asked."""
        provider, name = split_model(self._model_name)
        activity = begin("model", name, provider=provider, session=self._session_id)
        activity.keep(messages=self._request.messages)
        return activity

    async def _ask(self) -> AsyncStreamEvents | Pause:
        if self._chat is None:
            assert self.activity is not None
            events = await self._ask_plugin()
            if events is not None:
                self.activity.data["provider"] = "plugin"
                return events
            view = self._view
            endpoint = resolve_endpoint(view.settings, self.model or None, self._silence)
            address, port = endpoint.address
            self.activity.data |= {"address": address, "port": port}
            documents = await view.shared(open_documents)
            sees = endpoint.quirks.sees(endpoint.model) and self._model_name not in documents.blind
            taken = Taken(sees, endpoint.quirks.takes_pdfs(endpoint.model, endpoint.api))
            request = await self._fit(taken)
            # Who can ask another model need not wait for minutes.
            longest = PAUSE_BEFORE_ANOTHER if self._others else LONGEST_PAUSE
            known = await view.shared(_remember)
            self._chat = Chat(await view.shared(open_client), endpoint, request, longest, known)
        return await self._chat.go_on()

    async def _fit(self, taken: Taken) -> ChatRequest:
        if not has_media(self._request.messages):
            return self._request
        documents = await self._view.shared(open_documents)
        messages = await documents.fit(self._request.messages, taken, self._tape)
        return msgspec.structs.replace(self._request, messages=messages)

    @property
    def _model_name(self) -> str:
        return self.model or str(self._view.settings.get("model") or "")

    async def _goes_without_images(self, error: ModelError) -> bool:
        """Whether a model refused the request because of its pictures; it is asked without them, once and from then on.

        Else a picture that a tool has shown would end every turn of the session.
        """
        if error.kind not in ("request", "server") or self._chat is None or not has_images(self._request.messages):
            return False
        documents = await self._view.shared(open_documents)
        if self._model_name in documents.blind or re.search(_ABOUT_IMAGES, str(error)) is None:
            return False
        documents.blind.add(self._model_name)
        return True

    async def _ask_plugin(self) -> AsyncStreamEvents | None:
        """The answer of the plugin that brings the model itself, if there is one."""
        request = await self._fit(Taken())
        asked = {
            "model": self.model,
            "messages": list(shown_behind(request.messages)),
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
                for tool in request.tools
            ],
            "tool_choice": request.tool_choice,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "reasoning": request.reasoning,
        }
        events = await self._view.call_model(asked, self._session_id)
        if events is None or self._silence is None:
            return events
        return Silence(self._silence).within("the model", events)


@asynccontextmanager
async def _remember() -> AsyncIterator[set[str]]:
    """Which models take no system prompt, as far as it has been seen while the runtime lives."""
    yield set()


def _candidates(settings: Mapping[str, Any], model: str) -> Iterator[str]:
    own = str(settings.get("model") or "")
    yield model or own
    if not model or model == own:
        yield from (str(other) for other in settings.get("fallback_models") or () if other != own)
