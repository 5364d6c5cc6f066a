"""The small HTTP server that `/healthz` and `/metrics` come from, asked as nobody should ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from bub.base.counts import BOUNDS, Counts, Times
from bub.base.trace import TurnRecord
from bub.channels.server import ListenAddress
from bub.errors import UsageError
from bub.gateway import monitor
from bub.gateway.monitor import Monitor

pytestmark = pytest.mark.anyio

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9464", "127.0.0.1:9464"),
        ("localhost:9464", "127.0.0.1:9464"),
        ("127.3.2.1:1", "127.3.2.1:1"),
        ("[::1]:9464", "[::1]:9464"),
        ("127.0.0.1:0", "127.0.0.1:0"),
    ],
)
def test_an_address_of_this_machine_alone_is_listened_at(text: str, address: str) -> None:
    assert str(ListenAddress.of(text)) == address


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0.0.0.0:9464", "put a proxy in front"),
        ("192.168.1.2:9464", "listen at 127.0.0.1:9464"),
        ("[::]:9464", "put a proxy in front"),
        ("example.org:80", "put a proxy in front"),
        ("9464", "write it as 127.0.0.1:9464"),
        ("127.0.0.1:", "write it as"),
        ("127.0.0.1:99999", "write it as"),
        ("127.0.0.1:" + "9" * 5_000, "write it as"),
        ("127.0.0.1:٣", "write it as"),
    ],
)
def test_any_other_is_refused_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        ListenAddress.of(text)
    assert says in str(caught.value.help)


@asynccontextmanager
async def watched(counts: Counts | None = None, *, is_well: bool = True) -> AsyncIterator[ListenAddress]:
    async with trio.open_nursery() as nursery:
        watching = Monitor(counts or Counts(), lambda: (is_well, {"status": "ok" if is_well else "ill"}))
        yield await nursery.start(watching.serve, ListenAddress("127.0.0.1", 0))
        nursery.cancel_scope.cancel()


async def sent(address: ListenAddress, request: bytes) -> bytes:
    """All that comes back."""
    stream = await trio.open_tcp_stream(*address)
    answer = b""
    async with stream:
        with suppress(trio.BrokenResourceError):  # it does not read on
            await stream.send_all(request)
            async for part in stream:
                answer += part
    return answer


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /healthz HTTP/1.1", 200),
        (b"GET /healthz?x=1 HTTP/1.0", 200),
        (b"GET /metrics HTTP/1.1", 200),
        (b"GET / HTTP/1.1", 404),
        (b"GET /healthz/../etc/passwd HTTP/1.1", 404),
        (b"POST /healthz HTTP/1.1", 405),
        (b"hello?", 400),
    ],
)
async def test_each_request_has_one_answer(request_line: bytes, status: int) -> None:
    async with watched() as address:
        answer = await sent(address, request_line + b"\r\nhost: x\r\n\r\n")
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("accept", [b"application/openmetrics-text; version=abc", b"text/plain;version=\xff,;;=", b";"])
async def test_who_asks_for_what_nobody_knows_gets_the_usual_format(accept: bytes) -> None:
    async with watched() as address:
        answer = await sent(address, b"GET /metrics HTTP/1.1\r\nhost: x\r\naccept: " + accept + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"text/plain; version=" in answer


async def test_HEAD_has_no_body_and_what_is_ill_is_503() -> None:
    async with watched(is_well=False) as address:
        answer = await sent(address, b"HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"\r\n\r\n")
        assert (await sent(address, HEALTH)).endswith(b'\r\n\r\n{"status": "ill"}\n')


async def test_who_says_nothing_or_leaves_is_no_burden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "_PATIENCE", 0.05)
    async with watched() as address:
        assert await sent(address, b"GET /heal") == b""  # closed when the patience is over
        for _ in range(3):
            stream = await trio.open_tcp_stream(*address)
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
            await trio.aclose_forcefully(stream)
        assert (await sent(address, b"GET /" + b"x" * 1_000_000))[:12] in (b"", b"HTTP/1.1 431")
        assert b"200" in await sent(address, HEALTH)


async def test_one_connection_too_many_is_closed_and_the_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "_MOST_CONNECTIONS", 2)
    async with watched() as address:
        first, second = [await trio.open_tcp_stream(*address) for _ in range(2)]
        async with first, second:
            await first.send_all(b"G")
            await second.send_all(b"G")
            assert await sent(address, b"") == b""
            await first.send_all(b"ET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"200" in b"".join([part async for part in first])
        for _ in range(3):
            assert b"200" in await sent(address, HEALTH)  # who has gone counts no more


async def test_a_gauge_that_fails_is_an_answer_less_and_nothing_more() -> None:
    counts = Counts()
    counts.gauge("inbox_messages", lambda: 1 / 0)
    async with watched(counts) as address:
        assert await sent(address, b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n") == b""
        assert b"200" in await sent(address, HEALTH)


def test_times_are_counted_up_to_each_bound() -> None:
    times = Times()
    for seconds in (0.0005, 0.001, 0.002, 1000.0):
        times.add(seconds)
    up_to = dict(times.up_to())
    assert (up_to[0.001], up_to[0.005], up_to[BOUNDS[-1]], up_to[float("inf")]) == (2, 3, 3, 4)
    assert (times.count, times.sum) == (4, pytest.approx(1000.0035))


def test_a_turn_counts_its_stages() -> None:
    counts = Counts()
    trace = [TurnRecord("prompt", "builtin", 0.0, 0.1, "ok"), TurnRecord("run_model", "", 0.1, 2.0, "failed")]
    counts.turn("default", "failed", trace, 2.1)
    assert counts.turns == {("default", "failed"): 1}
    assert counts.stages == {("default", "prompt", "ok"): 1, ("default", "run_model", "failed"): 1}
    assert counts.stage_times["default", "run_model"].sum == 2.0
    assert counts.turn_times["default"].count == 1
