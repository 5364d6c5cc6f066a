"""The tool for the web: what it makes of pages, and that it reads nothing but public ones."""

from __future__ import annotations

import gzip
import ipaddress
import itertools
import re
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bub.agent.tools import web
from bub.agent.tools.addresses import Address, is_public
from bub.agent.tools.readable import readable
from bub.agent.tools.web import MOST_REDIRECTS, web_tools
from bub.tools import ToolContext, ToolError

pytestmark = pytest.mark.anyio

HERE = "127.0.0.1"
PUBLIC = "127.0.0.2"
"""An address of this machine that the tests take for one of the internet."""

Call = Callable[..., Awaitable[str]]


@dataclass
class Site:
    """A web server: what it answers for each path, and what it was asked."""

    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def page(self, path: str, body: str | bytes, status: int = 200, /, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (status, {"content-type": "text/plain; charset=utf-8", **named}, data)


def serve(address: str, site: Site, trust: ssl.SSLContext | None = None, port: int = 0) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.asked.append((self.headers["host"], self.path))
            site.headers.append(dict(self.headers))
            status, headers, body = site.pages.get(self.path, (404, {"content-type": "text/plain"}, b"nothing here"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "x-endless" not in headers:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if "x-endless" in headers:
                self.close_connection = True
                site.done.wait(10)

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass

    server = Quiet((address, port), Handler)
    if trust is not None:
        server.socket = trust.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    site.port = server.server_address[1]
    return server


@pytest.fixture
def site() -> Iterator[Site]:
    """A site of the internet, as far as these tests go."""
    made = Site()
    server = serve(PUBLIC, made)
    yield made
    made.done.set()
    server.shutdown()
    server.server_close()


def permits(address: Address) -> bool:
    return str(address) == PUBLIC or is_public(address)


async def no_name(host: str, port: int) -> Sequence[str]:
    raise OSError(f"no address of {host} is known here")


def names(**known: str) -> web.Resolve:
    """A resolver that knows these names, `_` standing for a dot."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        name = host.rstrip(".").replace(".", "_").replace("-", "_")
        return known[name].split() if name in known else await no_name(host, port)

    return resolve


async def fetch(
    url: str, resolve: web.Resolve = no_name, set_to: Any = None, trusting: Any = permits, **arguments: Any
) -> str:
    tool = {tool.name: tool for tool in web_tools(resolve, trusting)}["web.fetch"]
    context = ToolContext("s", Path(), settings=set_to or {})
    result = await tool.call(tool.check({"url": url, **arguments}), context)
    assert isinstance(result, str)
    return result


async def refusal(called: Awaitable[str]) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await called
    return caught.value


# What may be read

PRIVATE = [
    "http://127.0.0.1/",
    "http://127.1.2.3/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://100.64.0.1/",
    "http://192.0.0.8/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.0.1./",
    "http://127.0.0.1.:80/",
    "http://1.2.3.4.5/",
    "http://[::1]/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::10.0.0.1]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a00:1::1]/",
    "http://[2001:0:0:0:0:0:f5ff:fffe]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[2606:2800:220:1::1%25eth0]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://93.184.216.34/\r\nHost: 127.0.0.1",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1#@93.184.216.34/",
    "http://\ud800/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://loop.example/",
    "http://both.example/",
    "http://mapped.example/",
    "http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/",
    "http://127\u30020\u30020\u30021/",
    "file:///etc/passwd",
    "ftp://93.184.216.34/",
    "ftp://user:hunter2@93.184.216.34/",
    "http://user:hunter2@[::1/",
    "gopher://93.184.216.34/",
    "data:text/plain,x",
    "//93.184.216.34/",
    "93.184.216.34",
    "http://",
    "http:///x",
    "http://user@93.184.216.34/",
    "http://user:hunter2@93.184.216.34/",
    "http://93.184.216.34@127.0.0.1/",
    "http://93.184.216.34:0/",
    "http://93.184.216.34:99999/",
    "http://93.184.216.34 /",
    "http://127.0.0.1%20/",
    "http://127.0.0.1%00.example/",
    "http://127.0.0.1\\@93.184.216.34/",
    "http://loop.example\t/",
    "http://exa mple.org/",
    "http://xn--/",
    "http://a..b/",
    "http://\0/",
    "",
]

LOOPS = {"loop_example": HERE, "localhost": f"::1 {HERE}", "both_example": f"93.184.216.34 {HERE}"}


@pytest.mark.parametrize("url", PRIVATE)
async def test_A28_only_public_pages_are_read(url: str) -> None:
    resolve = names(**LOOPS, mapped_example="::ffff:10.0.0.1")
    told = await refusal(fetch(url, resolve, trusting=is_public))
    assert told.kind in ("denied", "invalid_input", "tool")
    assert "hunter2" not in str(told)
    assert told.kind != "tool" or "cannot be found" in str(told)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1.", "a.0x7f"])
async def test_A28_a_number_that_is_no_address_is_never_looked_up(host: str) -> None:
    """Some resolvers take these for addresses and others for names, and the checked one need not be the used one."""

    async def anywhere(host: str, port: int) -> Sequence[str]:
        return [PUBLIC]

    assert (await refusal(fetch(f"http://{host}/", anywhere))).kind in ("denied", "invalid_input")


REDIRECTS = [
    url for url in PRIVATE if url.isascii() and url.isprintable() and not re.fullmatch("(http:///?)?x?|[0-9.]+", url)
]
"""Those of them that mean the same, or anything, in a header of a page."""


@pytest.mark.parametrize("url", REDIRECTS)
async def test_A28_no_redirect_leads_to_what_is_not_public(url: str, site: Site) -> None:
    site.page("/", "", 302, location=url)
    resolve = names(**LOOPS, mapped_example="::ffff:10.0.0.1")
    told = await refusal(fetch(f"http://{PUBLIC}:{site.port}/", resolve))
    assert told.kind in ("denied", "invalid_input", "tool")
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::808:808", True),
        ("192.88.99.1", False),
        ("2002:808:808::", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("4000::1", False),
    ],
)
def test_A28_an_address_is_public_or_it_is_not(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


async def test_the_real_resolver_knows_this_machine() -> None:
    told = await refusal(fetch("http://localhost/", web.resolve_name, trusting=is_public))
    assert str(told).startswith("localhost is in a private network, or this machine itself")


async def test_A28_the_settings_can_allow_private_addresses(site: Site) -> None:
    site.page("/", "at home")
    url = f"http://{PUBLIC}:{site.port}/"
    assert (await refusal(fetch(url, trusting=is_public))).kind == "denied"
    assert await fetch(url, set_to={"web": {"allow_private": True}}, trusting=is_public) == "at home"
    assert (await refusal(fetch(url, set_to={"web": {"allow_private": "yes"}}, trusting=is_public))).kind == "denied"


async def test_A28_a_connection_is_made_to_the_address_that_was_checked(site: Site) -> None:
    """The name leads elsewhere as soon as it was looked up once, where another server waits at the same port."""
    site.page("/", "public")
    private = Site()
    private.page("/", "private")
    other = serve(HERE, private, port=site.port)
    asked = []

    async def rebound(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return [PUBLIC] if len(asked) == 1 else [HERE]

    try:
        assert await fetch(f"http://page.example:{site.port}/", rebound) == "public"
    finally:
        other.shutdown()
        other.server_close()
    assert asked == [("page.example", site.port)]
    assert site.asked == [(f"page.example:{site.port}", "/")]
    assert private.asked == []


async def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.page("/", "direct")
    monkeypatch.setenv("HTTP_PROXY", f"http://{HERE}:1")
    monkeypatch.setenv("ALL_PROXY", f"http://{HERE}:1")
    assert await fetch(f"http://{PUBLIC}:{site.port}/") == "direct"


async def test_the_next_address_is_tried_where_one_does_not_answer(site: Site) -> None:
    site.page("/", "reached")
    resolve = names(page_example=f"127.0.0.3 {PUBLIC}")
    assert await fetch(f"http://page.example:{site.port}/", resolve, trusting=lambda _: True) == "reached"
    told = await refusal(
        fetch(f"http://page.example:{site.port}/", names(page_example="127.0.0.3"), trusting=lambda _: True)
    )
    assert str(told).startswith("page.example cannot be read: ")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate has to be made")
async def test_a_certificate_has_to_be_for_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -addext subjectAltName=DNS:page.example"
    await trio.run_process(
        [*command.split(), "-keyout", "key", "-out", "cert"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
    secure = Site()
    secure.page("/", "secret")
    server = serve(PUBLIC, secure, context)
    try:
        resolve = names(page_example=PUBLIC, other_example=PUBLIC)
        assert await fetch(f"https://page.example:{secure.port}/", resolve) == "secret"
        assert await fetch(f"https://page.example.:{secure.port}/", resolve) == "secret"
        assert "certificate" in str(await refusal(fetch(f"https://other.example:{secure.port}/", resolve)))
        assert "certificate" in str(await refusal(fetch(f"https://{PUBLIC}:{secure.port}/", resolve)))
    finally:
        server.shutdown()
        server.server_close()


# Redirects


async def test_redirects_are_followed_a_few_times(site: Site) -> None:
    for step in range(10):
        site.page(f"/{step}", "", 302, location=f"/{step + 1}")
    site.page(f"/{MOST_REDIRECTS}", "the end")
    base = f"http://{PUBLIC}:{site.port}"
    assert await fetch(f"{base}/0") == f"the end\n[from {base}/{MOST_REDIRECTS}]"
    assert await fetch(f"{base}/{MOST_REDIRECTS}#there") == "the end"
    site.page(f"/{MOST_REDIRECTS}", "", 302, location="/")
    assert f"redirects more than {MOST_REDIRECTS} times" in str(await refusal(fetch(f"{base}/0")))


# Reading


async def test_a_page_is_shown_as_text(site: Site) -> None:
    site.page("/", "<title>T</title><p>gr\xfcn</p>".encode("latin-1"), content_type="text/html; charset=ISO-8859-1")
    site.page("/meta", '<meta charset="windows-1252"><p>\x80</p>'.encode("latin-1"), content_type="text/html")
    site.page("/json", '{"a": 1}', content_type="application/json")
    site.page("/bom", "\ufeffgr\xfcn".encode("utf-16"), content_type="text/plain")
    site.page("/odd", b"gr\xfcn", content_type="text/plain; charset=punycode")
    site.page("/png", b"\x89PNG\0\0", content_type="image/png")
    site.page("/lie", b"\x89PNG\0\0")
    site.page("/empty", "")
    base = f"http://{PUBLIC}:{site.port}"
    assert await fetch(f"{base}/") == "# T\n\ngr\xfcn"
    assert await fetch(f"{base}/meta") == "\u20ac"
    assert await fetch(f"{base}/json") == '{"a": 1}'
    assert (await fetch(f"{base}/bom")).endswith("gr\xfcn")
    assert await fetch(f"{base}/odd") == "gr\ufffdn"
    assert await fetch(f"{base}/png") == f"[{base}/png is image/png, 6 bytes: not text]"
    assert await fetch(f"{base}/lie") == f"[{base}/lie is binary, 6 bytes]"
    assert await fetch(f"{base}/empty") == "[the page is empty]"


async def test_a_refusal_of_the_server_is_an_error_with_its_text(site: Site) -> None:
    told = await refusal(fetch(f"http://{PUBLIC}:{site.port}/none"))
    assert str(told) == f"{PUBLIC} answered 404 Not Found: nothing here"


async def test_nothing_of_the_machine_is_told_to_the_server(site: Site) -> None:
    site.page("/", "x")
    await fetch(f"http://{PUBLIC}:{site.port}/")
    assert {name.lower() for name in site.headers[0]} == {
        "host", "accept", "accept-encoding", "connection", "user-agent"
    }  # fmt: skip


async def test_A28_a_long_page_is_cut(site: Site) -> None:
    site.page("/", "x" * 3_000_000)
    site.page("/small", "12345")
    base = f"http://{PUBLIC}:{site.port}"
    said = await fetch(f"{base}/")
    assert said == "x" * 1_000_000 + "\n[cut after 1,000,000 bytes]"
    assert await fetch(f"{base}/small", max_bytes=5) == "12345"
    assert await fetch(f"{base}/small", max_bytes=4) == "1234\n[cut after 4 bytes]"


async def test_A28_a_packed_page_is_unpacked_no_further_than_needed(site: Site) -> None:
    site.page("/", gzip.compress(b"hello"), content_encoding="gzip")
    site.page("/bomb", gzip.compress(b"\n" * 50_000_000), content_encoding="gzip")
    site.page("/broken", gzip.compress(b"hello" * 1000)[:20] + b"????", content_encoding="gzip")
    site.page("/other", b"hello", content_encoding="br")
    base = f"http://{PUBLIC}:{site.port}"
    assert await fetch(f"{base}/") == "hello"
    assert await fetch(f"{base}/bomb", max_bytes=10) == "[cut after 10 bytes]"
    assert (await fetch(f"{base}/bomb")).endswith("[cut after 1,000,000 bytes]")
    assert "does not read (br)" in str(await refusal(fetch(f"{base}/other")))
    assert "cannot be read" in str(await refusal(fetch(f"{base}/broken")))


async def test_A28_a_server_that_never_ends_is_left(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "FETCH_SECONDS", 0.3)
    site.page("/", "x", x_endless="yes")
    told = await refusal(fetch(f"http://{PUBLIC}:{site.port}/"))
    assert (str(told), told.kind) == (f"http://{PUBLIC}:{site.port}/ took longer than 0.3 s", "timeout")


@pytest.mark.parametrize("header", [b"x: " + b"y" * 1_000_000, b"x: y\r\n" * 100_000, b"\0\0: y", b"x" * 10_000_000])
async def test_A28_a_head_without_end_or_sense_is_an_error(header: bytes) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n")

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, answer, 0, host=PUBLIC))
        port = listener.socket.getsockname()[1]
        assert "cannot be read" in str(await refusal(fetch(f"http://{PUBLIC}:{port}/")))
        nursery.cancel_scope.cancel()


async def test_A28_a_server_that_says_one_letter_at_a_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "FETCH_SECONDS", 0.3)

    async def answer(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            for letter in itertools.cycle(b"HTTP/1.1 100 Continue\r\n\r\n"):
                await stream.send_all(bytes([letter]))
                await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, answer, 0, host=PUBLIC))
        port = listener.socket.getsockname()[1]
        assert (await refusal(fetch(f"http://{PUBLIC}:{port}/"))).kind == "timeout"
        nursery.cancel_scope.cancel()


async def test_no_cookie_is_kept_from_one_page_to_the_next(site: Site) -> None:
    site.page("/", "", 302, location="/next", set_cookie="name=value")
    site.page("/next", "x")
    await fetch(f"http://{PUBLIC}:{site.port}/")
    assert all("cookie" not in {name.lower() for name in headers} for headers in site.headers)


async def test_an_endless_page_is_cut(site: Site) -> None:
    site.page("/", "x" * 100, x_endless="yes")
    with trio.fail_after(5):
        assert await fetch(f"http://{PUBLIC}:{site.port}/", max_bytes=10) == "x" * 10 + "\n[cut after 10 bytes]"


async def test_a_page_whose_connection_breaks_is_an_error(site: Site) -> None:
    site.page("/", "x", content_length="100")
    site.done.set()
    site.pages["/"][1]["x-endless"] = "yes"
    assert f"{PUBLIC} cannot be read" in str(await refusal(fetch(f"http://{PUBLIC}:{site.port}/")))


# Pages


def test_a_page_is_read_as_text() -> None:
    page = """<!doctype html><title>T &amp; x</title><style>a{}</style><script>if (a<b) {"</p>"}</script>
    <h1>Hello <b>you</b></h1><p>See <a href="/x?a=1&amp;b=2">this
    link</a> 1 < 2.</p><ul><li>one</li><li><p>two</p></li></ul><!-- no --><pre>def f():
    return 1
</pre><table><tr><td>a</td><td>b</td></tr></table>end"""
    assert readable(page) == (
        "# T & x\n\n# Hello you\n\nSee this link (/x?a=1&b=2) 1 < 2.\n- one\n- two\n\n"
        "def f():\n    return 1\n\na b\n\nend"
    )


@pytest.mark.parametrize(
    "piece", ["<!--", "<a ", "<", "<script>", '<a href="', "</", "&#1", "<p><a href='", "<pre>\n ", "<svg></svg"]
)
def test_a_hostile_page_takes_no_longer_than_another(piece: str) -> None:
    began = time.process_time()
    readable(piece * (200_000 // len(piece)))
    assert time.process_time() - began < 2


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(["<p>", "</", "a", "<a href='x'>", "</a>", "&lt;", "<pre>", "\n", "<!--", "-->", "<li>"]))
)
def test_every_page_can_be_read(pieces: list[str]) -> None:
    assert isinstance(readable("".join(pieces)), str)
