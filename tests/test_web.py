"""The web server: an app answers over real sockets, and no stranger is a burden."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from fakes.certificates import make_certificate
from trio.testing import wait_all_tasks_blocked

from bub.base.installing.extras import install_command
from bub.channels.web import Certificate, ListenAddress, WebLimits, WebServer, address_for
from bub.errors import BubError, UsageError

pytestmark = pytest.mark.anyio

HERE = ListenAddress("127.0.0.1", 0)


async def app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """Says what it is asked: the path, and the length of the body; `/late` is answered before the body is read."""
    length = 0
    if scope["path"] == "/broken":
        raise RuntimeError("the secret is 42")
    while scope["path"] != "/late":
        event = await receive()
        length += len(event.get("body", b""))
        if not event.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/stream":
        while not scope["state"]["ending"].is_set():
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
    text = f"{scope['http_version']} {scope['method']} {scope['path']} {length}"
    await send({"type": "http.response.body", "body": text.encode()})


@asynccontextmanager
async def serving(app: Any = app, **how: Any) -> AsyncIterator[tuple[WebServer, ListenAddress]]:
    server = WebServer("web", app, **how)
    async with trio.open_nursery() as nursery:
        yield server, await nursery.start(partial(server.serve, HERE, help="take another port"))
        nursery.cancel_scope.cancel()


async def sent(address: ListenAddress, request: bytes) -> bytes:
    """All that comes back for these bytes."""
    answer = b""
    async with await trio.open_tcp_stream(*address) as stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(request)
        with suppress(trio.BrokenResourceError):
            async for part in stream:
                answer += part
    return answer


async def none_open(server: WebServer) -> None:
    with trio.fail_after(10):
        while server.connections:
            await trio.lowlevel.checkpoint()


# What it answers


async def test_requests_of_a_pooled_client_share_a_connection_that_is_not_cut_off() -> None:
    async with serving() as (server, address), httpx.AsyncClient() as client:
        for number in range(50):
            came = await client.post(f"http://{address}/{number}", content=b"x" * number)
            assert came.text == f"1.1 POST /{number} {number}"
        assert server.connections == 1
        assert "server" not in came.headers


async def test_a_body_that_nobody_reads_cuts_no_pooled_client_off() -> None:
    async with serving() as (server, address), httpx.AsyncClient() as client:
        for _ in range(20):
            came = await client.post(f"http://{address}/late", content=b"x" * 20_000)
            assert (came.status_code, "connection" in came.headers) == (200, False)
        assert server.connections == 1
        for _ in range(3):
            came = await client.post(f"http://{address}/late", content=b"x" * 2_000_000)
            assert (came.status_code, came.headers["connection"]) == (200, "close")


async def test_an_app_that_fails_is_500_and_the_next_request_is_answered(log: list[str]) -> None:
    async with serving() as (_, address), httpx.AsyncClient() as client:
        assert (await client.get(f"http://{address}/broken")).status_code == 500
        assert (await client.get(f"http://{address}/ok")).status_code == 200
    assert [line for line in log if line.startswith("web.failed")]


async def test_an_app_is_told_that_the_client_has_gone() -> None:
    gone = trio.Event()

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async with serving(waiting) as (server, address):
        async with await trio.open_tcp_stream(*address) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await wait_all_tasks_blocked()
        await gone.wait()
        await none_open(server)


BEGUN = b"POST /late HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx"


async def test_a_client_that_breaks_off_is_no_failure(log: list[str]) -> None:
    async with serving() as (server, address):
        for begun in (b"", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", BEGUN):
            stream = await trio.open_tcp_stream(*address)
            await stream.send_all(begun)
            await wait_all_tasks_blocked()
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it resets the connection
            await trio.aclose_forcefully(stream)
        await none_open(server)
    assert [line for line in log if "failed" in line] == []


async def test_nothing_of_a_request_gets_into_the_log(log: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    async with serving() as (_, address), httpx.AsyncClient() as client:
        await client.get(f"http://{address}/ok?token=s3cret", headers={"authorization": "Bearer s3cret"})
        await client.get(f"http://{address}/broken?token=s3cret", headers={"authorization": "Bearer s3cret"})
        await sent(address, b"GET /s3cret HTTP/1.1\r\nauthorization: s3cret\x00\r\n\r\n")
    assert "s3cret" not in "".join(log) + "".join(capfd.readouterr())


async def test_http_2_is_offered_in_vain() -> None:
    async with serving() as (_, address):
        offer = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
        head = b"GET / HTTP/1.1\r\nhost: x\r\n"
        answer = await sent(address, head + offer + b"\r\n" + head + b"connection: close\r\n\r\n")
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert b"101" not in answer
        preface = await sent(address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert preface.startswith(b"HTTP/1.1 ")
        assert b"HTTP/1.1 400 " in preface


async def test_a_web_socket_is_offered_in_vain(log: list[str]) -> None:
    head = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    async with serving() as (server, address):
        offer = head + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        answer = await sent(address, offer + offer + b"\x81\x05hello\r\n\r\n")
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert b"HTTP/1.1 101" not in answer
        await none_open(server)
    assert [line for line in log if "failed" in line] == []


# How it ends


async def test_when_it_closes_what_is_under_way_is_answered_and_the_rest_is_cut() -> None:
    go, begun = trio.Event(), trio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await go.wait()
        await app({**scope, "path": "/slow"}, receive, send)

    async with trio.open_nursery() as nursery:
        server = WebServer("web", slow)
        address = await nursery.start(partial(server.serve, HERE, help=""))
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append(await sent(address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"))

        nursery.start_soon(ask)
        await begun.wait()
        idle = await trio.open_tcp_stream(*address)
        while server.connections < 2:
            await trio.lowlevel.checkpoint()
        server.close()
        assert await idle.receive_some() == b""
        go.set()
    assert b"1.1 GET /slow 0" in answers[0]
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream(*address)
    await idle.aclose()


async def test_an_answer_without_end_ends_when_the_server_closes() -> None:
    async with trio.open_nursery() as nursery:
        server = WebServer("web", app)
        address = await nursery.start(partial(server.serve, HERE, help=""))
        async with httpx.AsyncClient() as client, client.stream("GET", f"http://{address}/stream") as answer:
            parts = answer.aiter_bytes()
            await anext(parts)
            server.close()
            async for part in parts:
                last = part
    assert last.endswith(b"/stream 0")


@pytest.mark.parametrize("path", ["/stream", "/hangs"])
async def test_its_end_is_bounded_whatever_a_client_or_an_app_does(path: str) -> None:
    async def hanging(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while scope["path"] == "/stream":  # nobody reads it
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        await trio.sleep_forever()

    since = time.monotonic()
    async with trio.open_nursery() as nursery:
        server = WebServer("web", hanging, limits=WebLimits(grace=0.1))
        address = await nursery.start(partial(server.serve, HERE, help=""))
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        await stream.receive_some(1)
        server.close()
    assert time.monotonic() - since < 5
    await stream.aclose()


# What is refused, and what it may cost


async def test_who_does_not_read_an_answer_is_let_go() -> None:
    async with serving(limits=WebLimits(patience=0.2)) as (server, address):
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
        await stream.receive_some(1)
        await none_open(server)
        await stream.aclose()


async def test_a_body_that_nobody_reads_keeps_no_connection_and_its_sender_gets_the_answer() -> None:
    head = b"POST /late HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n"
    async with serving() as (server, address):
        assert (await sent(address, head + b"x" * 3_000_000)).startswith(b"HTTP/1.1 200 ")
        await none_open(server)


@pytest.mark.parametrize("begun", [b"", b"POST / HT", b"GET / HTTP/1.1\r\nhost: x\r\nx-a: "])
async def test_who_is_slow_with_a_head_is_let_go(begun: bytes) -> None:
    async with serving(limits=WebLimits(patience=0.1)) as (_, address):
        since = time.monotonic()
        assert await sent(address, begun) == b""
        assert time.monotonic() - since < 5


async def test_a_head_that_comes_a_byte_at_a_time_gets_no_more_time() -> None:
    async with serving(limits=WebLimits(patience=0.3)) as (server, address):
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET /again HTTP/1.1\r\n")
        with trio.fail_after(5), suppress(trio.BrokenResourceError):
            while server.connections:
                await stream.send_all(b"x")
                await trio.lowlevel.checkpoint()
        await stream.aclose()


async def test_a_connection_too_many_takes_the_place_of_the_one_that_was_idle_for_longest() -> None:
    head = b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n"
    async with serving(limits=WebLimits(connections=2)) as (_, address):
        oldest = await trio.open_tcp_stream(*address)
        await wait_all_tasks_blocked()
        busy = await trio.open_tcp_stream(*address)
        await busy.send_all(head)
        await busy.receive_some(1)
        newest = await trio.open_tcp_stream(*address)
        assert await oldest.receive_some() == b""
        await newest.send_all(head)
        await newest.receive_some(1)
        one_more = await trio.open_tcp_stream(*address)
        assert await one_more.receive_some() == b""
        for stream in (oldest, busy, newest, one_more):
            await trio.aclose_forcefully(stream)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"x" * 40_000 + b"\r\n\r\n", b"431"),
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b"431"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\nhost: x\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\nxx", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\nxx", b"501"),
        (
            b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
            b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n",
            b"400",
        ),
    ],
)
async def test_what_is_no_sound_request_never_reaches_the_app(request_: bytes, status: bytes) -> None:
    async def never(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    async with serving(never) as (server, address):
        assert (await sent(address, request_)).startswith(b"HTTP/1.1 " + status)
        await none_open(server)


async def test_a_port_that_is_taken_and_an_extra_that_is_missing_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (_, address):
        with pytest.raises(BubError, match="cannot listen at") as caught:
            await WebServer("web", app).serve(address, help="take another port")
        assert caught.value.help == "take another port"
    monkeypatch.setitem(sys.modules, "hypercorn.config", None)
    with pytest.raises(BubError, match="the extra `web`") as caught:
        await WebServer("web", app).serve(HERE, help="")
    assert caught.value.help == f"run `{install_command('web')}`"


# TLS, and addresses


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


async def test_with_a_certificate_it_speaks_tls_and_nothing_else(certificate: Certificate) -> None:
    context = ssl.create_default_context(cafile=certificate.file)
    async with serving(certificate=certificate, limits=WebLimits(patience=0.5)) as (server, address):
        async with httpx.AsyncClient(verify=context) as client:
            for _ in range(2):
                assert (await client.get(f"https://{address}/a")).text == "1.1 GET /a 0"
            assert server.connections == 1
            came = await client.post(f"https://{address}/late", content=b"x" * 1_000_000)
            assert came.status_code == 200
        assert await sent(address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") == b""
        assert await sent(address, b"") == b""
        await none_open(server)


def test_files_that_are_no_certificate_are_told(certificate: Certificate, tmp_path: Path) -> None:
    with pytest.raises(BubError, match="are not a certificate and its key"):
        Certificate(certificate.file, certificate.file).open()
    with pytest.raises(BubError, match="cannot read the certificate"):
        Certificate(str(tmp_path / "none"), certificate.key).open()


def test_an_address_that_other_machines_reach_needs_encryption() -> None:
    assert address_for("127.0.0.1:8080", section="http", is_encrypted=False) == ("127.0.0.1", 8080)
    assert address_for("[::1]:8080", section="http", is_encrypted=False) == ("::1", 8080)
    assert address_for("0.0.0.0:8080", section="http", is_encrypted=True) == ("0.0.0.0", 8080)
    with pytest.raises(UsageError, match="nothing encrypts") as caught:
        address_for("0.0.0.0:8080", section="http", is_encrypted=False)
    assert "`http.tls`" in str(caught.value.help)
