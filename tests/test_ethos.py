"""`bub:ethos` as its page has it: every point fires at its moment, and what it is told is documented (BEHAVIOURS E)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk, add, adding, bringing, results_in
from fakes.toys import HELLO, Errors, Toy, Workshop, raising

from bub import tool
from bub.agent.costs.budget import BudgetError
from bub.base.diagnostics import PipelineError
from bub.hook_registry import ETHOS_POINTS
from bub.hookspecs import HOOK_POINTS

pytestmark = pytest.mark.anyio


class Recorder:
    """Notes every point of Ethos that fires, with all that it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def noting(self, point: str) -> Callable[..., None]:
        def note(**told: Any) -> None:
            self.seen.append((point, told))

        return note

    @property
    def hooks(self) -> dict[str, Callable[..., None]]:
        return {point: self.noting(point) for point in ETHOS_POINTS}

    @property
    def points(self) -> list[str]:
        return [point for point, _ in self.seen]

    def told(self, point: str) -> dict[str, Any]:
        """What a point was told the last time it fired."""
        return [told for name, told in self.seen if name == point][-1]


AN_ANSWER = ["before_llm_call", "after_llm_call"]
AROUND = (
    ["inbound_claim", "message_received", "before_prompt_build"],
    ["agent_done", "message_sending", "before_dispatch", "message_sent"],
)


# Every point at its moment.


async def test_every_point_of_the_page_fires_at_its_moment(talk: Talk) -> None:
    seen = Recorder()
    (talk.workshop.folder / "notes.txt").write_text("milk", encoding="utf-8")
    task = json.dumps([OPENAI.answer("It is milk.")])
    async with talk.open(extends="ethos", toy=Toy(**seen.hooks)) as framework:
        await talk.say(
            OPENAI.answer(calls=[Called("fs_read", '{"path": "notes.txt"}', "c1")]),
            OPENAI.answer(calls=[Called("subagent", json.dumps({"prompt": task}), "c2")]),
            OPENAI.answer("Milk it is."),
        )
        assert seen.points == [
            *AROUND[0][:2],
            "session_start",
            *AROUND[0][2:],
            *(*AN_ANSWER, "before_tool_call", "after_tool_call", "tool_end_with_path"),
            *(*AN_ANSWER, "before_tool_call", "subagent_spawning", "subagent_spawned"),
            *(*AN_ANSWER, "subagent_ended", "after_tool_call"),
            *AN_ANSWER,
            *AROUND[1],
        ]
        assert {*ETHOS_POINTS} - {*seen.points} == {"personality_switched"}
        seen.seen.clear()
        await talk.say("again")
    assert seen.points == [*AROUND[0], *AN_ANSWER, *AROUND[1]]
    assert framework.graph.fired["before_llm_call"].kind.name == "void"


