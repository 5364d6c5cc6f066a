"""The agent when things go wrong: turns that are cancelled anywhere, stores that fail, plugins and models that lie."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pexpect
import pytest
import trio
from fakes.scripted import OPENAI, Called, refusal
from fakes.talk import Talk, add, adding, bringing, kinds, results_in
from fakes.toys import Errors, Toy, Workshop, a_stream

from bub import tool
from bub.agent.costs.budget import BudgetError
from bub.agent.costs.spending import DailySpending
from bub.base.surfaces import Surface
from bub.errors import BubError, ModelError, TapeError
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tape import Tape, TapeEntry
from bub.tape.context import LOST
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.tape import tape_name

pytestmark = pytest.mark.anyio


def called(name: str, id: str = "1", **arguments: Any) -> StreamEvent:  # noqa: A002
    return StreamEvent("tool_call", {"id": id, "name": name, "arguments": arguments})


class Model:
    """A plugin's model: each request is answered by the next script, and the last one is kept for good."""

    def __init__(self, *scripts: tuple[str | float | Exception | StreamEvent, ...]) -> None:
        self.scripts = list(scripts)
        self.asked: list[list[dict[str, Any]]] = []

        def answer(request: dict[str, Any]) -> AsyncStreamEvents:
            self.asked.append(request["messages"])
            return a_stream(*(self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]))

        self.answer = answer

    @property
    def results(self) -> list[str]:
        """What the tools came to, as the newest request tells it."""
        return [message["content"] for message in self.asked[-1] if message["role"] == "tool"]


class Pausing:
    """A store that waits before and after all it does, as one at the other end of a network would.

    `pause` is called at each of these moments; it may wait, or raise.
    """

    def __init__(self, file: Path, pause: Callable[[str], Any]) -> None:
        self.inner = SqliteTapeStore(file)
        self._pause = pause

    async def _do(self, name: str, *arguments: Any) -> Any:
        await self._pause(f"before {name}")
        done = getattr(self.inner, name)(*arguments)
        await self._pause(f"behind {name}")
        return done

    async def list_tapes(self) -> Any:
        return await self._do("list_tapes")

    async def append(self, tape: str, entry: TapeEntry) -> None:
        await self._do("append", tape, entry)

    async def extend(self, tape: str, entries: Any) -> None:
        await self._do("extend", tape, entries)

    async def fetch_all(self, query: Any) -> Any:
        return await self._do("fetch_all", query)

    async def reset(self, tape: str) -> None:
        await self._do("reset", tape)

    def close(self) -> None:
        self.inner.close()


def told(entries: list[TapeEntry], text: str) -> int:
    """How often something was said, going by the tape."""
    return sum(entry.payload.get("content") == text for entry in entries)


# Cancellation.


class Watched:
    """A talk in which everything waits, and that is cancelled at the moment of a number."""

    def __init__(self, folder: Path) -> None:
        self.moments: list[str] = []
        self.at = 0
        self.scope = trio.CancelScope()
        self.ran: list[int] = []
        self.store = Pausing(folder / "tapes.db", self.pause)
        self.asked: list[list[dict[str, Any]]] = []

    async def pause(self, where: str) -> None:
        self.moments.append(where)
        if len(self.moments) == self.at:
            self.scope.cancel()
        await trio.lowlevel.checkpoint()

    def pausing(self, where: str) -> Callable[[], Any]:
        async def hook() -> None:
            await self.pause(where)

        return hook

    def plugin(self) -> Toy:
        @tool(read_only=True, reaches=None)
        async def act(number: int) -> str:
            """Do something that cannot be undone."""
            await self.pause("before the act")
            self.ran.append(number)
            return f"done {number}"

        async def call_model(request: dict[str, Any]) -> AsyncStreamEvents:
            self.asked.append(request["messages"])
            await self.pause("asking")
            steps = sum(message["role"] == "assistant" for message in request["messages"])
            script = ["Let ", "me see.", called("act", "1", number=1), called("act", "2", number=2)]
            return AsyncStreamEvents(self.events(script if steps == 0 else ["That ", f"is {steps}."]))

        points = (
            "before_llm_call", "after_llm_call", "before_tool_call", "tool_gate", "after_tool_call", "continue_prompt",
        )  # fmt: skip
        hooks: dict[str, Any] = {name: self.pausing(name) for name in points}
        return bringing(act, call_model=call_model, provide_tape_store=lambda: closing(self.store), **hooks)

    async def events(self, script: list[Any]) -> AsyncIterator[StreamEvent]:
        for event in script:
            await self.pause("an event")
            yield StreamEvent.text(event) if isinstance(event, str) else event


