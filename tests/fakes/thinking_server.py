"""Models that think, with the rules of their providers: a server in a process of its own that refuses as they do.

Run it as `python thinking_server.py`; it prints its address and lives until its stdin closes. Whoever asks gets a call
of `math_add` with thoughts before it, and, once its result is there, more thoughts and an answer. `GET /log` tells the
bodies of all requests. The paths are those of the providers, below their names:

- `/deepseek/chat/completions`: a message of the model that thought goes back with its `reasoning_content`, else 400
  (https://api-docs.deepseek.com/guides/thinking_mode);
- `/anthropic/messages`: thoughts are signed, and redacted ones sealed; what is changed, or left out while a tool runs,
  is refused, and so are a budget that does not fit, and a temperature or a forced call beside thinking
  (https://platform.claude.com/docs/en/build-with-claude/extended-thinking);
- `/openrouter/chat/completions`: `reasoning_details` go back as they came;
- `/openai/responses`: nothing is stored, so that a call is refused without the sealed reasoning before it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = b"only this server knows it"
THOUGHT = "I have to add 17 and 25.\nThe tool does that \N{EN DASH} surely."
LATER = "The tool says so."
SAID = "Let me add."
THOUGHTS_BEFORE: dict[str, str] = {}
"""What DeepSeek thought before a call, by the id of that."""


class RefusedError(Exception):
    """The request breaks a rule of its provider."""


def seal(text: str) -> str:
    """What nobody else can make of a text."""
    return hmac.new(SECRET, text.encode(), hashlib.sha256).hexdigest()


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise RefusedError(what)


def pieces(text: str, size: int = 5) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


# Chat completions


def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def call_delta(call_id: str) -> dict[str, Any]:
    function = {"name": "math_add", "arguments": '{"a": 17, "b": 25}'}
    return {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}


def deepseek(body: dict[str, Any], number: int) -> Iterator[Any]:
    thinks = body.get("thinking", {}).get("type") != "disabled"
    for message in body["messages"]:
        expect("thoughts" not in message, "unknown field `thoughts`")
        if message["role"] != "assistant" or not thinks:
            continue
        kept = message.get("reasoning_content")
        thoughts = [THOUGHTS_BEFORE.get(call["id"]) for call in message.get("tool_calls") or ()]
        ok = kept == thoughts[0] if thoughts and thoughts[0] else isinstance(kept, str)
        expect(ok, "The `reasoning_content` in the thinking mode must be passed back to the API.")
    answered = body["messages"][-1]["role"] == "tool"
    thought = LATER if answered else THOUGHT
    yield from (chunk({"reasoning_content": piece}) for piece in pieces(thought) if thinks)
    if answered:
        yield chunk({"content": f"It is {body['messages'][-1]['content']}."})
    else:
        THOUGHTS_BEFORE[f"ds_{number}"] = THOUGHT if thinks else ""
        yield chunk(call_delta(f"ds_{number}"))
    yield chunk({}, "stop" if answered else "tool_calls")
    yield "[DONE]"


def openrouter(body: dict[str, Any], number: int) -> Iterator[Any]:
    details = [
        {"type": "reasoning.text", "text": THOUGHT, "signature": seal(THOUGHT), "format": "x", "index": 0, "id": None},
        {"type": "reasoning.encrypted", "data": seal("hidden"), "format": "x", "index": 1, "id": "r1"},
    ]
    for message in body["messages"]:
        if any(call["id"].startswith("or_") for call in message.get("tool_calls") or ()):
            expect(message.get("reasoning_details") == details, "the reasoning blocks were changed")
        expect("thoughts" not in message, "unknown field `thoughts`")
    if body["messages"][-1]["role"] == "tool":
        yield chunk({"content": f"It is {body['messages'][-1]['content']}."}, "stop")
    else:
        for piece in pieces(THOUGHT):
            part = {"type": "reasoning.text", "text": piece, "format": "x", "index": 0, "id": None}
            yield chunk({"reasoning": piece, "reasoning_details": [part]})
        signed = {"type": "reasoning.text", "signature": seal(THOUGHT), "format": "x", "index": 0, "id": None}
        yield chunk({"reasoning_details": [signed]})
        yield chunk({"reasoning_details": [details[1]]})
        yield chunk(call_delta(f"or_{number}"), "tool_calls")
    yield "[DONE]"


# Messages


def check_claude(body: dict[str, Any]) -> bool:
    """Refuse what the Messages API refuses; whether the model thinks."""
    asked, model = body.get("thinking"), body["model"]
    kind = (asked or {}).get("type")
    is_newer = model.endswith("-8")
    expect(not (is_newer and kind == "enabled"), '"thinking.type.enabled" is not supported for this model.')
    expect(not (is_newer and "temperature" in body), "`temperature` is not supported by this model")
    thinks = kind in ("enabled", "adaptive")
    if kind == "enabled":
        expect(asked["budget_tokens"] >= 1024, "thinking.budget_tokens: must be at least 1024")
        expect(asked["budget_tokens"] < body["max_tokens"], "`max_tokens` must be greater than the budget")
    if thinks:
        expect(body.get("temperature", 1) == 1, "`temperature` may only be set to 1 when thinking is enabled")
        expect(body.get("tool_choice", {}).get("type") not in ("any", "tool"), "Thinking may not be enabled")
    for message in body["messages"]:
        for block in message["content"]:
            if block["type"] == "thinking":
                expect(block["signature"] == seal(block["thinking"]), "Invalid `signature` in `thinking` block")
            if block["type"] == "redacted_thinking":
                expect(block["data"] == seal("redacted"), "Invalid `data` in `redacted_thinking` block")
    last = body["messages"][-1]
    if thinks and any(block["type"] == "tool_result" for block in last["content"]):
        found = [block["type"] for block in body["messages"][-2]["content"]]
        what = f"Expected `thinking` or `redacted_thinking`, but found `{found[0]}`"
        expect(found == ["thinking", "redacted_thinking", "text", "tool_use"], what)
    return thinks


def anthropic(body: dict[str, Any], number: int) -> Iterator[Any]:
    thinks = check_claude(body)
    results = [block for block in body["messages"][-1]["content"] if block["type"] == "tool_result"]
    yield {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    thought = LATER if results else THOUGHT
    if thinks:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(thought)]
        signature = [{"type": "signature_delta", "signature": seal(thought)}]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, *signature]))
        blocks.append(({"type": "redacted_thinking", "data": seal("redacted")}, []))
    text = f"It is {results[0]['content'][0]['text']}." if results else SAID
    blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]))
    if not results:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces('{"a": 17, "b": 25}')]
        blocks.append(({"type": "tool_use", "id": f"toolu_{number}", "name": "math_add", "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn" if results else "tool_use"}}
    yield {"type": "message_stop"}


# Responses


def responses(body: dict[str, Any], number: int) -> Iterator[Any]:
    expect(body["store"] is False, "this server stores nothing")
    expect(body.get("include") == ["reasoning.encrypted_content"], "the reasoning could not be sealed")
    items, before = body["input"], ""
    for item in items:
        kind = item.get("type", "message")
        if kind == "reasoning":
            ok = item["encrypted_content"] == seal(item["id"]) and item["summary"] == []
            expect(ok, "The encrypted content could not be verified.")
        if kind == "function_call" and item["call_id"].startswith("fc_"):
            what = f"Item '{item['call_id']}' was provided without its required 'reasoning' item"
            expect(before == f"rs_{item['call_id']}", what)
        expect(kind != "message" or item["content"][0]["type"].startswith(("input_", "output_")), "a wrong part")
        before = item.get("id", "")
    said = items[-1]["content"][0]["text"] if items[-1].get("role") == "user" else ""
    yield {"type": "response.created", "response": {"object": "response", "status": "in_progress"}}
    if said.startswith("fail"):
        error = {"code": "server_error", "message": "It is too late."}
        yield {"type": "response.failed", "response": {"object": "response", "error": error}}
        return
    usage = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3, "total_tokens": 12}
    end: dict[str, Any] = {"object": "response", "usage": usage}
    if items[-1].get("type") == "function_call_output":
        words = f"It is {items[-1]['output']}."
    elif said.startswith("go on for ever"):
        words, end["incomplete_details"] = "On and on", {"reason": "max_output_tokens"}
    else:
        words, call = "", f"fc_{number}"
        sealed = {"type": "reasoning", "id": f"rs_{call}", "summary": [], "encrypted_content": seal(f"rs_{call}")}
        yield {"type": "response.output_item.added", "output_index": 0, "item": {**sealed, "encrypted_content": None}}
        for piece in pieces(THOUGHT):
            yield {"type": "response.reasoning_text.delta", "output_index": 0, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": 0, "item": sealed}
        item = {"type": "function_call", "call_id": call, "name": "math_add", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": 1, "item": item}
        for piece in pieces('{"a": 17, "b": 25}'):
            yield {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": piece}
        done = {**item, "arguments": '{"a": 17, "b": 25}'}
        yield {"type": "response.output_item.done", "output_index": 1, "item": done}
    for piece in pieces(words):
        yield {"type": "response.output_text.delta", "output_index": 0, "delta": piece}
    yield {"type": "response.incomplete" if "incomplete_details" in end else "response.completed", "response": end}


PROVIDERS = {"openai": responses, "deepseek": deepseek, "openrouter": openrouter, "anthropic": anthropic}


LOG: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.respond(200, "application/json", json.dumps(LOG))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        LOG.append(body)
        answer = PROVIDERS[self.path.split("/")[1]](body, len(LOG))
        try:
            events = list(answer)
        except RefusedError as error:
            refusal = {"error": {"message": str(error), "type": "invalid_request_error"}}
            self.respond(400, "application/json", json.dumps(refusal))
            return
        lines = (f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)
        self.respond(200, "text/event-stream", "".join(lines))

    def respond(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
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