async def test_what_a_point_is_told_is_what_its_contract_says_and_what_the_page_says(talk: Talk) -> None:
    seen = Recorder()
    (talk.workshop.folder / "notes.txt").write_text("milk", encoding="utf-8")
    task = json.dumps([OPENAI.answer("It is milk.")])
    script = [
        OPENAI.answer(calls=[Called("fs_read", '{"path": "notes.txt"}', "c1")], usage=(60, 50)),
        OPENAI.answer(calls=[Called("subagent", json.dumps({"prompt": task}), "c2")]),
        OPENAI.answer("Milk it is.", usage=(70, 7)),
    ]
    async with talk.open(extends="ethos", toy=Toy(**seen.hooks)):
        await talk.say(*script)
    for point, told in seen.seen:
        assert {*told} == {*HOOK_POINTS[point].takes}, point
        assert told["profile"] == "default"
        assert point == "inbound_claim" or told["session_id"].startswith(("cli:local", "temp/"))
    prompt = json.dumps(script)
    started, done = seen.told("session_start"), seen.told("agent_done")
    assert (started["message"]["channel"], started["message"]["session_id"]) == ("cli", "cli:local")
    assert (done["model_output"], done["prompt"]) == ("Milk it is.", prompt)
    assert done["state"]["_runtime_turn"] == {
        "steps": 3,
        "tokens": 197,  # those of the sub-agent too
        "tool_calls": 2,
        "successful_tool_calls": 2,
        "tools": ["fs.read", "subagent"],
    }
    asked, answered = seen.told("before_llm_call")["request"], seen.told("after_llm_call")["response"]
    assert asked["step"] == 3
    assert {"model", "messages", "tools"} <= {*asked}
    assert [message["role"] for message in asked["messages"]][:2] == ["system", "user"]
    assert (answered["text"], answered["finish_reason"], answered["error"]) == ("Milk it is.", "stop", None)
    assert answered["usage"]
    assert answered["took"] > 0
    first = next(told for point, told in seen.seen if point == "before_tool_call")
    assert (first["tool"], first["args"], first["call_id"]) == ("fs.read", {"path": "notes.txt"}, "c1")
    first = next(told for point, told in seen.seen if point == "after_tool_call")
    assert ("milk" in first["result"]["content"], first["result"]["is_error"]) == (True, False)
    assert first["result"]["took"] > 0
    with_path = seen.told("tool_end_with_path")
    assert (with_path["tool"], with_path["path"]) == ("fs.read", str(talk.workshop.folder / "notes.txt"))
    assert with_path["workspace"] == talk.workshop.folder
    spawning, spawned, ended = (seen.told(f"subagent_{what}") for what in ("spawning", "spawned", "ended"))
    assert (spawning["session_id"], spawning["prompt"], spawning["personality"]) == ("cli:local", task, "default")
    assert spawned["child_session_id"] == ended["child_session_id"]
    assert ended["result"] == "It is milk."
    for point in ("message_sending", "before_dispatch", "message_sent"):
        assert (seen.told(point)["message"]["content"], seen.told(point)["message"]["chat_id"]) == (
            "Milk it is.",
            "local",
        )


async def test_a_session_starts_once_also_when_the_process_is_started_again(talk: Talk) -> None:
    started: list[str] = []
    toy = Toy(session_start=lambda session_id: started.append(session_id))
    for _ in range(2):
        async with talk.open(extends="ethos", toy=toy):
            for session in ("a", "b", "a"):
                await talk.say("hello", session=session)
    assert started == ["a", "b"]
    async with talk.open(extends="ethos", toy=toy):
        await talk.say(",tape.reset", session="a")
        await talk.say("hello", session="a")
    assert started == ["a", "b"]


async def test_a_session_that_has_no_tape_is_new_once_in_each_process(bub: Workshop) -> None:
    started: list[str] = []
    framework = bub(
        "extends: bub:ethos", toy=Toy(run_model=lambda: "hi", session_start=lambda session_id: started.append("new"))
    )
    for _ in range(3):
        await framework.process_inbound(HELLO)
    assert started == ["new"]


# The prompt.


async def test_E16_several_plugins_can_stand_in_front_of_the_prompt_and_behind_it(bub: Workshop) -> None:
    systems: list[Any] = []

    def adding_texts(name: str) -> Toy:
        return Toy(before_prompt_build=lambda: {"prepend_system": f"{name} first.", "append_system": f"{name} last."})

    framework = bub(
        "extends: bub:ethos",
        model=Toy(run_model=lambda system: systems.append(system) or "hi"),
        low=adding_texts("Low"),
        broken=Toy(before_prompt_build=raising(ValueError("broken"))),
        high=adding_texts("High"),
        silent=Toy(before_prompt_build=lambda: {"prepend_system": "", "append_system": None}),
        replacing=Toy(before_prompt_build=lambda: {"system": "Replaced."}),
    )
    await framework.process_inbound(HELLO)
    assert systems == ["High first.\n\nLow first.\n\nReplaced.\n\nHigh last.\n\nLow last."]


# Tool calls.


async def test_E17_all_calls_of_a_step_are_announced_in_order_before_any_of_them_runs(talk: Talk) -> None:
    seen: list[Any] = []

    @tool
    def work(number: int) -> str:
        """Work."""
        seen.append(f"{number} runs")
        return "done"

    def announce(args: dict[str, Any]) -> dict[str, Any] | None:
        seen.append(f"{args['number']} announced")
        return {"args": {"number": 10}} if args["number"] == 1 else None

    calls = [Called("work", json.dumps({"number": number}), f"c{number}") for number in range(3)]
    async with talk.open(extends="ethos", toy=bringing(work, before_tool_call=announce)):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"))
    assert seen[:3] == ["0 announced", "1 announced", "2 announced"]
    assert sorted(seen[3:]) == ["0 runs", "10 runs", "2 runs"]


