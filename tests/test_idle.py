"""A model that is silent, and the time of a person: what counts towards the time-outs of a stage and what does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trio
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, outcomes

from bub.approval import Question
from bub.errors import BubError
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tools import tool

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def idle(more: str = "") -> str:
    return f"extends: bub:default\nstages: {{run_model: {{idle_timeout: 10s{more}}}}}"


def saying(*script: str | float | Exception | StreamEvent) -> Toy:
    return Toy(run_model_stream=lambda: a_stream(*script))


# A silent model.


@pytest.mark.parametrize("script", [(11.0, "late"), ("so far", 11.0, "late")], ids=["at first", "in the middle"])
async def test_a_model_that_is_silent_too_long_fails_the_stage_with_words_that_help(
    bub: Workshop, script: tuple[str | float, ...]
) -> None:
    errors = Errors()
    framework = bub(idle(), model=saying(*script), errors=Toy(on_error=errors.told))
    with pytest.raises(trio.TooSlowError, match="`model` said nothing for 10 seconds") as caught:
        await framework.process_inbound(HELLO)
    assert isinstance(caught.value, BubError)
    assert "`idle_timeout` of its stage" in str(caught.value.help)
    assert trio.current_time() == 10.0
    assert errors.stages == ["turn"]


async def test_a_model_that_goes_on_speaking_may_take_its_time(bub: Workshop) -> None:
    result = await bub(idle(), model=saying(*("a", 9.0) * 5)).process_inbound(HELLO)
    assert result.model_output == "aaaaa"


async def test_an_answer_that_is_not_even_begun_is_silent_too(bub: Workshop) -> None:
    async def run_model_stream() -> AsyncStreamEvents:
        await trio.sleep(11)
        return a_stream("late")

    with pytest.raises(trio.TooSlowError):
        await bub(idle(), model=Toy(run_model_stream=run_model_stream)).process_inbound(HELLO)


async def test_a_plain_text_is_no_open_stream_and_may_take_longer(bub: Workshop) -> None:
    async def run_model() -> str:
        await trio.sleep(60)
        return "thought about it"

    result = await bub(idle(), model=Toy(run_model=run_model)).process_inbound(HELLO)
    assert result.model_output == "thought about it"


async def test_a_silent_model_is_asked_again_as_the_stage_says(bub: Workshop) -> None:
    tries: list[float] = []

    async def answer() -> AsyncIterator[StreamEvent]:
        tries.append(trio.current_time())
        if len(tries) == 1:
            await trio.sleep_forever()
        yield StreamEvent.text("awake")

    framework = bub(idle(", retry: {times: 1}"), model=Toy(run_model_stream=answer))
    result = await framework.process_inbound(HELLO)
    assert result.model_output == "awake"
    assert tries == [0.0, 10.0]


async def test_a_silent_model_is_left_out_where_the_stage_says_so(bub: Workshop) -> None:
    errors = Errors()
    pipeline = idle(", on_failure: skip, only: [model], default: nobody is there")
    model = Toy(run_model_stream=lambda: a_stream(11.0), on_error=errors.told)
    result = await bub(pipeline, model=model).process_inbound(HELLO)
    assert result.model_output == "nobody is there"
    assert errors.stages == ["run_model_stream:model"]


async def test_a_tool_that_runs_is_not_the_models_silence(bub: Workshop) -> None:
    call, result = StreamEvent("tool_call", {"id": "1", "name": "build"}), StreamEvent("tool_result", {"id": "1"})
    done = await bub(idle(), model=saying(call, 60.0, result, "built")).process_inbound(HELLO)
    assert done.model_output == "built"
    with pytest.raises(trio.TooSlowError):
        await bub(idle(), model=saying(call, 60.0, result, 11.0, "built")).process_inbound(HELLO)


async def test_a_pause_that_is_told_of_is_not_the_models_silence(bub: Workshop) -> None:
    """As if a plugin wraps the agent's stream, and passes on what it does not know."""
    pause = StreamEvent("waiting", {"seconds": 240.0, "reason": "slow down"})
    result = await bub(idle(), model=saying(pause, 245.0, "here", 9.0, ".")).process_inbound(HELLO)
    assert result.model_output == "here."
    with pytest.raises(trio.TooSlowError, match="said nothing"):
        await bub(idle(), model=saying(pause, 251.0, "late")).process_inbound(HELLO)
    nonsense = StreamEvent("waiting", {"seconds": "long"})
    with pytest.raises(trio.TooSlowError, match="said nothing"):
        await bub(idle(), model=saying(nonsense, 11.0, "late")).process_inbound(HELLO)


async def test_a_slow_reader_is_not_the_models_silence(bub: Workshop) -> None:
    async def read(event: StreamEvent, message: Any) -> None:
        await trio.sleep(60)

    result = await bub(idle(), model=saying("a", "b")).process_inbound(HELLO, on_event=read)
    assert result.model_output == "ab"


async def test_the_stages_own_time_still_counts(bub: Workshop) -> None:
    framework = bub(idle(", timeout: 30s"), model=saying(*("a", 9.0) * 5))
    with pytest.raises(trio.TooSlowError, match="stage `run_model` took longer than 30 seconds"):
        await framework.process_inbound(HELLO)


