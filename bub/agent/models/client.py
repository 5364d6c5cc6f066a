"""The one HTTP client that every request to a model goes through, for the life of the runtime."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from bub.agent.models.connections import KEPT, KEPT_SECONDS, open_connections
from bub.errors import ModelError

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK = ("all://127.0.0.1", "all://localhost", "all://[::1]")


@asynccontextmanager
async def open_client() -> AsyncIterator[httpx.AsyncClient]:
    """A client to share: it reuses connections, honours the environment's proxies and waits for nothing for ever.

    Raises `ModelError` (`config`) when the environment names a proxy that cannot be used.
    """
    import httpx

    try:
        client = _new_client()
    except (ImportError, ValueError, httpx.InvalidURL):
        # The message of the exception is not shown, nor is it the cause: it can hold the proxy's password.
        raise _explain_proxy() from None
    async with client:
        yield client


def _new_client() -> httpx.AsyncClient:
    from urllib.request import getproxies

    import httpx

    trust = _LateTrust(ssl.PROTOCOL_TLS_CLIENT)
    connections = open_connections(trust)
    # A server on this machine is never asked through a proxy; any other is, where the environment names one.
    direct = _LOOPBACK if getproxies().get("all") else (*_LOOPBACK, "all://")
    return httpx.AsyncClient(
        verify=trust,
        event_hooks={"request": [trust.prepare]},
        timeout=httpx.Timeout(30.0, connect=CONNECT_SECONDS),
        # Those to a proxy. Every session that streams holds one of its own, so only idle ones are counted.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=KEPT, keepalive_expiry=KEPT_SECONDS),
        mounts=dict.fromkeys(direct, connections),
        headers={"user-agent": "bub-pipelines"},
    )


def _explain_proxy() -> ModelError:
    """Which variable of the environment names a proxy that cannot be used, without what it says."""
    for name in _PROXY_VARIABLES:
        for variable in (name.lower(), name):
            if _is_wrong_proxy(os.environ.get(variable, "")):
                return _config(
                    f"the proxy in the variable {variable} cannot be used",
                    f"write {variable} as `http://host:port`, or unset it",
                )
    variable = "no_proxy" if os.environ.get("no_proxy") else "NO_PROXY"
    return _config(
        f"the variable {variable} cannot be understood",
        f"write {variable} as names of hosts with commas between, or unset it",
    )


def _is_wrong_proxy(address: str) -> bool:
    import httpx

    if not address:
        return False
    try:
        httpx.AsyncClient(
            proxy=address if "://" in address else f"http://{address}", verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
    except (ImportError, ValueError, httpx.InvalidURL):
        return True
    return False


def _config(message: str, do: str) -> ModelError:
    return ModelError(message, kind="config", provider="", help=do)


class _LateTrust(ssl.SSLContext):
    """Verifies servers as httpx does, but reads the trusted authorities (26 ms) for the first https request only."""

    _verifier: ssl.SSLContext | None = None

    async def prepare(self, request: httpx.Request) -> None:
        """Read the authorities before a request connects: what fails later would leave its connection open."""
        if request.url.scheme == "https":
            self._get_verifier()

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """The TLS side of a connection; trio makes each of its TLS streams with this call."""
        return self._get_verifier().wrap_bio(*args, **kwargs)

    def _get_verifier(self) -> ssl.SSLContext:
        if self._verifier is None:
            import httpx

            try:
                verifier = httpx.create_ssl_context()
            except OSError as error:  # an `SSLError` is one too: the file holds no certificate
                file = os.environ.get("SSL_CERT_FILE")
                if not file:
                    raise
                raise _config(
                    f"the file {file}, which SSL_CERT_FILE names, cannot be read as certificates",
                    "correct SSL_CERT_FILE, or unset it",
                ) from error
            verifier.set_alpn_protocols(["http/1.1"])
            self._verifier = verifier
        return self._verifier
