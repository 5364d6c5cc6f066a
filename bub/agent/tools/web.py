"""The tool for the web, `web.fetch`: it reads public pages, and nothing of this machine or its network."""

from __future__ import annotations

import re
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec
import trio
from msgspec import Meta

from bub.agent.tools.addresses import Address, is_public, literal
from bub.agent.tools.readable import readable
from bub.tools import Tool, ToolContext, ToolError, tool

if TYPE_CHECKING:
    import httpx

MOST_REDIRECTS = 5
FETCH_SECONDS = 30.0
"""How long a page may take, redirects and all."""

_CONNECT_SECONDS = 5.0
_LONGEST_ERROR = 2000

_CHARSET = r"""(?i)charset\s*=\s*["']?([A-Za-z0-9_-]{1,40})"""
# Python knows more encodings than pages are in, some of which take very long for a long page.
_KNOWN_CHARSET = (
    r"(?i)utf-?(8|16|32)([-_]?[bl]e)?|(us-)?ascii|latin-?1|(iso-?8859|windows|cp|koi8|mac)[-_]?\w*"
    r"|gb\w+|big5(-hkscs)?|euc[-_](jp|kr)|shift[-_]jis|iso-2022-(jp|kr)|tis-620"
)
_TEXT = r"text/.*|application/(.*\+)?(json|xml|yaml|x-yaml|toml|javascript|x-ndjson|sql|x-sh)|.*\+(json|xml)"
_HOST = rb"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?"
_HTML = frozenset({"text/html", "application/xhtml+xml"})

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a name, as `resolve_name` does."""


async def resolve_name(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system knows them; raises OSError or UnicodeError if it knows none."""
    found = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


def web_tools(resolve: Resolve = resolve_name, permits: Callable[[Address], bool] = is_public) -> list[Tool]:
    """The tools for the web. `permits` says which addresses may be connected to if the settings allow no more."""
    return [fetch.bind(resolve, permits)]


@tool(name="web.fetch", read_only=True, bound=True, brings="untrusted", reaches="outside")
async def fetch(
    resolve: Resolve,
    permits: Callable[[Address], bool],
    /,
    url: Annotated[str, "The address, with http:// or https://."],
    max_bytes: Annotated[int, "How much of the page to read at most.", Meta(ge=1, le=10_000_000)] = 1_000_000,
    *,
    context: ToolContext,
) -> str:
    """Read a public web page: its text with links, or JSON and other text as it is."""
    allow_private = (context.settings.get("web") or {}).get("allow_private") is True
    guard = _Guard(resolve, (lambda _: True) if allow_private else permits)
    with trio.move_on_after(FETCH_SECONDS):
        return await _follow(url, max_bytes, guard)
    raise ToolError(f"{url} took longer than {FETCH_SECONDS:g} s", kind="timeout")


class _Guard(msgspec.Struct, frozen=True):
    """Finds out where a host is, and refuses what is not public (BEHAVIOURS A28)."""

    resolve: Resolve
    permits: Callable[[Address], bool]

    async def addresses(self, url: httpx.URL) -> list[Address]:
        """Every address of a URL's host, each of them permitted; a connection is made to these and to no others."""
        host = url.raw_host.decode("ascii")
        try:
            written = literal(host)
        except ValueError:
            raise _refuse(f"{host} is a number, not an address", "write it like 192.0.2.1") from None
        found = [written] if written is not None else await self._resolve_host(host, url)
        # One that is not public is enough: whoever gives both hopes that the other is taken.
        if not all(map(self.permits, found)):
            raise _refuse(
                f"{host} is in a private network, or this machine itself",
                "a person can allow that with `allow_private: true` in the settings, under `web`",
            )
        return found

    async def _resolve_host(self, host: str, url: httpx.URL) -> list[Address]:
        try:
            texts = await self.resolve(host, url.port or (443 if url.scheme == "https" else 80))
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{host} cannot be found: {error}") from None
        found = [address for text in texts if (address := literal(text)) is not None]
        if not found:
            raise ToolError(f"{host} has no address")
        return found


def _refuse(what: str, advice: str) -> ToolError:
    return ToolError(what, help=advice, kind="denied")


async def _follow(given: str, longest: int, guard: _Guard) -> str:
    """The page that a URL leads to. Each step of the way is checked as the first one was."""
    url = _parse_url(given)
    trust: ssl.SSLContext | None = None
    for hop in range(MOST_REDIRECTS + 1):
        if url.scheme == "https" and trust is None:
            trust = await _read_trust()
        async with _connect(url, await guard.addresses(url), trust) as response:
            location = response.headers.get("location") if response.is_redirect else None
            if location is None:
                return await _render_page(response, url, longest, moved=hop > 0)
        url = _parse_url(location, url)
    raise ToolError(f"{given} redirects more than {MOST_REDIRECTS} times")


