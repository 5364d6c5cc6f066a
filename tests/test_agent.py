"""The agent: its loop, its tools and what guards them, its tape, against a model server that follows a script."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.scripted import ANTHROPIC, OPENAI, Api, Called, Script, refusal
from fakes.talk import Talk, add, adding, bringing, kinds, results_in
from fakes.toys import Errors, Toy, Workshop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bub import tool
from bub.agent.costs.budget import BudgetError
from bub.base.surfaces import Surface
from bub.channels.commands import write_command
from bub.errors import BubError, ModelError
from bub.streaming import StreamEvent
from bub.tape import Tape, TapeEntry
from bub.tape.context import LOST
from bub.tape.tape import tape_name
from bub.tools import ToolContext, ToolError

pytestmark = pytest.mark.anyio


# The loop.


@pytest.mark.parametrize("api", [OPENAI, ANTHROPIC], ids=lambda api: api.name)
async def test_a_tool_call_runs_and_its_result_is_in_the_next_request(talk: Talk, api: Api) -> None:
    async with talk.open(api=api.name, toy=bringing(adding())):
        result = await talk.say(api.answer("Let me see.", calls=[add(17, 25)]), api.answer("It is 42."))
    assert result.model_output == "Let me see.\n\nIt is 42."
    first, second = await talk.asked()
    offered = [tool.get("name") or tool["function"]["name"] for tool in first["tools"]]
    assert "math_add" in offered
    assert '"42"' in json.dumps(second["messages"])
    assert [(event["name"], event["arguments"]) for event in talk.of_kind("tool_call")] == [
        ("math.add", {"a": 17, "b": 25})
    ]
    assert [event["content"] for event in talk.of_kind("tool_result")] == ["42"]
    used = {"input_tokens": 6, "output_tokens": 4, "cached_tokens": 0}
    assert talk.of_kind("final") == [{"finish_reason": "stop", "steps": 2, "ok": True, "usage": used}]
    assert len(talk.of_kind("usage")) == 2


async def test_a_pipeline_that_builds_no_prompt_asks_what_the_message_says(talk: Talk) -> None:
    talk.framework = talk.workshop(
        "stages:\n"
        '  resolve_session: {kind: firstresult, into: session_id, default: "{channel}:{chat_id}"}\n'
        "  run_model: {kind: stream, hook: run_model_stream, into: model_output}\n"
        f'settings: {{model: "test:{talk.model}", providers: {{test: {{api_base: "{talk.address}/v1"}}}}}}\n'
        "profiles: {default: {plugins: []}}"
    )
    async with talk.framework.running():
        result = await talk.say(OPENAI.answer("It is fine."))
    assert result.model_output == "It is fine."


async def test_A16_calls_that_read_run_side_by_side_and_results_keep_the_order_of_the_calls(talk: Talk) -> None:
    running, most = 0, 0
    gate = trio.Event()

    @tool(read_only=True, reaches=None)
    async def wait(turn: int) -> str:
        """Wait until all have begun; the first to be called is the last to end."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            gate.set()
        await gate.wait()
        for _ in range(3 - turn):
            await trio.lowlevel.checkpoint()
        return f"number {turn}"

    calls = [Called("wait", json.dumps({"turn": turn}), f"c{turn}") for turn in range(3)]
    async with talk.open(toy=bringing(wait)):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"))
    assert most == 3
    _, second = await talk.asked()
    assert results_in(second) == ["number 0", "number 1", "number 2"]
    assert [message["tool_call_id"] for message in second["messages"] if message["role"] == "tool"] == [
        "c0",
        "c1",
        "c2",
    ]


async def test_A16_calls_that_may_change_something_run_one_after_another_in_the_order_of_the_calls(talk: Talk) -> None:
    happened: list[str] = []

    async def work(name: str) -> str:
        happened.append(f"{name} begins")
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        happened.append(f"{name} ends")
        return name

    @tool(read_only=True, reaches=None)
    async def read(name: str) -> str:
        """Read something."""
        return await work(name)

    @tool(reaches=None)
    async def write(name: str) -> str:
        """Write something."""
        return await work(name)

    async def yes(question: Any) -> bool:
        happened.append(f"asked about {question.arguments['name']}")
        return True

    order = ["write a", "write b", "read c", "read d", "write e"]
    calls = [Called(tool, json.dumps({"name": name}), name) for tool, name in map(str.split, order)]
    async with talk.open(tools='{allow: ["*"], ask: [write]}', toy=bringing(read, write)):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"), ask=yes)
    assert [each for each in happened if each[-1] not in "cd" and each[0] not in "cd"] == [
        line for name in "abe" for line in (f"asked about {name}", f"{name} begins", f"{name} ends")
    ]
    reads = happened[6:10]
    assert {line[0] for line in reads} == {"c", "d"}
    assert [line[2:] for line in reads] == ["begins", "begins", "ends", "ends"]
    assert results_in((await talk.asked())[1]) == ["a", "b", "c", "d", "e"]


async def test_A16_a_failing_tool_loses_none_of_its_siblings_results(talk: Talk) -> None:
    @tool(reaches=None)
    def burn() -> None:
        """Fail."""
        raise ValueError("too hot")

    @tool(reaches=None)
    def leave() -> None:
        """End the program."""
        raise SystemExit(3)

    calls = [Called("burn", id="c1"), add(1, 2, id="c2"), Called("leave", id="c3")]
    async with talk.open(toy=bringing(burn, adding(), leave)):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"))
    _, second = await talk.asked()
    burnt, added, left = results_in(second)
    assert burnt == "error: execution failed: ValueError('too hot')"
    assert added == "3"
    assert left.startswith("error: execution failed: SystemExit")


