"""A call of a client, as long as it takes: it goes on while its person is asked, and any request may bring the answer.

Until 2025-11-25 the server asks while the request is open. From 2026-07-28 on it answers the request with its question,
and the client calls again with what the person said: the call has to outlive the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from uuid import uuid4

import trio
from mcp.types import CallToolResult
from msgspec import structs

from bub.approval import Answer, CannotAskError, Question
from bub.streaming import StreamEvent

PATIENCE = 600.0
"""How long, in seconds, a call waits for the request that brings the answer to its question."""

Hear: TypeAlias = Callable[[StreamEvent], Awaitable[None]]
"""Gets the events of a call."""

Work: TypeAlias = Callable[["Call"], Awaitable[CallToolResult]]
"""Does what a call is for; no failure of what it calls leaves it."""


class Call:
    """One call of a client: `said` gives its questions one by one, and at last its result.

    `hear` gets its events; whoever serves the request that is open says who that is.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any], trace: str = "") -> None:
        self.id = uuid4().hex
        self.trace = trace
        """What the client has said of the trace that the call is a part of."""
        self.hear: Hear | None = None
        self.scope = trio.CancelScope()
        self._about = (name, dict(arguments))
        self._say, self._said = trio.open_memory_channel[Question | CallToolResult](1)
        self._answer, self._answers = trio.open_memory_channel[Answer | CannotAskError](1)

    def is_about(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it is the call of this tool with these arguments."""
        return self._about == (name, dict(arguments))

    async def said(self) -> Question | CallToolResult:
        """Wait for its next question, or for its result."""
        return await self._said.receive()

    def answer(self, answer: Answer | CannotAskError) -> None:
        """Answer its question, or say why nobody can be asked."""
        self._answer.send_nowait(answer)

    async def ask(self, question: Question) -> Answer:
        """Put a question to the client's person, for the turn. Raises `CannotAskError`."""
        form = question.form
        if form is not None and not form.is_yes_or_no:
            raise CannotAskError("an MCP client is only asked for a yes or a no, and this wants more")
        self._say.send_nowait(question)
        answer = await self._answers.receive()
        if isinstance(answer, CannotAskError):
            raise answer
        if form is None or answer.words:
            return answer
        return structs.replace(answer, content=form.fill(answer.is_yes))

    async def tell(self, event: StreamEvent, message: object) -> None:
        """Pass an event of the turn on to whoever listens now."""
        del message
        if self.hear is not None:
            await self.hear(event)

    async def run(self, work: Work) -> None:
        """Do the work; its result is the last thing that is `said`."""
        with self.scope:
            self._say.send_nowait(await work(self))


class Calls:
    """The calls under way, each a task of `nursery`, and those that wait for a request with an answer."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._waiting: dict[str, tuple[Call, trio.CancelScope]] = {}

    def begin(self, name: str, arguments: Mapping[str, Any], work: Work, trace: str = "") -> Call:
        """Begin a call."""
        call = Call(name, arguments, trace)
        self._nursery.start_soon(call.run, work)
        return call

    def keep(self, call: Call) -> None:
        """Keep a call that has asked until a request brings the answer; after `PATIENCE` it is cancelled."""
        call.hear = None
        scope = trio.CancelScope()
        self._waiting[call.id] = call, scope
        self._nursery.start_soon(self._lose_patience, call, scope)

    def take(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> Call | None:
        """Take the call that waits under an id; None if none of this tool with these arguments does."""
        call, scope = self._waiting.get(call_id, (None, None))
        if call is None or scope is None or not call.is_about(name, arguments):
            return None
        del self._waiting[call_id]
        scope.cancel()
        return call

    async def _lose_patience(self, call: Call, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(PATIENCE)
            del self._waiting[call.id]
            call.scope.cancel()