def _parse_url(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """A URL that may be asked for; `ToolError` (`denied`, `invalid_input`) for others."""
    import httpx

    shown = "the address" if "@" in text else repr(text[:200])  # a password can stand before an `@`
    try:
        url = httpx.URL(text) if base is None else base.join(text)
        # Some names cannot be written as people read them, which is found out only here.
        reachable = re.fullmatch(_HOST, url.raw_host) and url.host and (url.port is None or 0 < url.port < 65536)
    except (httpx.InvalidURL, ValueError) as error:
        raise ToolError(f"{shown} cannot be understood: {error}", kind="invalid_input") from None
    if url.scheme not in ("http", "https"):
        raise _refuse(f"{shown} does not begin with http:// or https://", "only web pages can be read")
    if url.userinfo:
        raise _refuse("the address holds a user or a password", "leave out what is before the `@`")
    if not reachable:
        raise ToolError(f"{shown} names no host that can be reached", kind="invalid_input")
    return url.copy_with(fragment=None)


async def _read_trust() -> ssl.SSLContext:
    """The authorities that servers are verified with; reading them takes a while."""
    import httpx

    try:
        return await trio.to_thread.run_sync(httpx.create_ssl_context)
    except OSError as error:
        raise ToolError(f"the trusted certificates cannot be read: {error}") from None


@asynccontextmanager
async def _connect(
    url: httpx.URL, addresses: Sequence[Address], trust: ssl.SSLContext | None
) -> AsyncIterator[httpx.Response]:
    """The beginning of the answer of the first of these addresses that can be reached.

    The request goes to the address itself, so that nobody can have the name lead elsewhere after it was checked; the
    name is in the `Host` header, and the certificate has to be for it. Proxies of the environment are not used, as
    they look names up themselves. It is a connection of its own: others are kept by address, and another name
    at the same one must not be served over a connection that was verified for this.
    """
    import httpx

    patience = dict.fromkeys(("read", "write", "pool"), FETCH_SECONDS) | {"connect": _CONNECT_SECONDS}
    async with httpx.AsyncHTTPTransport(verify=trust or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) as transport:
        response = None
        for count, address in enumerate(addresses, 1):
            request = httpx.Request(
                "GET",
                url.copy_with(host=str(address)),
                headers={
                    "host": url.netloc.decode("ascii"),
                    "user-agent": "bub-pipelines",
                    "accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1",
                    "accept-encoding": "gzip",
                    "connection": "close",
                },
                extensions={"sni_hostname": url.raw_host.decode("ascii").rstrip("."), "timeout": patience},
            )
            try:
                response = await transport.handle_async_request(request)
                break
            except httpx.HTTPError as error:
                if count == len(addresses) or not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                    raise _unreachable(url, error) from None
        assert response is not None
        try:
            yield response
        finally:
            with trio.move_on_after(1, shield=True):
                await response.aclose()


def _unreachable(url: httpx.URL, error: BaseException) -> ToolError:
    """What kept a page from being read, in the words of whoever had any."""
    said = str(error)
    inner: BaseException | None = error
    while inner is not None and not said:
        inner = inner.__cause__ or inner.__context__
        said = str(inner or "")
    return ToolError(f"{url.host} cannot be read: {said or type(error).__name__}")


async def _render_page(response: httpx.Response, url: httpx.URL, longest: int, *, moved: bool) -> str:
    """What a page says, and in brackets what is to know of it; `ToolError` with the text where the server refuses."""
    declared = response.headers.get("content-type", "").lower()
    media = declared.partition(";")[0].strip()
    size = response.headers.get("content-length", "an unknown number of")
    if media and re.fullmatch(_TEXT, media) is None and media not in _HTML and response.is_success:
        return f"[{url} is {media}, {size} bytes: not text]"
    data, cut = await _read_body(response, url, longest)
    if b"\0" in data[:1024] and "utf-16" not in declared and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"[{url} is binary, {size} bytes]"
    text = await trio.to_thread.run_sync(_as_text, data, declared, media, abandon_on_cancel=True)
    if not response.is_success:
        said = f"{url.host} answered {response.status_code} {response.reason_phrase}".rstrip()
        raise ToolError(f"{said}: {text[:_LONGEST_ERROR]}" if text else said)
    notes = [f"from {url}"] if moved else []
    notes += [f"cut after {longest:,} bytes"] if cut else []
    notes += ["the page is empty"] if not text else []
    return f"{text}\n[{'; '.join(notes)}]".lstrip("\n") if notes else text


async def _read_body(response: httpx.Response, url: httpx.URL, longest: int) -> tuple[bytes, bool]:
    """The first `longest` bytes of a page, unpacked, and whether there are more.

    It is unpacked here and never further than needed: a few packed kilobytes can hold gigabytes.
    """
    import httpx

    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("identity", "gzip", "x-gzip", ""):
        raise ToolError(f"{url.host} packed the page in a way that Bub does not read ({packed[:40]})")
    unpacker = zlib.decompressobj(wbits=31) if "gzip" in packed else None
    data = bytearray()
    parts = response.aiter_raw()
    try:
        async for part in parts:
            room = longest + 1 - len(data)
            data += unpacker.decompress(part, room) if unpacker is not None else part[:room]
            if len(data) > longest:
                await _unwind(parts)
                break
    except (httpx.HTTPError, zlib.error) as error:
        raise _unreachable(url, error) from None
    return bytes(data[:longest]), len(data) > longest


async def _unwind(reading: AsyncIterator[bytes]) -> None:
    """End a reading that is not at its end, with every generator inside of it (as for models, see `chat.py`)."""
    with trio.CancelScope() as scope:
        scope.cancel()
        while await anext(reading, None) is not None:
            pass


def _as_text(data: bytes, declared: str, media: str) -> str:
    is_html = media in _HTML or (not media and data.lstrip()[:1] == b"<")
    text = _decode(data, declared, is_html=is_html)
    return readable(text) if is_html else text


def _decode(data: bytes, declared: str, *, is_html: bool) -> str:
    """The text of some bytes: by their mark, by what the server says, by what the page says, else as UTF-8."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(name, errors="replace")
    named = re.search(_CHARSET, declared)
    if named is None and is_html:
        named = re.search(_CHARSET, data[:2048].decode("ascii", errors="replace"))
    if named is not None and re.fullmatch(_KNOWN_CHARSET, named[1]):
        try:
            return data.decode(named[1], errors="replace")
        except LookupError:
            pass
    return data.decode("utf-8", errors="replace")