async def test_a_model_that_a_plugin_brings_to_the_agent_is_bounded_too(bub: Workshop) -> None:
    framework = bub(idle(), model=Toy(call_model=lambda request: a_stream("so far", 11.0)))
    async with framework.running():
        with pytest.raises(trio.TooSlowError, match="said nothing for 10 seconds"):
            await framework.process_inbound(HELLO)


async def test_a_tool_of_the_agent_may_take_longer_than_its_model_may_be_silent(bub: Workshop) -> None:
    @tool(reaches=None)
    async def build() -> str:
        """Take a minute."""
        await trio.sleep(60)
        return "built"

    def call_model(request: dict[str, Any]) -> AsyncStreamEvents:
        if request["messages"][-1]["role"] == "tool":
            return a_stream("it is built")
        return a_stream(StreamEvent("tool_call", {"id": "1", "name": "build", "arguments": {}}))

    pipeline = (
        ASKED.format(more=", idle_timeout: 10s").replace("timeout: 30s", "timeout: 2m").replace("ask: [build]", "")
    )
    framework = bub(
        pipeline,
        model=Toy(call_model=call_model, provide_tools=lambda: [build]),
    )
    async with framework.running():
        result = await framework.process_inbound(HELLO)
    assert result.model_output == "it is built"


# A person's time.


def deciding(seconds: float) -> Callable[[Question], Any]:
    async def ask(question: Question) -> bool:
        await trio.sleep(seconds)
        return True

    return ask


ASKED = """
extends: bub:default
stages: {{run_model: {{timeout: 30s{more}}}}}
plugins: {{model: {{path: model.py}}}}
profiles: {{default: {{plugins: [model], tools: {{allow: [build], ask: [build]}}}}}}
"""


def asking(taking: float = 1.0, calls: int = 1) -> Toy:
    @tool(reaches=None)
    async def build() -> str:
        """Take a while."""
        await trio.sleep(taking)
        return "built"

    def call_model(request: dict[str, Any]) -> AsyncStreamEvents:
        if request["messages"][-1]["role"] == "tool":
            return a_stream("it is built")
        made = [StreamEvent("tool_call", {"id": f"{n}", "name": "build", "arguments": {}}) for n in range(calls)]
        return a_stream(*made)

    return Toy(call_model=call_model, provide_tools=lambda: [build])


@pytest.mark.parametrize("calls", [1, 3])
async def test_what_a_person_thinks_about_is_not_the_stages_time(bub: Workshop, calls: int) -> None:
    framework = bub(ASKED.format(more=", idle_timeout: 10s"), model=asking(calls=calls))
    async with framework.running():
        result = await framework.process_inbound(HELLO, ask=deciding(600))
    assert result.model_output == "it is built"
    assert outcomes(result)["run_model"] == "ok"


async def test_the_stages_time_goes_on_when_the_person_has_answered(bub: Workshop) -> None:
    framework = bub(ASKED.format(more=""), model=asking(taking=31.0))
    async with framework.running():
        with pytest.raises(trio.TooSlowError, match="stage `run_model` took longer than 30 seconds"):
            await framework.process_inbound(HELLO, ask=deciding(600))
    assert trio.current_time() == pytest.approx(630.0)


async def test_a_question_of_a_turn_that_a_tool_started_stops_the_time_of_both(bub: Workshop) -> None:
    @tool(reaches=None)
    async def hand_on() -> str:
        """Let another turn do it."""
        result = await framework.process_inbound({**HELLO, "chat_id": "other", "content": "inner"})
        return str(result.model_output)

    inner = asking()

    def call_model(request: dict[str, Any]) -> AsyncStreamEvents:
        messages = request["messages"]
        said = [one["content"] for one in messages if one["role"] == "user"]
        if "inner" in said[-1]:
            answer: AsyncStreamEvents = inner.call_model(request)  # type: ignore[attr-defined]
            return answer
        if messages[-1]["role"] == "tool":
            return a_stream(f"done: {messages[-1]['content']}")
        return a_stream(StreamEvent("tool_call", {"id": "o", "name": "hand_on", "arguments": {}}))

    tools = inner.provide_tools()  # type: ignore[attr-defined]
    pipeline = ASKED.format(more="").replace("allow: [build]", "allow: [build, hand_on]")
    framework = bub(pipeline, model=Toy(call_model=call_model, provide_tools=lambda: [*tools, hand_on]))
    async with framework.running():
        result = await framework.process_inbound(HELLO, ask=deciding(600))
    assert result.model_output == "done: it is built"


async def test_a_gate_of_the_agent_that_asks_a_person_has_its_time_beside_that(bub: Workshop) -> None:
    pipeline = ASKED.format(more="").replace(", ask: [build]", "") + "hooks: {tool_gate: {kind: gate, timeout: 5s}}\n"
    framework: Any = None

    asked: list[float] = []

    async def tool_gate(tool: str, session_id: str) -> None:
        await framework.ask(Question(session_id, tool))
        asked.append(trio.current_time())

    model = asking()
    framework = bub(
        pipeline,
        model=Toy(call_model=model.call_model, provide_tools=model.provide_tools, tool_gate=tool_gate),  # type: ignore[attr-defined]
    )
    async with framework.running():
        result = await framework.process_inbound(HELLO, ask=deciding(600))
    assert result.model_output == "it is built"
    assert asked == [600.0]
    assert trio.current_time() == 601.0  # the tool has run