async def test_P16_wherever_a_turn_is_cancelled_its_tape_has_what_happened_once_and_the_next_turn_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        talk, watched = Talk(Workshop(folder, monkeypatch), address), Watched(folder)
        async with talk.open(toy=watched.plugin()) as framework:
            watched.at = number
            with watched.scope:
                await talk.say("act")
            if len(watched.moments) < number:
                break
            where = watched.moments[number - 1]
            query = Tape(tape_name(framework.workspace, "cli:local"), watched.store).query()
            entries = list(watched.store.inner.fetch_all(query))
            if watched.ran:
                assert "tool_call" in kinds(entries), where
            watched.at = 0
            await talk.say("and now?")
            last = watched.asked[-1]
            assert len(set(watched.ran)) == len(watched.ran), where
            results = {message["tool_call_id"]: message["content"] for message in last if message["role"] == "tool"}
            for message in last:
                for call in message.get("tool_calls", ()):
                    done = int(call["id"]) in watched.ran
                    assert results[call["id"]] == (f"done {call['id']}" if done else LOST), where
    assert number > 30
    assert {"asking", "an event", "before the act", "tool_gate", "continue_prompt", "before extend"} <= {
        *watched.moments
    }


async def test_P22_a_long_result_is_short_also_where_the_turn_was_cancelled(talk: Talk) -> None:
    @tool(reaches=None)
    async def recite() -> str:
        """Recite all."""
        return "word " * 10_000

    @tool(reaches=None)
    async def hang() -> None:
        """Never end."""
        await trio.sleep_forever()

    model = Model((called("recite", "1"), called("hang", "2")), ("fine",))
    async with talk.open(toy=bringing(recite, hang, call_model=model.answer)):
        with trio.move_on_after(0.3):
            await talk.say("go")
        await talk.say("go on")
    recited, lost = model.results
    assert "spill.read" in recited
    assert len(recited) < 1000
    assert lost == LOST


async def test_A6_a_command_that_is_cancelled_is_noted_on_the_tape(talk: Talk) -> None:
    @tool(reaches=None)
    async def hang() -> None:
        """Never end."""
        await trio.sleep_forever()

    async with talk.open(toy=bringing(hang)):
        with trio.move_on_after(0.2):
            await talk.say(",hang")
        (noted,) = [entry.payload["data"] for entry in await talk.tape() if entry.payload.get("name") == "command"]
    assert (noted["raw"], noted["name"], noted["status"]) == ("hang", "hang", "cancelled")


async def test_A6_a_command_outlasting_its_stage_is_noted_too(talk: Talk) -> None:
    @tool(reaches=None)
    async def hang() -> None:
        """Never end."""
        await trio.sleep_forever()

    async with talk.open(more="stages: {run_model: {timeout: 100ms}}", toy=bringing(hang)):
        with pytest.raises(BubError, match="took longer"):
            await talk.say(",hang")
        assert kinds(await talk.tape())[-1] == "command"


# Failures.


async def test_what_was_said_in_a_step_is_on_the_tape_once_whatever_ends_the_turn(talk: Talk) -> None:
    def broken() -> None:
        raise RuntimeError("no more")

    async with talk.open(profile=", budget: {steps: 1}", toy=bringing(adding())):
        with pytest.raises(BudgetError):
            await talk.say(OPENAI.answer("Let me see.", calls=[add(1, 2)]), OPENAI.answer("x"))
        assert told(await talk.tape(), "Let me see.") == 1
    async with talk.open(toy=bringing(adding(), continue_prompt=broken)):
        with pytest.raises(RuntimeError):
            await talk.say(OPENAI.answer("I add.", calls=[add(1, 2)]), OPENAI.answer("x"))
        assert told(await talk.tape(), "I add.") == 1


async def test_a_turn_that_failed_before_the_model_said_anything_is_not_in_the_next_request(talk: Talk) -> None:
    gone = ModelError("gone", kind="network", provider="toy")
    model = Model((gone,), ("Hello.",), (gone,), (gone,), ("Fine.",))
    async with talk.open(toy=bringing(call_model=model.answer)):
        for said in ("first", "second", "third", "third", "fourth"):
            with suppress(ModelError):
                await talk.say(said)
        on_tape = [entry.payload["content"] for entry in await talk.tape() if entry.begins_turn]
    assert [spoken(messages) for messages in model.asked] == [
        ["first"],
        ["second"],
        ["second", "Hello.", "third"],
        ["second", "Hello.", "third"],
        ["second", "Hello.", "fourth"],
    ]
    assert on_tape == ["first", "second", "third", "third", "fourth"]


