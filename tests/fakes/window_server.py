"""Models with a window: a server in a process of its own, whose providers do with what is too long as the real ones do.

Run it as `python window_server.py`; it prints its address and lives until its stdin closes. `GET /log?model=…` tells
what came for a model: the `body` of each request, how many `tokens` it had, and whether it was `cut`.

- `/ollama/v1/chat/completions` cuts the oldest messages and says nothing, and counts what is left. `/ollama/api/ps`
  tells the window of a model that is loaded, `/api/show` what its file says, and `/api/generate` without a prompt loads
  it. A model called `filed…` has its size in its file; with `old…` the server does not tell the size at all.
- `/strict/v1/chat/completions` refuses what is too long, in words of OpenAI's, and tells its window nowhere.
- `/vllm/v1`, `/llamacpp/v1`, `/lmstudio/v1` refuse, too, and tell their windows, each in its own place.

Tokens are counted as three letters each, which is more than Bub expects. The model is obedient: it sums up by copying
each sentence with "called", "decided" or "page" in it, it answers what it is asked about names if it can read the
answer in the request, `read to page N` makes it call `book_page` until it has seen page N, and anything else it answers
with a page of small talk. `say: …` makes it say just that, `break: KIND` spoils its summaries.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

WINDOW = 4_096
FILED = 6_144
CHATTER = "That is a nice thing to say, and there is much that could be said about it. "

LOG: list[dict[str, Any]] = []
LOADED: set[str] = set()


def tokens_of(value: Any) -> int:
    return len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) // 3


def window_of(model: str) -> int:
    return FILED if model.startswith("filed") else 2_048 if model.startswith("old") else WINDOW


def text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    return f"{content}\n{json.dumps(message['tool_calls'])}" if message.get("tool_calls") else str(content)


def think(messages: list[dict[str, Any]], words: str) -> tuple[str, dict[str, Any] | None]:
    """What the model says and calls."""
    seen = "\n".join(map(text_of, messages))
    last = text_of(messages[-1])
    if "<conversation>" in last:
        if "break: empty" in seen:
            return "", None
        sentences = re.findall(r"[^.\n\]]*\b(?:called|decided|page \d+)\b[^.\n]*\.?", last)
        return "\n".join(["# Names and facts", *dict.fromkeys(map(str.strip, sentences))]), None
    asked = re.sub(r"\n\n<now>.*", "", text_of([m for m in messages if m["role"] == "user"][-1]))
    if "what is my dog called" in asked.lower():
        found = re.search(r"dog is called (\w+)", seen)
        return (f"It is called {found[1]}." if found else "I do not know."), None
    if wanted := re.search(r"read to page (\d+)", seen):
        pages = [int(number) for number in re.findall(r"page (\d+) says", seen)]
        if not pages or max(pages) < int(wanted[1]):
            return "", {"name": "book_page", "arguments": json.dumps({"number": max(pages, default=0) + 1})}
        return f"I have read to page {max(pages)}.", None
    if asked.startswith("say: "):
        return asked.removeprefix("say: "), None
    return CHATTER * 6, None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        model = parse_qs(url.query).get("model", [""])[0]
        match url.path:
            case "/log":
                self.respond(200, [entry for entry in LOG if entry["body"].get("model") == model])
            case "/ollama/api/ps":
                told = [{"name": one, "model": one, "context_length": window_of(one)} for one in sorted(LOADED)]
                for one in told:
                    if str(one["name"]).startswith("old"):
                        del one["context_length"]
                self.respond(200, {"models": told})
            case "/vllm/v1/models":
                self.respond(200, {"data": [{"id": "served", "max_model_len": WINDOW}]})
            case "/llamacpp/props":
                self.respond(200, {"default_generation_settings": {"n_ctx": WINDOW}})
            case path if path.startswith("/lmstudio/api/v0/models/"):
                self.respond(200, {"id": "x", "loaded_context_length": WINDOW, "max_context_length": 131_072})
            case _:
                self.respond(404, {"error": {"message": "there is nothing here"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        provider, path = self.path.strip("/").split("/", 1)
        if provider == "ollama" and path == "api/show":
            filed = str(body["model"]).startswith("filed")
            told = {
                "parameters": f"stop x\nnum_ctx    {FILED}" if filed else "",
                "model_info": {"a.context_length": 131_072},
            }
            self.respond(200, told)
        elif provider == "ollama" and path == "api/generate":
            LOADED.add(body["model"])
            self.respond(200, {"done": True, "done_reason": "load"})
        elif path == "v1/chat/completions":
            self.answer(provider, body)
        else:
            self.respond(404, {"error": {"message": "there is nothing here"}})

    def answer(self, provider: str, body: dict[str, Any]) -> None:
        messages, most = list(body["messages"]), window_of(body["model"])
        fixed = tokens_of(body.get("tools") or "")
        count = fixed + sum(map(tokens_of, messages))
        entry = {"body": body, "tokens": count, "cut": False}
        LOG.append(entry)
        if provider == "ollama":
            LOADED.add(body["model"])
            while count > most and len(messages) > 2:
                at = 1 if messages[0]["role"] == "system" else 0
                count -= tokens_of(messages.pop(at))
                entry["cut"] = True
        elif count > most:
            said = f"This model's maximum context length is {most} tokens. However, your messages resulted in {count}."
            self.respond(400, {"error": {"message": said, "code": "context_length_exceeded"}})
            return
        if "break: server" in json.dumps(messages) and "<conversation>" in text_of(messages[-1]):
            self.respond(500, {"error": {"message": "out of order"}})
            return
        words, call = think(messages, "")
        self.stream(words, call, count)

    def stream(self, words: str, call: dict[str, Any] | None, count: int) -> None:
        events = list(self.events(words, call, count))
        data = "".join(f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n" for one in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def events(self, words: str, call: dict[str, Any] | None, count: int) -> Iterator[Any]:
        yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": words}}]}
        if call is not None:
            one = {"index": 0, "id": f"call_{len(LOG)}", "type": "function", "function": call}
            yield {"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}]}
        yield {"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": tokens_of(words) + 1}}
        yield "[DONE]"

    def respond(self, status: int, said: Any) -> None:
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
