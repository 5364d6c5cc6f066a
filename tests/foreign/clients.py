"""`bub mcp serve`, used by clients that others wrote: those of the TypeScript SDK and of Inspector (`make foreign`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.mcp_house import PNG, write_house

HERE = Path(__file__).parent
INSPECTOR = HERE / "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"
SERVE = (sys.executable, "-m", "bub", "mcp", "serve")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose profile is served."""
    write_house(tmp_path)
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    return tmp_path


def run(house: Path, *command: str | Path) -> Any:
    """What a client prints, read as JSON."""
    done = subprocess.run(
        ["node", *command], cwd=house, env=dict(os.environ), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("mode", "protocol"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_the_typescript_sdk_uses_a_turn_tools_questions_and_tapes(house: Path, mode: str, protocol: str) -> None:
    told = run(house, HERE / "use.mjs", mode, *SERVE)
    assert told["protocol"] == protocol
    assert {"ask-agent", "notes_add", "picture_draw"} <= set(told["tools"])
    assert told["turn"]["structuredContent"]["session_id"] == "mcp:foreign"
    assert told["turn"]["content"][0]["text"] == "You said: noted bread"
    assert told["tool"]["content"][0]["text"] == "noted milk"
    assert (house / "notes.txt").read_text() == "bread\nmilk\n"
    assert len(told["asked"]) == 2
    assert 'calls notes.add {"text": "bread"}' in told["progress"]
    assert told["picture"]["content"][1]["data"] == PNG
    assert told["two"] == ["You said: one", "You said: two"]
    assert told["cancelled"]
    assert (house / "stopped").exists()
    assert "note bread" in told["tape"]


def test_inspector_uses_tools_and_tapes_and_reads_why_nobody_is_asked(house: Path) -> None:
    def inspect(*arguments: str) -> Any:
        return run(house, INSPECTOR, "--cli", *SERVE, *arguments)

    def call(name: str, given: str) -> Any:
        return inspect("--method", "tools/call", "--tool-name", name, "--tool-arg", given)

    assert "ask-agent" in [tool["name"] for tool in inspect("--method", "tools/list")["tools"]]
    assert call("ask-agent", "message=hello")["content"][0]["text"] == "You said: hello"
    refused = call("notes_add", "text=milk")
    assert refused["isError"]
    assert "this MCP client cannot ask its person" in refused["content"][0]["text"]
    uri = inspect("--method", "resources/list")["resources"][-1]["uri"]  # the one used last comes first
    assert "hello" in inspect("--method", "resources/read", "--uri", uri)["contents"][0]["text"]
