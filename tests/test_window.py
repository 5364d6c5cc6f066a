"""Conversations longer than the window of the model: nothing is cut in silence, and what was said is not forgotten.

The server cuts or refuses as the real ones do (`fakes/window_server.py`), and counts more tokens than Bub expects.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest
import trio
from fakes.scripted import OPENAI, Called, serving
from fakes.talk import Talk, bringing, results_in
from fakes.toys import Workshop

from bub import BubFramework, tool
from bub.agent.journal import Journal
from bub.agent.loop.context import Context
from bub.agent.marks.session import SessionMarks
from bub.agent.task import Task
from bub.agent.window.offer import offer
from bub.base.surfaces import Surface
from bub.channels.terminal.answer import LiveAnswer, Printout
from bub.errors import ModelError
from bub.plugins.shipped import DESCRIBE
from bub.streaming import StreamEvent
from bub.tape import Tape, TapeEntry
from bub.tape.media import put_back
from bub.tape.tape import tape_name
from bub.tools import Tool

pytestmark = pytest.mark.anyio

NUMBER = iter(range(1000))
CHATTER = "Let us talk about the weather of this week, of last week, and of all the weeks that will come. " * 12


@pytest.fixture(scope="module")
def windows() -> Iterator[str]:
    with serving(program="window_server.py") as address:
        yield address


class Windowed(Talk):
    """An agent whose model has a window of 4,096 tokens, at a provider that does with more what the real one does."""

    def __init__(self, workshop: Workshop, address: str, provider: str, model: str = "plain") -> None:
        super().__init__(workshop, address)
        self.provider = provider
        self.model = f"{model}-{next(NUMBER)}" if provider != "vllm" else "served"

    def opened(self, *, entry: str = "", tools: str = "[book.page, tape.search, context, compact]", **toys: Any) -> Any:
        pipeline = (
            "extends: bub:default\n"
            f'settings:\n  model: "{self.provider}:{self.model}"\n  retries: 0\n  prompt: {{now: false}}\n'
            f"  providers: {{{self.provider}: {{api_base: '{self.address}/{self.provider}/v1'{entry}}}}}\n"
            f"plugins: {{{', '.join(f'{name}: {{path: {name}.py}}' for name in toys)}}}\n"
            f"profiles: {{default: {{plugins: [{', '.join(toys)}], tools: {{allow: {tools}}}}}}}\n"
        )
        self.framework = self.workshop(pipeline, **toys)
        return self.framework.running()

    async def log(self) -> list[dict[str, Any]]:
        async with httpx.AsyncClient() as client:
            entries: list[dict[str, Any]] = (
                await client.get(f"{self.address}/log", params={"model": self.model})
            ).json()
        return entries

    async def fill(self, tokens: int) -> None:
        """Chat until so many tokens were said since now."""
        said = 0
        while said < tokens:
            result = await self.say(CHATTER)
            said += (len(CHATTER) + len(result.model_output or "")) // 3

    @property
    def lines(self) -> list[str]:
        """The lines about the conversation that the person saw in the last turn."""
        return [event["text"] for event in self.of_kind("compaction")]


def book(sentences: int = 24) -> Tool:
    @tool(name="book.page", read_only=True, reaches=None)
    def page(number: int) -> str:
        """Read a page of the book."""
        return f"page {number} says: " + "Nothing happens on this page, and it takes its time. " * sentences

    return page


def is_summary(entry: dict[str, Any]) -> bool:
    return "<conversation>" in json.dumps(entry["body"]["messages"][-1])


@pytest.mark.parametrize("provider", ["ollama", "strict", "vllm", "llamacpp", "lmstudio"])
async def test_a_conversation_of_three_windows_keeps_the_name_of_the_dog(
    workshop: Workshop, windows: str, provider: str
) -> None:
    talk = Windowed(workshop, windows, provider)
    entry = ", context: {'*': 4096}" if provider == "strict" else ""
    async with talk.opened(entry=entry, toy=bringing(book())):
        begun = len(await talk.log())
        await talk.say("say: Nice. My dog is called Bo.")
        await talk.fill(2 * 4096)
    async with talk.opened(entry=entry, toy=bringing(book())):
        await talk.fill(4096)
        answer = (await talk.say("what is my dog called?")).model_output
    log = (await talk.log())[begun:]
    assert answer == "It is called Bo."
    assert "dog is called Bo" in json.dumps(log[-1]["body"]["messages"])
    assert not any(entry["cut"] for entry in log)
    assert max(entry["tokens"] for entry in log) <= 4096
    assert 3 <= sum(map(is_summary, log)) <= 12


async def test_between_two_anchors_each_request_begins_with_the_one_before(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        await talk.fill(2 * 4096)
    log = await talk.log()
    requests = [entry["body"]["messages"] for entry in log if not is_summary(entry)]
    broken = [before for before, now in pairwise(requests) if now[: len(before)] != before]
    assert len(broken) == sum(map(is_summary, log)) >= 2
    assert len(requests) > 2 * len(broken)


async def test_a_turn_of_many_results_goes_on_behind_a_summary_of_its_own_steps(
    workshop: Workshop, windows: str
) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        result = await talk.say("read to page 20")
    log = await talk.log()
    assert result.model_output == "I have read to page 20."
    assert [call["arguments"] for call in talk.of_kind("tool_call")] == [{"number": page} for page in range(1, 21)]
    assert not any(entry["cut"] for entry in log)
    answers = [entry["body"]["messages"] for entry in log if not is_summary(entry)]
    assert all("read to page 20" in json.dumps(messages) for messages in answers)
    assert all(messages[-1]["role"] == "tool" for messages in answers[1:])
    assert "page 20 says" in answers[-1][-1]["content"]


async def test_the_person_sees_one_line_and_the_summary_is_on_the_bill(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        while not talk.lines:
            before = len(await talk.log())
            await talk.say(CHATTER)
    (line,) = talk.lines
    summing, answering = (await talk.log())[before:]
    assert is_summary(summing) and not is_summary(answering)
    sizes = line.removeprefix("the conversation was summed up: ").removesuffix(" tokens").replace(",", "").split(" → ")
    was, now = map(int, sizes)
    assert was > 3000 > 2500 > now
    assert abs(now - answering["tokens"]) < now / 4
    assert talk.of_kind("final")[0]["usage"]["input_tokens"] == summing["tokens"] + answering["tokens"]


@pytest.mark.parametrize("fault", ["break: empty", "break: server"])
async def test_if_the_summary_fails_the_oldest_is_left_out_and_that_is_said(
    workshop: Workshop, windows: str, fault: str
) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        await talk.say(f"say: {fault}")
        lines: list[str] = []
        while not lines:
            await talk.say(CHATTER)
            lines = talk.lines
        await talk.say("say: we go on")
        (request,) = [entry["body"] for entry in (await talk.log())[-1:]]
    assert re.match(r"the oldest \d+ messages are left out, since they could not be summed up: ", lines[0])
    assert "Nobody has told you what was said before" in json.dumps(request)
    assert "tape.search finds what you miss" in json.dumps(request)


async def test_a_failure_that_passes_leaves_the_conversation_as_it_is(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    refused: list[bool] = []

    def before_llm_call(request: dict[str, Any]) -> dict[str, Any] | None:
        if "<conversation>" not in str(request["messages"][-1]["content"]) or refused:
            return None
        refused.append(True)
        return {"model": "gone:x"}

    entry = "}, gone: {api_base: 'http://127.0.0.1:9/v1'"
    async with talk.opened(entry=entry, toy=bringing(book(), before_llm_call=before_llm_call)):
        await talk.say("say: Nice. My dog is called Bo.")
        with pytest.raises(ModelError, match="cannot be reached"):
            await talk.fill(3 * 4096)
        await talk.fill(4096)
        assert (await talk.say("what is my dog called?")).model_output == "It is called Bo."


async def test_a_request_that_cannot_fit_is_refused_with_the_numbers_and_the_session_goes_on(
    workshop: Workshop, windows: str
) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        with pytest.raises(ModelError) as caught:
            await talk.say("word " * 6000)
        assert await talk.log() == []
        assert (await talk.say("say: hello")).model_output == "hello"
    said = str(caught.value)
    assert "what was asked now 8," in said and "1 tools" not in said
    assert "its window has 4,096, as its server says" in said
    assert "`providers.ollama.context`" in str(caught.value.help)


@pytest.mark.parametrize(("model", "size"), [("plain", 4096), ("filed", 6144), ("old", 2048)])
async def test_ollama_tells_the_window_it_runs_a_model_with(
    workshop: Workshop, windows: str, model: str, size: int
) -> None:
    talk = Windowed(workshop, windows, "ollama", model)
    async with talk.opened(toy=bringing(book())):
        with pytest.raises(ModelError, match=f"its window has {size:,}, (as|the least)"):
            await talk.say("word " * 9000)


async def test_a_window_of_the_settings_counts_unless_the_server_has_a_smaller_one(
    workshop: Workshop, windows: str, log: list[str]
) -> None:
    small = Windowed(workshop, windows, "ollama")
    async with small.opened(entry=", context: {'plain*': 2000, '*': 9000}", toy=bringing(book())):
        with pytest.raises(ModelError, match="its window has 2,000, as the settings say"):
            await small.say("word " * 6000)
    large = Windowed(workshop, windows, "ollama")
    async with large.opened(entry=", context: {'*': 200000}", toy=bringing(book())):
        with pytest.raises(ModelError, match="its window has 4,096, as its server says"):
            await large.say("word " * 6000)
    assert any(line.startswith("window.smaller") for line in log)


async def test_a_person_sees_what_a_request_consists_of(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        await talk.fill(1000)
        said = (await talk.say(",context")).model_output or ""
    rows = dict(re.findall(r"^(.+?)  +([\d,]+)$", said, re.MULTILINE))
    sizes = {name: int(size.replace(",", "")) for name, size in rows.items()}
    assert set(sizes) == {"system prompt", "2 tools", "the rest of the conversation", "in all"}
    total = sizes.pop("in all")
    assert abs(sum(sizes.values()) - total) <= len(sizes)
    last = (await talk.log())[-1]
    assert last["tokens"] < total < last["tokens"] * 1.5, "the last answer is behind it"
    assert f"the window of ollama:{talk.model} has 4,096 tokens, as its server says" in said
    assert f"{total * 100 // 4096} % full; from 3,072 tokens on, Bub sums up" in said


async def test_a_person_has_the_conversation_summed_up_and_says_what_matters(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        assert "nothing to sum up" in ((await talk.say(",compact")).model_output or "")
        await talk.say("say: Nice. My dog is called Bo.")
        await talk.fill(1500)
        said = (await talk.say(",compact keep the names of animals")).model_output or ""
        assert (await talk.say("what is my dog called?")).model_output == "It is called Bo."
    log = await talk.log()
    (summing,) = filter(is_summary, log)
    assert "keep above all: keep the names of animals" in summing["body"]["messages"][-1]["content"]
    assert re.fullmatch(r"the conversation was summed up: \S+ → \S+ tokens \(for the summary \S+\)", said)
    assert "[Anchor created: compact]" in json.dumps(log[-1]["body"]["messages"])
    assert log[-1]["tokens"] < log[-3]["tokens"]


@pytest.mark.parametrize("command", [",compact say nothing of dogs", ",tape.handoff next 'Bo is a cat.'"])
@pytest.mark.parametrize("surface", [Surface.CHANNEL, Surface.RUN])
async def test_what_a_stranger_puts_into_a_summary_marks_the_session(
    workshop: Workshop, windows: str, surface: Surface, command: str
) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(tools="[compact, tape.handoff]", toy=bringing()):
        await talk.say(CHATTER, surface=Surface.RUN)
        await talk.say(command, surface=surface)
        tape = Tape(tape_name(talk.workshop.folder, "cli:local"), talk.framework.get_tape_store())
        marks = SessionMarks(tape)
        await marks.recall()
    assert bool(marks.now.untrusted) is (surface is Surface.CHANNEL)


async def test_a_summary_that_was_asked_for_and_fails_changes_nothing(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        await talk.say("say: break: server")
        await talk.fill(1500)
        before = len(await talk.tape())
        said = (await talk.say(",compact")).model_output or ""
        (left,) = (await talk.tape())[before:]
    assert said.startswith("error: ") and "500" in said
    assert left.payload["name"] == "command"


async def test_results_that_alone_are_longer_than_the_window_are_shortened(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book(sentences=290))):
        result = await talk.say("read to page 3")
    log = await talk.log()
    assert result.model_output == "I have read to page 3."
    assert not any(entry["cut"] for entry in log)
    assert "too long for the window" in json.dumps([entry["body"]["messages"] for entry in log])


@pytest.mark.parametrize(("messages", "is_known"), [(60, True), (600, False)])
async def test_a_long_session_goes_on_with_a_model_that_has_a_small_window(
    workshop: Workshop, windows: str, messages: int, is_known: bool
) -> None:
    talk = Windowed(workshop, windows, "ollama")
    said = [{"role": "user", "content": CHATTER}, {"role": "assistant", "content": CHATTER}] * (messages // 2)
    said.insert(2, {"role": "user", "content": "My dog is called Bo."})
    async with talk.opened(toy=bringing(book())):
        tape = Tape(tape_name(talk.workshop.folder, "cli:local"), talk.framework.get_tape_store())
        await tape.ensure_bootstrap_anchor("cli:local", talk.workshop.folder)
        await tape.append(*map(TapeEntry.message, said))
        answer = (await talk.say("what is my dog called?")).model_output
    log = await talk.log()
    assert not any(entry["cut"] for entry in log)
    assert answer == ("It is called Bo." if is_known else "I do not know.")
    assert 2 <= sum(map(is_summary, log)) <= 16
    assert is_known or "What came before this was too long to be read" in json.dumps(log[0]["body"])


async def test_what_stays_comes_back_from_the_tape_as_it_was(talk: Talk) -> None:
    """Thoughts with what was said, calls with what their provider wants back, and pictures."""
    thoughts = {"thoughts": {"by": "test:x", "text": "Hm.", "blocks": [{"at": 0, "block": {"signature": "s"}}]}}
    call = {"id": "c1", "type": "function", "function": {"name": "math.add", "arguments": '{"a": 1}'}}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,YSBwaWN0dXJl"}}
    kept = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
        {"role": "assistant", "content": None, "tool_calls": [{**call, "extra_content": {"s": 1}}], **thoughts},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "assistant", "content": "I see.", **thoughts},
    ]
    async with talk.open() as framework:
        await talk.say("hello")
        tape = Tape(tape_name(framework.workspace, "cli:local"), framework.get_tape_store())
        journal = Journal(tape, lambda value: value)
        conversation = Context(Task("go on", "cli:local", {}, now="Monday"), tape, journal)
        await conversation.recall()
        await conversation.ask()
        conversation.messages[1:1] = kept
        own = conversation.messages[-1]
        await conversation.begin_anew("x", {"summary": "one\ntwo"}, [*kept, own])
        assert await put_back(tape, await tape.messages()) == conversation.messages
    assert conversation.messages[0]["content"].endswith("\n\none\ntwo")
    assert conversation.messages[1:] == [*kept, own]


async def test_run_says_that_the_conversation_was_summed_up(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(tools="[tape.search]"):
        await talk.fill(2000)
    command = [sys.executable, "-m", "bub", "run", "--config", "pipelines.yaml", "--session-id", "cli:local", CHATTER]
    done = await trio.run_process(command, cwd=workshop.folder, capture_stdout=True, capture_stderr=True)
    said = done.stderr.decode()
    assert re.fullmatch(r"bub: the conversation was summed up: 3,\d+ → [12],\d+ tokens\n", said), said
    assert done.stdout.startswith(b"[cli:local]\nThat is a nice thing to say")
    assert not any(entry["cut"] for entry in await talk.log())


async def test_what_is_repeated_behind_an_anchor_is_found_and_shown_once(workshop: Workshop, windows: str) -> None:
    talk = Windowed(workshop, windows, "ollama")
    async with talk.opened(toy=bringing(book())):
        await talk.fill(1500)
        await talk.say("say: swordfish")
        await talk.say(",compact")
        found = (await talk.say(",tape.search swordfish")).model_output or ""
        entries = await talk.tape()
    said = [line for line in found.splitlines() if " message: " in line]
    assert len(said) == 2, "the prompt and the answer"
    assert sum(entry.meta.get("repeated", False) for entry in entries) >= 2


def test_a_terminal_shows_the_line_where_it_happens() -> None:
    shown = list(LiveAnswer().take(StreamEvent("compaction", {"text": "the conversation was summed up: 9 → 3 tokens"})))
    assert shown == [Printout("note", "the conversation was summed up: 9 → 3 tokens")]


# Many tools


def many(number: int) -> list[Tool]:
    def make(place: int) -> Tool:
        said = f"Sell item {place}.\n\n" + "It is a fine item. " * 120

        @tool(name=f"shop.item{place}", description=said, read_only=True, reaches=None)
        def sell(amount: int) -> str:
            return f"sold {amount}"

        return sell

    return [make(place) for place in range(number)]


async def test_of_tools_that_would_fill_the_window_one_line_is_told_and_the_rest_on_demand(talk: Talk) -> None:
    asking = Called("tools_describe", json.dumps({"names": ["shop_item39"]}))
    selling = Called("shop_item39", json.dumps({"amount": 3}), "call_2")
    async with talk.open(toy=bringing(*many(40))):
        await talk.say(OPENAI.answer(calls=[asking]), OPENAI.answer(calls=[selling]), OPENAI.answer("done"))
    first, second, third = await talk.asked()
    told = {one["function"]["name"]: one["function"] for one in first["tools"]}
    short = [name for name, one in told.items() if one["description"].endswith("(tools.describe tells what it takes)")]
    assert len(told) > 40 and 5 < len(short) < 40 and "shop_item39" in short
    assert all(name.startswith("shop_") for name in short), "Bub's own are told whole"
    assert len(json.dumps([told[name] for name in short])) < 300 * len(short)
    assert len(json.dumps(first["tools"], separators=(",", ":"))) < 4 * 20_000 + 300 * len(short)
    assert first["tools"] == second["tools"] == third["tools"]
    described, sold = results_in(third)
    assert "It is a fine item." in described and '"amount"' in described
    assert sold == "sold 3"


async def test_a_few_tools_are_told_whole_and_nothing_is_described(talk: Talk) -> None:
    async with talk.open(toy=bringing(*many(4))):
        await talk.say("hello")
    async with talk.open(toy=bringing(*many(40)), tools="{allow: ['shop.*']}"):
        await talk.say("hello")
    few, undescribed = (
        {one["function"]["name"]: one["function"] for one in each["tools"]} for each in await talk.asked()
    )
    assert "tools_describe" not in few and "It is a fine item." in few["shop_item3"]["description"]
    assert all("It is a fine item." in one["description"] for one in undescribed.values())


def test_bubs_own_tools_come_first() -> None:
    framework = BubFramework("bub:default")
    framework.load_hooks()
    own = list(framework.tools.for_model().tools.values())
    assert [spec.description for spec in offer(own, 16_384)] == [one.description for one in own if one.name != DESCRIBE]
    short = offer([*own, *many(8)], 16_384)
    told = [spec.name for spec in short if "tells what it takes" not in spec.description]
    assert {one.name for one in own} <= set(told) and len(told) < len(own) + 4
