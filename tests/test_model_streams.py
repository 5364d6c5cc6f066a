"""What answers come over: the connections that many requests need at once."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import trio
from bench._answers import answering
from fakes.scripted import serving

from bub.agent.models.client import open_client
from bub.agent.models.connections import KEPT


@pytest.mark.anyio
async def test_requests_that_begin_at_once_do_not_wait_for_a_connection_that_one_of_them_took() -> None:
    happened: list[str] = []

    async def trace(name: str, info: dict[str, Any]) -> None:
        happened.append(name)

    async def ask(client: httpx.AsyncClient, address: str) -> None:
        await client.get(f"{address}/1/0/v1/chat/completions", extensions={"trace": trace})

    with answering() as address:
        async with open_client() as client, trio.open_nursery() as nursery:
            await ask(client, address)
            happened.clear()
            for _ in range(50):
                nursery.start_soon(ask, client, address)
    begun = happened[: happened.index("http11.receive_response_headers.complete")]
    assert begun.count("connection.connect_tcp.started") == happened.count("connection.connect_tcp.started") == 49


@pytest.mark.anyio
async def test_only_so_many_connections_wait_for_another_request() -> None:
    connected = 0

    async def trace(name: str, info: dict[str, Any]) -> None:
        nonlocal connected
        connected += name == "connection.connect_tcp.complete"

    async def ask_all(client: httpx.AsyncClient, url: str, count: int) -> None:
        answers = [
            await client.send(client.build_request("GET", url, extensions={"trace": trace}), stream=True)
            for _ in range(count)
        ]
        for answer in answers:
            await answer.aread()
            await answer.aclose()

    with serving() as address:
        async with open_client() as client:
            for _ in range(2):
                await ask_all(client, f"{address}/log?model=any&ended=0", KEPT + 3)
    assert connected == KEPT + 3 + 3
