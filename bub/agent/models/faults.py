"""What goes wrong between Bub and a model server, said once and clearly: who, where, what to do.

What a server says is data of a stranger: it is cleaned, cut short, and never shown with a key in it.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from bub.agent.models.client import CONNECT_SECONDS
from bub.agent.models.endpoint import Endpoint
from bub.agent.models.overflow import is_overflow
from bub.errors import ModelError
from bub.secrets.redactor import SHORTEST

if TYPE_CHECKING:
    import httpx

_NO_CREDIT = "insufficient_quota"
"""OpenAI's code for credit that is used up; the status is that of a rate limit, but waiting does not help."""

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    _NO_CREDIT: 402,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What the types of errors in a stream mean, as the statuses that they have elsewhere."""

_KEY = r"(?i)api[ _-]?key|\bkey\b|\btoken\b|authenticat|unauthorized|credential"
"""What a server says with 403 if it is the key that it refuses."""

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")

LONGEST_QUOTE = 200
"""How many characters of what a server says are shown."""


class AttemptError(Exception):
    """One attempt to get an answer failed. `again` says whether another could succeed, `retry_after` (seconds) when.

    `said` is what the server said of it.
    """

    said = ""

    def __init__(self, error: ModelError, *, again: bool = False, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.retry_after = retry_after

    def take_error(self) -> ModelError:
        """Return the error to raise instead; this one, which is its context then, names it no longer."""
        error = self.error
        del self.error
        return error


def fault(endpoint: Endpoint, kind: str, what: str, do: str | None = None) -> ModelError:
    """The error "<provider> (<host>) <what>" with what to do about it."""
    who = f"{endpoint.provider} ({quote_words(endpoint.host, endpoint)})"
    return ModelError(f"{who} {what}", kind=kind, provider=endpoint.provider, host=endpoint.host, help=do)


class Said(msgspec.Struct, frozen=True):
    """What a server said of a failure: its `message`, and the `codes` beside it, none of it cleaned."""

    message: str = ""
    codes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((*self.codes, self.message))


def overflow(endpoint: Endpoint, message: str) -> AttemptError:
    """The conversation is longer than the model can look back on (BEHAVIOURS A13)."""
    said = quote_words(message, endpoint)
    do = "shorten the conversation, or choose a model with a larger context"
    what = f"cannot take so long a conversation{f': {said}' if said else ''}"
    return AttemptError(fault(endpoint, "context_overflow", what, do))


def explain_refusal(endpoint: Endpoint, status: int, said: Said, retry_after: float | None = None) -> AttemptError:
    """The failure behind an HTTP status or an error code, with the server's own words."""
    failed = _explain_status(endpoint, status, said, retry_after)
    failed.said = str(said)
    return failed