async def test_a_turn_that_failed_after_its_tools_ran_is_in_the_next_request(talk: Talk) -> None:
    model = Model((called("math.add", a=1, b=2),), (ModelError("gone", kind="network", provider="toy"),), ("Three.",))
    async with talk.open(toy=bringing(adding(), call_model=model.answer)):
        with pytest.raises(ModelError):
            await talk.say("add")
        await talk.say("go on")
    assert spoken(model.asked[-1]) == ["add", None, "3", "go on"]


async def test_a_turn_that_a_person_stopped_is_in_the_next_request(talk: Talk) -> None:
    model = Model((5.0, "late"), ("Hello.",))
    async with talk.open(toy=bringing(call_model=model.answer)):
        with trio.move_on_after(0.2):
            await talk.say("look at a.txt")
        await talk.say("I mean b.txt")
    assert spoken(model.asked[-1]) == ["look at a.txt\n\nI mean b.txt"]


def spoken(messages: list[dict[str, Any]]) -> list[str | None]:
    return [message["content"] for message in messages if message["role"] != "system"]


async def test_what_was_said_before_calls_that_were_never_made_is_kept(talk: Talk) -> None:
    cut = ModelError("cut", kind="network", provider="toy")
    model = Model(("Let me ", "see.", called("math.add", a=1, b=2), cut), ("fine",))
    async with talk.open(toy=bringing(adding(), call_model=model.answer)):
        with pytest.raises(ModelError):
            await talk.say("go")
        await talk.say("go on")
    assert [(message["role"], message["content"]) for message in model.asked[-1][1:]] == [
        ("user", "go"), ("assistant", "Let me see."), ("user", "go on")
    ]  # fmt: skip


@pytest.mark.parametrize("failing", range(1, 8))
async def test_a_store_that_fails_once_loses_nothing_and_keeps_nothing_twice(
    talk: Talk, tmp_path: Path, failing: int
) -> None:
    writes = 0

    async def pause(where: str) -> None:
        nonlocal writes
        writes += where == "before extend"
        if where == "before extend" and writes == failing:
            raise TapeError("the disk is full")

    store = Pausing(tmp_path / "toy.db", pause)
    model = Model(("I add.", called("math.add", a=1, b=2)), ("Three.",))
    async with talk.open(toy=bringing(adding(), call_model=model.answer, provide_tape_store=lambda: closing(store))):
        failed = False
        try:
            await talk.say("add")
        except TapeError:
            failed = True
        entries = await talk.tape()
        assert told(entries, "I add.") <= 1
        assert told(entries, "Three.") <= 1
        assert told(entries, "add") == (0 if failed and failing == 1 else 1)
        writes = 100
        await talk.say("and now?")
    assert failed is (failing <= 4)  # the second one keeps that somebody wrote who is not the operator


async def test_an_async_store_of_a_plugin_serves_as_any_other(talk: Talk, tmp_path: Path) -> None:
    async def pause(where: str) -> None:
        await trio.lowlevel.checkpoint()

    store = Pausing(tmp_path / "toy.db", pause)
    async with talk.open(toy=bringing(adding(), provide_tape_store=lambda: closing(store))):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("Three."))
        assert "Three." in ((await talk.say(",tape.search three")).model_output or "")


async def test_without_running_a_turn_works_and_leaves_nothing(talk: Talk) -> None:
    model = Model((called("math.add", a=1, b=2),), ("Three.",))
    async with talk.open(toy=bringing(adding(), call_model=model.answer)):
        pass
    assert (await talk.say("add")).model_output == "Three."
    assert model.results == ["3"]
    assert "no tape" in ((await talk.say(",tape.info")).model_output or "")
    said = await talk.say(",bash 'echo true'", surface=Surface.TERMINAL)
    assert "true" in (said.model_output or "")


# What plugins say at each point.