async def test_A17_wrong_arguments_are_told_to_the_model_with_what_is_wrong(talk: Talk) -> None:
    ran: list[Any] = []
    calls = [
        Called("math_add", '{"a": 1}', "c1"),
        Called("math_add", '{"a": 1, "c": 2}', "c2"),
        Called("math_add", "not json", "c3"),
    ]
    async with talk.open(toy=bringing(adding(ran))):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"))
    missing, unknown, broken = results_in((await talk.asked())[1])
    assert "it needs `b`" in missing
    assert "no argument `c`" in unknown
    assert "not a JSON object" in broken
    assert ran == []


async def test_A18_an_unknown_tool_is_answered_with_names_that_are_close(talk: Talk) -> None:
    async with talk.open(toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[Called("math_ad", "{}")]), OPENAI.answer("done"))
    (said,) = results_in((await talk.asked())[1])
    assert said == "error: there is no tool `math_ad` (did you mean `math.add`?)"


async def test_A12_what_continue_prompt_says_goes_to_the_model_between_two_steps(talk: Talk) -> None:
    def continue_prompt(step: int) -> str | None:
        return f"That was step {step}."

    async with talk.open(toy=bringing(adding(), continue_prompt=continue_prompt)):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"))
    _, second = await talk.asked()
    assert second["messages"][-1] == {"role": "user", "content": "That was step 1."}


async def test_A10_a_turn_ends_when_it_has_asked_the_model_often_enough(talk: Talk) -> None:
    errors = Errors()
    async with talk.open(profile=", budget: {steps: 3}", toy=bringing(adding(), on_error=errors.told)):
        scripts = [OPENAI.answer(calls=[add(step, 1)]) for step in range(5)]
        with pytest.raises(BudgetError, match="it asked the model 3 times") as caught:
            await talk.say(*scripts)
        assert len(await talk.asked()) == 3
    assert caught.value.limit == "steps"
    assert "budget.steps" in (caught.value.help or "")
    assert errors.stages == ["turn"]


