"""Models that think: how they are told to, and that their thoughts go back to those who want them, unchanged.

The server refuses what the providers refuse (`fakes/thinking_server.py`).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fakes.scripted import OPENAI, events_of, serving
from fakes.talk import Talk, adding, bringing
from fakes.thinking_server import THOUGHT
from fakes.toys import Toy, Workshop
from hypothesis import given
from hypothesis import strategies as st

from bub import tool
from bub.agent.models.apis import anthropic, responses
from bub.agent.models.apis.effort import effort_fields
from bub.agent.models.chat import ChatRequest
from bub.agent.models.draft import Draft
from bub.agent.models.endpoint import resolve_endpoint
from bub.agent.models.names import ToolNames
from bub.agent.models.thoughts import ThoughtSplitter
from bub.errors import ModelError
from bub.tape import TapeEntry
from bub.tape.entry import words_of

NUMBER = iter(range(1000))


@pytest.fixture(scope="module")
def thinker() -> Iterator[str]:
    with serving(program="thinking_server.py") as address:
        yield address


class Thinker(Talk):
    """An agent whose model thinks, at a provider with that one's rules."""

    def __init__(self, workshop: Workshop, address: str, provider: str, model: str) -> None:
        super().__init__(workshop, address)
        self.name = f"{provider}:{model}"
        self.provider = provider
        self.api = ", api: responses" if provider == "openai" else ""

    def opened(self, *, more: str = "", entry: str = "", **toys: Any) -> Any:
        pipeline = (
            "extends: bub:default\n"
            f"settings:\n  model: {self.name}\n  retries: 0\n  providers:\n"
            f"    {self.provider}: {{api_base: '{self.address}/{self.provider}', api_key: sk-secret-key{self.api}"
            f"{entry}}}\n"
            f"{more}\n"
            f"plugins: {{{', '.join(f'{name}: {{path: {name}.py}}' for name in toys)}}}\n"
            f"profiles: {{default: {{plugins: [{', '.join(toys)}], tools: {{allow: [math.add, reasoning, model]}}}}}}\n"
        )
        self.framework = self.workshop(pipeline, **toys)
        return self.framework.running()

    async def last(self) -> dict[str, Any]:
        """The newest request of all."""
        async with httpx.AsyncClient() as client:
            found: dict[str, Any] = (await client.get(f"{self.address}/log")).json()[-1]
        return found

    @property
    def thought(self) -> str:
        return "".join(event["delta"] for event in self.of_kind("reasoning"))


@pytest.fixture
def think(workshop: Workshop, thinker: str) -> Any:
    return lambda name: Thinker(workshop, thinker, *name.split(":", 1))


# What goes back


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("deepseek:deepseek-v4", ""),
        ("deepseek:deepseek-v4", "  reasoning: high"),
        ("anthropic:claude-sonnet-4-5", "  reasoning: low\n  temperature: 0.5"),
        ("anthropic:claude-sonnet-4-5", "  reasoning: 4000\n  max_tokens: 3000"),
        ("anthropic:claude-opus-4-8", "  reasoning: medium\n  temperature: 0.5"),
        ("openrouter:openai/gpt-5", "  reasoning: high"),
        ("openai:gpt-5.1", "  reasoning: high\n  temperature: 0.5"),
    ],
)
async def test_thoughts_go_back_in_the_same_turn_in_the_next_and_from_the_tape(
    think: Any, model: str, more: str
) -> None:
    talk = think(model)
    async with talk.opened(more=more, toy=bringing(adding())):
        first = await talk.say("add 17 and 25")
        thought = talk.thought
        second = await talk.say("and once more")
        tape = await talk.tape()
    assert first.model_output.endswith("It is 42.")
    assert second.model_output.endswith("It is 42.")
    assert thought.startswith(THOUGHT)
    for entry in [entry for entry in tape if entry.kind == "tool_call"]:
        assert entry.payload["thoughts"]["text"] == THOUGHT
        assert entry.payload["thoughts"]["by"] == model
    assert THOUGHT not in json.dumps(first.outbounds, default=str)
    assert THOUGHT not in str(first.model_output)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "model",
    ["deepseek:deepseek-v4", "anthropic:claude-sonnet-4-5", "openrouter:openai/gpt-5", "openai:gpt-5.1"],
)
async def test_thoughts_of_a_step_that_stays_go_back_behind_a_compaction(think: Any, model: str) -> None:
    """The model of this server cannot sum up, so the older part is left out; what stays is checked as strictly."""

    @tool(name="math.add", read_only=True, reaches=None)
    def add_at_length(a: int, b: int) -> str:
        """Add two numbers."""
        return f"{'after some thought ' * next(lengths)}{a + b}"

    talk, within, lengths = think(model), 0, itertools.cycle((40, 240))
    async with talk.opened(more="  reasoning: high", entry=", context: {'*': 2400}", toy=bringing(add_at_length)):
        for turn in range(8):
            answer = await talk.say(f"add 17 and 25, for the {turn}th time. " + "It is a long story. " * 60)
            assert "It is after some thought" in answer.model_output
            kinds = [event.kind for event in talk.events]
            within += "compaction" in kinds[kinds.index("tool_result") :]
    assert within, "behind the call and before its result goes back"