@pytest.mark.parametrize(
    ("point", "answer"),
    [
        ("before_llm_call", {"messages": 5}),
        ("before_llm_call", {"messages": ["hello"]}),
        ("before_llm_call", {"max_tokens": "many"}),
        ("before_llm_call", {"temperature": [1]}),
        ("before_llm_call", {"model": 7}),
        ("before_llm_call", {"tool_choice": {}}),
        ("continue_prompt", 5),
    ],
)
async def test_a_plugin_that_lies_about_a_request_is_told_what_is_wrong(talk: Talk, point: str, answer: Any) -> None:
    model = Model((called("math.add", a=1, b=2),), ("fine",))
    async with talk.open(toy=bringing(adding(), call_model=model.answer, **{point: lambda: answer})):
        with pytest.raises(BubError, match=point):
            await talk.say("go")


@pytest.mark.parametrize(
    "event",
    [
        "no event",
        StreamEvent("text", {"delta": 5}),
        StreamEvent("text", {}),
        StreamEvent("tool_call", {"name": "math.add"}),
        StreamEvent("tool_call", {"id": "1", "name": None, "arguments": {}}),
        StreamEvent("tool_call", {"id": "1", "name": "math.add", "arguments": [1, 2]}),
        StreamEvent("usage", {"total_tokens": "many"}),
        StreamEvent("final", {}),
    ],
    ids=str,
)
async def test_a_model_that_lies_breaks_its_turn_and_no_more(talk: Talk, event: Any) -> None:
    def call_model(request: dict[str, Any]) -> Any:
        async def answer() -> AsyncIterator[Any]:
            yield StreamEvent.text("Well, ")
            yield event

        return answer()

    errors = Errors()
    async with talk.open(toy=bringing(adding(), call_model=call_model, on_error=errors.told)):
        with suppress(ModelError, BudgetError):  # some of it is harmless, or is told to the model again and again
            await talk.say("go")
        assert told(await talk.tape(), "Well, ") >= 1


async def test_calls_of_a_plugins_model_are_told_apart_also_when_their_ids_are_not(talk: Talk) -> None:
    ran: list[Any] = []
    model = Model(
        (called("math.add", a=1, b=2), called("math.add", a=3, b=4)), (called("math.add", a=5, b=6),), ("fine",)
    )
    async with talk.open(toy=bringing(adding(ran), call_model=model.answer)):
        await talk.say("go")
        await talk.say("go on")
    assert model.results == ["3", "7", "11"]


async def test_a_hook_that_raises_ends_the_turn_with_its_own_error(talk: Talk) -> None:
    def broken() -> None:
        raise RuntimeError("it is broken")

    model = Model((called("math.add", a=1, b=2),), ("fine",))
    async with talk.open(toy=bringing(adding(), call_model=model.answer, continue_prompt=broken)):
        with pytest.raises(RuntimeError, match="it is broken"):
            await talk.say("go")
        said = [entry.payload["message"] for entry in await talk.tape() if entry.kind == "error"]
    assert said == ["it is broken"]


async def test_A19_a_text_to_finish_with_is_told_once_below_what_was_said_before(talk: Talk) -> None:
    model = Model(("I add.", called("math.add", a=1, b=2)))

    def before_llm_call(request: dict[str, Any]) -> dict[str, Any] | None:
        return {"finish": "Enough."} if request["step"] == 2 else None

    async with talk.open(toy=bringing(adding(), call_model=model.answer, before_llm_call=before_llm_call)):
        assert (await talk.say("go")).model_output == "I add.\n\nEnough."


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "after_tool_call", "subagent_ended"])
async def test_H34_a_hook_that_amends_or_watches_is_left_out_when_it_raises(talk: Talk, point: str) -> None:
    errors = Errors()

    def broken() -> None:
        raise RuntimeError("it is broken")

    model = Model((called("subagent", prompt="do"),), ("It is done.",), ("fine",))
    toy = bringing(adding(), call_model=model.answer, on_error=errors.told, **{point: broken})
    async with talk.open(toy=toy):
        assert (await talk.say("go")).model_output == "fine"
    assert model.results == ["It is done."]
    assert set(errors.stages) == {f"{point}:toy"}


async def test_a_model_whose_context_turns_out_too_long_with_its_first_event_is_handed_off_too(talk: Talk) -> None:
    overflow = ModelError("too long", kind="context_overflow", provider="toy")
    model = Model(("remembered",), (overflow,), ("a fish was named",), ("anew",))
    async with talk.open(toy=bringing(call_model=model.answer)):
        await talk.say("remember swordfish")
        assert (await talk.say("go on")).model_output == "anew"
    assert "swordfish" in json.dumps(model.asked[1])
    assert "[user] remember swordfish" in json.dumps(model.asked[2])
    assert "swordfish" not in json.dumps(model.asked[3])
    assert "a fish was named" in json.dumps(model.asked[3])