@pytest.mark.parametrize(
    ("limit", "calls"),
    [
        ("tool_calls: 2", [add(1, 1, id="c1"), add(1, 2, id="c2"), add(1, 3, id="c3")]),
        ("identical_calls: 2", [add(1, 1, id="c1"), add(1, 1, id="c2"), add(1, 1, id="c3")]),
    ],
)
async def test_E21_too_many_calls_end_the_turn_and_none_of_that_step_runs(
    talk: Talk, limit: str, calls: list[Called]
) -> None:
    ran: list[Any] = []
    async with talk.open(profile=f", budget: {{{limit}}}", toy=bringing(adding(ran))):
        assert (await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"))).model_output == "done"
        results = [entry for entry in await talk.tape() if entry.kind == "tool_result"]
        assert all(one["is_error"] for one in results[0].payload["results"])
        assert len(results[0].payload["results"]) == 3
    assert ran == []


@pytest.mark.parametrize("limit", ["tokens_per_turn", "tokens_per_day"])
@pytest.mark.parametrize("counted", [(60, 50), None], ids=["counted", "estimated"])
async def test_a_turn_ends_before_the_step_that_would_cost_too_many_tokens(
    talk: Talk, limit: str, counted: tuple[int, int] | None
) -> None:
    async with talk.open(profile=f", budget: {{{limit}: 100}}", toy=bringing(adding())):
        with pytest.raises(BudgetError) as caught:
            await talk.say(OPENAI.answer(calls=[add(1, 2)], usage=counted), OPENAI.answer("done"))
        assert caught.value.limit == limit
        assert len(await talk.asked()) == 1
        if limit == "tokens_per_day":
            with pytest.raises(BudgetError):
                await talk.say("hello", session="another")
        else:
            assert (await talk.say("hello", session="another")).model_output == "You said: hello"


async def test_A13_a_context_that_is_too_long_is_summed_up_once(talk: Talk) -> None:
    said = "request (9010 tokens) exceeds the available context size (2048 tokens), try increasing it"
    overflow = refusal(OPENAI.error("exceed_context_size_error", said), 400)
    async with talk.open():
        await talk.say("remember the word swordfish")
        result = await talk.say(overflow, OPENAI.answer("here I am"))
        assert result.model_output == "here I am"
        entries = await talk.tape()
        with pytest.raises(ModelError, match=r"does not fit into the window .* \(system prompt \d+, \d+ tools \d,\d+"):
            await talk.say(overflow, overflow)
    _, long, summing, short, *_ = await talk.asked()
    assert "swordfish" in json.dumps(long["messages"])
    assert "[user] remember the word swordfish" in summing["messages"][-1]["content"]
    assert [message["role"] for message in short["messages"]] == ["system", "user", "assistant", "user"]
    anchor = short["messages"][2]["content"]
    assert anchor.startswith("[Anchor created: auto_handoff/context_overflow]")
    assert "swordfish" in anchor and "tape.search finds what you miss" in anchor
    assert "auto_handoff" in [entry.payload["data"].get("status") for entry in entries if entry.kind == "event"]


async def test_A14_other_models_are_asked_when_the_configured_one_fails_before_it_began(talk: Talk) -> None:
    other = uuid.uuid4().hex
    failing = refusal(OPENAI.error("server_error", "broken"), 500)
    async with talk.open(more=f'  fallback_models: ["test:{other}"]'):
        # The scripts are played per model: the second model's first is the failing one's only one.
        talk_to = [[failing]]
        with pytest.raises(ModelError):
            await talk.say(*talk_to[0])  # both fail
        asked = talk.model
        talk.model = other
        assert len(await talk.asked()) == 1
        talk.model = asked
        await talk.say(",model test:" + uuid.uuid4().hex)
        with pytest.raises(ModelError):
            await talk.say(failing)  # a model that was chosen for the session has none to fall back on
        talk.model = other
        assert len(await talk.asked()) == 1


async def test_A14_nobody_waits_for_minutes_while_another_model_could_answer(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUB_RETRIES", "1")
    monkeypatch.setenv("BUB_PROVIDERS_OTHER_API_BASE", "http://127.0.0.1:9/v1")
    async with talk.open(more="  fallback_models: [other:m]"):
        with pytest.raises(ModelError, match=r"other .* cannot be reached"), trio.fail_after(30):
            await talk.say(refusal(OPENAI.error("rate_limit_error", "slow down"), 429, retry_after="60"))
    assert len(await talk.asked()) == 1


async def test_A14_a_failure_after_the_first_word_is_not_tried_again(talk: Talk) -> None:
    other = uuid.uuid4().hex
    async with talk.open(more=f'  fallback_models: ["test:{other}"]'):
        with pytest.raises(ModelError):
            await talk.say([*OPENAI.beginning("Once upon"), {"cut": True}])
        entries = await talk.tape()
        talk.model = other
        assert await talk.asked() == []
    partial = [entry for entry in entries if entry.meta.get("partial")]
    assert [entry.payload["content"] for entry in partial] == ["Once upon"]


async def test_A9_an_empty_prompt_never_reaches_the_model(talk: Talk) -> None:
    async with talk.open():
        result = await talk.say("   ")
    assert result.model_output == "error: the message is empty"
    assert talk.of_kind("final")[0]["ok"] is False
    assert await talk.asked() == []


# What is fired.


async def test_A19_before_llm_call_changes_the_request_but_not_the_tools(talk: Talk) -> None:
    def before_llm_call(request: dict[str, Any]) -> dict[str, Any]:
        return {"max_tokens": 7, "tool_choice": "required", "tools": [], "temperature": 0.5}

    async with talk.open(toy=bringing(adding(), before_llm_call=before_llm_call)):
        await talk.say(OPENAI.answer("fine"))
    (request,) = await talk.asked()
    assert (request["max_tokens"], request["tool_choice"], request["temperature"]) == (7, "required", 0.5)
    assert "math_add" in [offered["function"]["name"] for offered in request["tools"]]


async def test_A19_before_llm_call_can_finish_with_a_text_and_the_model_is_not_asked(talk: Talk) -> None:
    async with talk.open(toy=bringing(before_llm_call=lambda request: {"finish": "No need."})):
        result = await talk.say("hello")
    assert result.model_output == "No need."
    assert await talk.asked() == []


async def test_A22_after_llm_call_is_fired_once_for_an_answer_and_once_for_a_failure(talk: Talk) -> None:
    seen: list[dict[str, Any]] = []

    def after_llm_call(request: dict[str, Any], response: dict[str, Any]) -> None:
        seen.append(response)

    async with talk.open(toy=bringing(adding(), after_llm_call=after_llm_call)):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"))
        assert [one["text"] for one in seen] == ["", "done"]
        assert seen[0]["tool_calls"][0]["name"] == "math.add"
        assert seen[1]["usage"]
        for script in (refusal(OPENAI.error("server_error", "broken"), 500), [*OPENAI.beginning("So"), {"cut": True}]):
            seen.clear()
            with pytest.raises(ModelError):
                await talk.say(script)
            assert len(seen) == 1
            assert seen[0]["error"]


async def test_A20_A21_gates_judge_the_amended_arguments_and_cannot_change_them(talk: Talk) -> None:
    judged: list[Any] = []
    ran: list[Any] = []

    def tool_gate(args: dict[str, Any]) -> None:
        judged.append(dict(args))
        args["a"] = 1000  # raises, since it is frozen: and a gate that raises denies

    def before_tool_call(args: dict[str, Any]) -> dict[str, Any]:
        return {"args": {**args, "a": 5}}

    async with talk.open(
        amender=Toy(before_tool_call=before_tool_call),
        guard=Toy(tool_gate=lambda args: judged.append(dict(args))),
        toy=bringing(adding(ran)),
    ):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"))
    assert judged == [{"a": 5, "b": 2}]
    assert ran == [(5, 2)]
    judged.clear()
    async with talk.open(guard=Toy(tool_gate=tool_gate), toy=bringing(adding(ran))):
        await talk.say(OPENAI.answer(calls=[add(1, 3)]), OPENAI.answer("done"))
    assert judged == [{"a": 1, "b": 3}]
    assert ran == [(5, 2)]


@pytest.mark.parametrize("how", ["deny", "raise", "lie"])
async def test_A20_a_denied_call_is_an_error_result_in_call_order_and_does_not_run(talk: Talk, how: str) -> None:
    ran: list[Any] = []
    seen: list[Any] = []

    def tool_gate(args: dict[str, Any]) -> Any:
        if args["a"] != 1:
            return None
        if how == "raise":
            raise RuntimeError("the gate is broken")
        return {"deny": "not one"} if how == "deny" else True

    watch = Toy(tool_gate=tool_gate, after_tool_call=lambda args, result: seen.append((args["a"], result["is_error"])))
    async with talk.open(guard=watch, toy=bringing(adding(ran))):
        calls = [add(0, 1, id="c0"), add(1, 1, id="c1"), add(2, 1, id="c2")]
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"))
    first, denied, last = results_in((await talk.asked())[1])
    assert (first, last) == ("1", "3")
    assert denied == ("error: not one" if how == "deny" else "error: This could not be checked, so it was not done.")
    assert sorted(ran) == [(0, 1), (2, 1)]
    assert sorted(seen) == [(0, False), (1, True), (2, False)]  # A22: once for each, also for the denied one


async def test_E18_a_call_that_before_tool_call_rejects_leaves_an_error_result_and_no_after_tool_call(
    talk: Talk,
) -> None:
    ran: list[Any] = []
    seen: list[Any] = []
    toy = bringing(
        adding(ran),
        before_tool_call=lambda args: {"error": "not today"} if args["a"] == 1 else None,
        after_tool_call=lambda args: seen.append(args["a"]),
    )
    async with talk.open(toy=toy):
        await talk.say(OPENAI.answer(calls=[add(1, 1, id="c1"), add(2, 2, id="c2")]), OPENAI.answer("done"))
    assert results_in((await talk.asked())[1]) == ["error: not today", "4"]
    assert ran == [(2, 2)]
    assert seen == [2]


async def test_H34_a_gate_in_a_pipeline_that_does_not_fire_it_keeps_the_framework_from_loading(talk: Talk) -> None:
    with pytest.raises(BubError):
        async with talk.open(more="hooks: {tool_gate: {kind: observer}}", guard=Toy(tool_gate=lambda: None)):
            pass


_behaviours = st.sampled_from(["allow", "deny", "raise", "lie", "late"])


@given(gates=st.lists(_behaviours, min_size=1, max_size=4), amends=st.lists(st.integers(0, 3), max_size=3))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_H34_denied_tools_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, gates: list[str], amends: list[int]
) -> None:
    """Whatever mix of amenders and gates: it runs once where all allow, with what the gates saw, and never else."""
    ran: list[Any] = []
    judged: list[Any] = []

    def gate(behaviour: str) -> Toy:
        async def tool_gate(args: dict[str, Any]) -> Any:
            judged.append((args["a"], args["b"]))
            if behaviour == "raise":
                raise RuntimeError
            if behaviour == "late":
                await trio.sleep_forever()
            return {"deny": {"deny": "no"}, "lie": "yes"}.get(behaviour)

        return Toy(tool_gate=tool_gate)

    def amender(value: int) -> Toy:
        return Toy(before_tool_call=lambda args: {"args": {**args, "b": value}})

    toys: dict[str, object] = {f"gate{index}": gate(behaviour) for index, behaviour in enumerate(gates)}
    toys |= {f"amender{index}": amender(value) for index, value in enumerate(amends)}

    async def main() -> None:
        talk = Talk(Workshop(tmp_path, monkeypatch), address)
        async with talk.open(more="hooks: {tool_gate: {kind: gate, timeout: 20ms}}", toy=bringing(adding(ran)), **toys):
            await talk.say(OPENAI.answer(calls=[add(1, 9)]), OPENAI.answer("done"))

    trio.run(main)
    if set(gates) == {"allow"}:
        assert ran == [(1, amends[-1] if amends else 9)]
        assert set(judged) == set(ran)
    else:
        assert ran == []


# Who may use what.


async def test_a_profile_that_does_not_say_has_the_tools_that_only_read(talk: Talk) -> None:
    plain = "routes: [{match: {channel: plain}, profile: plain}]"
    async with talk.open(more=plain, profile="}, plain: {plugins: []"):
        await talk.say(OPENAI.answer("fine"), channel="plain")
    (request,) = await talk.asked()
    offered = {one["function"]["name"] for one in request["tools"]}
    assert {"fs_read", "tape_search"} <= offered
    assert not {"fs_write", "fs_edit", "bash", "subagent", "tape_handoff"} & offered


async def test_a_tool_that_is_not_allowed_is_neither_offered_nor_run(talk: Talk) -> None:
    ran: list[Any] = []
    async with talk.open(tools='{allow: ["*"], deny: ["math.*"]}', toy=bringing(adding(ran))):
        await talk.say(
            OPENAI.answer(calls=[add(1, 2), Called("bash", '{"command": "true"}', "c2")]), OPENAI.answer("x")
        )
    first, second = await talk.asked()
    assert not {"math_add", "bash"} & {one["function"]["name"] for one in first["tools"]}
    assert all(said.startswith("error: ") for said in results_in(second))
    assert ran == []


@pytest.mark.parametrize("answer", [True, False, "yes", None, "raises", "nobody"])
async def test_only_a_persons_yes_lets_a_tool_run_that_has_to_be_asked_about(talk: Talk, answer: Any) -> None:
    ran: list[Any] = []
    questions: list[Any] = []

    async def ask(question: Any) -> Any:
        questions.append(question)
        if answer == "raises":
            raise RuntimeError
        return answer

    async with talk.open(tools='{allow: ["*"], ask: ["math.*"]}', toy=bringing(adding(ran))):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("x"), ask=None if answer == "nobody" else ask)
    (said,) = results_in((await talk.asked())[1])
    assert ran == ([(1, 2)] if answer is True else [])
    assert said.startswith("error: ") is (answer is not True)
    if answer != "nobody":
        assert [(one.tool, one.arguments) for one in questions] == [("math.add", {"a": 1, "b": 2})]