@pytest.mark.anyio
async def test_a_turn_that_another_model_began_is_gone_on_with(workshop: Workshop, thinker: str) -> None:
    entry = "api_key: sk-a-secret-key"
    names = {"anthropic": "claude-sonnet-4-5", "deepseek": "deepseek-v4", "openrouter": "openai/gpt-5"}
    providers = ", ".join(f"{name}: {{api_base: '{thinker}/{name}', {entry}}}" for name in names)
    talk = Talk(workshop, thinker)
    talk.framework = workshop(
        f"extends: bub:default\nsettings:\n  model: anthropic:claude-sonnet-4-5\n  retries: 0\n  reasoning: low\n"
        f"  providers: {{{providers}}}\nplugins: {{toy: {{path: toy.py}}}}\n"
        "profiles: {default: {plugins: [toy], tools: {allow: [math.add, reasoning, model]}}}\n",
        toy=bringing(adding()),
    )
    async with talk.framework.running():
        for provider in ("anthropic", "deepseek", "openrouter", "anthropic", "deepseek"):
            await talk.say(f",model {provider}:{names[provider]}")
            answer = await talk.say("add 17 and 25")
            assert str(answer.model_output).endswith("It is 42."), provider


@pytest.mark.anyio
async def test_thoughts_with_a_secret_in_them_are_kept_without_it_and_without_what_was_signed(think: Any) -> None:
    talk = think("anthropic:claude-sonnet-4-5")
    async with talk.opened(more="  reasoning: low\n  lab: {api_key: surely}", toy=bringing(adding())):
        await talk.say("add 17 and 25")
        answer = await talk.say("and once more")
        tape = await talk.tape()
    assert answer.model_output.endswith("It is 42.")
    calls = [entry.payload["thoughts"] for entry in tape if entry.kind == "tool_call"]
    assert all("surely" not in kept["text"] and "***" in kept["text"] for kept in calls)
    assert not any("blocks" in kept for kept in calls)


# Responses


@pytest.mark.anyio
async def test_responses_stores_nothing_and_tells_how_it_ended(think: Any) -> None:
    talk = think("openai:gpt-5.1")
    async with talk.opened(more="  reasoning: off\n  max_tokens: 50", toy=bringing(adding())):
        cut = await talk.say("go on for ever")
        asked, ended = await talk.last(), talk.of_kind("final")[0]
        with pytest.raises(ModelError, match=r"It is too late"):
            await talk.say("fail")
    assert cut.model_output == "On and on"
    assert (ended["finish_reason"], ended["usage"]["cached_tokens"]) == ("length", 4)
    assert (asked["store"], asked["reasoning"], asked["max_output_tokens"]) == (False, {"effort": "none"}, 50)
    assert asked["tools"][0]["name"] == "math_add"
    assert asked["instructions"].startswith("You are Bub")


def test_responses_asks_a_model_that_does_not_think_for_no_thoughts_and_sends_images() -> None:
    endpoint = resolve_endpoint(
        {"model": "openai:gpt-4o", "api_key": "k", "providers": {"openai": {"api": "responses"}}}
    )
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    request = ChatRequest.of_prompt([{"type": "text", "text": "look"}, image, {"type": "video_url", "video_url": "x"}])
    body = responses.body(endpoint, request, ToolNames(request))
    assert endpoint.url == "https://api.openai.com/v1/responses"
    assert not {"include", "reasoning"} & set(body)
    text, picture, film = body["input"][0]["content"]
    assert (text["type"], picture["image_url"]) == ("input_text", "data:image/png;base64,AA==")
    assert "which this model cannot be sent" in film["text"]


