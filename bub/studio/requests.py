"""What an endpoint gets and gives: a request, read and checked, and an answer in types of JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
import trio

from bub.studio.access import RefusedRequestError

MOST_BYTES = 1_048_576
"""How large a body may be."""

_PATIENCE = 10.0
"""How long, in seconds, a body may take to come."""

_LONGEST = 1_000
"""How many characters a name may have, such as that of a session."""

Receive: TypeAlias = Callable[[], Awaitable[Any]]
"""Gives the next event of a request, as ASGI says."""


class Asked(NamedTuple):
    """A request: the strings in its path and its query, and the object in its body, by their names."""

    path: Mapping[str, Any] = {}
    query: Mapping[str, str] = {}
    body: Mapping[str, Any] = {}
    cookie: str = ""

    def text(self, name: str, usual: str | None = None) -> str:
        """Return a text that was asked with. Raises `RefusedRequestError` (400) if it is none, or is not there."""
        found = next((each[name] for each in (self.path, self.body, self.query) if name in each), usual)
        if not isinstance(found, str):
            raise RefusedRequestError(400, f"`{name}` is missing, or is not a text")
        return found

    def name(self, name: str, usual: str | None = None) -> str:
        """Return a text of one line. Raises `RefusedRequestError` (400) for another."""
        found = self.text(name, usual)
        if len(found) > _LONGEST or not found.isprintable():
            raise RefusedRequestError(400, f"`{name}` has to be a line of at most {_LONGEST:,} characters")
        return found

    def flag(self, name: str) -> bool:
        """Return whether something is wanted. Raises `RefusedRequestError` (400) unless that is said."""
        found = self.body.get(name)
        if not isinstance(found, bool):
            raise RefusedRequestError(400, f"`{name}` has to be true or false")
        return found

    def number(self, name: str, usual: int, most: int) -> int:
        """Return a whole number between 1 and `most`. Raises `RefusedRequestError` (400) for what is none."""
        said = self.query.get(name, str(usual))
        if not (said.isascii() and said.isdigit()) or len(said) > 15:
            raise RefusedRequestError(400, f"`{name}` has to be a whole number")
        return max(1, min(int(said), most))

    def moment(self, name: str) -> float | None:
        """Return a Unix time; None if there is none. Raises `RefusedRequestError` (400) for what is none."""
        said = self.query.get(name)
        if said is None:
            return None
        try:
            return float(said)
        except ValueError:
            raise RefusedRequestError(400, f"`{name}` has to be a number") from None


async def read_object(receive: Receive, length: str | None) -> Mapping[str, Any]:
    """Return the JSON object that the body of a request is, of the `length` that its header says.

    Raises `RefusedRequestError`: 413 for a body that is too large (little more is read), 408 for one that takes
    too long, 400 for what is no JSON object.
    """
    if length is not None and (not length.isdigit() or len(length) > 15 or int(length) > MOST_BYTES):
        raise _too_large()
    body = bytearray()
    with trio.move_on_after(_PATIENCE) as patience:
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise RefusedRequestError(400, "the request has ended early")
            body += event.get("body", b"")
            if len(body) > MOST_BYTES:
                raise _too_large()
            if not event.get("more_body", False):
                break
    if patience.cancelled_caught:
        raise RefusedRequestError(408, f"the body did not come within {_PATIENCE:g} seconds")
    try:
        found = msgspec.json.decode(bytes(body))
    except (msgspec.DecodeError, RecursionError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise RefusedRequestError(400, "the body is not a JSON object")
    return found


def _too_large() -> RefusedRequestError:
    return RefusedRequestError(413, f"the body has more than {MOST_BYTES:,} bytes")
