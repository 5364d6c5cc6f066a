"""An agent to talk to: its model is the scripted server, its plugins are toys, and its tape can be looked at."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fakes.scripted import Called, Script
from fakes.toys import Toy, Workshop

from bub import BubFramework, TurnResult, tool
from bub.streaming import StreamEvent
from bub.tape import Tape, TapeEntry
from bub.tape.tape import tape_name
from bub.tools import Tool

ALL = '{allow: ["*", bash]}'


class Talk:
    """An agent with a model of its own on the scripted server, and what is known of it after a turn."""

    def __init__(self, workshop: Workshop, address: str) -> None:
        self.workshop = workshop
        self.address = address
        self.model = uuid.uuid4().hex
        self.events: list[StreamEvent] = []

    @asynccontextmanager
    async def open(
        self,
        *,
        tools: str = ALL,
        api: str = "openai",
        profile: str = "",
        more: str = "",
        entry: str = "",
        providers: str = "",
        extends: str = "default",
        now: bool = False,
        **toys: object,
    ) -> AsyncIterator[BubFramework]:
        """A running framework; `tools` and `profile` are what the profile says, `extends` is a shipped pipeline.

        `entry` is what the settings say of the provider beside its address, `providers` are others.
        """
        own = f'api: {api}, api_base: "{self.address}/v1", api_key: sk-a-very-secret-key'
        pipeline = "\n".join(
            (
                f"extends: bub:{extends}",
                "settings:",
                f'  model: "test:{self.model}"',
                "  retries: 0",
                f"  prompt: {{now: {str(now).lower()}}}",
                f"  providers: {{test: {{{', '.join(filter(None, (own, entry)))}}}, {providers}}}",
                more,
                "plugins: {" + ", ".join(f"{name}: {{path: {name}.py}}" for name in toys) + "}",
                f"profiles: {{default: {{plugins: [{', '.join(toys)}], tools: {tools}{profile}}}}}",
            )
        )
        self.framework = self.workshop(pipeline, **toys)
        async with self.framework.running():
            yield self.framework

    async def say(self, *scripts: Script | str, session: str = "cli:local", **more: Any) -> TurnResult:
        """One turn; the scripts are what the model does, one step after the other."""
        content = scripts[0] if len(scripts) == 1 and isinstance(scripts[0], str) else json.dumps(list(scripts))
        self.events = []
        message = {"channel": "cli", "chat_id": "local", "session_id": session, "content": content, **more}
        given = {name: message.pop(name) for name in ("ask", "dispatch", "steering", "surface") if name in message}
        return await self.framework.process_inbound(
            message, on_event=lambda event, _: self.events.append(event), **given
        )

    async def asked(self) -> list[dict[str, Any]]:
        """The bodies of the requests that the model was sent."""
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"{self.address}/log", params={"model": self.model})
        return [entry["body"] for entry in answer.json()]

    async def tape(self, session: str = "cli:local") -> list[TapeEntry]:
        """All that is on a session's tape."""
        tape = Tape(tape_name(self.framework.workspace, session), self.framework.get_tape_store())
        return await tape.fetch(tape.query())

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The data of the events of one kind."""
        return [dict(event.data) for event in self.events if event.kind == kind]


def bringing(*tools: Tool, **hooks: Callable[..., Any]) -> Toy:
    return Toy(provide_tools=lambda: list(tools), **hooks)


def adding(ran: list[Any] | None = None) -> Tool:
    @tool(name="math.add", read_only=True, reaches=None)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        if ran is not None:
            ran.append((a, b))
        return a + b

    return add


def add(a: int, b: int, *, id: str = "call_1") -> Called:  # noqa: A002
    return Called("math_add", json.dumps({"a": a, "b": b}), id)


def results_in(request: dict[str, Any]) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == "tool"]


def kinds(entries: list[TapeEntry]) -> list[str]:
    return [entry.payload["name"] if entry.kind == "event" else entry.kind for entry in entries]
