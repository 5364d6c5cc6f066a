"""A real gateway with the studio, and what the office in it does: for tests of the page, its pictures and its load.

Messages come over the channel `post`, from the process of the test. The model is `fakes/model_server.py`;
`Studio.teach` says what it does when it reads certain words. A message with `[POINT]` in it, as in "hello [moderate]",
waits in that hook point from the file `POINT.begun` on until there is `POINT.go`; any waits while there is
`POINT.hold`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fakes.gateway import PATIENCE, Running, gateway
from fakes.gateway import POST as PLAIN_POST
from fakes.scripted import OPENAI, Called, Script

KEY = "sk-studio-secret-4711"
PLANTED = "very-private-planted-0815"
"""A secret that nothing but the environment holds, and that a message or an error may have in it."""

PIPELINE = """\
version: 1
extends: bub:default

settings:
  model: "openai:small"
  api_base: "{address}/v1"
  api_key: "${{env:STUDIO_KEY}}"
  retries: 0
  gateway: {{shutdown_grace: 2s, studio: {{listen: "127.0.0.1:{port}"{more}}}}}

hooks:
  moderate: {{kind: gate, takes: [message, session_id]}}

stages:
  moderate: {{before: run_model, timeout: 30s}}

plugins:
  post: {{path: post.py}}
  office: {{path: office.py}}

profiles:
  default:
    description: Works in the office, and asks before it runs a command.
    plugins: [post, office]
    tools: {{allow: ["*", bash], ask: [bash]}}
  guests:
    description: Talks to strangers, and touches nothing.
    plugins: [post, office]
    tools: {{allow: [notes.add]}}

routes:
  - match: {{channel: post, sender_id: stranger}}
    profile: guests
"""

# People in it read a question, and the operator answers it.
POST = PLAIN_POST.replace(
    '    name = "post"\n',
    """\
    name = "post"
    shows_questions = True

    async def show_question(self, question):
        return question.id

    async def close_question(self, question, words):
        pass
""",
)

OFFICE = '''\
"""Reads the post: waits if somebody says so, and keeps passwords out."""

import json
import os
from pathlib import Path

import trio

from bub import hookimpl, tool
from bub.envelope import content_of


async def wait_at(point, message):
    if f"[{point}]" in content_of(message):
        Path(f"{point}.begun").touch()
        while not Path(f"{point}.go").exists():
            await trio.sleep(0.01)
    while Path(f"{point}.hold").exists():
        await trio.sleep(0.01)


@tool(name="notes.add", description="Keep a note.")
def add_note(text: str) -> str:
    with open("notes.txt", "a") as file:
        file.write(text + "\\n")
    return f"noted {text}"


class Office:
    @hookimpl
    async def load_state(self, message):
        await wait_at("load_state", message)
        if "[fail]" in content_of(message):
            raise ValueError(f"{content_of(message)} ({os.environ['STUDIO_PLANTED_KEY']})")
        return {}

    @hookimpl
    async def moderate(self, message):
        await wait_at("moderate", message)
        if "password" in content_of(message):
            return {"deny": "passwords stay here"}

    @hookimpl
    async def before_llm_call(self, message, request):
        await wait_at("before_llm_call", message)
        learned = Path("learned.json")
        script = json.loads(learned.read_text()).get(content_of(message)) if learned.exists() else None
        if script is None:
            return None
        messages = request["messages"]
        last = max(at for at, one in enumerate(messages) if one["role"] == "user")
        return {"messages": [*messages[:last], {"role": "user", "content": script}, *messages[last + 1 :]]}

    @hookimpl
    def provide_tools(self):
        return [add_note]


plugin = Office
'''


@dataclass
class Studio(Running):
    """A gateway whose page is at `address`; who has `token` may come in."""

    address: str = ""
    token: str = field(default="", repr=False)

    @property
    def link(self) -> str:
        """What the gateway wrote for a person to open."""
        return f"{self.address}/#{self.token}"

    def teach(self, words: str, *scripts: Script) -> None:
        """Let the model answer a message of these words by scripts, one after another."""
        file = self.folder / "learned.json"
        learned = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        own = [[{"of": f"{self.folder} {len(learned)}"}, *script] for script in scripts]  # nobody has begun to play it
        file.with_suffix(".new").write_text(json.dumps({**learned, words: json.dumps(own)}), encoding="utf-8")
        file.with_suffix(".new").rename(file)

    def release(self, point: str) -> None:
        """Let the turn go on that waits in a hook point."""
        self.until((self.folder / f"{point}.begun").exists, f"a turn waits at {point}")
        (self.folder / f"{point}.go").touch()

    def wait_at(self, point: str) -> None:
        """Wait until a turn waits in a hook point."""
        self.until((self.folder / f"{point}.begun").exists, f"a turn waits at {point}")

    @contextmanager
    def visit(self) -> Iterator[Visitor]:
        """Come in with the token, as the page does, for as long as the block."""
        with Visitor(self.address) as visitor:
            assert visitor.post("enter", {"token": self.token}).status_code == 204
            yield visitor


class Visitor(httpx.Client):
    """Somebody with a store of cookies of their own; with no token at first."""

    def __init__(self, address: str) -> None:
        super().__init__(base_url=f"{address}/api/", timeout=PATIENCE, trust_env=False)
        self.own = {"X-Bub": "1", "Origin": address}

    def ask(self, what: str, **query: Any) -> Any:
        """What is answered to a `GET`, which has to be an answer."""
        answer = self.get(what, params=query)
        assert answer.status_code == 200, f"{what}: {answer.status_code} {answer.text}"
        return answer.json()

    def post(self, what: str, body: Mapping[str, Any], **headers: str | None) -> httpx.Response:  # type: ignore[override]
        """Send a change as the page does; headers that are given are written over its own, and left out if `None`."""
        said = {**self.own, **{name.replace("_", "-"): value for name, value in headers.items()}}
        given = {name: one for name, one in said.items() if one is not None}
        request = self.build_request("POST", what, json=body, headers=given)
        for name in said.keys() - given.keys():
            request.headers.pop(name, None)
        answer = self.send(request)
        if mark := answer.headers.get("X-Bub"):
            self.headers["X-Bub"] = self.own["X-Bub"] = mark
        return answer


def calling(tool: str, arguments: Mapping[str, Any], *, id: str = "call_1") -> Script:  # noqa: A002
    """A model that calls a tool, by its name on the wire."""
    return OPENAI.answer(calls=[Called(tool, json.dumps(arguments), id)], usage=(30, 12))


def write_office(folder: Path, address: str, *, port: int = 0, more: str = ", write: true") -> Path:
    """Write the files of the office, whose model is at an address, and return the pipeline file."""
    folder.mkdir(exist_ok=True)
    (folder / "post.py").write_text(POST, encoding="utf-8")
    (folder / "office.py").write_text(OFFICE, encoding="utf-8")
    file = folder / "pipelines.yaml"
    file.write_text(PIPELINE.format(address=address, port=port, more=more), encoding="utf-8")
    return file


LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/#(\S+)")


@contextmanager
def studio(folder: Path, *arguments: str, **environment: str) -> Iterator[Studio]:
    """Run the gateway in a folder of `write_office` for as long as the block."""
    told = {"BUB_HOME": str(folder / "home"), "STUDIO_KEY": KEY, "STUDIO_PLANTED_KEY": PLANTED, **environment}
    with gateway(folder, *arguments, longest=600, **told) as running:
        found = LINK.fullmatch(running.page())
        assert found is not None
        opened = Studio(running.folder, running.process, address=found[1], token=found[2])
        try:
            yield opened
        finally:
            opened.hang_up()
