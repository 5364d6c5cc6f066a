"""Traces over the borders of processes: from a client or a shell into a turn, and from a turn to servers of MCP."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import trio
from fakes.collecting import Collector, named
from fakes.collector import hexadecimal
from fakes.mcp_house import write_house
from fakes.mcp_tracing import at_an_address
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk
from fakes.toys import Workshop
from fakes.web_channel import served as serving_http
from test_mcp_serve import served

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
PROGRAM = Path(__file__).parent / "fakes" / "mcp_tracing.py"


def ping() -> Called:
    return Called("mcp_far_ping", "{}", "call_1")


async def test_a_server_that_is_a_program_gets_the_trace_in_the_meta_of_the_request(
    talk: Talk, collector: Collector
) -> None:
    far = f"mcp:\n  far: {{command: [{sys.executable}, {PROGRAM}]}}"
    async with talk.open(tools='{allow: ["*", "mcp.far.*"]}', more=far):
        await talk.say(OPENAI.answer(calls=[ping()]), OPENAI.answer("Done."), trace=f"{PARENT} vendor=one")
        spans = await collector.ended()
    request, tool = named(spans, "tools/call ping"), named(spans, "execute_tool mcp.far.ping")
    assert request["parentSpanId"] == tool["spanId"]
    assert request["kind"] == "SPAN_KIND_CLIENT"
    assert request["attributes"] == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "ping",
        "network.transport": "pipe",
        "bub.server": "far",
    }
    (result,) = talk.of_kind("tool_result")
    own = f"00-{TRACE}-{hexadecimal(request['spanId'])}-01"
    assert json.loads(result["content"]) == {"traceparent": own, "tracestate": "vendor=one"}


async def test_a_server_at_an_address_gets_it_in_a_header_too(talk: Talk, collector: Collector) -> None:
    with at_an_address() as heard:
        more = f"mcp:\n  far: {{url: '{heard.url}'}}"
        async with talk.open(tools='{allow: ["*", "mcp.far.*"]}', more=more):
            await talk.say(OPENAI.answer(calls=[ping()]), OPENAI.answer("Done."))
            spans = await collector.ended()
    request = named(spans, "tools/call ping")
    own = f"00-{hexadecimal(request['traceId'])}-{hexadecimal(request['spanId'])}-01"
    assert heard.headers["tools/call"]["traceparent"] == heard.meta["tools/call"]["traceparent"] == own
    assert "traceparent" not in heard.headers["tools/list"]  # nobody's turn asks for that
    assert request["attributes"]["network.transport"] == "tcp"
    assert request["attributes"]["mcp.session.id"] == "session-7"
    assert heard.url == "http://{server.address}:{server.port}/mcp".replace("{server.", "{").format(
        **{name.removeprefix("server."): value for name, value in request["attributes"].items() if "server." in name}
    )


async def test_without_telemetry_a_server_hears_of_no_trace(talk: Talk) -> None:
    with at_an_address() as heard:
        more = f"mcp:\n  far: {{url: '{heard.url}'}}"
        async with talk.open(tools='{allow: ["*", "mcp.far.*"]}', more=more):
            await talk.say(OPENAI.answer(calls=[ping()]), OPENAI.answer("Done."), trace=PARENT)
    assert "traceparent" not in heard.headers["tools/call"] and not heard.meta["tools/call"]


async def test_a_call_of_an_mcp_client_leads_to_the_turn(tmp_path: Path, collector: Collector) -> None:
    async with served(tmp_path) as client:
        await client.call_tool("picture.draw", {"size": 2}, meta={"traceparent": PARENT})
        spans = await collector.ended()
    turn, tool = named(spans, "invoke_agent default"), named(spans, "execute_tool picture.draw")
    assert (hexadecimal(turn["traceId"]), hexadecimal(turn["parentSpanId"])) == (TRACE, "b7ad6b7169203331")
    assert turn["kind"] == "SPAN_KIND_SERVER"
    assert turn["attributes"]["mcp.method.name"] == "tools/call"
    assert turn["attributes"]["network.transport"] == "pipe"
    assert tool["traceId"] == turn["traceId"]


async def test_a_request_over_http_leads_to_the_turn(workshop: Workshop, collector: Collector) -> None:
    async with serving_http(workshop) as door:
        await door.ask("hello", headers={"traceparent": PARENT, "tracestate": "vendor=one"})
        spans = await collector.ended()
    turn = named(spans, "invoke_agent default")
    assert (hexadecimal(turn["traceId"]), hexadecimal(turn["parentSpanId"])) == (TRACE, "b7ad6b7169203331")
    assert (turn["kind"], turn["traceState"]) == ("SPAN_KIND_SERVER", "vendor=one")


async def test_bub_run_continues_the_trace_of_the_shell_and_sends_it_before_it_ends(
    tmp_path: Path, collector: Collector
) -> None:
    environment = {**os.environ, "TRACEPARENT": PARENT, "OTEL_SERVICE_NAME": "night-shift"}
    file = write_house(tmp_path)
    command = [sys.executable, "-m", "bub", "--config", str(file), "run", "hello"]
    done = await trio.run_process(command, cwd=tmp_path, env=environment, capture_stderr=True, capture_stdout=True)
    assert done.stderr == b""
    spans = await collector.ended()
    turn = named(spans, "invoke_agent default")
    assert (hexadecimal(turn["traceId"]), hexadecimal(turn["parentSpanId"])) == (TRACE, "b7ad6b7169203331")
    assert turn["resource"]["service.name"] == "night-shift"