async def test_a_gate_denies_before_a_person_is_asked(talk: Talk) -> None:
    async def ask(question: Any) -> bool:
        raise AssertionError("nobody is to be asked")

    guard = Toy(tool_gate=lambda: {"deny": "no"})
    async with talk.open(tools='{allow: ["*"], ask: ["*"]}', guard=guard, toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("x"), ask=ask)
    assert results_in((await talk.asked())[1]) == ["error: no"]


async def test_two_tools_of_one_name_are_an_error_that_names_both_plugins(talk: Talk) -> None:
    with pytest.raises(BubError, match=r"`one` and `two` both bring the tool `math.add`"):
        async with talk.open(one=bringing(adding()), two=bringing(adding())):
            pass


# The tape.


async def test_P15_A15_a_turn_leaves_its_entries_on_the_tape_in_order(talk: Talk) -> None:
    async with talk.open(toy=bringing(adding())):
        await talk.say(OPENAI.answer("I add.", calls=[add(1, 2)]), OPENAI.answer("Three."))
        entries = await talk.tape()
    assert kinds(entries) == [
        "anchor", "handoff", "system", "message", "loop.start", "loop.step.start", "tool_call", "tool_result",
        "loop.step", "loop.step.start", "message", "loop.step", "run",
    ]  # fmt: skip
    assert entries[-1].payload["data"]["status"] == "ok"
    assert entries[-1].payload["data"]["usage"]
    assert entries[6].payload["content"] == "I add."
    assert entries[7].payload["results"][0]["content"] == "3"


