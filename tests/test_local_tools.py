"""The agent chooses: the small local model over HTTP calls each shipped tool, in one whole turn each.

The list of tools is that of the builtin plugin, so a new one joins by itself. One tool is tried each time, and all of
them by `make local`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.scripted import serving
from fakes.toys import Toy, Workshop

from bub.agent.local import parts
from bub.base.surfaces import Surface
from bub.plugins.shipped import DESCRIBE, SHIPPED_TOOLS
from bub.streaming import StreamEvent

NOWHERE = Path(os.devnull)
pytestmark = [
    pytest.mark.model,
    pytest.mark.anyio,
    pytest.mark.skipif(
        not parts.status(NOWHERE).ready, reason="the small model is not in this environment: `make test`"
    ),
]

TRIED_EACH_TIME = "fs.read"
PATCH = "--- a/notes.txt\n+++ b/notes.txt\n@@\n-buy milk\n+buy tea\n"


def one_of(*values: Any) -> dict[str, Any]:
    return {"enum": list(values)}


FITTING: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "bash": ({"command": one_of("echo hello", "cat notes.txt")}, "hello|milk"),
    "bash.kill": ({"id": one_of("b1")}, "b1 was running and is ended now"),
    "bash.output": ({"id": one_of("b1"), "until": one_of("output", "exit")}, r"\[b1 is still running"),
    "fs.edit": ({"path": one_of("notes.txt"), "old": one_of("milk"), "new": {"type": "string"}}, "notes.txt"),
    "fs.list": ({"path": one_of(".")}, "notes.txt"),
    "fs.patch": ({"patch": one_of(PATCH)}, "notes.txt"),
    "fs.read": ({"path": one_of("notes.txt"), "limit": {"type": "integer", "minimum": 1, "maximum": 9}}, "buy milk"),
    "fs.search": ({"pattern": one_of("milk"), "ignore_case": {"type": "boolean"}}, "buy milk"),
    "fs.write": ({"path": one_of("new.txt"), "content": {"type": "string"}}, "new.txt"),
    "skill": ({"name": one_of("notes")}, "Write short notes"),
    "spill.read": ({"handle": one_of("x")}, "^error: nothing is kept"),
    "subagent": ({"prompt": one_of("Say hello."), "session": one_of("temp", "inherit")}, "."),
    "tape.handoff": ({"name": {"type": "string", "minLength": 3, "pattern": "^[a-z]+$"}}, "starts over"),
    "tape.search": ({"query": {"type": "string"}}, "."),
    "web.fetch": ({"url": one_of("http://127.0.0.1:9/")}, "^error: .*127.0.0.1"),
}
"""What the model may choose from for a tool, which is more than any text if the tool can do harm; and what comes of it.

A tool that only reads may be called with anything: what is not here must not break.
"""


def tools() -> list[str]:
    return sorted(SHIPPED_TOOLS) if os.environ.get("LOCAL_TOOLS") == "all" else [TRIED_EACH_TIME]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(str(parts.status(NOWHERE).weights), program="forcing_server.py") as address:
        yield address


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", tools())
async def test_the_local_model_calls_each_tool(workshop: Workshop, address: str, name: str) -> None:
    (workshop.folder / "notes.txt").write_text("buy milk\n")
    skill = workshop.folder / ".agents" / "skills" / "notes" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: notes\ndescription: How to write notes.\n---\nWrite short notes.\n")
    fitting, expected = FITTING.get(name, ({}, "."))
    forced = Toy(
        before_llm_call=lambda request: {
            "tool_choice": name if request["step"] == 1 and name in request["tools"] else "none"
        }
    )
    entry = f'{{api_base: "{address}/v1", extra_body: {json.dumps({"fitting": fitting})}}}'
    framework = workshop(
        f"extends: bub:default\nsettings:\n  model: test:small\n  providers: {{test: {entry}}}\n"
        "plugins: {forced: {path: forced.py}}\n"
        'profiles: {default: {plugins: [forced], tools: {allow: ["*", bash], ask: []}}}\n',
        forced=forced,
    )
    tool = framework.tools.tools[name]
    assert tool.read_only or tool.for_people or name in FITTING, f"say in FITTING what `{name}` may be given here"
    events: list[StreamEvent] = []
    async with framework.running():
        if name in ("bash.output", "bash.kill"):
            await framework.process_inbound(say(",bash 'sleep 100' background=true"), surface=Surface.RUN)
        await framework.process_inbound(
            say(f"Use {name} now."), on_event=lambda event, _: events.append(event), surface=Surface.RUN
        )
    if tool.for_people or name == DESCRIBE:  # which is offered only if there are many tools
        assert not [event for event in events if event.kind == "tool_call"]
        return
    [call] = [event.data for event in events if event.kind == "tool_call"]
    [result] = [event.data for event in events if event.kind == "tool_result"]
    assert (call["name"], result["name"]) == (name, name)
    assert tool.check(call["arguments"]) is not None
    assert re.search(expected, result["content"], re.DOTALL), result["content"]
    assert "execution failed" not in result["content"]
    [end] = [event.data for event in events if event.kind == "final"]
    assert (end["steps"], end["ok"]) == (2, True)


def say(content: str) -> dict[str, str]:
    return {"channel": "cli", "chat_id": "local", "content": content}