def _explain_status(endpoint: Endpoint, status: int, said: Said, retry_after: float | None) -> AttemptError:
    if is_overflow(status, str(said)):
        return overflow(endpoint, said.message)
    message = quote_words(said.message, endpoint)
    words = f": {message}" if message else ""
    name = endpoint.provider
    if status == 403 and endpoint.api_key is not None and not re.search(_KEY, str(said)):
        do = f"check what the key may do there (models, countries, networks), and `providers.{name}.api_key` itself"
        return AttemptError(fault(endpoint, "request", f"does not allow this (403){words}", do))
    if status in (401, 403):
        usual = f", usually from {endpoint.quirks.key_variable}" if endpoint.quirks.key_variable else ""
        if endpoint.api_key is None:
            what = f"wants an API key ({status}){words}"
        else:
            what = f"refused the API key ({status}){words}"
        do = f"check BUB_API_KEY, or `providers.{name}.api_key` in the settings{usual}"
        return AttemptError(fault(endpoint, "refused_key", what, do))
    if status == 404:
        what = f"does not know the model `{endpoint.model}` or the path of `api_base` (404){words}"
        do = f"check the name behind `model: {name}:…`, and `providers.{name}.api_base` if you set it"
        if not endpoint.has_version:
            base = quote_words(endpoint.base_url, endpoint)
            do = f"write `api_base` with the version of the API at its end, usually `{base}/v1`; {do}"
        return AttemptError(fault(endpoint, "request", what, do))
    if status == 402 or _NO_CREDIT in said.codes:
        do = "check your credit there, or choose another model with `model:`"
        return AttemptError(fault(endpoint, "request", f"wants to be paid ({status}){words}", do))
    if status == 429:
        wait = f"; it asks to wait {retry_after:.0f} s" if retry_after else ""
        what = f"got too many requests (429){wait}{words}"
        error = fault(endpoint, "rate_limited", what, "wait a little, or choose another model with `model:`")
        return AttemptError(error, again=True, retry_after=retry_after)
    if status in (408, 425) or status >= 500:
        error = fault(endpoint, "server", f"has a problem of its own ({status}){words}", "try again later")
        return AttemptError(error, again=True, retry_after=retry_after)
    if 300 <= status < 400:
        do = f"set `providers.{name}.api_base` to the address it moved to"
        return AttemptError(fault(endpoint, "request", f"has moved ({status})", do))
    if status == 413:  # one request alone is over what a minute allows: waiting does not help
        what = f"got a request that is too large (413){words}"
        do = "shorten the conversation, or choose another model with `model:`"
        return AttemptError(fault(endpoint, "rate_limited", what, do))
    do = "check the settings of the model, or choose another with `model:`"
    return AttemptError(fault(endpoint, "request", f"refused the request ({status}){words}", do))


def explain_stream_error(endpoint: Endpoint, error: Any) -> AttemptError:
    """The failure behind an `error` object that came where an answer should have been."""
    said = _read_error(error)
    if is_overflow(None, str(said)):
        return overflow(endpoint, said.message)
    for code in said.codes:
        if code in _STATUSES:
            return explain_refusal(endpoint, _STATUSES[code], said)
        if len(code) == 3 and code.isdecimal() and code[0] in "45":
            return explain_refusal(endpoint, int(code), said)
    message = quote_words(said.message, endpoint)
    words = f": {message}" if message else ""
    failed = AttemptError(fault(endpoint, "server", f"broke off with an error{words}", "try again later"), again=True)
    failed.said = str(said)
    return failed


def unreachable(endpoint: Endpoint, error: httpx.TransportError) -> AttemptError:
    """The failure behind an exception that came before the server had answered."""
    import httpx

    key = f"providers.{endpoint.provider}.api_base"
    do = f"check the network, and `{key}` if you set it"
    if isinstance(error, httpx.ConnectTimeout):
        what = f"cannot be reached: no connection within {CONNECT_SECONDS:.0f} s"
        return AttemptError(fault(endpoint, "unreachable", what, do), again=True)
    if isinstance(error, httpx.TimeoutException):
        return AttemptError(silent(endpoint))
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
        what = "closed the connection without an answer"
        return AttemptError(fault(endpoint, "server", what, f"try again; {do}"), again=True)
    if isinstance(error, httpx.ConnectError):
        reason, again = _connect_reason(error)
        if endpoint.provider == "ollama":
            do = f"start it with `ollama serve`, or set `{key}`"
        return AttemptError(fault(endpoint, "unreachable", f"cannot be reached: {reason}", do), again=again)
    reason = quote_words(str(error), endpoint) or type(error).__name__
    return AttemptError(fault(endpoint, "unreachable", f"cannot be reached: {reason}", do))


def impossible_address(endpoint: Endpoint) -> AttemptError:
    """The address is written as a URL is, but nothing can have it."""
    do = f"correct `providers.{endpoint.provider}.api_base` or BUB_API_BASE, and the proxy if the environment names one"
    error = fault(endpoint, "config", "has an address that is no address", do)
    return AttemptError(error)


def silent(endpoint: Endpoint) -> ModelError:
    """The server took the request and then said nothing for as long as the settings allow."""
    do = "try again, or raise `timeout` in the settings"
    return fault(endpoint, "timeout", f"said nothing for {endpoint.timeout:g} s", do)


