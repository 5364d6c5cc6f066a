"""Servers that others wrote, used in a turn: two of PyPI, one of npm (`make foreign`)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk

from bub.agent.mcp import connection

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
PYTHON = HERE / ".venv/bin/python"
EVERYTHING = HERE / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"

SERVERS = f"""mcp:
  time: {{command: [{PYTHON}, -m, mcp_server_time, --local-timezone, UTC], labels: {{}}}}
  fetch: {{command: [{PYTHON}, -m, mcp_server_fetch, --ignore-robots-txt, --allow-private-ips]}}
  everything: {{command: [node, {EVERYTHING}]}}"""


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Install the servers of PyPI in an environment of their own: they want another SDK than Bub."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", PYTHON.parent.parent], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", "mcp-server-time", "mcp-server-fetch"], check=True)


class Page(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        body = b"<html><body><h1>Weather</h1><p>It rains in Berlin.</p></body></html>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def page() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def call(name: str, **arguments: Any) -> Called:
    return Called(f"mcp_{name}", json.dumps(arguments), f"call_{name}")


async def test_a_turn_uses_three_servers_that_nobody_here_wrote(
    talk: Talk, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 60.0)  # they may start for the first time, on a machine at work
    tools = '{allow: ["mcp.time.*", "mcp.fetch.*", "mcp.everything.*"]}'
    async with talk.open(tools=tools, more=SERVERS):
        await talk.say(
            OPENAI.answer(
                calls=[
                    call(
                        "time_convert_time", source_timezone="Europe/Berlin", time="16:30", target_timezone="Asia/Tokyo"
                    ),
                    call("fetch_fetch", url=page),
                    call("everything_echo", message="hello"),
                    call("everything_get_sum", a=40, b=2),
                    call("everything_get_tiny_image"),
                ]
            ),
            OPENAI.answer("done"),
        )
    assert talk.of_kind("notice") == []
    converted, fetched, echoed, summed, pictured = [event["content"] for event in talk.of_kind("tool_result")]
    assert json.loads(converted)["time_difference"].startswith("+")
    assert "It rains in Berlin." in fetched
    assert "hello" in echoed
    assert "42" in summed
    assert "image/png" in pictured
