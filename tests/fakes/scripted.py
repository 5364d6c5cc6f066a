"""The scripted model server as a test sees it: scripts in either API's form, and the log of what was asked.

A script is written for one API: `OPENAI.answer("Hello", calls=[…])` is a list of steps for `fakes/model_server.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from bub.agent.models.chat import ChatRequest, ToolSpec, stream_chat
from bub.agent.models.endpoint import Endpoint, resolve_endpoint
from bub.errors import ModelError
from bub.streaming import AsyncStreamEvents, StreamEvent

FAKES = Path(__file__).parent
Script = list[dict[str, Any]]


@contextmanager
def serving(*arguments: str, program: str = "model_server.py") -> Iterator[str]:
    """The address of a scripted server that runs for as long as the block."""
    command = [sys.executable, str(FAKES / program), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class Server:
    """The fake server as one test sees it: a model of its own, and the log of what was asked."""

    def __init__(self, client: httpx.AsyncClient, address: str) -> None:
        self.client = client
        self.address = address
        self.model = uuid.uuid4().hex

    def endpoint(self, **settings: Any) -> Endpoint:
        settings = {"model": f"test:{self.model}", "api_base": f"{self.address}/v1", "retries": 0, **settings}
        return resolve_endpoint(settings)

    async def open(self, *scripts: Script, tools: Sequence[ToolSpec] = (), **settings: Any) -> AsyncStreamEvents:
        prompt = {"role": "user", "content": json.dumps(list(scripts))}
        return await stream_chat(self.client, self.endpoint(**settings), ChatRequest([prompt], tools=tools))

    async def send(self, request: ChatRequest, **settings: Any) -> dict[str, Any]:
        """The body of a request as it came to the server."""
        await collect(await stream_chat(self.client, self.endpoint(**settings), request))
        body: dict[str, Any] = (await self.log())[-1]["body"]
        return body

    async def ask(self, *scripts: Script, **settings: Any) -> list[StreamEvent]:
        return await collect(await self.open(*scripts, **settings))

    async def fail(self, *scripts: Script, **settings: Any) -> ModelError:
        """The one error that asking ends in, after checking what holds for every error."""
        with pytest.raises(ModelError) as caught:
            await self.ask(*scripts, **settings)
        error = caught.value
        assert "test" in str(error)
        assert "127.0.0.1" in str(error)
        assert error.provider == "test"
        assert error.host == self.address.removeprefix("http://")
        assert error.help
        assert "\n" not in str(error)
        return error

    async def log(self, ended: int = 0) -> list[dict[str, Any]]:
        answer = await self.client.get(f"{self.address}/log", params={"model": self.model, "ended": ended})
        entries: list[dict[str, Any]] = answer.json()
        return entries


async def collect(stream: AsyncStreamEvents) -> list[StreamEvent]:
    events = [event async for event in stream]
    await stream.aclose()
    return events


def text_of(events: list[StreamEvent], kind: str = "text") -> str:
    return "".join(event.data["delta"] for event in events if event.kind == kind)


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call as a model makes it: the name is the one on the wire, the arguments are the text it writes."""

    name: str
    arguments: str = "{}"
    id: str = "call_1"


@dataclass(frozen=True, slots=True)
class Said:
    """A whole answer, cut into pieces of `at_once` characters; `usage` are the tokens sent and received."""

    text: str = ""
    thinks: str = ""
    calls: Sequence[Called] = ()
    usage: tuple[int, int] | None = (3, 2)
    reason: str | None = None
    at_once: int = 4

    def cut(self, text: str) -> list[str]:
        """A text in pieces."""
        return [text[start : start + self.at_once] for start in range(0, len(text), self.at_once)]


class OpenAI:
    """Scripts in the form of chat completions."""

    name = "openai"

    def answer(self, text: str = "", **more: Any) -> Script:
        """A whole answer; the keywords are the fields of `Said`."""
        said = Said(text, **more)
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": piece} for piece in said.cut(said.thinks)]
        deltas += [{"content": piece} for piece in said.cut(said.text)]
        for index, call in enumerate(said.calls):
            function = {"name": call.name, "arguments": ""}
            deltas.append({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                for piece in said.cut(call.arguments)
            ]
        events: list[Any] = [self._chunk(delta) for delta in deltas]
        events.append(self._chunk({}, said.reason or ("tool_calls" if said.calls else "stop")))
        if said.usage is not None:
            counts = dict(zip(("prompt_tokens", "completion_tokens"), said.usage, strict=True))
            events.append({"choices": [], "usage": {**counts, "total_tokens": sum(said.usage)}})
        return events_of(*events, "[DONE]")

    def beginning(self, text: str) -> Script:
        """The beginning of an answer."""
        return events_of(self._chunk({"content": text}))

    def error(self, kind: str, message: str) -> dict[str, Any]:
        """What stands for an answer, or in a stream, when there is none."""
        return {"error": {"message": message, "type": kind}}

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


class Anthropic:
    """Scripts in the form of the Messages API."""

    name = "anthropic"

    def answer(self, text: str = "", **more: Any) -> Script:
        """A whole answer; the keywords are the fields of `Said`."""
        said = Said(text, **more)
        message: dict[str, Any] = {"type": "message", "role": "assistant", "content": [], "stop_reason": None}
        end: dict[str, Any] = {"stop_reason": said.reason or ("tool_use" if said.calls else "end_turn")}
        counts: dict[str, Any] = {}
        if said.usage is not None:
            message["usage"] = {"input_tokens": said.usage[0], "output_tokens": 1}
            counts = {"usage": {"output_tokens": said.usage[1]}}
        events: list[Any] = [{"type": "message_start", "message": message}, {"type": "ping"}]
        for index, (block, deltas) in enumerate(self._blocks(said)):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        return events_of(*events, {"type": "message_delta", "delta": end, **counts}, {"type": "message_stop"})

    def beginning(self, text: str) -> Script:
        """The beginning of an answer."""
        delta = {"type": "text_delta", "text": text}
        return events_of(
            {"type": "message_start", "message": {"type": "message"}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
        )

    def error(self, kind: str, message: str) -> dict[str, Any]:
        """What stands for an answer, or in a stream, when there is none."""
        return {"type": "error", "error": {"type": kind, "message": message}}

    def _blocks(self, said: Said) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """Each block as it starts, and its deltas."""
        if said.thinks:
            thoughts = [{"type": "thinking_delta", "thinking": piece} for piece in said.cut(said.thinks)]
            yield {"type": "thinking", "thinking": ""}, [*thoughts, {"type": "signature_delta", "signature": "x"}]
        if said.text:
            yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in said.cut(said.text)]
        for call in said.calls:
            pieces = ["", *said.cut(call.arguments)]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas


Api = OpenAI | Anthropic
OPENAI = OpenAI()
ANTHROPIC = Anthropic()


def events_of(*events: Any) -> Script:
    """The events of a stream."""
    return [{"sse": event} for event in events]


def refusal(body: dict[str, Any], status: int, **headers: str) -> Script:
    """A whole response with a status; headers are written with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return [{"status": status, "body": json.dumps(body), "headers": named}]