@pytest.mark.parametrize("error", ["not today", "", None, 0])
async def test_E17_only_an_error_that_says_something_rejects_a_call(talk: Talk, error: Any) -> None:
    ran: list[Any] = []
    toy = bringing(adding(ran), before_tool_call=lambda: {"error": error})
    async with talk.open(extends="ethos", toy=toy):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"))
    assert ran == ([] if error else [(1, 2)])


async def test_E18_a_rejected_call_leaves_its_error_result_in_call_order_and_nothing_is_told_behind_it(
    talk: Talk,
) -> None:
    ran: list[Any] = []
    after: list[Any] = []
    toy = bringing(
        adding(ran),
        before_tool_call=lambda args: {"error": "not one"} if args["a"] == 1 else None,
        after_tool_call=lambda args: after.append(args["a"]),
    )
    calls = [add(number, 0, id=f"c{number}") for number in range(3)]
    async with talk.open(extends="ethos", toy=toy):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"))
        (kept,) = [entry for entry in await talk.tape() if entry.kind == "tool_result"]
    assert results_in((await talk.asked())[1]) == ["0", "error: not one", "2"]
    assert [(one["id"], one.get("is_error", False)) for one in kept.payload["results"]] == [
        ("c0", False),
        ("c1", True),
        ("c2", False),
    ]
    assert sorted(ran) == [(0, 0), (2, 0)]
    assert sorted(after) == [0, 2]


async def test_E19_what_is_asked_about_a_call_is_asked_in_one_order(talk: Talk) -> None:
    """Broken arguments, a tool nobody has, the hook, arguments that do not fit; limits come before all of them."""
    seen: list[Any] = []
    calls = [
        Called("math_add", "not json", "c1"),
        Called("math_sub", "{}", "c2"),
        Called("math_add", '{"a": 1}', "c3"),
        add(1, 2, id="c4"),
    ]
    toy = bringing(adding(), before_tool_call=lambda call_id: seen.append(call_id))
    async with talk.open(extends="ethos", toy=toy):
        await talk.say(OPENAI.answer(calls=calls), OPENAI.answer("done"))
    assert seen == ["c3", "c4"]
    broken, unknown, incomplete, fine = results_in((await talk.asked())[1])
    assert "not a JSON object" in broken
    assert "there is no tool" in unknown
    assert "it needs `b`" in incomplete
    assert fine == "3"
    seen.clear()
    async with talk.open(extends="ethos", profile=", budget: {tool_calls: 1}", toy=toy):
        with pytest.raises(BudgetError):
            await talk.say(OPENAI.answer(calls=[add(1, 2, id="c1"), add(1, 3, id="c2")]))
    assert seen == []


async def test_E20_a_rewrite_by_another_plugin_does_not_get_past_a_guard(talk: Talk) -> None:
    """The hook sees what the model asked for; the gate judges what will really run."""
    ran: list[Any] = []

    def tool_gate(args: dict[str, Any]) -> dict[str, str] | None:
        return {"deny": "not above nine"} if args["a"] > 9 else None

    async with talk.open(
        extends="ethos",
        more="hooks: {tool_gate: {kind: gate}}",
        rewriter=Toy(before_tool_call=lambda args: {"args": {**args, "a": 10}}),
        guard=Toy(
            before_tool_call=lambda args: {"error": "not above nine"} if args["a"] > 9 else None, tool_gate=tool_gate
        ),
        toy=bringing(adding(ran)),
    ):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"))
    assert results_in((await talk.asked())[1]) == ["error: not above nine"]
    assert ran == []


