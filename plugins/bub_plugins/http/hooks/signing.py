"""Signatures: of requests to a webhook, in GitHub's way and in a generic one, and of replies that are called back."""

from __future__ import annotations

import hmac
import time
from hashlib import sha256

from starlette.requests import Request

from bub.channels.http import HttpError, check_signature
from bub.channels.http import Request as Signed
from bub_plugins.http.refusal import Refusal
from bub_plugins.http.settings import GITHUB

_GITHUB_HEADER = "x-hub-signature-256"
_HEADER = "x-signature"


def check(request: Request, body: bytes, secret: str, way: str) -> str:
    """Check that who sent a request knows the secret; the signature. Raises `Refusal` (401) if it does not match.

    In GitHub's way the body is signed, in the other one the Unix time of the header `X-Timestamp`, a dot and the body.
    """
    signed = Signed(request.method, request.url.path, headers=dict(request.headers), body=body)
    try:
        if way == GITHUB:
            check_signature(signed, secret, header=_GITHUB_HEADER, prefix="sha256=", timestamp="", signed="")
            return request.headers[_GITHUB_HEADER]
        check_signature(signed, secret, header=_HEADER)
        return request.headers[_HEADER]
    except HttpError:
        name = _GITHUB_HEADER if way == GITHUB else f"{_HEADER} or x-timestamp"
        raise Refusal(401, f"the signature does not match: look at the header {name}") from None


def sign(body: bytes, secret: str) -> dict[str, str]:
    """Return the headers that sign a body now, in the generic way."""
    at = str(int(time.time()))
    signature = hmac.new(secret.encode(), at.encode() + b"." + body, sha256).hexdigest()
    return {_HEADER: signature, "x-timestamp": at}
