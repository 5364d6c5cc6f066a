"""A real gateway with the HTTP channel, in a process of its own: clients of OpenAI's API ask its profiles.

The scripted model server answers for the profile `default`; `strict` has a gate and a tool that needs a yes; `broken`
has a model that cannot be reached.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fakes.gateway import Running, gateway

TOKENS = {"ada": "token-of-ada-0123456789", "tools": "token-of-tools-0123456789", "slow": "token-of-slow-0123456789"}

GUARD = """
from bub import hookimpl, tool

@tool(name="shop.buy", reaches=None)
def buy(item: str) -> str:
    "Buy something."
    return f"bought {item}"

@tool(name="math.add", read_only=True, reaches=None)
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

class Guard:
    @hookimpl
    def provide_tools(self):
        return [buy, add]

    @hookimpl
    def tool_gate(self, tool, args):
        return {"deny": "not that city"} if args.get("city") == "Atlantis" else None

    @hookimpl
    def admit_message(self, message):
        return "drop" if "drop me" in message.content else None

    @hookimpl
    def judge(self, message):
        return {"deny": "that word is not allowed here"} if "forbidden" in message.content else None

plugin = Guard
"""

PIPELINE = """
version: 1
extends: bub:default
settings:
  model: "test:MODEL"
  retries: 0
  prompt: {now: false}
  providers:
    test: {api_base: "ADDRESS/v1"}
    gone: {api_base: "http://127.0.0.1:9/v1"}
  gateway: {shutdown_grace: 5s}
  http:
    listen: 127.0.0.1:0
    rate: {per_minute: 100000, burst: 100000}
    clients:
      ada: {token: "${env:TOKEN_ADA}", profiles: [default, strict, broken]}
      tools: {token: "${env:TOKEN_TOOLS}", profiles: [default, strict], client_tools: true}
      slow: {token: "${env:TOKEN_SLOW}", profiles: [default], rate: {per_minute: 1, burst: 1}}
hooks:
  judge: {kind: gate, takes: [message]}
stages:
  judge: {after: build_prompt}
plugins: {guard: {path: guard.py}}
profiles:
  default: {plugins: [http, guard], tools: {allow: [math.add]}}
  strict: {plugins: [http, guard], tools: {allow: ["shop.*", "math.*"], ask: ["shop.*"]}}
  broken: {plugins: [http, guard], settings: {model: "gone:nobody"}}
"""


@dataclass
class House:
    """A gateway that serves the API at `url`; its model is asked under a name of its own at `models`."""

    running: Running
    url: str
    models: str
    model: str

    def asked(self) -> list[dict[str, Any]]:
        """The bodies of the requests that the model was sent."""
        answer = httpx.get(f"{self.models}/log", params={"model": self.model})
        return [entry["body"] for entry in answer.json()]

    def ended(self, number: int) -> list[str]:
        """How each request to the model has ended, once so many have."""
        answer = httpx.get(f"{self.models}/log", params={"model": self.model, "ended": str(number)}, timeout=20)
        return [entry["ended"] for entry in answer.json()]


@contextmanager
def openai_house(folder: Path, models: str) -> Iterator[House]:
    """Run a gateway with the API for as long as the block."""
    model = uuid.uuid4().hex
    (folder / "guard.py").write_text(GUARD)
    (folder / "pipelines.yaml").write_text(PIPELINE.replace("MODEL", model).replace("ADDRESS", models))
    tokens = {f"TOKEN_{name.upper()}": token for name, token in TOKENS.items()}
    with gateway(folder, longest=180, BUB_HOME=str(folder / "home"), **tokens) as running:
        found = re.search(r"127\.0\.0\.1:\d+", running.wait_for_log("http.listening"))
        assert found is not None
        yield House(running, f"http://{found[0]}/v1", models, model)