def test_a_response_that_comes_at_once_is_read_as_well() -> None:
    endpoint = resolve_endpoint({"model": "lab:m", "api_base": "http://h", "providers": {"lab": {"api": "responses"}}})
    request = ChatRequest.of_prompt("hi")
    draft = Draft(endpoint, ToolNames(request), ())
    said = {"type": "message", "content": [{"type": "output_text", "text": "Hello."}]}
    sealed = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x", "status": None}
    whole = {"object": "response", "output": [sealed, said], "usage": {"input_tokens": 1, "output_tokens": 2}}
    responses.reader(endpoint, draft).take_whole(json.dumps(whole).encode())
    draft.end()
    assert [event.kind for event in draft.ready] == ["text", "usage", "final"]
    kept = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x"}
    assert draft.ready[-1].data == {"finish_reason": "stop", "thoughts": [{"at": 0, "block": kept}]}


# How a model is told


@pytest.mark.parametrize(
    ("model", "wanted", "fields"),
    [
        ("openai:gpt-5.1", "high", {"reasoning_effort": "high"}),
        ("openai:gpt-5.1", "off", {"reasoning_effort": "none"}),
        ("openai:gpt-5-mini", "off", {"reasoning_effort": "minimal"}),
        ("openai:o3", "off", {}),
        ("openai:o3", 5000, {"reasoning_effort": "medium"}),
        ("openai:gpt-4o", "high", {}),
        ("azure:gpt-5.1", "low", {"reasoning_effort": "low"}),
        ("deepseek:deepseek-v4", "low", {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}),
        ("deepseek:deepseek-v4", "off", {"thinking": {"type": "disabled"}}),
        ("moonshot:kimi-k2.5", "high", {"thinking": {"type": "enabled"}}),
        ("moonshot:kimi-k2.6", "off", {"thinking": {"type": "disabled"}}),
        ("moonshot:kimi-k3", "medium", {"reasoning_effort": "high"}),
        ("moonshot:kimi-k3", "off", {}),
        ("zai:glm-4.7", "off", {"thinking": {"type": "disabled"}}),
        ("openrouter:x/y", "off", {"reasoning": {"effort": "none"}}),
        ("openrouter:x/y", 2000, {"reasoning": {"max_tokens": 2000}}),
        ("gemini:gemini-2.5-flash", "off", {"reasoning_effort": "none"}),
        ("gemini:gemini-3-pro", "off", {}),
        ("vertex:google/gemini-3-pro", "low", {"reasoning_effort": "low"}),
        ("groq:qwen/qwen3-32b", "high", {"reasoning_effort": "default"}),
        ("groq:llama-3.3-70b", "high", {}),
        ("xai:grok-4-fast", "high", {}),
        ("xai:grok-3-mini", "low", {"reasoning_effort": "low"}),
        ("mistral:mistral-small-latest", "low", {"reasoning_effort": "high"}),
        ("mistral:open-mixtral", "low", {}),
        ("bedrock:openai.gpt-oss-120b-1:0", "low", {"reasoning_effort": "low"}),
        ("together:x/y", "off", {"reasoning": {"enabled": False}}),
        ("llamacpp:qwen3", "off", {"chat_template_kwargs": {"enable_thinking": False}}),
        ("vllm:qwen3", "low", {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "low"}),
        ("ollama:qwen3", "off", {"reasoning_effort": "none"}),
        ("workshop:qwen3", "medium", {"reasoning_effort": "medium"}),
        ("workshop:qwen3", None, {}),
    ],
)
def test_a_level_is_written_as_the_provider_reads_it(model: str, wanted: Any, fields: dict[str, Any]) -> None:
    own = {"api_base": "http://here/v1", "api_key": "k"}
    endpoint = resolve_endpoint({"model": model, "reasoning": wanted, **own})
    assert effort_fields(endpoint, None) == fields
    assert effort_fields(resolve_endpoint({"model": model, **own}), wanted) == fields


@pytest.mark.parametrize(
    ("model", "wanted", "thinking", "limit"),
    [
        ("claude-sonnet-4-5", "low", {"type": "enabled", "budget_tokens": 2048}, 2048 + 8192),
        ("claude-sonnet-4-5", 100, {"type": "enabled", "budget_tokens": 1024}, 1024 + 8192),
        ("claude-sonnet-4-5", "off", None, 8192),
        ("claude-3-5-haiku-latest", "high", None, 8192),
        ("claude-opus-4-6", "medium", {"type": "adaptive"}, 8192),
        ("claude-opus-4-8", "off", None, 8192),
        ("claude-opus-5", "off", {"type": "disabled"}, 8192),
        ("claude-opus-5-5", "off", None, 8192),
        ("claude-opus-5-5", 30000, {"type": "adaptive"}, 8192),
    ],
)
def test_claude_is_told_with_a_budget_or_a_level(model: str, wanted: Any, thinking: Any, limit: int) -> None:
    endpoint = resolve_endpoint({"model": f"anthropic:{model}", "api_key": "k", "reasoning": wanted})
    request = ChatRequest.of_prompt("hi")
    body = anthropic.body(endpoint, request, ToolNames(request))
    assert (body.get("thinking"), body["max_tokens"]) == (thinking, limit)
    if thinking == {"type": "adaptive"}:
        assert body["output_config"] == {"effort": "high" if wanted == 30000 else wanted}


