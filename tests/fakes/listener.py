"""A server that answers nothing and writes down everything: who sends what to whom shows in its log.

Run it as `python listener.py LOG`; it prints the ports that it listens at, and lives until its stdin closes. Each
request is a line of JSON in LOG, written before it is refused: the port it came to, its first line, headers and body.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOW_MANY = 2
LOCK = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def refuse(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        heard = {
            "port": self.server.server_address[1],
            "line": self.requestline,
            "headers": self.headers.items(),
            "body": body.decode(errors="replace"),
        }
        with LOCK, Path(sys.argv[1]).open("a", encoding="utf-8") as log:
            log.write(json.dumps(heard) + "\n")
        self.send_response(403)
        self.send_header("content-length", "0")
        self.end_headers()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.refuse
        raise AttributeError(name)


def main() -> None:
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(HOW_MANY)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(*(server.server_address[1] for server in servers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
