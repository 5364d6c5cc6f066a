"""How an answer ended, and what it used and cost, as people and programs are told of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import bub
from fakes.line import Line, an_office, opened
from fakes.scripted import ANTHROPIC, OPENAI, Api, Called, Script
from fakes.talk import Talk, add, adding, bringing
from fakes.toys import Toy, Workshop

from bub.agent.models.usage import Tokens, count_tokens
from bub.streaming import AsyncStreamEvents, StreamEvent

CUT = OPENAI.answer("Once upon a", reason="length")
PRICE = "{input: 2, output: 10, cache_read: 0.5, cache_write: 4}"


@pytest.fixture
def file(tmp_path: Path, address: str) -> Path:
    """A pipeline file whose model is the scripted server."""
    file = tmp_path / "pipelines.yaml"
    file.write_text(
        "version: 1\nextends: bub:default\nsettings:\n  model: test:m\n  retries: 0\n"
        f'  providers: {{test: {{api_base: "{address}/v1", price: {{"*": {PRICE}}}}}}}\n'
        "profiles: {default: {plugins: []}}\n"
    )
    return file


@pytest.mark.parametrize("option", [[], ["--stream"], ["--json"]])
def test_run_says_on_standard_error_that_an_answer_was_cut_and_succeeds(file: Path, option: list[str]) -> None:
    done = bub(file.parent, "--config", "pipelines.yaml", "run", *option, json.dumps([CUT]))
    assert done.returncode == 0
    assert "Once upon a" in done.stdout
    assert "cut" not in done.stdout
    [line] = [line for line in done.stderr.splitlines() if "the answer is cut" in line]
    assert line.startswith("bub: ")
    assert "`max_tokens`" in line


def test_chat_says_below_the_answer_that_it_was_cut(file: Path) -> None:
    done = bub(file.parent, "--config", "pipelines.yaml", "chat", json.dumps([CUT]))
    assert (done.returncode, done.stdout) == (0, "Once upon a\n")
    assert "the answer is cut" in done.stderr


def test_an_answer_that_is_whole_is_no_news_and_json_tells_how_it_ended(file: Path) -> None:
    script = [
        OPENAI.answer(calls=[Called("fs_list", "{}")], usage=(1000, 10)),
        OPENAI.answer("Done.", usage=(2000, 20)),
    ]
    done = bub(file.parent, "--config", "pipelines.yaml", "run", "--json", json.dumps(script))
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert (told["finish_reason"], told["steps"]) == ("stop", 2)
    assert told["usage"] == {"input_tokens": 3000, "output_tokens": 30, "cached_tokens": 0}
    assert told["cost"] == pytest.approx(0.0063)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("api", "usage", "counted", "cost"),
    [
        (OPENAI, {"prompt_tokens": 1000, "completion_tokens": 100}, (1000, 100, 0), 0.003),
        (
            OPENAI,
            {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 800}},
            (1000, 100, 800),
            0.0018,
        ),
        (
            OPENAI,
            {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_cache_hit_tokens": 800},
            (1000, 100, 800),
            0.0018,
        ),
        (
            ANTHROPIC,
            {
                "input_tokens": 100,
                "cache_read_input_tokens": 800,
                "cache_creation_input_tokens": 100,
                "output_tokens": 10,
            },
            (1000, 10, 800),
            0.0011,
        ),
    ],
    ids=["openai", "openai's cache", "deepseek's cache", "anthropic's cache"],
)
async def test_what_a_provider_had_in_its_cache_has_a_price_of_its_own(
    talk: Talk, api: Api, usage: dict[str, int], counted: tuple[int, ...], cost: float
) -> None:
    async with talk.open(api=api.name, entry=f"price: {{'*': {PRICE}}}"):
        await talk.say(with_usage(api.answer("Hi.", usage=None), usage))
    [end] = talk.of_kind("final")
    assert tuple(end["usage"].values()) == counted
    assert end["cost"] == pytest.approx(cost)


@pytest.mark.anyio
async def test_the_usage_of_a_turn_is_that_of_its_sub_agents_too(talk: Talk) -> None:
    inner = json.dumps([OPENAI.answer("Four.", usage=(30, 3))])
    calls = [Called("subagent", json.dumps({"prompt": inner}))]
    async with talk.open():
        await talk.say(OPENAI.answer(calls=calls, usage=(10, 1)), OPENAI.answer("It is four.", usage=(20, 2)))
    [end] = talk.of_kind("final")
    assert end["usage"] == {"input_tokens": 60, "output_tokens": 6, "cached_tokens": 0}
    assert end["steps"] == 2


@pytest.mark.anyio
async def test_a_cost_is_told_only_if_the_price_of_each_answer_is_known(talk: Talk) -> None:
    """The second answer is that of a model without a price."""
    ends = []
    for other in ("{}", "{'*': {input: 1, output: 1}}"):
        second = Toy(before_llm_call=lambda request: {"model": "second:large"} if request["step"] == 2 else None)
        more = f"second: {{api_base: '{talk.address}/v1', price: {other}}}"
        async with talk.open(entry=f"price: {{'*': {PRICE}}}", providers=more, toy=bringing(adding()), second=second):
            await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("Hi."))
        ends += talk.of_kind("final")
    assert [("cost" in end, "usage" in end) for end in ends] == [(False, True), (True, True)]


def test_the_tokens_of_the_responses_api_hold_the_cached_ones() -> None:
    usage: dict[str, Any] = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 7}
    assert count_tokens(usage) == Tokens(100, 7, 60)


def with_usage(script: Script, usage: dict[str, int]) -> Script:
    """An answer of which the provider counts this."""
    if "choices" in script[0]["sse"]:
        return [*script[:-1], {"sse": {"choices": [], "usage": usage}}, script[-1]]
    *rest, end, stop = script
    return [*rest, {"sse": {**end["sse"], "usage": usage}}, stop]


GATED = """
extends: bub:default
hooks: {outbound_gate: {kind: gate}}
stages: {outbound_gate: {for_each: outbounds, before: dispatch_outbound}}
"""


def ending(data: dict[str, Any]) -> Callable[[], AsyncStreamEvents]:
    """A model whose answer ends like this."""

    async def events() -> AsyncIterator[StreamEvent]:
        yield StreamEvent.text("Once upon a")
        yield StreamEvent("final", data)

    return lambda: AsyncStreamEvents(events())


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("end", "notes"),
    [
        ({"finish_reason": "length"}, ["The answer is cut: it has reached the longest length that it may have."]),
        ({"finish_reason": "content_filter"}, ["The answer is cut: the content filter of the provider stopped it."]),
        ({"finish_reason": "limit"}, ["The answer ends early: its turn has reached a limit."]),
        (
            {"finish_reason": "stop", "compaction": "the conversation was summed up: 4,000 → 900 tokens"},
            ["The conversation was summed up: 4,000 → 900 tokens."],
        ),
        ({"finish_reason": "stop"}, []),
        ({}, []),
    ],
)
async def test_a_chat_is_told_below_the_answer_that_it_is_not_whole(
    workshop: Workshop, end: dict[str, Any], notes: list[str]
) -> None:
    line = Line()
    async with opened(an_office(workshop, line, run_model_stream=ending(end), run_model=None)) as manager:
        await line.say("tell me a story")
        await manager.settled()
    assert [(sent.kind, sent.content) for sent in line.sent] == [
        ("normal", "Once upon a"),
        *(("note", note) for note in notes),
    ]
    assert {(sent.chat_id, sent.answers) for sent in line.sent} == {("1", "m1")}


@pytest.mark.anyio
async def test_who_sees_the_end_of_the_answer_or_nothing_of_it_gets_no_note(workshop: Workshop) -> None:
    terminal, guarded = Line(role="interface"), Line()
    cut = {"run_model_stream": ending({"finish_reason": "length"}), "run_model": None}
    async with opened(an_office(workshop, terminal, **cut), ("line",)) as manager:
        await terminal.say("tell me a story")
        await manager.settled()
    async with opened(
        an_office(workshop, guarded, pipeline=GATED, outbound_gate=lambda: {"deny": "no"}, **cut)
    ) as manager:
        await guarded.say("tell me a story")
        await manager.settled()
    assert [sent.kind for sent in (*terminal.sent, *guarded.sent)] == ["normal"]
