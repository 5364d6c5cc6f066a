"""The body of a request: no stranger can send too much, or too slowly."""

from __future__ import annotations

from contextlib import aclosing

import trio
from starlette.requests import ClientDisconnect, Request

from bub_plugins.http.refusal import Refusal

PATIENCE = 10.0
"""How long, in seconds, a body may take to come in."""


async def read_body(request: Request, most: int) -> bytes:
    """Return the body. Raises `Refusal`: 413 for one of more than `most` bytes, 408 for one that takes too long."""
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 15 or int(length) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        with trio.fail_after(PATIENCE):
            async with aclosing(request.stream()) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > most:
                        raise _too_large(most)
    except trio.TooSlowError:
        raise Refusal(408, f"the body did not come within {PATIENCE:g} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "the body was cut off") from None
    return bytes(body)


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body has more than {most:,} bytes")