# Tools.


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"\xff", "/w=="),
        (float("nan"), "null"),
        (2**70, str(2**70)),
        ("half a letter: \ud800", "half a letter: �"),
        (["\ud800"], "�"),
        ({1: 2}, '{"1":2}'),
        ({"a": {1}}, '{"a":[1]}'),
        (Path("a"), '"a"'),
        ("", ""),
        (False, "false"),
    ],
    ids=str,
)
async def test_A16_whatever_a_tool_returns_is_a_text_for_the_model(talk: Talk, value: Any, said: str) -> None:
    @tool(reaches=None)
    def strange() -> Any:
        """Return something."""
        return value

    async with talk.open(toy=bringing(strange)):
        await talk.say(OPENAI.answer(calls=[Called("strange")]), OPENAI.answer("x"))
        (result,) = results_in((await talk.asked())[1])
        assert said in result
        assert not result.startswith("error")
        await talk.say("go on")


async def test_A16_what_cannot_be_written_as_json_is_an_error_result(talk: Talk) -> None:
    @tool(reaches=None)
    def loop() -> Any:
        """Return what contains itself."""
        value: list[Any] = []
        value.append(value)
        return value

    async with talk.open(toy=bringing(loop)):
        assert (await talk.say(",loop")).model_output.startswith("error: ")


@pytest.mark.parametrize("arguments", [f'{{"number": {2**70}}}', '{"text": "\\ud800"}', '{"number": 1e400}'])
async def test_E21_strange_arguments_are_counted_like_others(talk: Talk, arguments: str) -> None:
    @tool(reaches=None)
    def take(number: float = 0, text: str = "") -> str:
        """Take something."""
        return "taken"

    async with talk.open(profile=", budget: {identical_calls: 2}", toy=bringing(take)):
        await talk.say(OPENAI.answer(calls=[Called("take", arguments)]), OPENAI.answer("x"))


async def test_E21_a_limit_that_is_just_reached_ends_nothing(talk: Talk) -> None:
    ran: list[Any] = []
    calls = [add(1, 1, id="c1"), add(1, 1, id="c2")]
    limits = ", budget: {steps: 2, tool_calls: 2, identical_calls: 2, tokens_per_turn: 10}"
    async with talk.open(profile=limits, toy=bringing(adding(ran))):
        await talk.say(OPENAI.answer(calls=calls, usage=(5, 4)), OPENAI.answer("done", usage=(500, 500)))
    assert len(ran) == 2


async def test_the_model_cannot_call_what_is_for_people(talk: Talk) -> None:
    ran: list[str] = []

    @tool(for_people=True)
    def secret() -> None:
        """Only for people."""
        ran.append("secret")

    async with talk.open(toy=bringing(secret)):
        await talk.say("remember swordfish")
        calls = [Called("secret", id="c1"), Called("quit", id="c2"), Called("tape.reset", id="c3")]
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("x"))
        assert all("there is no tool" in said for said in results_in((await talk.asked())[-1]))
        assert ran == []
        assert told(await talk.tape(), "remember swordfish") == 1
        await talk.say(",secret")
    assert ran == ["secret"]


async def test_an_answers_signature_goes_back_with_its_call(talk: Talk) -> None:
    signed = StreamEvent(
        "tool_call",
        {"id": "1", "name": "math.add", "arguments": {"a": 1, "b": 2}, "extra_content": {"google": {"signature": "x"}}},
    )
    model = Model((signed,), ("Three.",))
    async with talk.open(toy=bringing(adding(), call_model=model.answer)):
        await talk.say("go")
        await talk.say("go on")
    for messages in model.asked[1:]:
        (call,) = [call for message in messages for call in message.get("tool_calls", ())]
        assert call["extra_content"] == {"google": {"signature": "x"}}


# Budgets.


@asynccontextmanager
async def day(folder: Path) -> AsyncIterator[Callable[[], DailySpending]]:
    with closing(SqliteTapeStore(folder / "tapes.db")) as store:
        yield lambda: DailySpending(store, "default")


