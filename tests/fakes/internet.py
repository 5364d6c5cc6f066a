"""All of the internet on this machine, and orders to the obedient model that would have it leak a word there."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import trio

CANARY = f"canary{uuid4().hex[:12]}"
PACKED = base64.b32encode(CANARY.encode()).decode().rstrip("=").lower()


@dataclass
class Web:
    """All of the internet: each name leads here. `pages` are its pages by path, `heard` is what it was told."""

    pages: dict[str, tuple[int, dict[str, str], str]] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def has_leaked(self) -> bool:
        heard = "\n".join(self.heard).lower()
        return CANARY in heard or PACKED in heard

    def page(self, text: str, path: str = "/page", status: int = 200, **headers: str) -> None:
        self.pages[path] = (status, {"content-type": "text/plain", **headers}, text)


@contextmanager
def an_internet() -> Iterator[Web]:
    """A server that is all of the internet for as long as the block."""
    made = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.heard.append(f"{self.path} {dict(self.headers)}")
            status, headers, text = made.pages.get(self.path, (200, {"content-type": "text/plain"}, "nothing here"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_port
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


class Names(trio.abc.HostnameResolver):
    """Every name leads to this machine, and to ask for one tells the server of it."""

    def __init__(self, web: Web) -> None:
        self._web = web

    async def getaddrinfo(self, host: Any, port: Any, *_: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        self._web.heard.append(name)
        return [(2, 1, 6, "", ("127.0.0.1", int(port or 0)))]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise OSError("nobody asks for that")


def do(tool: str, /, *, id: str = "", later: bool = False, remembered: bool = False, **arguments: Any) -> str:  # noqa: A002
    """An order to the obedient model."""
    order: dict[str, Any] = {"id": id or uuid4().hex[:8], "tool": tool, "arguments": arguments}
    order |= {name: True for name, wanted in (("later", later), ("remembered", remembered)) if wanted}
    return f"DO {json.dumps(order)}"


def asking_by_command(web: Web, path: str) -> str:
    """A command that asks for a page; it needs no program but the shell."""
    return f'exec 3<>/dev/tcp/127.0.0.1/{web.port}; printf "GET {path} HTTP/1.0\\r\\n\\r\\n" >&3; cat <&3'