async def test_the_next_turn_knows_what_was_said_and_done(talk: Talk) -> None:
    async with talk.open(toy=bringing(adding())):
        await talk.say(OPENAI.answer("I add.", calls=[add(1, 2)]), OPENAI.answer("Three."))
        await talk.say("and now?")
    *_, last = await talk.asked()
    roles = [message["role"] for message in last["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert last["messages"][2]["tool_calls"][0]["id"] == last["messages"][3]["tool_call_id"]


async def test_the_system_prompt_is_kept_once_and_again_when_it_changes(talk: Talk) -> None:
    said = ["one"]
    async with talk.open(toy=Toy(system_prompt=lambda: said[0])):
        for _ in range(3):
            await talk.say("hello")
        said[0] = "two"
        await talk.say("hello")
        systems = [entry for entry in await talk.tape() if entry.kind == "system"]
    assert [entry.payload["content"][-3:] for entry in systems] == ["one", "two"]


async def test_a_call_is_on_the_tape_before_its_tool_runs(talk: Talk) -> None:
    seen: list[str] = []

    @tool(reaches=None)
    async def look(*, context: ToolContext) -> str:
        """Look at the tape."""
        assert context.tape is not None
        seen.extend(kinds(await context.tape.fetch(context.tape.query())))
        return "seen"

    async with talk.open(toy=bringing(look)):
        await talk.say(OPENAI.answer(calls=[Called("look")]), OPENAI.answer("x"))
    assert seen[-1] == "tool_call"


async def test_P14_a_call_that_a_crash_interrupted_is_an_error_result_and_never_run_again(talk: Talk) -> None:
    ran: list[Any] = []
    async with talk.open(toy=bringing(adding(ran))) as framework:
        tape = Tape(tape_name(framework.workspace, "cli:local"), framework.get_tape_store())
        await tape.ensure_bootstrap_anchor()
        call = {"id": "lost", "name": "math.add", "arguments": {"a": 1, "b": 2}}
        await tape.append(TapeEntry.message({"role": "user", "content": "add"}), TapeEntry.tool_call([call]))
        await talk.say("go on")
    (request,) = await talk.asked()
    assert results_in(request) == [LOST]
    assert ran == []


async def test_a_turn_that_is_cancelled_leaves_what_had_happened(talk: Talk) -> None:
    async with talk.open():
        with trio.move_on_after(0.5) as scope:
            await talk.say([*OPENAI.beginning("Once upon a time"), {"hold": True}])
        assert scope.cancelled_caught
        entries = await talk.tape()
    assert entries[-2].payload == {"role": "assistant", "content": "Once upon a time"}
    assert entries[-1].payload["data"]["status"] == "cancelled"


async def test_cancelling_a_turn_cancels_its_tools(talk: Talk) -> None:
    ended: list[str] = []

    @tool(read_only=True, reaches=None)
    async def hang() -> None:
        """Never end."""
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cancelled")

    calls = [Called("hang", id="c1"), add(1, 2, id="c2"), Called("hang", id="c3")]
    async with talk.open(toy=bringing(hang, adding())):
        with trio.move_on_after(0.5):
            await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("fine"))
        await talk.say("go on")
    assert ended == ["cancelled", "cancelled"]
    *_, last = await talk.asked()
    lost, added, lost_too = results_in(last)
    assert added == "3"
    assert lost == lost_too == LOST


async def test_P22_a_long_result_is_shortened_and_can_be_read_in_parts(talk: Talk) -> None:
    @tool(reaches=None)
    def recite() -> str:
        """Recite all."""
        return "\n".join(f"line {number}" for number in range(20_000))

    async with talk.open(toy=bringing(recite)):
        await talk.say(OPENAI.answer(calls=[Called("recite")]), OPENAI.answer("x"))
        (short,) = results_in((await talk.asked())[1])
        assert len(short) < 1000
        handle = short.partition("handle `")[2].partition("`")[0]
        result = await talk.say(f",spill.read {handle} part=2")
    assert "[part 2 of " in (result.model_output or "")


async def test_secrets_reach_neither_the_tape_nor_the_model_through_a_tool(talk: Talk) -> None:
    @tool(reaches=None)
    def leak() -> str:
        """Tell the key."""
        return "the key is sk-a-very-secret-key"

    async with talk.open(toy=bringing(leak)):
        await talk.say(OPENAI.answer(calls=[Called("leak")]), OPENAI.answer("x"))
        await talk.say(",leak")
        await talk.say(",nonsense sk-a-very-secret-key")
        store = talk.framework.get_tape_store()
        everything = "".join(
            str(entry) for name in store.list_tapes() for entry in store.fetch_all(Tape(name, store).query())
        )
    assert "sk-a-very-secret-key" not in everything
    assert "the key is ***" in everything
    assert "sk-a-very-secret-key" not in json.dumps(await talk.asked())


async def test_P16_a_temporary_session_leaves_nothing_behind(talk: Talk) -> None:
    async with talk.open():
        await talk.say("hello", session="temp/1")
        assert talk.framework.get_tape_store().list_tapes() == []


async def test_P19_what_is_no_text_is_named_on_the_tape_and_sent_whole(talk: Talk) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    prompt = [{"type": "text", "text": "What is this?"}, image]
    async with talk.open(toy=Toy(build_prompt=lambda: prompt)):
        await talk.say("hello")
        (said,) = [entry for entry in await talk.tape() if entry.payload.get("role") == "user"]
    assert said.payload["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "text", "text": "[image: image/png, 3 bytes]"},
    ]
    (request,) = await talk.asked()
    assert request["messages"][-1]["content"][1] == image
    assert prompt[1] is image


async def test_a_handoff_in_a_turn_begins_the_context_anew_behind_its_step(talk: Talk) -> None:
    call = Called("tape_handoff", json.dumps({"name": "phase two", "summary": "we know enough"}))
    async with talk.open():
        await talk.say("remember swordfish")
        await talk.say(OPENAI.answer(calls=[call]), OPENAI.answer("anew"))
        await talk.say("and now?")
    _, before, after, later = await talk.asked()
    assert "swordfish" in json.dumps(before["messages"])
    for request in (after, later):
        assert "swordfish" not in json.dumps(request["messages"])
        assert "we know enough" in json.dumps(request["messages"])
    assert results_in(after) == ["the conversation starts over at `phase two`"]
    said = ["system", "user", "assistant", "user", "assistant", "tool"]
    assert [message["role"] for message in after["messages"]] == said


async def test_fifty_messages_of_one_session_at_once_are_fifty_turns_that_never_interleave(talk: Talk) -> None:
    async with talk.open(toy=bringing(adding())) as framework:
        async with trio.open_nursery() as nursery:
            for number in range(50):
                content = json.dumps([OPENAI.answer(calls=[add(number, number, id=f"c{number}")]), OPENAI.answer("ok")])
                message = {"channel": "cli", "chat_id": "local", "content": content}
                nursery.start_soon(framework.process_inbound, message)
        entries = await talk.tape()
    turn = [entry for entry in entries if entry.kind in ("message", "tool_call", "tool_result")]
    assert [entry.kind for entry in turn] == ["message", "tool_call", "tool_result", "message"] * 50
    for at in range(0, 200, 4):
        (call,), (result,) = turn[at + 1].payload["calls"], turn[at + 2].payload["results"]
        assert call["id"] == result["id"]
        assert str(call["arguments"]["a"] * 2) == result["content"]


# Commands.


async def test_A1_a_text_with_the_prefix_is_a_command_and_no_model_is_asked(talk: Talk) -> None:
    async with talk.open(toy=bringing(adding())):
        result = await talk.say("  ,math.add 1 b=2 ")
        assert result.model_output == "3"
        assert await talk.asked() == []
        assert talk.of_kind("final")[0]["ok"] is True


async def test_A1_the_prefix_can_be_chosen(talk: Talk) -> None:
    async with talk.open(more='  command_prefix: "!"', toy=bringing(adding())):
        assert (await talk.say("!math.add 1 2")).model_output == "3"
        assert (await talk.say(",math.add 1 2")).model_output == "You said: ,math.add 1 2"


async def test_A3_one_json_object_gives_the_arguments_by_their_names(talk: Talk) -> None:
    @tool(name="poem.write", reaches=None)
    def write(text: str, lines: list[int], title: str = "") -> str:
        """Write a poem."""
        return f"{title}|{text}|{lines}"

    given = {"text": "it's = \"{}\", 'so'\n--x", "lines": [1, 2], "title": "a=b c"}
    async with talk.open(toy=bringing(write)):
        assert (await talk.say(write_command(",", "poem.write", given))).model_output == (
            f"{given['title']}|{given['text']}|[1, 2]"
        )
        wrong = await talk.say(',poem.write {"text": "x", "lines": [1], "titel": "y"}')
        assert "did you mean `title`?" in (wrong.model_output or "")
        plain = await talk.say(""",poem.write {braces} 3,4""")
        assert plain.model_output == "|{braces}|[3, 4]"
        shell = await talk.say(""",echo {"a": 1}""", surface=Surface.TERMINAL)
        assert "{a: 1}" in (shell.model_output or "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (",", "error: the command is empty"),
        (",math.ad 1 2", "did you mean `math.add`?"),
        (",math_add 1 2", "did you mean `math.add`?"),
        (",HELP", "did you mean `help`?"),
        (",math.add 1 a=2 3", "`3` comes after `a=…`"),
        (",math.add 1 a=2", "`math.add` gets `a` twice"),
        (",math.add 'one", "a quote is not closed"),
        (",math.add one 2", "Expected `int`"),
        (",math.add 1 2 3", "takes 2 arguments, not 3"),
    ],
)
async def test_A2_A3_A5_a_wrong_command_is_answered_with_what_is_wrong(talk: Talk, line: str, said: str) -> None:
    async with talk.open(tools='{allow: ["*"]}', toy=bringing(adding())):  # no shell
        result = await talk.say(line)
    assert (result.model_output or "").startswith("error: ")
    assert said in (result.model_output or "")
    assert talk.of_kind("final")[0]["ok"] is False


