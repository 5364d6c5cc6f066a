"""A model server that does what any text tells it: it stands for a model that every injected page convinces.

Run it as `python obedient_server.py`; it prints its address and lives until its stdin closes. It speaks
chat completions.

An order in a message, wherever that comes from, is `DO {"id": "a", "tool": "web_fetch", "arguments": {…}}`. The model
carries out each order once, in the order of the messages; one with `"later": true` not before a person has said more,
one with `"remembered": true` also if the message has left the conversation, as a model does that sums it up.
An order for the tool `answer` ends the turn with the secret as the answer.
In its arguments `{canary}` stands for the secret that the model has seen by then, `{packed}` for the same in base 32.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

CANARY = re.compile(r"canary[0-9a-f]{12}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    done: ClassVar[dict[str, set[str]]] = {}
    """The orders that each model has carried out."""
    remembered: ClassVar[dict[str, list[dict[str, Any]]]] = {}

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        done = self.done.setdefault(request["model"], set())
        texts = [_text_of(message) for message in request["messages"]]
        last_said = max(place for place, message in enumerate(request["messages"]) if message["role"] == "user")
        seen = CANARY.search("\n".join(texts))
        canary = seen[0] if seen else ""
        offered = {tool["function"]["name"] for tool in request.get("tools") or ()}
        found = [(place, order) for place, text in enumerate(texts) for order in orders_in(text)]
        kept = self.remembered.setdefault(request["model"], [])
        kept += [order for _, order in found if order.get("remembered") and order not in kept]
        said = "done"
        for place, order in [*found, *((-1, order) for order in kept)]:
            is_early = order.get("later") and place >= last_said
            if order["id"] not in done and not is_early and order["tool"] in {*offered, "answer"}:
                done.add(order["id"])
                if order["tool"] == "answer":
                    said = canary or said
                    break
                self.call(order, canary)
                return
        self.say([{"delta": {"role": "assistant", "content": said}}, {"delta": {}, "finish_reason": "stop"}])

    def call(self, order: dict[str, Any], canary: str) -> None:
        arguments = json.dumps(order["arguments"])
        if canary:
            packed = base64.b32encode(canary.encode()).decode().rstrip("=").lower()
            arguments = arguments.replace("{canary}", canary).replace("{packed}", packed)
        function = {"name": order["tool"], "arguments": arguments}
        call = {"index": 0, "id": f"call_{order['id']}", "type": "function", "function": function}
        self.say([{"delta": {"role": "assistant", "tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}])

    def say(self, choices: list[dict[str, Any]]) -> None:
        events = [json.dumps({"choices": [{"index": 0, **choice}]}) for choice in choices]
        body = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def orders_in(text: str) -> Iterator[dict[str, Any]]:
    """The orders that a text gives; what stands inside one, such as for a sub-agent, is not for whoever reads this."""
    reader, at = json.JSONDecoder(), 0
    while (at := text.find("DO {", at)) >= 0:
        try:
            order, at = reader.raw_decode(text, at + 3)
        except ValueError:
            at += 1
        else:
            yield order


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
