"""What comes for a turn while it runs: the agent hears of it between two steps, and before it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk, add, adding, bringing, kinds, results_in
from fakes.toys import HELLO, Toy, Workshop

from bub import tool
from bub.agent.costs.budget import BudgetError
from bub.tape.context import TapeContext

pytestmark = pytest.mark.anyio


class Inbox:
    """Messages for a turn: each batch is there when it is asked for the next time."""

    def __init__(self, *batches: list[Any]) -> None:
        self.batches = list(batches)
        self.asked = 0

    def take(self) -> list[Any]:
        self.asked += 1
        return self.batches.pop(0) if self.batches else []


def said_by_user(request: dict[str, Any]) -> list[Any]:
    """What the user says, by the paragraph."""
    said = [message["content"] for message in request["messages"] if message["role"] == "user"]
    return [each for content in said for each in (content.split("\n\n") if isinstance(content, str) else [content])]


async def test_A10_what_comes_while_tools_run_is_in_the_next_request_in_its_order(talk: Talk) -> None:
    inbox = Inbox([{"content": "and in red"}, {"content": "no, blue"}])
    async with talk.open(toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"), steering=inbox)
        _, second = await talk.asked()
        assert [message["role"] for message in second["messages"]][-3:] == ["tool", "assistant", "user"]
        assert said_by_user(second)[-2:] == ["and in red", "no, blue"]
        noted = [entry for entry in await talk.tape() if entry.meta.get("steered")]
        assert [entry.payload["content"] for entry in noted] == ["and in red", "no, blue"]


async def test_A10_an_answer_does_not_end_the_turn_when_something_has_come(talk: Talk) -> None:
    inbox = Inbox([{"content": "and the weather?"}])
    async with talk.open():
        result = await talk.say(OPENAI.answer("It is noon."), OPENAI.answer("It rains."), steering=inbox)
        assert result.model_output == "It is noon.\n\nIt rains."
        _, second = await talk.asked()
        assert [message["role"] for message in second["messages"]][-2:] == ["assistant", "user"]
        assert inbox.asked == 2  # once more before it ended
        [end] = talk.of_kind("final")
        assert (end["finish_reason"], end["steps"], end["ok"]) == ("stop", 2, True)
        told = TapeContext().messages(await talk.tape())
        assert [message["role"] for message in told] == ["user", "assistant", "user", "assistant"]
        assert "loop.step" in kinds(await talk.tape())


async def test_C21_what_could_not_be_answered_any_more_is_left_for_another_turn(talk: Talk) -> None:
    inbox = Inbox([{"content": "one more"}])
    async with talk.open(profile=", budget: {steps: 1}"):
        result = await talk.say("hello", steering=inbox)
        assert result.model_output == "You said: hello"
        assert inbox.batches == [[{"content": "one more"}]]


async def test_A19_a_turn_that_a_plugin_ends_leaves_what_came(talk: Talk) -> None:
    inbox = Inbox([{"content": "one more"}])
    async with talk.open(toy=Toy(before_llm_call=lambda: {"finish": "that is all"})):
        assert (await talk.say("hello", steering=inbox)).model_output == "that is all"
    assert inbox.asked == 0


async def test_what_comes_is_told_with_its_context_and_its_media(talk: Talk) -> None:
    image = {"kind": "image", "mime_type": "image/png", "url": "data:image/png;base64,AAAA"}
    inbox = Inbox([{"content": "look", "context_str": "sender: ada", "media": [image]}, {"content": " "}])
    async with talk.open():
        await talk.say("hello", steering=inbox)
        text, picture = said_by_user((await talk.asked())[1])[-1]
        assert text["text"].startswith("sender: ada\n---Date: ") and text["text"].endswith("---\nlook")
        assert picture == {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        (noted,) = [entry for entry in await talk.tape() if entry.meta.get("steered")]
        assert "AAAA" not in str(noted.payload)


async def test_a_sub_agent_does_not_hear_what_is_meant_for_the_turn(talk: Talk) -> None:
    inbox = Inbox([{"content": "for you"}])
    seen: list[int] = []

    @tool(read_only=True)
    async def look(context: Any = None) -> str:
        """Look."""
        return "nothing"

    def subagent_ended() -> None:
        seen.append(inbox.asked)

    async with talk.open(toy=bringing(look, subagent_ended=subagent_ended)):
        call = Called("subagent", '{"prompt": "count"}')
        await talk.say(OPENAI.answer(calls=[call]), OPENAI.answer("done"), steering=inbox)
    assert seen == [0]
    assert said_by_user((await talk.asked())[-1])[-1] == "for you"


async def test_what_came_is_kept_where_the_context_begins_anew(talk: Talk) -> None:
    handoff = Called("tape_handoff", json.dumps({"name": "anew", "summary": "all clear"}))
    inbox = Inbox([{"content": "mind the step"}])
    async with talk.open(toy=bringing(adding())):
        await talk.say(
            OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer(calls=[handoff]), OPENAI.answer("done"), steering=inbox
        )
    *_, last = await talk.asked()
    assert results_in(last) == ["the conversation starts over at `anew`"]
    assert "mind the step" in said_by_user(last)


async def test_a_turn_that_runs_out_of_steps_at_its_tools_has_heard_nothing_it_could_not_answer(talk: Talk) -> None:
    inbox = Inbox([{"content": "one more"}])
    async with talk.open(profile=", budget: {steps: 1}", toy=bringing(adding())):
        with pytest.raises(BudgetError):
            await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"), steering=inbox)
    assert inbox.asked == 0


async def test_T7_the_state_has_the_inbox_of_a_turn_that_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox()
    framework = Workshop(tmp_path, monkeypatch)(toy=Toy(run_model=lambda: "hi"))
    steered = await framework.process_inbound(HELLO, steering=inbox)
    plain = await framework.process_inbound(HELLO)
    assert steered.state is not None and steered.state["_runtime_steering_inbox"] is inbox
    assert plain.state == {"_runtime_workspace": str(tmp_path)}
