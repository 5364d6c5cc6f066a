"""Serves a model file over HTTP as OpenAI's API, and lets the model call the tool that `tool_choice` names.

It is run as `python forcing_server.py FILE`, prints its address and lives until its stdin closes. The engine is
xllamacpp's own server, in the same process. Its templates for small models know no forced calls, so a grammar of the
tool's own parameters makes the model write the arguments, and this server puts them into a `tool_calls` chunk. If no
tool is forced, the model answers, and tools are left out.

A field `fitting` of the request, which `extra_body` of a provider brings, gives properties of the arguments in place of
those that the tool has: what a model as small as this one may choose from.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

import xllamacpp

LONGEST_TEXT = 24
"""How many letters a text has at most of which the tool does not say how long it may be: the model would go on."""

MOST_ITEMS = 2


class Handler(BaseHTTPRequestHandler):
    def __init__(self, engine: str, *given: Any) -> None:
        self._engine = engine
        super().__init__(*given)

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        tool, fitting = forced_tool(asked), asked.pop("fitting", {})
        for left_out in ("tools", "tool_choice"):
            asked.pop(left_out, None)
        chunks = self._answer(asked) if tool is None else self._call(asked, tool, fitting)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"data: " + chunk + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def _answer(self, asked: dict[str, Any]) -> Iterator[bytes]:
        asked["messages"] = [plain(message) for message in asked["messages"] if message["role"] != "system"]
        with self._post({**asked, "max_tokens": 16}) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    yield line.removeprefix(b"data: ").strip()

    def _call(self, asked: Mapping[str, Any], tool: Mapping[str, Any], fitting: Mapping[str, Any]) -> Iterator[bytes]:
        """The call of a tool, written by the model within the grammar of its parameters."""
        chosen = {"properties": fitting, "required": list(fitting)} if fitting else {}
        schema = within_bounds({**tool["parameters"], **chosen})
        user = next(message for message in reversed(asked["messages"]) if message["role"] == "user")
        order = f"You call the tool {tool['name']}: {tool['description'].splitlines()[0]} Write its arguments as JSON."
        wanted = {
            "messages": [{"role": "system", "content": order}, plain(user)],
            "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
            "max_tokens": 300,
            "temperature": 0.1,
        }
        with self._post(wanted) as answer:
            whole = json.loads(answer.read())
        function = {"name": tool["name"], "arguments": whole["choices"][0]["message"]["content"]}
        call = {"index": 0, "id": "call_forced", "type": "function", "function": function}
        for delta, reason in (({"tool_calls": [call]}, None), ({}, "tool_calls")):
            yield json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}).encode()

    def _post(self, body: Mapping[str, Any]) -> Any:
        headers = {"content-type": "application/json"}
        return urlopen(Request(f"{self._engine}/v1/chat/completions", json.dumps(body).encode(), headers), timeout=120)


def forced_tool(asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    choice = asked.get("tool_choice")
    name = choice["function"]["name"] if isinstance(choice, dict) else None
    return next((tool["function"] for tool in asked.get("tools") or () if tool["function"]["name"] == name), None)


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message for a template that knows no tools."""
    told = message.get("content") or json.dumps(message.get("tool_calls"))
    role = message["role"] if message["role"] in ("user", "assistant", "system") else "user"
    return {"role": role, "content": told[:400]}


def within_bounds(schema: Any) -> Any:
    """A schema in which no text and no list goes on without end."""
    if isinstance(schema, list):
        return [within_bounds(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    bounded = {name: within_bounds(value) for name, value in schema.items()}
    if bounded.get("type") == "string" and "enum" not in bounded:
        bounded["maxLength"] = min(bounded.get("maxLength", LONGEST_TEXT), LONGEST_TEXT)
    if bounded.get("type") == "array":
        bounded.setdefault("maxItems", MOST_ITEMS)
    return bounded


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.n_ctx = 2048
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    engine = xllamacpp.Server(params)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, engine.listening_address))
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
