"""A model in a process of its own that never says the same twice, so that a message answered twice is seen to be.

Run it as `python -m tests.cluster.model HOST`; it prints its port and lives until its stdin closes. It speaks the form
of chat completions. To messages with marks such as `#7#` it answers the marks of the newest and how often it was asked
for just these: `#7# #8# is all, answer 2`. `GET /asked` tells how often for each answer's marks.
"""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

MARK = re.compile(r"#\d+#")
ANSWER = re.compile(r"(?:#\d+# )+is all, answer \d+")

THINKS = (0.05, 0.4)
"""How many seconds an answer takes, between these."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    asked: ClassVar[Counter[str]] = Counter()
    lock = threading.Lock()

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        with self.lock:
            body = json.dumps(self.asked).encode()
        self.respond("application/json", body)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = [message for message in request["messages"] if message["role"] == "user"]
        marks = " ".join(MARK.findall(json.dumps(said[-1]["content"])))
        with self.lock:
            self.asked[marks] += 1
            times = self.asked[marks]
        time.sleep(random.Random(marks).uniform(*THINKS))  # the same in each run
        words = f"{marks} is all, answer {times}".split(" ")
        deltas: list[dict[str, Any]] = [{"content": word if at == 0 else f" {word}"} for at, word in enumerate(words)]
        events: list[Any] = [{"choices": [{"index": 0, "delta": {"role": "assistant", **one}}]} for one in deltas]
        events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        events += [{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": len(words)}}]
        lines = [*(json.dumps(event) for event in events), "[DONE]"]
        self.respond("text/event-stream", "".join(f"data: {line}\n\n" for line in lines).encode())

    def respond(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a gateway was killed while it asked
            super().handle_error(request, client_address)


def main() -> None:
    server = Server((sys.argv[1], 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
