"""OpenTelemetry: what a collector in a process of its own gets of turns, and what a turn pays if there is none."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from fakes.collecting import Collector, collecting, is_turn, named, send_to
from fakes.collector import hexadecimal, metrics_in, requests_in
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk, add, adding, bringing
from fakes.toys import HELLO, Toy, Workshop

from bub.base.tracing.activity import Activity
from bub.errors import BubError
from bub.streaming import AsyncStreamEvents

pytestmark = pytest.mark.anyio

KEY = "sk-a-very-secret-key"
PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


# What a turn becomes


async def test_a_turn_is_one_trace_with_its_stages_models_and_tools(talk: Talk, collector: Collector) -> None:
    async with talk.open(house=bringing(adding())):
        await talk.say(OPENAI.answer("Let me add.", calls=[add(2, 40)]), OPENAI.answer("It is 42."))
        spans = await collector.ended()
    turn = named(spans, "invoke_agent default")
    stage = named(spans, "bub.stage run_model")
    tool = named(spans, "execute_tool math.add")
    models = [one for one in spans if one["name"] == f"chat {talk.model}"]
    assert {one["traceId"] for one in spans} == {turn["traceId"]}
    assert "parentSpanId" not in turn
    assert stage["parentSpanId"] == turn["spanId"]
    assert [one["parentSpanId"] for one in (*models, tool)] == [stage["spanId"]] * 3
    assert len({one["spanId"] for one in spans}) == len(spans)
    assert turn["attributes"] | {"gen_ai.usage.input_tokens": 0} == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "default",
        "gen_ai.conversation.id": "cli:local",
        "gen_ai.provider.name": "test",
        "gen_ai.request.model": talk.model,
        "gen_ai.usage.input_tokens": 0,
        "gen_ai.usage.output_tokens": turn["attributes"]["gen_ai.usage.output_tokens"],
        "bub.turn.outcome": "ok",
        "bub.channel": "cli",
        "bub.surface": "program",
        "bub.message.kind": "normal",
    }
    assert stage["attributes"] == {
        "bub.stage.id": "run_model",
        "bub.stage.kind": "stream",
        "bub.stage.hook": "run_model_stream",
        "bub.stage.outcome": "ok",
        "bub.stage.plugin": "builtin",
    }
    first = models[0]["attributes"]
    host, _, port = talk.address.removeprefix("http://").partition(":")
    assert (first["gen_ai.operation.name"], first["gen_ai.provider.name"]) == ("chat", "test")
    assert (first["server.address"], first["server.port"]) == (host, int(port))
    assert first["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert first["gen_ai.usage.output_tokens"] > 0 and first["gen_ai.response.time_to_first_chunk"] > 0
    assert models[0]["kind"] == "SPAN_KIND_CLIENT" and turn["kind"] == "SPAN_KIND_INTERNAL"
    assert tool["attributes"]["gen_ai.tool.name"] == "math.add"
    assert tool["attributes"]["gen_ai.tool.call.id"] == "call_1"
    assert turn["resource"]["service.name"] == "bub"


async def test_times_are_those_of_the_clock_and_lie_within_each_other(talk: Talk, collector: Collector) -> None:
    before = time.time_ns()
    async with talk.open(house=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[add(2, 40)]), OPENAI.answer("It is 42."))
        after = time.time_ns()
        spans = await collector.ended()
    by_id = {one["spanId"]: one for one in spans}
    slack = 1_000_000  # a Unix time has fewer digits than the clock that counts
    for one in spans:
        began, ended = int(one["startTimeUnixNano"]), int(one["endTimeUnixNano"])
        above = by_id.get(one.get("parentSpanId"))
        least, most = (
            (int(above["startTimeUnixNano"]), int(above["endTimeUnixNano"])) if above is not None else (before, after)
        )
        assert least - slack <= began <= ended <= most + slack, one["name"]


async def test_what_was_said_is_sent_only_if_it_is_asked_for_and_never_a_secret(
    talk: Talk, collector: Collector
) -> None:
    said = f"the marmalade is in the cellar, and {KEY} opens it"
    async with talk.open(house=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[add(2, 40)]), OPENAI.answer(said))
        await collector.ended()
    sent = collector.text()
    assert "marmalade" not in sent and "arguments" not in sent and KEY not in sent
    async with talk.open(house=bringing(adding()), more="  telemetry: {content: true}"):
        await talk.say(OPENAI.answer("Well.", calls=[add(2, 40)]), OPENAI.answer(said), session="cli:other")
        spans = await collector.ended(2)
    sent = collector.text()
    assert "marmalade" in sent and KEY not in sent
    tool = [one for one in spans if one["name"] == "execute_tool math.add"][-1]["attributes"]
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"a": 2, "b": 40}
    assert tool["gen_ai.tool.call.result"] == "42"
    model = [one for one in spans if one["name"] == f"chat {talk.model}"][-1]["attributes"]
    asked, answered = json.loads(model["gen_ai.input.messages"]), json.loads(model["gen_ai.output.messages"])
    assert [one["role"] for one in asked] == ["user", "assistant", "tool"]
    assert asked[-1]["parts"] == [{"type": "tool_call_response", "id": "call_1", "response": "42"}]
    assert answered[0]["parts"][0]["content"] == said.replace(KEY, "***")
    assert answered[0]["finish_reason"] == "stop"


async def test_a_failing_tool_a_denied_call_and_a_failing_turn_say_so_without_their_words(
    talk: Talk, collector: Collector
) -> None:
    def gate(args: dict[str, Any]) -> dict[str, str] | None:
        return {"deny": f"no thirteens, by {KEY}"} if args["a"] == 13 else None

    async with talk.open(house=bringing(adding(), tool_gate=gate)):
        await talk.say(OPENAI.answer(calls=[add(13, 1), add(1, 2, id="call_2")]), OPENAI.answer("Done."))
        with pytest.raises(BubError):
            await talk.say([{"status": 400, "body": json.dumps({"error": {"message": "the marmalade is wrong"}})}])
        spans = await collector.ended(2)
    calls = {one["attributes"]["gen_ai.tool.call.id"]: one for one in spans if one["name"] == "execute_tool math.add"}
    denied, ran = calls["call_1"], calls["call_2"]
    assert denied["attributes"]["bub.tool.denied"] is True and "bub.tool.denied" not in ran["attributes"]
    verdicts = {one["parentSpanId"]: one["attributes"] for one in spans if one["name"] == "bub.gate tool_gate"}
    assert verdicts[denied["spanId"]]["bub.gate.verdict"] == "denied"
    assert verdicts[denied["spanId"]]["bub.gate.reason"] == "no thirteens, by ***"
    assert verdicts[ran["spanId"]]["bub.gate.verdict"] == "ok" and "bub.gate.reason" not in verdicts[ran["spanId"]]
    turns = [one for one in spans if is_turn(one)]
    assert turns[0]["status"] == {} and turns[1]["status"] == {"code": "STATUS_CODE_ERROR"}
    assert turns[1]["attributes"]["error.type"] == "request"
    model = [one for one in spans if one["name"] == f"chat {talk.model}"][-1]
    assert (model["status"], model["attributes"]["error.type"]) == ({"code": "STATUS_CODE_ERROR"}, "request")
    assert "marmalade" not in collector.text()


async def test_an_implementation_that_takes_long_has_a_span_and_a_quick_one_has_none(
    bub: Workshop, collector: Collector
) -> None:
    async def load_state() -> dict[str, Any]:
        await trio.sleep(0.02)
        return {}

    def build_prompt() -> str:
        return "hello"

    answer = AsyncStreamEvents.of_text
    slow = Toy(load_state=load_state, build_prompt=build_prompt, run_model_stream=lambda: answer("hi"))
    framework = bub("extends: bub:default\nsettings: {telemetry: {slow: 10ms}}", slow=slow)
    async with framework.running():
        await framework.process_inbound(HELLO)
        spans = await collector.ended()
    one = named(spans, "bub.implementation load_state:slow")
    assert one["parentSpanId"] == named(spans, "bub.stage load_state")["spanId"]
    assert one["attributes"] == {"bub.hook": "load_state", "bub.plugin": "slow"}
    assert int(one["endTimeUnixNano"]) - int(one["startTimeUnixNano"]) >= 19_000_000
    assert not [one for one in spans if "build_prompt:" in one["name"]]


# Traces that go on elsewhere


async def test_a_trace_comes_in_with_the_message_and_goes_out_to_the_model(talk: Talk, collector: Collector) -> None:
    trace = f"00-{PARENT[0]}-{PARENT[1]}-01 vendor=one"
    async with talk.open():
        await talk.say("hello", trace=trace)
        spans = await collector.ended()
    turn, model = named(spans, "invoke_agent default"), named(spans, f"chat {talk.model}")
    assert (hexadecimal(turn["traceId"]), hexadecimal(turn["parentSpanId"])) == PARENT
    assert (turn["kind"], turn["traceState"]) == ("SPAN_KIND_SERVER", "vendor=one")
    headers = (await log_of(talk))[-1]["headers"]
    assert headers["traceparent"] == f"00-{PARENT[0]}-{hexadecimal(model['spanId'])}-01"
    assert headers["tracestate"] == "vendor=one"


async def test_a_trace_that_its_sender_left_out_is_not_sent_and_the_model_hears_of_that(
    talk: Talk, collector: Collector
) -> None:
    async with talk.open():
        await talk.say("hello", trace=f"00-{PARENT[0]}-{PARENT[1]}-00")
        await talk.say("hello again")
        spans = await collector.ended()
    assert hexadecimal(spans[0]["traceId"]) != PARENT[0]
    unsampled, sampled = (entry["headers"]["traceparent"] for entry in await log_of(talk))
    assert unsampled.startswith(f"00-{PARENT[0]}-") and unsampled.endswith("-00")
    assert sampled.endswith("-01")


async def test_without_telemetry_no_model_hears_of_a_trace(talk: Talk) -> None:
    async with talk.open():
        await talk.say("hello", trace=f"00-{PARENT[0]}-{PARENT[1]}-01")
    assert not {"traceparent", "tracestate"} & (await log_of(talk))[-1]["headers"].keys()


async def test_a_turn_that_another_one_starts_is_a_part_of_its_trace(bub: Workshop, collector: Collector) -> None:
    async def load_state(message: Any) -> dict[str, Any]:
        if message["content"] == "hello":
            await framework.process_inbound({**HELLO, "chat_id": "inner", "content": "inner"})
        return {}

    toy = Toy(load_state=load_state, run_model_stream=lambda: AsyncStreamEvents.of_text("hi"))
    framework = bub("extends: bub:default", toy=toy)
    async with framework.running():
        await framework.process_inbound(HELLO)
        spans = await collector.ended(2)
    inner, outer = (one for one in spans if is_turn(one))
    assert inner["traceId"] == outer["traceId"]
    assert (inner["parentSpanId"], inner["kind"]) == (outer["spanId"], "SPAN_KIND_INTERNAL")


# Numbers


async def test_metrics_are_those_of_prometheus_and_two_of_the_genai_conventions(
    talk: Talk, collector: Collector
) -> None:
    async with talk.open() as framework:
        framework.counts.count_received("cli")
        framework.counts.gauge("running_turns", lambda: 3)
        await talk.say("hello")
        await collector.ended()
    metrics = metrics_in(collector.file, collector.path)
    (received,) = metrics["bub_messages_received"]["sum"]["dataPoints"]
    assert (received["asInt"], received["attributes"][0]["value"]) == ("1", {"stringValue": "cli"})
    assert metrics["bub_messages_received"]["sum"]["isMonotonic"]
    assert metrics["bub_running_turns"]["gauge"]["dataPoints"][0]["asInt"] == "3"
    (times,) = metrics["bub_model_seconds"]["histogram"]["dataPoints"]
    assert (times["count"], sum(map(int, times["bucketCounts"]))) == ("1", 1)
    assert len(times["bucketCounts"]) == len(times["explicitBounds"]) + 1
    (duration,) = metrics["gen_ai.client.operation.duration"]["histogram"]["dataPoints"]
    told = {one["key"]: one["value"] for one in duration["attributes"]}
    assert told["gen_ai.request.model"] == {"stringValue": talk.model} and duration["count"] == "1"
    assert len(metrics["gen_ai.client.token.usage"]["histogram"]["dataPoints"]) == 2
    assert metrics["bub_telemetry_spans_dropped"]["sum"]["dataPoints"][0]["asInt"] == "0"


async def test_a_number_that_cannot_be_read_ends_no_turn(talk: Talk, collector: Collector, log: list[str]) -> None:
    def fail() -> float:
        raise ValueError("closed")

    async with talk.open() as framework:
        framework.counts.gauge("running_turns", fail)
        with trio.fail_after(20):
            while not any("telemetry.unreadable" in line for line in log):  # noqa: ASYNC110 (a thread asks for it)
                await trio.sleep(0.02)
        await talk.say("hello")
        await collector.ended()


async def test_a_sub_agent_is_below_the_call_that_started_it(talk: Talk, collector: Collector) -> None:
    script = json.dumps([OPENAI.answer("The sub-agent says hi.")])
    started = Called("subagent", json.dumps({"prompt": script}), "call_1")
    async with talk.open():
        await talk.say(OPENAI.answer(calls=[started]), OPENAI.answer("Done."))
        spans = await collector.ended()
    tool = named(spans, "execute_tool subagent")
    models = [one for one in spans if one["name"] == f"chat {talk.model}"]
    assert [one["parentSpanId"] == tool["spanId"] for one in models] == [False, True, False]
    assert models[1]["attributes"]["gen_ai.conversation.id"].startswith("temp")


async def test_headers_of_the_settings_are_sent_and_shown_to_nobody(
    talk: Talk, collector: Collector, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    headers = "{authorization: Bearer tok-Zx81yyPq20}"
    section = f"  telemetry: {{endpoint: '{collector.endpoint}', headers: {headers}, content: true}}"
    async with talk.open(more=section):
        await talk.say(OPENAI.answer("I know tok-Zx81yyPq20."))
        await collector.ended()
    (request, *_) = requests_in(collector.file, collector.path)
    sent = {name.lower(): value for name, value in request["headers"].items()}
    assert sent["authorization"] == "Bearer tok-Zx81yyPq20"
    assert "tok-Zx81yyPq20" not in collector.text()
    assert not [line for line in log if "tok-Zx81yyPq20" in line]


# A collector that is not there


@pytest.fixture
def nobody() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def timed(talk: Talk, turns: int = 5) -> tuple[float, float]:
    """How long the slowest turn takes, and how long the end."""
    slowest = 0.0
    async with talk.open() as framework:
        await talk.say("hello")
        for _ in range(turns):
            began = time.perf_counter()
            await talk.say("hello")
            slowest = max(slowest, time.perf_counter() - began)
        began = time.perf_counter()
        del framework
    return slowest, time.perf_counter() - began


async def test_a_collector_that_refuses_costs_a_turn_nothing_and_the_end_a_second(
    talk: Talk, nobody: int, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    send_to(f"http://127.0.0.1:{nobody}", monkeypatch)
    slowest, end = await timed(talk)
    assert slowest < 2 and end < 1.5  # a request to the collector is tried for 10 s
    assert sum("telemetry.given_up" in line for line in log) == 1


async def test_a_collector_that_never_answers_costs_no_more(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with collecting(tmp_path, "--mute") as (_, _, port):
        send_to(f"http://127.0.0.1:{port}", monkeypatch)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "4")
        slowest, end = await timed(talk)
    assert slowest < 2 and end < 1.5
    assert capfd.readouterr().err == ""


async def test_a_collector_that_was_killed_gets_what_comes_after_and_what_waited(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    with ExitStack() as collectors:
        process, file, port = collectors.enter_context(collecting(tmp_path))
        send_to(f"http://127.0.0.1:{port}", monkeypatch)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        async with talk.open() as framework:
            await talk.say("hello")
            await Collector(file, port, "").ended()
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            await talk.say("hello")
            with trio.fail_after(20):
                while not any("telemetry.not_sent what=spans" in line for line in log):  # noqa: ASYNC110 (a thread says it)
                    await trio.sleep(0.02)
            _, again, _ = collectors.enter_context(collecting(tmp_path, "--port", str(port)))
            await talk.say("hello")
            await Collector(again, port, "").ended()
            dropped = framework.counts.totals["telemetry_spans_dropped"]()
    assert dropped > 0
    assert sum("telemetry.not_sent what=spans" in line for line in log) == 1
    assert sum("telemetry.sent_again what=spans" in line for line in log) == 1


async def test_what_comes_too_fast_is_dropped_and_counted(
    talk: Talk, collector: Collector, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "5")  # one turn has more
    async with talk.open() as framework:
        await talk.say("hello")
        assert framework.counts.totals["telemetry_spans_dropped"]() > 5
    assert sum("telemetry.too_much" in line for line in log) == 1


# Helpers


async def log_of(talk: Talk) -> list[dict[str, Any]]:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{talk.address}/log", params={"model": talk.model})
    entries: list[dict[str, Any]] = answer.json()
    return entries


def test_an_activity_outside_of_a_turn_keeps_nothing_of_what_is_said() -> None:
    activity = Activity("tool", "add", 0.0)
    activity.keep(arguments="secret")
    assert activity.said == {}
