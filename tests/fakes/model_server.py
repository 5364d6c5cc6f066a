"""A model server to test against: it speaks the real protocol, in a process of its own, and does what it is told.

Run it as `python model_server.py [CERTIFICATE KEY]`; it prints its address and lives until its stdin closes. It refuses
the conversations that real servers refuse (`strictness.py`).

A request in OpenAI's form (`/chat/completions`) or Anthropic's (`/messages`) is answered by the script in the newest
message of the user: a JSON list of scripts, of which the first request with it plays the first, the second the second,
and further ones the last; so the steps of an agent's turn play one after another. A script is a list of steps:

    {"status": 429, "headers": {"retry-after": "0"}, "body": "…"}    a whole response (status 200 if left out)
    {"sse": {…}} or {"sse": "[DONE]"}                                one event of a stream
    {"pause": 0.1}                                                   silence for so many seconds
    {"raw": "…"}                                                     text of a stream, as it is
    {"until_gone": {…}}                                              one event again and again until the client is gone
    {"hold": true}                                                   silence until the client is gone
    {"cut": true}                                                    the connection ends here
    {"close": true}                                                  it ends after this answer, though it was to be kept

`GET /models` lists `MODELS`. A message that is no script is answered by "You said: …", one word an event. `GET
/log?model=…` tells what was asked
for a model; with `&ended=N` it waits until N requests have ended. `fakes/scripted.py` writes scripts and reads the log.
"""

from __future__ import annotations

import json
import re
import select
import ssl
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from strictness import refuse

LONGEST_WAIT = 10.0
MODELS = ("small", "large")


class Log:
    """What was asked, by model."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.requests: dict[str, list[dict[str, Any]]] = {}
        self.asked: Counter[tuple[str, str]] = Counter()

    def add(self, model: str, script: str, entry: dict[str, Any]) -> int:
        """Keep a request; how often this script was asked for by now."""
        with self.changed:
            self.requests.setdefault(model, []).append(entry)
            self.asked[model, script] += 1
            return self.asked[model, script]

    def end(self, entry: dict[str, Any], how: str) -> None:
        with self.changed:
            entry["ended"] = how
            self.changed.notify_all()

    def of(self, model: str, ended: int) -> list[dict[str, Any]]:
        with self.changed:
            self.changed.wait_for(
                lambda: sum(1 for entry in self.requests.get(model, ()) if entry["ended"]) >= ended, LONGEST_WAIT
            )
            return list(self.requests.get(model, ()))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the client would wait 40 ms for the second half of an answer
    log = Log()
    streaming = False

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.split("?")[0].endswith("/models"):
            names = [{"id": name, "object": "model"} for name in MODELS]
            self.respond({"body": json.dumps({"object": "list", "data": names})})
            return
        if urlsplit(self.path).path != "/log":
            self.respond({"status": 404})
            return
        query = parse_qs(urlsplit(self.path).query)
        if "model" not in query:  # what other servers have
            self.respond({"status": 404, "body": "{}"})
            return
        entries = self.log.of(query["model"][0], int(query.get("ended", ["0"])[0]))
        self.respond({"body": json.dumps(entries), "headers": {"content-type": "application/json"}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if len(body) < int(self.headers["content-length"]):
            self.close_connection = True
            return  # the client died in the middle of its request
        request = json.loads(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        entry = {
            "path": self.path,
            "headers": headers,
            "body": request,
            "connection": self.client_address[1],
            "ended": "",
        }
        written, scripts = script_for(request["messages"])
        if scripts is None:
            scripts = [echo(written, anthropic=self.path.endswith("/messages"))]
        refused = refuse(self.path, request)
        if refused is not None:
            scripts = [[{"status": refused[0], "body": json.dumps(refused[1])}]]
        asked = self.log.add(request["model"], written, entry)
        self.streaming = False
        try:
            for step in scripts[min(asked, len(scripts)) - 1]:
                if self.play(step):
                    self.log.end(entry, "gone")
                    self.close_connection = True
                    return
            if self.streaming:
                self.wfile.write(b"0\r\n\r\n")
            self.log.end(entry, "done")
        except OSError:
            self.log.end(entry, "gone")
            self.close_connection = True

    def play(self, step: dict[str, Any]) -> bool:
        """Play one step; whether the connection is at its end."""
        if "body" in step or "status" in step:
            self.respond(step)
        elif "sse" in step:
            self.send_event(step["sse"])
        elif "raw" in step:
            self.send_chunk(step["raw"])
        elif "pause" in step:
            return self.client_gone(step["pause"])
        elif "until_gone" in step:
            while not self.client_gone(0.005):
                self.send_event(step["until_gone"])
            return True
        elif "hold" in step:
            self.client_gone(LONGEST_WAIT)
            return True
        elif "close" in step:
            self.close_connection = True
        return "cut" in step

    def client_gone(self, seconds: float) -> bool:
        # A client that has asked has nothing more to say, so what can be read is the end.
        return bool(select.select([self.connection], [], [], seconds)[0])

    def respond(self, step: dict[str, Any]) -> None:
        body = step.get("body", "").encode()
        headers = {"content-type": "application/json", **step.get("headers", {}), "content-length": str(len(body))}
        self.send_response(step.get("status", 200))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_event(self, data: Any) -> None:
        # Anthropic's events have names.
        name = f"event: {data['type']}\n" if isinstance(data, dict) and "type" in data else ""
        self.send_chunk(f"{name}data: {data if isinstance(data, str) else json.dumps(data)}\n\n")

    def send_chunk(self, text: str) -> None:
        if not self.streaming:
            self.streaming = True
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def script_for(messages: list[dict[str, Any]]) -> tuple[str, list[list[dict[str, Any]]] | None]:
    """The user's newest paragraph that is a list of scripts, and what it lists; else the last text, and None."""
    texts = [text for message in messages if message["role"] == "user" for text in texts_in(message["content"])]
    for written in reversed([paragraph for text in texts for paragraph in text.split("\n\n")]):
        try:
            scripts = json.loads(written)
        except ValueError:
            continue
        if isinstance(scripts, list):
            return written, scripts
    return (texts or [""])[-1], None


def texts_in(content: Any) -> list[str]:
    """The texts of a message, without what Bub remarks below it."""
    if isinstance(content, str):
        return [re.sub(r"\n\n<now>.*</now>$", "", content)]
    texts = [part["text"] for part in content or () if part.get("type") == "text"]
    return [text for text in texts if not text.startswith("<now>")]


def echo(text: str, *, anthropic: bool) -> list[dict[str, Any]]:
    """The script that answers any other message."""
    words = f"You said: {text}".split(" ")
    deltas = [word if at == 0 else f" {word}" for at, word in enumerate(words)]
    if anthropic:
        events: list[Any] = [{"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}]
        events += [{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]
        events += [
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": delta}}
            for delta in deltas
        ]
        events += [{"type": "content_block_stop", "index": 0}]
        counts = {"output_tokens": len(words)}
        events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counts}]
        events += [{"type": "message_stop"}]
    else:
        events = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}]
        events += [{"choices": [{"index": 0, "delta": {"content": delta}}]} for delta in deltas]
        events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        events += [{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": len(words)}}, "[DONE]"]
    return [{"sse": event} for event in events]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # a client that is gone is none


def main() -> None:
    server = Server(("127.0.0.1", 0), Handler)
    scheme = "http"
    if len(sys.argv) == 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1], sys.argv[2])
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"{scheme}://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
