"""A model in OpenAI's form that says what a trial lays before it."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from tests.compat.services.web import Service

ANSWER = "The model has answered."


def text_of(message: dict[str, Any]) -> str:
    """The text of a message, whatever its parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Model(Service):
    """Answers each request with the next of `answers`: a text, or a call of a tool as `(name, arguments)`.

    Without one it says `ANSWER`. What it was asked is in `requests`, and can be waited for with `asked`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[str | tuple[str, dict[str, Any]]] = []
        self.requests: list[dict[str, Any]] = []

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v1/chat/completions", self.complete), web.get("/v1/models", self.list)]

    async def list(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "fake", "object": "model"}]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.requests.append(asked)
        self.hear("request", asked)
        message, reason = self._message(asked)
        whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": asked["model"]}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not asked.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return web.json_response({**whole, "choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        chunk = {**whole, "object": "chat.completion.chunk"}
        for delta, ended in ((message, None), ({}, reason)):
            await write(response, {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": ended}]})
        await write(response, {**chunk, "choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        return response

    async def asked(self) -> str:
        """The newest message of the user in the next request."""
        messages = (await self.heard("request"))["messages"]
        return next(text_of(each) for each in reversed(messages) if each["role"] == "user")

    def _message(self, asked: dict[str, Any]) -> tuple[dict[str, Any], str]:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, tuple):
            name, arguments = answer
            names = [tool["function"]["name"] for tool in asked.get("tools", ())]
            # Names of tools have no dots for the API; a package's tool that is called as one of Bub's has `_plugin`.
            known = {each.replace("__", ".").replace("_", "."): each for each in names}
            meant = name.replace("_", ".")
            written = known.get(f"{meant}.plugin", known.get(meant, name))
            function = {"name": written, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call_{len(self.requests)}", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        return {"role": "assistant", "content": ANSWER if answer is None else answer}, "stop"


async def write(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(f"data: {json.dumps(event)}\n\n".encode())
