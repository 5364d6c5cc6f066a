"""The routes below `/v1`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from bub_plugins.http.body import read_body
from bub_plugins.http.clients import Client, is_session_name
from bub_plugins.http.door import Door, trace_of
from bub_plugins.http.openai import reading
from bub_plugins.http.openai.answering import Answering, Writer, error_response
from bub_plugins.http.openai.asked import Asked
from bub_plugins.http.openai.chat import ChatWriter
from bub_plugins.http.openai.chat_request import read_chat
from bub_plugins.http.openai.errors import INVALID, LIMIT, SERVER, ApiError, refuse
from bub_plugins.http.openai.outcome import Outcome
from bub_plugins.http.openai.responses import ResponseWriter
from bub_plugins.http.openai.responses_request import read_response
from bub_plugins.http.openai.stopping import Stopping
from bub_plugins.http.openai.turns import Room, Tell, answer, note_failure
from bub_plugins.http.refusal import Refusal

SESSION = "x-bub-session"
"""The header that names a session below the client; the field `user` of the body does, too."""

_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}

Answer = Callable[[Request], Awaitable[Any]]


def openai_routes(door: Door) -> list[BaseRoute]:
    """Return the routes of the API for the clients of a door."""
    api = _Api(door)
    return [
        Route("/v1/models", _in_openai_shape(api.list_models), methods=["GET"]),
        Route("/v1/models/{name}", _in_openai_shape(api.show_model), methods=["GET"]),
        Route("/v1/chat/completions", _in_openai_shape(partial(api.ask, read_chat, ChatWriter)), methods=["POST"]),
        Route("/v1/responses", _in_openai_shape(partial(api.ask, read_response, ResponseWriter)), methods=["POST"]),
    ]


class _Api:
    def __init__(self, door: Door) -> None:
        self._door = door
        self._began = int(time.time())
        self._room = Room()

    async def list_models(self, request: Request) -> Any:
        client = self._prove(request)
        return JSONResponse({"object": "list", "data": [self._model(name) for name in client.profiles]})

    async def show_model(self, request: Request) -> Any:
        client = self._prove(request)
        return JSONResponse(self._model(_own(client, request.path_params["name"])))

    async def ask(
        self,
        read: Callable[[Mapping[str, Any], str], Asked],
        writer: Callable[[Asked], Writer],
        request: Request,
    ) -> Any:
        """Answer a request of either API."""
        client = self._prove(request)
        said = reading.read_body(await read_body(request, self._door.settings.most_bytes))
        _own(client, reading.need(said, "model", str))
        asked = read(said, _session_of(request, said))
        if asked.request.tools and not client.client_tools:
            problem = "This token may bring no tools: set `client_tools: true` for it in the settings of Bub."
            refuse(problem, "tools", "tools_not_allowed")

        request_id = f"req_{uuid4().hex}"

        async def run(tell: Tell) -> Outcome:
            try:
                stopping = Stopping(asked.stops, tell)
                with self._room.taken(client):
                    outcome = await answer(self._door, client, asked, request_id, trace_of(request), stopping.take)
                return stopping.cut(outcome)
            except Refusal as refusal:
                raise _as_error(refusal) from None
            except ApiError:
                raise
            except Exception as error:  # noqa: BLE001 (whatever it is, the client learns of it in its own shape)
                raise note_failure(self._door, asked.session, error) from None

        return Answering(run, writer(asked), request_id, streams=asked.stream)

    def _prove(self, request: Request) -> Client:
        client = self._door.client_of(request)
        self._door.count(client)
        return client

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._began, "owned_by": "bub"}


def _in_openai_shape(ask: Answer) -> Answer:
    """Answer what a route raises in OpenAI's shape."""

    async def answer_or_explain(request: Request) -> Any:
        try:
            return await ask(request)
        except Refusal as refusal:
            return error_response(_as_error(refusal))
        except ApiError as error:
            return error_response(error)

    return answer_or_explain


def _as_error(refusal: Refusal) -> ApiError:
    kind = LIMIT if refusal.status == 429 else SERVER if refusal.status >= 500 else INVALID
    words = f"{refusal.error[:1].upper()}{refusal.error[1:]}{f': {refusal.help}' if refusal.help else ''}."
    wait = refusal.headers.get("retry-after")
    return ApiError(
        refusal.status,
        words,
        type=kind,
        code=_CODES.get(refusal.status),
        retry_after=float(wait) if wait is not None else None,
    )


def _own(client: Client, model: str) -> str:
    if model not in client.profiles:
        problem = f"The model `{model:.80}` does not exist, or this token may not use it."
        raise ApiError(404, problem, code="model_not_found", param="model")
    return model


def _session_of(request: Request, said: Mapping[str, Any]) -> str:
    """The name of the session that a request belongs to, "" for none. Raises `ApiError`."""
    header = request.headers.get(SESSION)
    name = header if header is not None else reading.get(said, "user", str)
    if not name:
        return ""
    if not is_session_name(name):
        place = "X-Bub-Session" if header is not None else "user"
        problem = (
            "cannot be the name of a session: use up to 64 letters, digits and `._@+-`, one of the first two first."
        )
        refuse(f"`{place}` {problem}", "user" if header is None else None)
    return name
