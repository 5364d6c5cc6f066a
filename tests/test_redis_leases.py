"""Leases in a real Redis: one holder at a time, epochs that only grow, and words for everything that can be wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from fakes.redis_server import RedisServer

from bub.base.redis.address import StoreAddress
from bub.base.redis.connection import RedisConnection, StoreError
from bub.base.redis.keys import Keys
from bub.base.redis.redis_leases import RedisLeases

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[RedisConnection]:
    redis = RedisConnection(StoreAddress.parse(address))
    await redis.open()
    try:
        yield redis
    finally:
        await redis.close()


async def test_a_lease_has_one_holder_and_each_one_a_greater_epoch(redis: RedisServer) -> None:
    async with connected(redis.address) as connection:
        leases = RedisLeases(connection, Keys("bub", "a"), seconds=30)
        first = await leases.take("partition:1", "one")
        assert first is not None
        assert await leases.take("partition:1", "two") is None
        assert await leases.holders() == {"partition:1": "one"}
        await leases.release(first)
        second = await leases.take("partition:1", "two")
        assert second is not None and second.epoch > first.epoch
        await leases.release(first)
        assert await leases.holders() == {"partition:1": "two"}
        assert await leases.renew([first, second]) == [second]


async def test_who_waits_for_a_release_learns_of_each(redis: RedisServer) -> None:
    async with connected(redis.address) as connection, trio.open_nursery() as tasks:
        leases = RedisLeases(connection, Keys("bub", "a"), seconds=30)
        ours = RedisLeases(connection, Keys("bub", "a"), seconds=30)
        known = 0

        async def listen() -> None:
            nonlocal known
            while True:
                await leases.wait_for_release()
                known += 1

        tasks.start_soon(listen)
        with trio.fail_after(5):
            while not leases._seen:  # noqa: ASYNC110 (it asks what was released so far)
                await trio.sleep(0.01)
        for round_ in (1, 2):
            lease = await ours.take("partition:1", "one")
            assert lease is not None
            assert known == round_ - 1
            await ours.release(lease)
            with trio.fail_after(5):
                while known < round_:  # noqa: ASYNC110 (it happens in another process)
                    await trio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_a_lease_that_is_over_is_not_revived(redis: RedisServer) -> None:
    async with connected(redis.address) as connection:
        leases = RedisLeases(connection, Keys("bub", "a"), seconds=0.03)
        lease = await leases.take("channel:line", "one")
        assert lease is not None
        with trio.fail_after(5):
            while await leases.holders():
                await trio.lowlevel.checkpoint()
        assert await leases.renew([lease]) == []
        again = await leases.take("channel:line", "one")
        assert again is not None and again.token != lease.token


INTERRUPTED = """
import signal, sys, trio
from contextlib import asynccontextmanager
from bub.base.redis.address import StoreAddress
from bub.base.redis.connection import RedisConnection

class Interrupted(RedisConnection):
    @asynccontextmanager
    async def _make_client(self):
        async def run():
            signal.raise_signal(signal.SIGINT)

        async with super()._make_client() as client, trio.open_nursery() as tasks:
            tasks.start_soon(run)
            yield client

async def work():
    connection = Interrupted(StoreAddress.parse(sys.argv[1]))
    try:
        await connection.open()
        await trio.sleep_forever()
    finally:
        await connection.close()

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    trio.run(work)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_ctrl_c_in_a_task_of_the_client_ends_the_program_as_any_other(redis: RedisServer) -> None:
    command = [sys.executable, "-c", INTERRUPTED, redis.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.stdout == "interrupted\n", done.stderr


async def test_what_is_wrong_with_a_server_is_said_without_the_password(redis: RedisServer) -> None:
    wrong = redis.address.replace("redis://", "redis://somebody:geheim@", 1)
    with pytest.raises(StoreError, match="does not let Bub in") as refused:
        async with connected(wrong):
            pass
    assert "geheim" not in f"{refused.value} {refused.value.help}"
    with pytest.raises(StoreError, match="cannot be reached") as away:
        async with connected("redis://127.0.0.1:1"):
            pass
    assert away.value.is_away


async def test_a_socket_is_an_address_and_a_server_that_comes_back_is_used_again(redis: RedisServer) -> None:
    async with connected(redis.socket_address) as connection:
        leases = RedisLeases(connection, Keys("bub", "a"), seconds=30)
        redis.kill()
        with pytest.raises(StoreError) as away:
            await leases.take("partition:1", "one")
        assert away.value.is_away
        redis.restart()
        assert await leases.take("partition:1", "one") is not None


async def test_what_waits_long_is_given_up_without_harm_to_what_is_asked_beside_it(redis: RedisServer) -> None:
    async with connected(redis.address) as connection:

        async def count() -> None:
            for _ in range(50):
                await connection.ask(connection.client.incr("counted"))

        async with trio.open_nursery() as counting:
            for _ in range(5):
                counting.start_soon(count)
            for _ in range(100):
                with trio.move_on_after(0.002):
                    await connection.ask(connection.waiting.xread({"stream": "$"}, block=10_000))
        assert redis.ask("GET", "counted") == b"250"


async def test_a_connection_that_answers_nothing_any_more_is_not_asked_again(redis: RedisServer) -> None:
    async with connected(redis.address) as connection:
        before = await connection.ask(connection.client.client_id())
        redis.freeze()
        with pytest.raises(StoreError, match="cannot be reached"):
            await connection.ask(connection.client.ping(), patience=0.1)
        redis.thaw()
        assert await connection.ask(connection.client.client_id()) != before