@pytest.mark.parametrize(
    ("point", "more", "result"),
    [
        ("before_tool_call", "", "3"),
        (
            "tool_gate",
            "hooks: {tool_gate: {kind: gate}}",
            "error: This could not be checked, so it was not done.",
        ),
    ],
)
async def test_E24_a_guard_that_crashes_fails_open_as_the_page_says_and_closed_as_a_gate(
    talk: Talk, point: str, more: str, result: str
) -> None:
    guard = Toy(**{point: raising(RuntimeError("the guard is broken"))})
    async with talk.open(extends="ethos", more=more, guard=guard, toy=bringing(adding())):
        await talk.say(OPENAI.answer(calls=[add(1, 2)]), OPENAI.answer("done"))
    assert results_in((await talk.asked())[1]) == [result]


# Limits.


def denying(how: str) -> tuple[Toy, dict[str, Any]]:
    """What is against every call whose first number is 1, and what a profile and a turn need for it."""
    if how == "hook":
        return Toy(before_tool_call=lambda args: {"error": "no"} if args["a"] == 1 else None), {}
    return Toy(tool_gate=lambda args: {"deny": "no"} if args["a"] == 1 else None), {
        "more": "hooks: {tool_gate: {kind: gate}}"
    }


@pytest.mark.parametrize("how", ["hook", "gate"])
async def test_E21_three_denials_in_a_row_stop_the_turn(talk: Talk, how: str) -> None:
    guard, more = denying(how)
    async with talk.open(extends="ethos", guard=guard, toy=bringing(adding()), **more):
        script = [OPENAI.answer(calls=[add(1, number)]) for number in range(5)]  # also when it is to sum up
        with pytest.raises(BudgetError, match="denied every tool call of 3 steps in a row") as caught:
            await talk.say(*script)
        results = [entry for entry in await talk.tape() if entry.kind == "tool_result"]
    assert caught.value.limit == "denials"
    assert len(await talk.asked()) == 4
    assert len(results) == 4  # what was denied is on the tape too


async def test_E21_a_call_that_runs_ends_a_row_of_denials(talk: Talk) -> None:
    guard, more = denying("hook")
    order = [1, 1, 2, 1, 1, 2, 1]
    async with talk.open(extends="ethos", guard=guard, toy=bringing(adding()), **more):
        script = [OPENAI.answer(calls=[add(first, number)]) for number, first in enumerate(order)]
        result = await talk.say(*script, OPENAI.answer("done"))
    assert result.model_output == "done"


async def test_E21_a_persons_no_counts_as_a_denial_and_a_failing_tool_does_not(talk: Talk) -> None:
    @tool
    def burn(number: int) -> None:
        """Fail."""
        raise ValueError("too hot")

    async def no(question: Any) -> bool:
        return False

    calls = [OPENAI.answer(calls=[Called("burn", json.dumps({"number": number}))]) for number in range(4)]
    async with talk.open(extends="ethos", toy=bringing(burn)):
        assert (await talk.say(*calls, OPENAI.answer("done"))).model_output == "done"
    async with talk.open(extends="ethos", tools='{allow: ["*"], ask: [burn]}', toy=bringing(burn)):
        with pytest.raises(BudgetError, match="a rule or a person denied every tool call"):
            await talk.say(*calls, session="other", ask=no)


@pytest.mark.parametrize("guarded", [1, 3], ids=["one call", "three calls"])
async def test_E21_denials_of_one_step_are_one(talk: Talk, guarded: int) -> None:
    guard, more = denying("hook")
    steps = [
        OPENAI.answer(calls=[add(1, 10 * step + number, id=f"c{number}") for number in range(guarded)])
        for step in range(2)
    ]
    async with talk.open(extends="ethos", guard=guard, toy=bringing(adding()), **more):
        assert (await talk.say(*steps, OPENAI.answer("done"))).model_output == "done"


async def test_E21_calls_that_have_an_effect_are_no_repetitions(talk: Talk) -> None:
    lines: list[str] = []

    @tool
    def append(line: str) -> str:
        """Append a line."""
        lines.append(line)
        return f"{len(lines)} lines"

    same = OPENAI.answer(calls=[Called("append", '{"line": "x"}')])
    other = [OPENAI.answer(calls=[Called("append", json.dumps({"line": str(number)}))]) for number in range(14)]
    async with talk.open(extends="ethos", toy=bringing(append)):
        assert (await talk.say(*other, *[same] * 14, OPENAI.answer("done"))).model_output == "done"
    assert len(lines) == 28