async def test_A2_an_unknown_command_runs_in_the_shell_where_bash_is_allowed(talk: Talk) -> None:
    async with talk.open():
        assert "it's a shell" in (
            (await talk.say(""",echo "it's" a 'shell' """, surface=Surface.TERMINAL)).model_output or ""
        )
    async with talk.open(tools='{allow: ["*"]}'):
        assert "there is no tool `echo`" in ((await talk.say(",echo hello")).model_output or "")


async def test_A2_a_slip_for_a_command_is_not_run_in_the_shell(
    talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "hepl"
    program.write_text("#!/bin/sh\necho a program\n")
    program.chmod(0o755)
    typed = {"surface": Surface.TERMINAL}
    async with talk.open():
        for line, said in [
            (",hepl", "error: there is no tool `hepl` (did you mean `help`?)"),
            (",fs.lst", "(did you mean `fs.list`, "),
            (",HELP", "did you mean `help`?"),
            (",hepl me", "not found"),  # two words: the shell
            (",true", "it printed nothing"),
        ]:
            assert said in ((await talk.say(line, **typed)).model_output or "")
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        assert (await talk.say(",hepl", **typed)).model_output == "a program\n"


async def test_A4_a_list_is_written_with_commas(talk: Talk) -> None:
    async with talk.open():
        await talk.say("the first words")
        said = (await talk.say(",tape.search words kinds=message,event")).model_output or ""
    assert "the first words" in said


async def test_A6_a_command_is_noted_on_the_tape_also_when_it_fails(talk: Talk) -> None:
    async with talk.open(toy=bringing(adding())):
        await talk.say(",math.add 1 2")
        await talk.say(",math.add 1")
        said = [entry.payload["data"] for entry in await talk.tape() if entry.payload.get("name") == "command"]
    assert [(one["raw"], one["name"], one["status"]) for one in said] == [
        ("math.add 1 2", "math.add", "ok"),
        ("math.add 1", "math.add", "error"),
    ]
    assert said[0]["output"] == "3"
    assert all(one["elapsed_ms"] >= 0 and one["date"] for one in said)


async def test_A7_help_lists_what_may_be_used_and_tells_how(talk: Talk) -> None:
    async with talk.open(tools='{allow: ["math.*", help]}', toy=bringing(adding())):
        listed = (await talk.say(",help")).model_output or ""
        assert [line.split()[0] for line in listed.splitlines()] == ["help", "math.add"]
        assert "math.add a b" in ((await talk.say(",help math.add")).model_output or "")


async def test_A8_quit_ends_what_the_session_runs(talk: Talk) -> None:
    async with talk.open():
        started = (await talk.say(',bash "sleep 1000" background=true', surface=Surface.TERMINAL)).model_output or ""
        assert not started.startswith("error")
        assert (await talk.say(",quit")).model_output == "Session tasks stopped."


async def test_A24_commands_are_bound_by_the_profiles_tools(talk: Talk) -> None:
    ran: list[Any] = []
    async with talk.open(tools='{allow: ["fs.*"]}', toy=bringing(adding(ran))):
        assert "not allowed" in ((await talk.say(",math.add 1 2")).model_output or "")
    async with talk.open(guard=Toy(tool_gate=lambda: {"deny": "no"}), toy=bringing(adding(ran))):
        assert (await talk.say(",math.add 1 2")).model_output == "error: no"
    assert ran == []


async def test_a_command_in_ones_own_terminal_is_its_own_yes_and_in_a_chat_it_is_not(talk: Talk) -> None:
    async with talk.open(tools='{allow: ["*"], ask: ["math.*"]}', toy=bringing(adding())):
        assert (await talk.say(",math.add 1 2", surface=Surface.TERMINAL)).model_output == "3"
        said = await talk.say(",math.add 1 2", surface=Surface.CHANNEL)
        assert "person's yes" in (said.model_output or "")


async def test_P23_the_model_of_a_session_can_be_chosen_and_forgotten(talk: Talk) -> None:
    other = uuid.uuid4().hex
    async with talk.open():
        await talk.say(f",model test:{other}")
        await talk.say("hello")
        await talk.say("hello", session="another")
        await talk.say(",model default")
        await talk.say("hello")
        assert "error" in ((await talk.say(",model nonsense:x")).model_output or "")
        own = await talk.asked()
        talk.model = other
        assert (len(own), len(await talk.asked())) == (2, 1)


# Sub-agents.


async def test_A25_a_subagent_works_in_a_session_of_its_own_and_its_answer_is_the_result(talk: Talk) -> None:
    spawned: list[Any] = []
    task = json.dumps([OPENAI.answer(calls=[add(20, 22)]), OPENAI.answer("It is 42.")])
    toy = bringing(
        adding(),
        subagent_spawned=lambda session_id, child_session_id: spawned.append((session_id, child_session_id)),
        subagent_ended=lambda child_session_id, result: spawned.append((child_session_id, result)),
    )
    async with talk.open(toy=toy):
        call = Called("subagent", json.dumps({"prompt": task}))
        said = (OPENAI.answer(calls=[call]), OPENAI.answer("The other one says 42."))
        result = await talk.say(*said, surface=Surface.RUN)
        assert len(talk.framework.get_tape_store().list_tapes()) == 1
    assert result.model_output == "The other one says 42."
    first, inner, _, last = await talk.asked()
    assert results_in(last) == ["It is 42."]
    assert len(inner["messages"]) == 2  # its system prompt and its task
    assert "subagent" in {one["function"]["name"] for one in first["tools"]}
    assert "subagent" not in {one["function"]["name"] for one in inner["tools"]}
    assert spawned[0][0] == "cli:local"
    assert spawned[1] == (spawned[0][1], "It is 42.")


@pytest.mark.parametrize("tools", [[], ["math.add"], None, ["bash"]])
async def test_A24_A25_a_subagent_has_never_more_tools_than_its_caller(talk: Talk, tools: list[str] | None) -> None:
    arguments = {"prompt": json.dumps([OPENAI.answer("x")]), **({"tools": tools} if tools is not None else {})}
    async with talk.open(tools='{allow: ["math.*", fs.read, subagent]}', toy=bringing(adding())):
        call = Called("subagent", json.dumps(arguments))
        await talk.say(OPENAI.answer(calls=[call]), OPENAI.answer("done"))
    _, *inner, last = await talk.asked()
    if tools == ["bash"]:
        assert inner == []
        assert "not allowed" in results_in(last)[0]
        return
    offered = {one["function"]["name"] for one in inner[0].get("tools") or ()}
    expected = {"math_add", "fs_read"} if tools is None else {name.replace(".", "_") for name in tools}
    assert offered == expected


async def test_a_subagent_can_inherit_what_was_said_or_continue_a_session_of_its_own(talk: Talk) -> None:
    def call(session: str) -> Script:
        arguments = {"prompt": json.dumps([OPENAI.answer("x")]), "session": session}
        return OPENAI.answer(calls=[Called("subagent", json.dumps(arguments))])

    async with talk.open():
        await talk.say("remember swordfish")
        await talk.say(call("inherit"), OPENAI.answer("done"))
        await talk.say(call("helper"), OPENAI.answer("done"))
        await talk.say(call("helper"), OPENAI.answer("done again"))
    inner = [
        request
        for request in await talk.asked()
        if "subagent" not in {offered["function"]["name"] for offered in request["tools"]}
    ]
    inherited, first, again = inner
    assert "swordfish" in json.dumps(inherited["messages"])
    assert "swordfish" not in json.dumps(first["messages"])
    assert len(again["messages"]) == len(first["messages"]) + 2


async def test_a_subagent_spends_its_callers_tokens(talk: Talk) -> None:
    task = json.dumps([OPENAI.answer("x", usage=(500, 500))])
    async with talk.open(profile=", budget: {tokens_per_turn: 900}"):
        with pytest.raises(BudgetError, match="tokens"):
            await talk.say(OPENAI.answer(calls=[Called("subagent", json.dumps({"prompt": task}))]), OPENAI.answer("x"))


# Models that plugins bring.


async def test_a_plugin_can_bring_the_model_and_the_agent_does_the_rest(talk: Talk) -> None:
    from fakes.toys import a_stream

    asked: list[dict[str, Any]] = []

    def call_model(request: dict[str, Any]) -> Any:
        asked.append(request)
        if len(asked) == 1:
            return a_stream(StreamEvent("tool_call", {"id": "1", "name": "math.add", "arguments": {"a": 1, "b": 2}}))
        return a_stream("It is three.")

    async with talk.open(toy=bringing(adding(), call_model=call_model)):
        result = await talk.say("one and two?")
    assert result.model_output == "It is three."
    assert asked[0]["model"] == f"test:{talk.model}"
    assert asked[1]["messages"][-1]["content"] == "3"
    assert "math.add" in [one["name"] for one in asked[0]["tools"]]


async def test_a_tool_error_is_told_with_its_advice(talk: Talk) -> None:
    @tool(reaches=None)
    def complain() -> None:
        """Complain."""
        raise ToolError("the door is locked", help="knock first")

    async with talk.open(toy=bringing(complain)):
        assert (await talk.say(",complain")).model_output == "error: the door is locked (knock first)"