def report_break_off(endpoint: Endpoint) -> ModelError:
    """Report an answer that stopped in the middle. What had come stays; asking again could say it twice."""
    return fault(endpoint, "cut_stream", "broke off in the middle of its answer", "ask again")


def empty(endpoint: Endpoint, finish_reason: str | None, *, called_tools: bool) -> ModelError:
    """The answer ended without a word."""
    if finish_reason == "length":
        what = "used up its `max_tokens` before it said a word"
        do = "raise `max_tokens` in the settings; models that think first need more"
    elif finish_reason == "content_filter":
        what = "kept back its answer: its content filter stopped it"
        do = "put the question differently, or choose another model with `model:`"
    elif called_tools:
        what = "called a tool instead of answering, although none was offered"
        do = "choose another model with `model:`"
    else:
        what = "answered without a word"
        do = "ask again, or choose another model with `model:`"
    return fault(endpoint, "bad_answer", what, do)


def not_a_model_server(endpoint: Endpoint, what: str) -> ModelError:
    """What came back is not an answer as servers with this API give it."""
    kind = "Anthropic-compatible" if endpoint.api == "anthropic" else "OpenAI-compatible"
    do = f"check that `providers.{endpoint.provider}.api_base` is the server's {kind} address"
    return fault(endpoint, "bad_answer", what, do)


def read_error_body(body: bytes, content_type: str) -> Said:
    """What the body of an error response says; nothing when a person could not read it."""
    try:
        return _read_error(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Said("" if "html" in content_type else body.decode("utf-8", "replace"))


def quote_words(words: str, endpoint: Endpoint) -> str:
    """Somebody else's words on one line: no control characters, no key, at most `LONGEST_QUOTE` characters."""
    for secret in endpoint.secrets:
        if len(secret) >= SHORTEST:  # a letter or two would be found in every word
            words = words.replace(secret, "[key]")
    # Category C holds control characters, invisible formatting such as bidi overrides, and lone surrogates.
    kept = "".join(" " if unicodedata.category(character)[0] == "C" else character for character in words[:4000])
    line = " ".join(kept.split())
    return line if len(line) <= LONGEST_QUOTE else f"{line[: LONGEST_QUOTE - 1]}…"


def retry_after_seconds(header: str | None) -> float | None:
    """The seconds that a `Retry-After` header asks to wait: a number, or an HTTP date (RFC 9110 §10.2.3)."""
    from email.utils import parsedate_to_datetime

    if header is None:
        return None
    if _SECONDS.fullmatch(header.strip()):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def _read_error(body: Any) -> Said:
    """What servers send as an error, out of what each of them wraps it in."""
    message, codes = "", []
    for layer in _layers(body):
        if isinstance(layer, str):
            message = layer
        else:
            # OpenRouter hands on in `raw` what the provider behind it said.
            metadata = layer.get("metadata")
            raw = metadata.get("raw") if isinstance(metadata, dict) else None
            codes += [str(code) for code in (layer.get("type"), layer.get("code"), raw) if code]
    return Said(message, tuple(codes))


def _layers(body: Any) -> Iterator[dict[str, Any] | str]:
    """The mappings that a message is wrapped in, outermost first, and then the message."""
    while isinstance(body, dict | list) and body:
        if isinstance(body, list):
            body = body[0]
            continue
        yield body
        body = next((body[key] for key in ("error", "message", "detail", "msg") if body.get(key)), "")
    if isinstance(body, str):
        yield body


def _connect_reason(error: httpx.ConnectError) -> tuple[str, bool]:
    """Why there is no connection, and whether trying again could help."""
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return "its name cannot be resolved", True
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})", False
        if isinstance(cause, ssl.SSLError):
            return "it does not speak TLS (is the address http, not https?)", False
        if isinstance(cause, ConnectionRefusedError):
            return "the connection was refused; is it running?", True
    return "there is no connection", True


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__ or error.__context__