async def test_E21_twenty_five_repetitions_without_effect_end_a_turn(talk: Talk) -> None:
    ran: list[Any] = []
    many = [add(number % 2, 0, id=f"c{number}") for number in range(27)]
    async with talk.open(extends="ethos", toy=bringing(adding(ran))):
        assert (await talk.say(OPENAI.answer(calls=many), OPENAI.answer("done"))).model_output == "done"
        with pytest.raises(BudgetError, match="it repeated calls of one tool 25 times without effect") as caught:
            await talk.say(OPENAI.answer(calls=[*many, add(0, 0, id="c27")]), session="other")
    assert caught.value.limit == "calls_per_tool"
    assert "budget.calls_per_tool" in (caught.value.help or "")
    assert len(ran) == 27  # none of the second turn


async def test_E21_limits_are_settings_of_the_profile(talk: Talk) -> None:
    limits = ", budget: {denials: 1, calls_per_tool: 2}"
    guard, more = denying("hook")
    async with talk.open(extends="ethos", profile=limits, guard=guard, toy=bringing(adding()), **more):
        with pytest.raises(BudgetError, match="denied every tool call of 1 step in a row"):
            await talk.say(OPENAI.answer(calls=[add(1, 1)]))
        with pytest.raises(BudgetError, match="it repeated calls of one tool 2 times"):
            await talk.say(
                OPENAI.answer(calls=[add(2, number % 2, id=f"c{number}") for number in range(5)]), session="b"
            )


def test_E22_a_gate_that_is_declared_and_that_nothing_implements_is_an_error_at_start(bub: Workshop) -> None:
    with pytest.raises(PipelineError, match="approve"):
        bub(
            """
            extends: bub:ethos
            hooks: {approve: {kind: gate, takes: [prompt]}}
            stages: {approve: {before: run_model}}
            """,
            toy=Toy(run_model=lambda: "hi"),
        )


# The end of a turn.


@pytest.mark.parametrize("ending", ["answered", "failed", "denied"])
async def test_E23_an_agent_is_done_behind_the_last_event_of_a_turn_that_answered(talk: Talk, ending: str) -> None:
    seen: list[Any] = []
    scripts: dict[str, list[Any]] = {
        "answered": [OPENAI.answer("Hi.")],
        "failed": [],
        "denied": [OPENAI.answer("Hi.")],
    }
    more = "hooks: {house: {kind: gate, takes: [prompt]}}\nstages: {house: {before: run_model}}"
    toy = Toy(
        house=lambda: {"deny": "no"} if ending == "denied" else None,
        before_llm_call=raising(ValueError("an observer that fails is no end")),
        run_model_stream=raising(ValueError("down")) if ending == "failed" else lambda: None,
        agent_done=lambda model_output: seen.append((model_output, [event.kind for event in talk.events][-1])),
    )
    async with talk.open(extends="ethos", more=more, toy=toy):
        try:
            await talk.say(*scripts[ending])
        except ValueError:
            assert ending == "failed"
    assert seen == ([("Hi.", "final")] if ending == "answered" else [])


@pytest.mark.parametrize("where", ["inbound_claim", "before_dispatch"])
async def test_E25_a_plugin_can_claim(bub: Workshop, where: str) -> None:
    sent: list[Any] = []
    errors = Errors()
    framework = bub(
        "extends: bub:ethos",
        model=Toy(run_model=lambda: "hi", dispatch_outbound=lambda message: sent.append(message["content"])),
        claims=Toy(**{where: lambda message: {"handled": message["content"] in ("hello", "hi")}}),
        broken=Toy(**{where: raising(ValueError("broken"))}, on_error=errors.told),
    )
    result = await framework.process_inbound(HELLO)
    assert result.ended_by == ("claimed:inbound_claim" if where == "inbound_claim" else None)
    assert sent == []
    assert errors.stages == [f"{where}:broken"]  # one that fails claims nothing, and the next one is asked
    assert (await framework.process_inbound({**HELLO, "content": "other"})).ended_by is None