async def test_E21_tokens_that_turns_spend_at_the_same_time_all_count(tmp_path: Path) -> None:
    async def pause(where: str) -> None:
        await trio.lowlevel.checkpoint()

    with closing(Pausing(tmp_path / "toy.db", pause)) as store:
        for most in (2, 20, 150):
            async with trio.open_nursery() as nursery:
                for _ in range(most):
                    nursery.start_soon(DailySpending(store, "default").add, 10)
        assert await DailySpending(store, "default").today() == 1_720
        assert await DailySpending(store, "another").today() == 0


async def test_E21_each_day_counts_for_itself_and_those_long_ago_take_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteTapeStore(tmp_path / "tapes.db")) as store:
        spending, another = DailySpending(store, "default"), DailySpending(store, "another")
        # The clock of one machine is ahead of that of another around midnight.
        for day in ("2026-03-01", "2026-03-02", "2026-03-01", "2026-03-02", "2026-03-01"):
            monkeypatch.setattr("bub.agent.costs.spending._day", lambda day=day: day)
            await spending.add(10)
            await another.add(1)
        assert await spending.today() == 30
        monkeypatch.setattr("bub.agent.costs.spending._day", lambda: "2026-03-03")
        assert await spending.today() == 0
        await spending.add(5)
        assert await spending.today() == 5
        left = [name.rpartition("__")[2] for name in store.list_tapes() if "__default__" in name]
        assert left == ["2026-03-02", "2026-03-03"]
        assert len(store.list_tapes()) == 4


async def test_E21_an_answer_that_was_broken_off_has_its_price(talk: Talk) -> None:
    cut = ModelError("cut", kind="network", provider="toy")
    model = Model(("word " * 1000, cut), ("fine",))
    async with talk.open(profile=", budget: {tokens_per_day: 1000}", toy=bringing(call_model=model.answer)):
        with pytest.raises(ModelError):
            await talk.say("go")
        with pytest.raises(BudgetError):
            await talk.say("go on")


async def test_E21_a_text_that_no_model_made_costs_nothing(talk: Talk) -> None:
    async with talk.open(
        profile=", budget: {tokens_per_day: 100}", toy=bringing(before_llm_call=lambda: {"finish": "word " * 1000})
    ):
        await talk.say("go")
        await talk.say("go")


# Sub-agents.


async def test_P24_two_subagents_in_one_session_work_one_after_another(talk: Talk) -> None:
    def task(name: str) -> Called:
        script = json.dumps([OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer(name)])
        return Called("subagent", json.dumps({"prompt": script, "session": "both"}), name)

    async with talk.open(toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[task("one"), task("two")]), OPENAI.answer("done"))
        entries = await talk.tape("cli:local/both")
    said = [entry.kind for entry in entries if entry.kind in ("message", "tool_call", "tool_result")]
    assert said == ["message", "tool_call", "tool_result", "message"] * 2


async def test_A25_what_goes_wrong_in_a_subagent_is_an_error_result(talk: Talk) -> None:
    steps = json.dumps([OPENAI.answer(calls=[add(number, 1)]) for number in range(3)])
    async with talk.open(profile=", budget: {steps: 2}", toy=bringing(adding())):
        call = Called("subagent", json.dumps({"prompt": steps}))
        result = await talk.say(OPENAI.answer(calls=[call]), OPENAI.answer("It came to nothing."))
    assert result.model_output == "It came to nothing."
    (said,) = results_in((await talk.asked())[-1])
    assert said.startswith("error: ")
    assert "asked the model 2 times" in said


# The older turn.


async def test_the_older_turn_has_the_same_agent(talk: Talk) -> None:
    model = Model((called("math.add", a=1, b=2),), ("Three.",))
    pipeline = """
        extends: bub:classic
        plugins: {toy: {path: toy.py}}
        profiles: {default: {plugins: [toy], tools: {allow: ["*"]}}}
    """
    talk.framework = talk.workshop(pipeline, toy=bringing(adding(), call_model=model.answer))
    async with talk.framework.running():
        assert (await talk.say("add")).model_output == "Three."
        assert [event["content"] for event in talk.of_kind("tool_result")] == ["3"]
        assert (await talk.say(",nonsense")).model_output
        assert talk.of_kind("final")[0]["ok"] is False


# Asking the person at a terminal.


