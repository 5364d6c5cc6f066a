"""The one HTTP client that every request to a model goes through, for the life of the runtime."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
_LOOPBACK = ("all://127.0.0.1", "all://localhost", "all://[::1]")


@asynccontextmanager
async def open_client() -> AsyncIterator[httpx.AsyncClient]:
    """A client to share: it reuses connections, honours the environment's proxies and waits for nothing for ever."""
    import httpx

    client = httpx.AsyncClient(
        verify=_LateTrust(ssl.PROTOCOL_TLS_CLIENT),
        timeout=httpx.Timeout(30.0, connect=CONNECT_SECONDS),
        # Every session that streams holds a connection of its own, so only idle ones are counted.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30.0),
        # A server on this machine is never asked through a proxy.
        mounts=dict.fromkeys(_LOOPBACK),
        headers={"user-agent": "bub-pipelines"},
    )
    async with client:
        yield client


class _LateTrust(ssl.SSLContext):
    """Verifies servers as httpx does, but reads the trusted authorities (26 ms) at the first TLS connection only."""

    _verifier: ssl.SSLContext | None = None

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """The TLS side of a connection; trio makes each of its TLS streams with this call."""
        if self._verifier is None:
            import httpx

            self._verifier = httpx.create_ssl_context()
            self._verifier.set_alpn_protocols(["http/1.1"])
        return self._verifier.wrap_bio(*args, **kwargs)
