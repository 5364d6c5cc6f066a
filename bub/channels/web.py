"""Serving an ASGI app on trio, for pages and for APIs: `Connection` speaks with each client, whose number is bounded.

Hypercorn is imported when a server begins: the extra `[web]` brings it.
"""

from __future__ import annotations

import ipaddress
import ssl
from functools import partial
from math import inf

import msgspec
import trio

from bub.base.failures import explain_os_error
from bub.channels.connection import App, Begin, Connection, WebLimits, speak_http
from bub.channels.packages import lack_packages
from bub.channels.server import ListenAddress, listen_at
from bub.errors import BubError, UsageError
from bub.log import log_exception

__all__ = ["Certificate", "ListenAddress", "WebLimits", "WebServer", "address_for"]


class Certificate(msgspec.Struct, frozen=True):
    """The files of a TLS certificate, with its chain, and of its key, which has no password."""

    file: str
    key: str

    def open(self) -> ssl.SSLContext:
        """Return what serves with it. Raises `BubError` if the files cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.file, self.key, password=lambda: "")  # by itself, OpenSSL asks at the terminal
        except ssl.SSLError:
            remedy = "name a certificate in PEM and its key, which has no password"
            problem = f"`{self.file}` and `{self.key}` are not a certificate and its key"
            raise BubError(problem, help=remedy) from None
        except OSError as error:
            problem = f"cannot read the certificate `{self.file}` or its key `{self.key}`: {explain_os_error(error)}"
            raise BubError(problem, help="name files that are there, and that Bub may read") from None
        return context


def address_for(listen: str, *, section: str, is_encrypted: bool) -> ListenAddress:
    """Return the address to listen at: one of this machine alone, unless what is sent `is_encrypted`.

    It is with a certificate, or if the public address, of a proxy in front, begins with `https://`. `section` is the
    place in the settings that the help names. Raises `UsageError`.
    """
    address = ListenAddress.of(listen, beyond=True)
    if not is_encrypted and not ipaddress.ip_address(address.host).is_loopback:
        raise UsageError(
            f"other machines reach `{listen}`, and nothing encrypts what they send, tokens included",
            help=f"listen at 127.0.0.1:{address.port}, set `{section}.tls`, or, if a proxy in front speaks HTTPS, "
            f"`{section}.public_url` to its address",
        )
    return address


class WebServer:
    """Serves an app until it is closed or cancelled; what fails in the app is logged as `NAME.failed`.

    `scope["state"]["ending"]` is a `trio.Event` that is set when the server closes: answers that never end by
    themselves end then. Nothing of a request gets into the log.
    """

    def __init__(
        self, name: str, app: App, *, limits: WebLimits | None = None, certificate: Certificate | None = None
    ) -> None:
        self._name = name
        self._app = app
        self._limits = limits or WebLimits()
        self._certificate = certificate
        self._accepting = trio.CancelScope()
        self._open: dict[Connection, None] = {}

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    async def serve(
        self,
        address: ListenAddress,
        *,
        help: str,  # noqa: A002 (the reader's word)
        task_status: trio.TaskStatus[ListenAddress] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Answer until cancelled, or closed and done with what is under way, within `grace` seconds.

        Tells `task_status` the address, with the port that it got, once others can connect. Raises `BubError`, with
        this `help`, if it cannot listen; with another one if Hypercorn is not installed or the certificate is wrong.
        """
        try:
            begin = speak_http(self._limits)
        except ImportError:
            raise lack_packages(f"`{self._name}`") from None
        context = self._certificate.open() if self._certificate is not None else None
        bound, listeners = await listen_at(address, self._name, help)
        task_status.started(bound)
        async with trio.open_nursery() as connections:
            with self._accepting:
                await trio.serve_listeners(
                    partial(self._serve_one, begin, context), listeners, handler_nursery=connections
                )
            connections.cancel_scope.deadline = trio.current_time() + self._limits.grace

    def close(self) -> None:
        """Take no more requests; those under way are answered, and `serve` returns."""
        self._accepting.cancel()
        for connection in list(self._open):
            connection.end_soon()

    async def _serve_one(self, begin: Begin, context: ssl.SSLContext | None, stream: trio.SocketStream) -> None:
        if len(self._open) >= self._limits.connections and not self._make_room():
            return
        connection = Connection(self._name, self._app, self._limits, stream, context)
        self._open[connection] = None
        try:
            await connection.run(begin)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # whoever asked has gone, or never said a thing
        except Exception as error:  # noqa: BLE001 (it must not end the others)
            log_exception(f"{self._name}.failed", error)
        finally:
            del self._open[connection]

    def _make_room(self) -> bool:
        """End the connection that has been idle for longest; False if all are busy."""
        idle = [one for one in self._open if one.idle_since < inf]
        if not idle:
            return False
        min(idle, key=lambda one: one.idle_since).cut()
        return True
