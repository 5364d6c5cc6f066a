"""The ways to a server: the pipes of a program, or an address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import trio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from bub.agent.mcp.program import Program
from bub.agent.mcp.traffic import Reading, Traffic, Writing

Streams = tuple[Reading, Writing]


@asynccontextmanager
async def talk_to(
    program: Program, traffic: Traffic, over: Callable[[str], None]
) -> AsyncIterator[tuple[Reading, Writing]]:
    """The streams that lead to a program, as the SDK wants them; whoever has started it ends it."""

    async def receive() -> SessionMessage | None:
        line = await program.read_line()
        if line is None:
            raise anyio.EndOfStream
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return None  # programs print all kinds of things

    async def send(item: SessionMessage) -> None:
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await program.write_line(line.encode())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            over("")
            raise anyio.BrokenResourceError from None

    yield Reading(receive, traffic, over), Writing(send, traffic)
