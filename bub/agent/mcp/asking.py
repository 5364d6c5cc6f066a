"""Questions of a server while a call of it runs: put to the person of that call, one after another, and not endlessly.

Until 2025-11-25 a server sends a request of its own, which does not say for which call. From 2026-07-28 on its answer
to the call holds the questions, and the SDK calls again with what was said. Both come here through the SDK's callback.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec
import trio
from mcp_types import ElicitRequestParams, ElicitResult

from bub.agent.calls.asking import RunningCall, current_call
from bub.agent.mcp.forms import DeclinedError, read_form
from bub.log import log_warning

MOST_QUESTIONS = 10
"""How many questions a server may ask in one call."""

_T = TypeVar("_T")

_DECLINED = ElicitResult(action="decline")


class _Request(msgspec.Struct, eq=False):
    """A question of a server that waits for its answer; whoever waits for that may cancel `scope`."""

    params: ElicitRequestParams
    result: ElicitResult = _DECLINED
    scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    answered: trio.Event = msgspec.field(default_factory=trio.Event)


class Interview:
    """What a server asks in one call. `limit` bounds the call, except the time in which a person thinks."""

    def __init__(self, asker: str, limit: trio.CancelScope, call: RunningCall | None) -> None:
        self._asker = asker
        self._limit = limit
        self._call = call
        self._count = 0
        self._send, self._requests = trio.open_memory_channel[_Request](math.inf)

    async def put(self, params: ElicitRequestParams) -> ElicitResult:
        """Have a question answered by the task of the call, and return what the server gets."""
        request = _Request(params)
        try:
            self._send.send_nowait(request)
            await request.answered.wait()
        except trio.BrokenResourceError:
            return _DECLINED  # the call is over
        except trio.Cancelled:
            request.scope.cancel()
            raise
        return request.result

    async def accompany(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do the work of the call, and answer what is asked meanwhile: below whoever calls, whose time stops."""
        outcome: list[_T] = []
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answer_all)
            try:
                outcome.append(await work())
            except Exception as error:  # noqa: BLE001 (raised below: a nursery would wrap it)
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return outcome[0]

    async def _answer_all(self) -> None:
        try:
            async for request in self._requests:
                try:
                    with request.scope:
                        request.result = await self._answer(request.params)
                finally:
                    request.answered.set()
        finally:
            with suppress(trio.WouldBlock):
                while True:  # what nobody answers any more
                    self._requests.receive_nowait().answered.set()
            self._requests.close()

    async def _answer(self, params: ElicitRequestParams) -> ElicitResult:
        self._count += 1
        try:
            if self._count > MOST_QUESTIONS:
                raise DeclinedError(f"it has asked {MOST_QUESTIONS} times in this call")
            if self._call is None:
                raise DeclinedError("nobody can be asked here")
            asked = read_form(self._asker, params)
        except DeclinedError as error:
            if self._count <= MOST_QUESTIONS + 1:
                await self._decline(str(error))
            return _DECLINED
        left = self._limit.deadline - trio.current_time()
        self._limit.deadline = math.inf
        try:
            answer = await self._call.fill(asked.form)
        finally:
            self._limit.deadline = trio.current_time() + left
        if answer.content is None:
            return _DECLINED
        if asked.form.address:
            return ElicitResult(action="accept")
        return ElicitResult(action="accept", content=asked.write(answer.content))

    async def _decline(self, why: str) -> None:
        if self._call is None:
            log_warning("mcp.question_declined", asker=self._asker, why=why)
        else:
            await self._call.decline(self._asker, why)


_interview: ContextVar[Interview | None] = ContextVar("bub_interview", default=None)


class Interviews:
    """The calls of one server that are under way, each with what it asks."""

    def __init__(self, server: str) -> None:
        self._asker = f"the server `{server}`"
        self._open: list[Interview] = []

    async def put(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Answer a question of the server: the SDK's callback.

        If nothing says for which of several calls it is, nobody is asked: the wrong person might answer.
        """
        del context
        own = _interview.get()
        if own is None and len(self._open) == 1:
            own = self._open[0]
        if own is None:
            why = "it does not say which call its question is about" if self._open else "none of its tools runs"
            log_warning("mcp.question_declined", asker=self._asker, why=why)
            return _DECLINED
        return await own.put(params)

    async def accompany(self, limit: trio.CancelScope, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do the work of a call that `limit` bounds, and answer what the server asks meanwhile."""
        interview = Interview(self._asker, limit, current_call.get())
        token = _interview.set(interview)
        self._open.append(interview)
        try:
            return await interview.accompany(work)
        finally:
            self._open.remove(interview)
            _interview.reset(token)