@asynccontextmanager
async def at_a_terminal(
    talk: Talk, *arguments: str, more: str = "", before: str = ""
) -> AsyncIterator[pexpect.spawn[str]]:
    """`bub run` of an answer that calls `fs.write`, in a terminal of its own, up to the question."""
    async with talk.open(tools='{allow: ["*"], ask: [fs.write]}', more=more):
        pass
    call = Called("fs_write", json.dumps({"path": "a.txt", "content": "hello"}))
    script = json.dumps([OPENAI.answer("I write.", calls=[call]), OPENAI.answer("That was it.")])
    process = pexpect.spawn(
        "/bin/sh",
        ["-c", 'trap : TERM; "$@"; echo code $?; stty -a', "sh",
         sys.executable, "-m", "bub", "--config", "pipelines.yaml", "run", *arguments, script],
        cwd=str(talk.workshop.folder), encoding="utf-8", timeout=20, dimensions=(40, 200),
        env={
            **os.environ, "BUB_HOME": str(talk.workshop.folder / "home"), "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",  # else it waits for an answer that only a real terminal gives
        },
    )  # fmt: skip
    try:
        process.expect(before + r"The agent wants to call `fs\.write`:\r\n  path: a\.txt\r\n  content: hello")
        process.expect(r"Allow it\?")
        yield process
    finally:
        process.close(force=True)


@pytest.mark.parametrize(("key", "is_written"), [("y", True), ("n", False), ("\r", False), ("\x03", False)])
async def test_a_persons_answer_at_the_terminal_decides(talk: Talk, key: str, is_written: bool) -> None:
    async with at_a_terminal(talk) as process:
        process.send(key)
        process.expect("That was it.")
        process.expect("code 0")
    assert (talk.workshop.folder / "a.txt").exists() is is_written


async def test_a_question_stands_in_a_line_of_its_own_below_what_was_streamed(talk: Talk) -> None:
    async with at_a_terminal(talk, "--stream", before=r"I write\.\r\n") as process:
        process.send("n")
        process.expect("That was it.")


async def test_a_question_that_nobody_waits_for_any_more_leaves_the_terminal_as_it_was(talk: Talk) -> None:
    async with at_a_terminal(talk) as process:
        os.killpg(os.tcgetpgrp(process.child_fd), signal.SIGTERM)
        process.expect("code 130")
        assert "Traceback" not in (process.before or "")
        process.expect("[^-]icanon")
        process.expect(" echo ")


async def test_two_subagents_ask_a_person_one_question_at_a_time(talk: Talk) -> None:
    asking, most = 0, 0

    async def ask(question: Any) -> bool:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        asking -= 1
        return True

    def child(number: int) -> Called:
        task = json.dumps([OPENAI.answer(calls=[add(number, 1)]), OPENAI.answer("x")])
        return Called("subagent", json.dumps({"prompt": task}), f"c{number}")

    async with talk.open(tools='{allow: ["*"], ask: ["math.*"]}', toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[child(1), child(2)]), OPENAI.answer("x"), ask=ask)
    assert most == 1


async def test_A13_a_handoff_in_a_later_step_says_what_was_done_for_this_prompt(talk: Talk) -> None:
    said = "request (9010 tokens) exceeds the available context size (2048 tokens), try increasing it"
    overflow = refusal(OPENAI.error("exceed_context_size_error", said), 400)
    async with talk.open(toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[add(20, 22)]), overflow, OPENAI.answer("42, as I said"))
    *_, last = await talk.asked()
    assert "math.add" in json.dumps(last["messages"])
    assert "already" in json.dumps(last["messages"])
    assert results_in(last) == []


async def test_an_observer_cannot_change_what_the_model_is_sent(talk: Talk) -> None:
    def after_llm_call(request: dict[str, Any]) -> None:
        request["messages"][-1]["content"] = "something else"

    async with talk.open(toy=bringing(adding(), after_llm_call=after_llm_call)):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"))
    _, second = await talk.asked()
    assert "something else" not in json.dumps(second["messages"])


async def test_the_agent_does_not_write_the_code_of_its_own_plugins(talk: Talk) -> None:
    async with talk.open(toy=bringing(adding())):
        for file in ("toy.py", "pipelines.yaml"):
            said = (await talk.say(f",fs.write {file} content=x")).model_output or ""
            assert said.startswith("error: "), file
        answer = await talk.say(",fs.write other.py content=x", surface=Surface.TERMINAL)
        assert not (answer.model_output or "").startswith("error")
        assert not ((await talk.say(",fs.read toy.py")).model_output or "").startswith("error")
