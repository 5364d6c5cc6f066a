"""How the bot speaks to Telegram: one HTTP client on trio for all its calls, and downloads that know their limit."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import trio
from telegram import Bot
from telegram.error import NetworkError, TelegramError, TimedOut
from telegram.request import BaseRequest, RequestData

from bub.errors import BubError
from bub_plugins.telegram.settings import TelegramSettings

CONNECT_SECONDS = 10.0
READ_SECONDS = 20.0
UPLOAD_SECONDS = 60.0
ANSWER_SECONDS = 60.0
"""How long an answer may take from its first byte to its last."""

LONGEST_ANSWER = 32 * 1024 * 1024
_LONGEST_REFUSAL = 2_000
_LONGEST_WISH = 24 * 3600
_NO_ANSWER = "the answer is not what the Bot API answers"

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OFFICIAL = "https://api.telegram.org"


class TooLargeError(Exception):
    """A file is larger than it may be."""


class UnsentError(NetworkError):
    """A request has not left: nothing can have come of it."""


class Request(BaseRequest):
    """What a `telegram.Bot` sends its requests with: an HTTP client that somebody else opens and closes."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    @property
    def read_timeout(self) -> float | None:
        return READ_SECONDS

    async def initialize(self) -> None:
        """Nothing to do: the client is open."""

    async def shutdown(self) -> None:
        """Nothing to do: who opened the client closes it."""

    async def do_request(
        self,
        url: str,
        method: str,
        request_data: RequestData | None = None,
        read_timeout: Any = BaseRequest.DEFAULT_NONE,
        write_timeout: Any = BaseRequest.DEFAULT_NONE,
        connect_timeout: Any = BaseRequest.DEFAULT_NONE,
        pool_timeout: Any = BaseRequest.DEFAULT_NONE,
    ) -> tuple[int, bytes]:
        """Send a request; return status and body of the answer. Raises `TimedOut` and `NetworkError`, without the URL.

        The URL has the token in it.
        """
        files = request_data.multipart_data if request_data else None
        timeout = httpx.Timeout(
            connect=_seconds(connect_timeout, CONNECT_SECONDS),
            read=_seconds(read_timeout, READ_SECONDS),
            write=_seconds(write_timeout, UPLOAD_SECONDS if files else READ_SECONDS),
            pool=_seconds(pool_timeout, CONNECT_SECONDS),
        )
        given = request_data.json_parameters if request_data else None
        with _as_telegram_errors():
            async with self._client.stream(method, url, data=given, files=files or None, timeout=timeout) as answer:
                most = LONGEST_ANSWER if answer.is_success else _LONGEST_REFUSAL
                with trio.fail_after(ANSWER_SECONDS):
                    body = await _beginning(answer, most)
        if answer.is_success and len(body) > most:
            raise NetworkError("the answer is too large")
        return answer.status_code, body[:most]

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        """Return the JSON of an answer, halves of characters replaced. The library's own would log what is none."""
        try:
            found = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = _lenient(payload)
        if not isinstance(found, dict):
            raise TelegramError(_NO_ANSWER)
        return _ApiAnswer(found)

    async def download(self, url: str, most: int) -> bytes:
        """Return a file of at most so many bytes. Raises `TooLargeError`, having read no more, and `TelegramError`."""
        with _as_telegram_errors():
            async with self._client.stream("GET", url) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise TelegramError(f"the file is not there (status {answer.status_code})")
                data = await _beginning(answer, most)
        if len(data) > most:
            raise TooLargeError
        return data


class _ApiAnswer(dict[str, Any]):
    """What the Bot API answers, if it is that: what the library takes for granted may be missing, or be anything."""

    def __init__(self, found: dict[str, Any]) -> None:
        wishes, description = found.pop("parameters", None), found.pop("description", None)
        super().__init__(found)
        if isinstance(description, str):
            self["description"] = description
        if isinstance(wishes, dict):
            numbers = {name: value for name, value in wishes.items() if type(value) is int}
            if "retry_after" in numbers:
                numbers["retry_after"] = min(max(numbers["retry_after"], 0), _LONGEST_WISH)
            self["parameters"] = numbers

    def __missing__(self, name: str) -> Any:
        raise TelegramError(_NO_ANSWER)


class _as_telegram_errors:  # noqa: N801 (reads as a function)
    """Failures of the HTTP client as those that the library knows, without addresses."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
            raise UnsentError(f"the connection failed ({type(error).__name__})") from error
        if isinstance(error, httpx.TimeoutException | trio.TooSlowError):
            raise TimedOut(f"no answer in time ({type(error).__name__})") from error
        if isinstance(error, httpx.HTTPError):
            raise NetworkError(f"the connection failed ({type(error).__name__})") from error


async def _beginning(answer: httpx.Response, most: int) -> bytes:
    """Return the body of an answer; of one with more than `most` bytes a beginning that has more, too."""
    data = bytearray()
    pieces = answer.aiter_bytes()
    async for piece in pieces:
        data += piece
        if len(data) > most:
            await _leave(pieces)
            break
    return bytes(data)


async def _leave(pieces: AsyncIterator[bytes]) -> None:
    """End a reading that is not at its end: a cancelled read unwinds all of httpx's nested generators."""
    with trio.CancelScope() as scope:
        scope.cancel()
        while await anext(pieces, None) is not None:
            pass


def _seconds(given: Any, usual: float) -> float | None:
    return given if given is None or isinstance(given, int | float) else usual


def _lenient(payload: bytes) -> Any:
    try:
        found = json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise TelegramError("the answer is not JSON") from None
    # An escaped half of a character (`\ud83d`) cannot be written to any file later on.
    whole = json.dumps(found, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.loads(whole)


@asynccontextmanager
async def open_bot(settings: TelegramSettings) -> AsyncIterator[tuple[Bot, Request]]:
    """A bot, and what it sends its requests with, for as long as the block. Raises `BubError` for a wrong proxy."""
    official = (settings.base_url or _OFFICIAL).rstrip("/")
    is_here = urlsplit(official).hostname in _LOOPBACK
    try:
        client = httpx.AsyncClient(
            proxy=settings.proxy or None,
            trust_env=not is_here,  # a server on this machine is never asked through the environment's proxy
            # Polling holds a connection for itself, and so does each file on its way.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=30.0),
            headers={"user-agent": "bub-pipelines"},
        )
    except (ImportError, ValueError, httpx.InvalidURL):
        # The message of the exception is not shown, nor is it the cause: it can hold the proxy's password.
        wrong = "the proxy in `settings.telegram.proxy`" if settings.proxy else "the proxy that the environment names"
        raise BubError(f"{wrong} cannot be used", help="write it as `http://host:port`") from None
    request, token = Request(client), settings.token or ""
    async with client:
        with _hide_token(token):
            bot = Bot(
                token,
                base_url=f"{official}/bot",
                base_file_url=f"{official}/file/bot",
                request=request,
                get_updates_request=request,
            )
            yield bot, request


@contextmanager
def _hide_token(token: str) -> Iterator[None]:
    """A block in which two loggers that name addresses leave the token out, for whoever listens to them."""

    def leave_out(record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if token and token in said:
            record.msg, record.args = said.replace(token, "***"), ()
        return True

    loggers = [logging.getLogger(name) for name in ("httpx", "telegram.Bot")]
    for one in loggers:
        one.addFilter(leave_out)
    try:
        yield
    finally:
        for one in loggers:
            one.removeFilter(leave_out)
