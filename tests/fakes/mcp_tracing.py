"""Servers of the Model Context Protocol that keep what a request says of its trace: as a program, and at an address."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_OWN = {"name": "tracing", "version": "1"}
_TOLD = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": _OWN}
_TOOL = {"name": "ping", "inputSchema": {"type": "object"}}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request; that of the tool is the `_meta` that it was called with."""
    meta = request.get("params", {}).get("_meta", {})
    answers = {
        "initialize": {"result": _TOLD},
        "tools/list": {"result": {"tools": [_TOOL]}},
        "tools/call": {"result": {"content": [{"type": "text", "text": json.dumps(meta)}]}},
    }
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": request["id"], **answers.get(request["method"], unknown)}


@dataclass
class Heard:
    """What came to an address: the headers and the `_meta` of each request, by its method."""

    url: str = ""
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    meta: dict[str, dict[str, Any]] = field(default_factory=dict)


@contextmanager
def at_an_address() -> Iterator[Heard]:
    """A server over HTTP, in this process."""
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            heard.headers[request["method"]] = {name.lower(): value for name, value in self.headers.items()}
            heard.meta[request["method"]] = request.get("params", {}).get("_meta", {})
            self._say(*((200, answer(request)) if "id" in request else (202, None)))

        def do_GET(self) -> None:
            self._say(405, None)

        def _say(self, status: int, said: Any) -> None:
            body = json.dumps(said).encode() if said is not None else b""
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("mcp-session-id", "session-7")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        heard.url = f"http://127.0.0.1:{server.server_port}/mcp"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield heard
        server.shutdown()
        thread.join()


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            print(json.dumps(answer(asked)), flush=True)