@pytest.mark.anyio
async def test_a_session_chooses_its_level_and_gives_it_up_again(think: Any) -> None:
    talk = think("deepseek:deepseek-v4")
    async with talk.opened(more="  reasoning: low", toy=bringing(adding())):
        said = [(await talk.say(f",reasoning {level}")).model_output for level in ("", "off", "", "medum", "9000")]
        await talk.say(",reasoning high")
        await talk.say("add 17 and 25")
        high = await talk.last()
        await talk.say(",reasoning off")
        await talk.say("add 17 and 25")
        off = await talk.last()
        await talk.say(",reasoning default")
        await talk.say("add 17 and 25")
        low = await talk.last()
    assert said[:3] == ["low", "the reasoning of this session is off from now on", "off (the settings say: low)"]
    assert "`medum` is no level of thinking" in str(said[3])
    assert "`deepseek:deepseek-v4` knows no number of tokens, and takes `medium` for it" in str(said[4])
    assert [body.get("reasoning_effort") for body in (high, off, low)] == ["high", None, "low"]
    assert [body["thinking"]["type"] for body in (high, off, low)] == ["enabled", "disabled", "enabled"]


@pytest.mark.anyio
async def test_a_plugin_may_say_how_much_one_request_is_to_think(think: Any) -> None:
    talk = think("deepseek:deepseek-v4")
    toy = Toy(before_llm_call=lambda request: {"reasoning": "high" if request["reasoning"] is None else "low"})
    async with talk.opened(toy=bringing(adding()), other=toy):
        await talk.say("add 17 and 25")
    assert (await talk.last())["reasoning_effort"] == "high"


@pytest.mark.parametrize("said", ["extreme", "-1", "1.5", "0"])
def test_another_level_is_refused(said: str) -> None:
    with pytest.raises(ModelError, match="`reasoning` is no level of thinking"):
        resolve_endpoint({"model": "ollama:m", "reasoning": said})


# Thoughts among the words


@given(st.data())
def test_thoughts_in_a_text_are_told_however_it_is_cut(data: st.DataObject) -> None:
    thought, words = "I <think> of </thin and < this", "So: 1 < 2, and <think>this</think> are words."
    whole = data.draw(st.sampled_from(["", "\n", " \n"])) + f"<think>\n{thought}</think>\n\n{words}"
    splitter, said = ThoughtSplitter(), {"reasoning": "", "text": ""}
    while whole:
        size = data.draw(st.integers(1, 7))
        for kind, part in splitter.feed(whole[:size]):
            said[kind] += part
        whole = whole[size:]
    for kind, part in splitter.rest():
        said[kind] += part
    assert said == {"reasoning": f"\n{thought}", "text": words}


@pytest.mark.parametrize("text", ["<thinking>", "<b>", " hello <think>x</think>", "<thin", "\n", "a"])
def test_a_text_that_does_not_begin_with_the_tag_is_words(text: str) -> None:
    splitter = ThoughtSplitter()
    parts = [*(part for letter in text for part in splitter.feed(letter)), *splitter.rest()]
    assert {kind for kind, _ in parts} == {"text"}
    assert "".join(part for _, part in parts) == text


@pytest.mark.anyio
async def test_what_stands_in_think_tags_is_no_answer(talk: Talk) -> None:
    script = OPENAI.answer("<think>\nThey greet me.\n</think>\n\nHello!", at_once=3)
    async with talk.open():
        result = await talk.say(script)
    assert result.model_output == "Hello!"
    assert "".join(event["delta"] for event in talk.of_kind("reasoning")) == "\nThey greet me.\n"


@pytest.mark.anyio
async def test_thoughts_that_are_parts_of_the_content_are_no_answer(talk: Talk) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "They greet me."}]}
    deltas = [{"content": [thought]}, {"content": "Hello!"}]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    async with talk.open():
        result = await talk.say(events_of(*chunks, end, "[DONE]"))
    assert result.model_output == "Hello!"
    assert [event["delta"] for event in talk.of_kind("reasoning")] == ["They greet me."]


def test_a_search_of_the_tape_does_not_look_through_thoughts() -> None:
    entry = TapeEntry.message({"role": "assistant", "content": "Hi.", "thoughts": {"text": "hm", "by": "a:b"}})
    assert words_of(entry.payload) == "assistant\nHi."
