"""Each hook point keeps what `docs/hooks.md` says of it, in the order of the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, admission_of, note, noting, raising

from bub import tool
from bub.base.diagnostics import PipelineError
from bub.base.surfaces import Surface
from bub.bus import MessageBus
from bub.errors import HookTypeError
from bub.hooks.admission import Admission
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.tape import TapeContext

pytestmark = pytest.mark.anyio

ETHOS = "extends: bub:ethos"
CLASSIC = "extends: bub:classic"
TOOLS = """
    extends: bub:{pipeline}
    plugins: {{model: {{path: model.py}}, toy: {{path: toy.py}}}}
    profiles: {{default: {{plugins: [model, toy], tools: {{allow: ["*"]}}}}}}
"""
"""A pipeline in which an agent may call every tool, for a toy that is its model and one that looks on."""


@pytest.fixture
def bub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    (tmp_path / "notes.md").write_text("Water the tomatoes.\n", encoding="utf-8")
    return Workshop(tmp_path, monkeypatch)


def calling(name: str, /, **arguments: Any) -> StreamEvent:
    """A call of a tool, as a model makes it."""
    return StreamEvent("tool_call", {"id": "", "name": name, "arguments": arguments})


def modelling(*answers: str | StreamEvent, requests: list[Any] | None = None) -> Toy:
    """A model that answers one request after the other: with a text, or with a call of a tool."""
    left = iter(answers)

    def call_model(request: dict[str, Any]) -> AsyncStreamEvents:
        if requests is not None:
            requests.append(request)
        return a_stream(next(left))

    return Toy(call_model=call_model)


# The turn.


async def test_normalize_inbound_gives_the_message_to_work_on_and_the_one_that_came_stays(bub: Workshop) -> None:
    framework = bub(
        CLASSIC,
        low=Toy(normalize_inbound=lambda message: {"content": message["content"].strip()}),
        high=Toy(
            normalize_inbound=lambda: None,
            build_prompt=lambda message, inbound: f"{message} {inbound['content']!r}",
            run_model=lambda: "hi",
        ),
    )
    result = await framework.process_inbound({**HELLO, "content": " hello "})
    message = {"content": "hello", "channel": "default", "chat_id": "default", "session_id": "default:default"}
    assert result.prompt == f"{message} ' hello '"


@pytest.mark.parametrize("reply", ["pong", {"content": "pong", "channel": "elsewhere", "chat_id": "1"}])
async def test_inbound_claim_takes_a_message_over_and_answers_it(bub: Workshop, reply: Any) -> None:
    sent: list[Any] = []
    framework = bub(
        ETHOS,
        low=Toy(inbound_claim=lambda: {"handled": True, "reply": reply}, run_model=lambda: "hi"),
        high=Toy(inbound_claim=lambda message: {"handled": False} if message["content"] == "ping" else None),
        outbox=Toy(dispatch_outbound=lambda message: sent.append((message["channel"], message["content"]))),
    )
    result = await framework.process_inbound({**HELLO, "content": "ping"})
    assert (result.ended_by, result.prompt) == ("claimed:inbound_claim", None)
    assert [message["content"] for message in result.outbounds or ()] == ["pong"]


async def test_resolve_session_names_the_session_and_none_leaves_it_to_the_next(bub: Workshop) -> None:
    framework = bub(
        low=Toy(resolve_session=lambda message: f"person:{message['sender_id']}", run_model=lambda: "hi"),
        high=Toy(resolve_session=lambda: None, load_state=lambda message: {"seen": message["session_id"]}),
    )
    result = await framework.process_inbound({**HELLO, "sender_id": "ada"})
    assert (result.session_id, (result.state or {})["seen"]) == ("person:ada", "person:ada")


async def test_message_received_is_told_of_the_session_before_anything_is_gathered(bub: Workshop) -> None:
    seen: list[Any] = []
    toy = Toy(
        message_received=lambda session_id, message: note(seen, (session_id, message["content"]), "not looked at"),
        load_state=noting(seen, "load"),
        run_model=lambda: "hi",
    )
    await bub(ETHOS, toy=toy).process_inbound(HELLO)
    assert seen == [("cli:local", "hello"), "load"]


async def test_session_start_is_told_once_for_each_session(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(ETHOS, toy=Toy(session_start=lambda session_id: seen.append(session_id), run_model=lambda: "hi"))
    for chat_id in ("a", "b", "a"):
        await framework.process_inbound({**HELLO, "chat_id": chat_id})
    assert seen == ["cli:a", "cli:b"]


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [("default", {"both": "high", "low": 1, "high": 2}), ("classic", {"both": "high", "high": 2})],
)
async def test_load_state_is_merged_or_the_first_as_the_pipeline_says_and_what_is_bubs_stays_so(
    bub: Workshop, pipeline: str, expected: dict[str, Any]
) -> None:
    framework = bub(
        f"extends: bub:{pipeline}",
        low=Toy(load_state=lambda: {"both": "low", "low": 1}, run_model=lambda: "hi"),
        high=Toy(load_state=lambda: {"both": "high", "high": 2, "_runtime_workspace": "elsewhere"}),
    )
    state = (await framework.process_inbound(HELLO)).state or {}
    assert {key: value for key, value in state.items() if not key.startswith("_runtime_")} == expected
    assert state.get("_runtime_workspace") != "elsewhere"


@pytest.mark.parametrize(
    ("made", "prompt"),
    [("", "hello"), (None, "hello"), ([{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}])],
)
async def test_build_prompt_makes_text_or_parts_and_where_it_makes_nothing_the_content_is_the_prompt(
    bub: Workshop, made: Any, prompt: Any
) -> None:
    framework = bub(low=Toy(run_model=lambda: "hi"), high=Toy(build_prompt=lambda: made))
    assert (await framework.process_inbound(HELLO)).prompt == prompt


@pytest.mark.parametrize(
    ("change", "system"),
    [
        ({"system": "Be short."}, r"Be short\."),
        ({"prepend_system": "First."}, r"First\.\n\nYou are .*\n\nBe kind\."),
        ({"append_system": "Last."}, r"You are .*\n\nBe kind\.\n\nLast\."),
        (None, r"You are .*\n\nBe kind\."),
    ],
)
async def test_before_prompt_build_changes_the_system_prompt(bub: Workshop, change: Any, system: str) -> None:
    systems: list[str] = []
    framework = bub(
        ETHOS,
        model=Toy(run_model=lambda system: note(systems, system, "hi"), system_prompt=lambda: "Be kind."),
        toy=Toy(before_prompt_build=lambda: change),
    )
    await framework.process_inbound(HELLO)
    assert re.fullmatch(system, systems[0], re.DOTALL)


@pytest.mark.parametrize("pipeline", ["default", "classic", "ethos"])
async def test_run_model_answers_with_an_empty_text_too_and_with_none_the_next_is_asked(
    bub: Workshop, pipeline: str
) -> None:
    asked: list[str] = []
    framework = bub(
        f"extends: bub:{pipeline}",
        low=Toy(run_model=noting(asked, "low", "never")),
        empty=Toy(run_model=noting(asked, "empty", "")),
        high=Toy(run_model=noting(asked, "high")),
    )
    assert (await framework.process_inbound(HELLO)).model_output == ""
    assert asked == ["high", "empty"]


@pytest.mark.parametrize("pipeline", ["default", "classic", "ethos"])
async def test_run_model_stream_is_read_and_closed_by_whoever_called_it(bub: Workshop, pipeline: str) -> None:
    seen: list[str] = []

    async def answer() -> Any:
        try:
            yield StreamEvent.text("one ")
            yield StreamEvent.text("two")
        finally:
            seen.append("closed")

    framework = bub(
        f"extends: bub:{pipeline}",
        low=Toy(run_model_stream=lambda: answer()),
        high=Toy(run_model_stream=noting(seen, "asked")),
    )
    assert (await framework.process_inbound(HELLO)).model_output == "one two"
    assert seen == ["asked", "closed"]


async def test_agent_done_is_told_what_was_answered_before_it_is_kept(bub: Workshop) -> None:
    seen: list[Any] = []
    toy = Toy(
        run_model=lambda: "hi",
        agent_done=lambda session_id, model_output: seen.append((session_id, model_output)),
        save_state=noting(seen, "saved"),
    )
    await bub(ETHOS, toy=toy).process_inbound(HELLO)
    assert seen == [("cli:local", "hi"), "saved"]


@pytest.mark.parametrize("pipeline", ["default", "ethos"])
async def test_save_state_is_called_where_the_model_failed_with_the_text_so_far(bub: Workshop, pipeline: str) -> None:
    saved: list[Any] = []
    broken = a_stream("so ", "far", ValueError("down"))
    toy = Toy(run_model_stream=lambda: broken, save_state=lambda model_output: saved.append(model_output))
    with pytest.raises(ValueError, match="down"):
        await bub(f"extends: bub:{pipeline}", toy=toy).process_inbound(HELLO)
    assert saved == ["so far"]


async def test_render_outbound_of_all_plugins_is_sent_and_without_any_the_answer_is(bub: Workshop) -> None:
    framework = bub(
        low=Toy(run_model=lambda: "hi", render_outbound=lambda message: None),
        one=Toy(render_outbound=lambda message: {"content": "one"} if message["content"] == "many" else None),
        more=Toy(
            render_outbound=lambda message: [{"content": "2"}, {"content": "3"}] if "ny" in message["content"] else []
        ),
    )
    many = await framework.process_inbound({**HELLO, "content": "many"})
    assert sorted(reply["content"] for reply in many.outbounds or ()) == ["2", "3", "one"]
    assert [reply["content"] for reply in (await framework.process_inbound(HELLO)).outbounds or ()] == ["hi"]


async def test_message_sending_replaces_a_reply_which_goes_where_the_old_one_went(bub: Workshop) -> None:
    sent: list[Any] = []
    toy = Toy(
        run_model=lambda: "hi",
        message_sending=lambda message: {"message": {"content": message["content"].upper()}},
        dispatch_outbound=lambda message: sent.append((message["channel"], message["chat_id"], message["content"])),
    )
    await bub(ETHOS, toy=toy).process_inbound(HELLO)
    assert sent == [("cli", "local", "HI")]


async def test_before_dispatch_takes_one_reply_over_and_the_others_are_sent(bub: Workshop) -> None:
    seen: list[str] = []
    toy = Toy(
        run_model=lambda: "hi",
        render_outbound=lambda: [{"content": "mine"}, {"content": "yours"}],
        before_dispatch=lambda message: {"handled": message["content"] == "mine"},
        dispatch_outbound=lambda message: note(seen, f"dispatch {message['content']}", True),
        message_sent=lambda message: seen.append(f"sent {message['content']}"),
    )
    result = await bub(ETHOS, toy=toy).process_inbound(HELLO)
    assert seen == ["dispatch yours", "sent yours"]
    assert [reply["content"] for reply in result.outbounds or ()] == ["yours"]


async def test_dispatch_outbound_of_every_plugin_is_called_once_for_each_reply(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        low=Toy(
            run_model=lambda: "hi",
            render_outbound=lambda: [{"content": "1"}, {"content": "2"}],
            dispatch_outbound=lambda message: note(seen, f"low {message['content']}", True),
        ),
        high=Toy(dispatch_outbound=lambda message: note(seen, f"high {message['content']}", True)),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["high 1", "low 1", "high 2", "low 2"]


async def test_message_sent_is_told_of_each_reply_behind_its_dispatch(bub: Workshop) -> None:
    seen: list[str] = []
    toy = Toy(
        run_model=lambda: "hi",
        render_outbound=lambda: [{"content": "1"}, {"content": "2"}],
        dispatch_outbound=lambda message: seen.append(f"dispatch {message['content']}"),
        message_sent=lambda message: seen.append(f"sent {message['content']}"),
    )
    await bub(ETHOS, toy=toy).process_inbound(HELLO)
    assert seen == ["dispatch 1", "sent 1", "dispatch 2", "sent 2"]


async def test_on_error_is_told_of_a_stage_of_an_implementation_and_of_the_turn(bub: Workshop) -> None:
    errors = Errors()
    framework = bub(
        "extends: bub:default\nstages: {load_state: {on_failure: skip}}",
        broken=Toy(load_state=raising(ValueError("no state")), run_model=raising(ValueError("no model"))),
        watcher=Toy(on_error=errors.told),
        careless=Toy(on_error=raising(RuntimeError("of the observer"))),
    )
    with pytest.raises(ValueError, match="no model"):
        await framework.process_inbound(HELLO)
    assert errors.stages == ["load_state:broken", "turn"]


# Inside the model stage.


async def test_tool_gate_judges_the_final_arguments_and_what_it_denies_does_not_run(bub: Workshop) -> None:
    seen: list[Any] = []
    results: list[Any] = []

    @tool
    def greet(name: str, loud: bool = False) -> str:
        """Greet."""
        seen.append(f"greeted {name}")
        return "hello"

    toy = Toy(
        provide_tools=lambda: [greet],
        before_tool_call=lambda args: {"args": {"name": args["name"].title()}},
        tool_gate=lambda tool, args: note(
            seen, (tool, dict(args)), {"deny": "not him"} if args["name"] == "Bob" else None
        ),
        after_tool_call=lambda result: results.append(result["content"]),
    )
    model = modelling(calling("greet", name="bob"), calling("greet", name="ann"), "done")
    await bub(TOOLS.format(pipeline="default"), model=model, toy=toy).process_inbound(HELLO)
    assert seen == [
        ("greet", {"name": "Bob", "loud": False}),
        ("greet", {"name": "Ann", "loud": False}),
        "greeted Ann",
    ]
    assert results == ["error: not him", "hello"]


async def test_tool_end_with_path_is_told_of_files_that_were_worked_on_and_of_no_failure(bub: Workshop) -> None:
    seen: list[Any] = []
    toy = Toy(
        after_tool_call=lambda tool: seen.append(f"after {tool}"),
        tool_end_with_path=lambda session_id, tool, path: seen.append((session_id, tool, path)),
    )
    calls = (calling("fs.read", path="notes.md"), calling("fs.read", path="missing.md"), calling("help"))
    model = modelling(*calls, "done")
    await bub(TOOLS.format(pipeline="ethos"), model=model, toy=toy).process_inbound(HELLO)
    path = str(bub.folder / "notes.md")
    assert seen == ["after fs.read", ("cli:local", "fs.read", path), "after fs.read", "after help"]


async def test_personality_switched_is_changed_by_the_first_who_says_so(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        extends: bub:ethos
        plugins: {low: {path: low.py}, high: {path: high.py}}
        profiles:
          default: {plugins: [low, high]}
          pirate: {plugins: [low, high]}
          parrot: {plugins: [low, high]}
        """,
        low=Toy(run_model_stream=lambda: None, personality_switched=lambda: {"personality": "parrot"}),
        high=Toy(personality_switched=lambda session_id, previous, personality: seen.append((previous, personality))),
    )
    async with framework.running():
        answer = (await framework.process_inbound({**HELLO, "content": ",personality pirate"})).model_output
        assert answer == "parrot is the personality of this session from the next message on"
        assert (await framework.process_inbound({**HELLO, "content": ",help"})).profile == "parrot"
    assert seen == [("default", "pirate")]


@pytest.mark.parametrize("pipeline", ["default", "ethos"])
async def test_subagent_spawning_changes_the_task(bub: Workshop, pipeline: str) -> None:
    requests: list[Any] = []
    toy = Toy(subagent_spawning=lambda prompt: {"prompt": f"{prompt} to three"})
    model = modelling(calling("subagent", prompt="count"), "1, 2, 3", "done", requests=requests)
    await bub(TOOLS.format(pipeline=pipeline), model=model, toy=toy).process_inbound(HELLO)
    assert requests[1]["messages"][-1] == {"role": "user", "content": "count to three"}


async def test_subagent_spawned_is_told_before_the_first_step_in_a_session_of_its_own(bub: Workshop) -> None:
    seen: list[Any] = []
    toy = Toy(
        subagent_spawned=lambda session_id, child_session_id: seen.append((session_id, child_session_id)),
        before_llm_call=lambda session_id: seen.append(session_id),
    )
    model = modelling(calling("subagent", prompt="count", session="counter"), "1, 2, 3", "done")
    await bub(TOOLS.format(pipeline="ethos"), model=model, toy=toy).process_inbound(HELLO)
    child = "cli:local/counter"
    assert seen == ["cli:local", ("cli:local", child), child, "cli:local"]


async def test_subagent_ended_is_told_the_answer_and_none_where_it_failed(bub: Workshop) -> None:
    seen: list[Any] = []

    def call_model(request: dict[str, Any]) -> AsyncStreamEvents:
        said = request["messages"][-1]["content"]
        if said == "count":
            return a_stream("1, 2, 3")
        if said == "fail":
            return a_stream(ValueError("down"))
        done = sum(message["role"] == "tool" for message in request["messages"])
        return a_stream([calling("subagent", prompt="count"), calling("subagent", prompt="fail"), "done"][done])

    toy = Toy(subagent_ended=lambda result: seen.append(result))
    framework = bub(TOOLS.format(pipeline="default"), model=Toy(call_model=call_model), toy=toy)
    assert (await framework.process_inbound(HELLO)).model_output == "done"
    assert seen == ["1, 2, 3", None]


# What the agent asks for.


async def test_call_model_is_asked_with_the_request_and_none_leaves_it_to_the_next(bub: Workshop) -> None:
    requests: list[Any] = []
    framework = bub(
        "extends: bub:default\nsettings: {model: 'toy:one', max_tokens: 7}",
        low=modelling("hi", requests=requests),
        high=Toy(call_model=lambda request, session_id: requests.append(session_id)),
    )
    assert (await framework.process_inbound(HELLO)).model_output == "hi"
    session_id, request = requests
    assert session_id == "cli:local"
    assert request["model"] == "toy:one"
    assert request["messages"][-1]["content"].startswith("hello\n\n<now>")
    assert set(request) == {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "max_tokens",
        "temperature",
        "reasoning",
    }


async def test_provide_tools_is_called_once_and_what_it_gives_can_be_called(bub: Workshop) -> None:
    seen: list[str] = []

    @tool
    def greet() -> str:
        """Greet."""
        return "hello from the tool"

    toy = Toy(provide_tools=noting(seen, "asked", [greet]))
    framework = bub(TOOLS.format(pipeline="default"), model=modelling(calling("greet"), "done"), toy=toy)
    assert seen == ["asked"]
    await framework.process_inbound(HELLO)
    assert (await framework.process_inbound({**HELLO, "content": ",greet"})).model_output == "hello from the tool"
    assert seen == ["asked"]


async def test_build_tape_context_says_what_the_model_is_sent_of_the_tape(bub: Workshop) -> None:
    requests: list[Any] = []
    context = TapeContext(select=lambda entries, _: [{"role": "user", "content": f"entries: {len(entries)}"}])
    framework = bub(model=modelling("hi", "hi", requests=requests), toy=Toy(build_tape_context=lambda: context))
    async with framework.running():
        await framework.process_inbound(HELLO)
        await framework.process_inbound({**HELLO, "content": "again"})
    first, second = ([message["content"] for message in request["messages"][1:]] for request in requests)
    assert first == ["entries: 0\n\nhello"]
    (said,) = second
    assert int(re.fullmatch(r"entries: (\d+)\n\nagain", said)[1]) > 0  # type: ignore[index]


# Before a turn.


async def test_admit_message_is_told_how_busy_the_session_is_and_the_first_word_counts(bub: Workshop) -> None:
    seen: list[Any] = []
    busy = Admission(is_running=True, running_count=1, pending_count=2)
    framework = bub(
        low=Toy(admit_message=lambda: "steer"),
        high=Toy(admit_message=lambda session_id, message, turn: seen.append((session_id, message["content"], turn))),
    )
    assert await admission_of(framework, HELLO, busy) == "steer"
    assert seen == [("cli:local", "hello", busy)]


# At start.


def test_register_cli_commands_brings_commands_and_no_two_of_one_name(bub: Workshop) -> None:
    def registering(name: str) -> Callable[[Any], None]:
        def register(app: Any) -> None:
            app.command(name)(lambda: None)

        return register

    app = bub(
        one=Toy(register_cli_commands=registering("greet")), two=Toy(register_cli_commands=registering("leave"))
    ).create_cli_app()
    assert sorted(command.name for command in app.registered_commands) == ["greet", "leave"]
    with pytest.raises(PipelineError, match="greet"):
        bub(
            one=Toy(register_cli_commands=registering("greet")), two=Toy(register_cli_commands=registering("greet"))
        ).create_cli_app()


def test_onboard_config_is_laid_over_the_settings_the_highest_priority_last(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        low=Toy(onboard_config=lambda current_config: note(seen, dict(current_config), {"city": "Ulm", "old": None})),
        high=Toy(onboard_config=lambda current_config, ask: note(seen, dict(current_config), {"city": "Bern"})),
    )
    started = {"old": 1, "token": "${env:TOKEN}"}
    settings = framework.collect_onboard_config(started, only={"low", "high"})
    assert settings == {"token": "${env:TOKEN}", "city": "Bern", "old": None}
    assert [config["token"] for config in seen] == ["${env:TOKEN}"] * 2
    assert seen[1]["city"] == "Ulm"


async def test_provide_model_options_gives_the_names_of_all_plugins_once_and_a_person_reads_them(bub: Workshop) -> None:
    async def high(session_id: str, workspace: Path) -> list[str]:
        return [f"local:{session_id}", "openai:gpt-5"]

    framework = bub(
        "extends: bub:default\nsettings: {model: openai:gpt-5, fallback_models: [openai:gpt-5-mini]}",
        low=Toy(provide_model_options=lambda: ["openai:gpt-5", "openai:o3"]),
        none=Toy(provide_model_options=lambda: None),
        high=Toy(provide_model_options=high),
    )
    offered = ["local:cli:local", "openai:gpt-5", "openai:o3", "openai:gpt-5-mini"]
    assert await framework.get_model_options("cli:local") == offered
    async with framework.running():
        result = await framework.process_inbound({**HELLO, "content": ",model"}, surface=Surface.RUN)
    assert result.model_output == "openai:gpt-5\nothers to choose from: local:cli:local, openai:o3, openai:gpt-5-mini"


async def test_a_plugin_whose_model_options_are_no_list_is_named(bub: Workshop) -> None:
    framework = bub(toy=Toy(provide_model_options=lambda: "openai:gpt-5"))
    with pytest.raises(HookTypeError, match="toy"):
        await framework.get_model_options("cli:local")


def test_provide_bus_gives_the_bus_of_the_highest_priority_and_where_nobody_does_there_is_one(bub: Workshop) -> None:
    mine = MessageBus(room=1)
    framework = bub(
        lowest=Toy(provide_bus=lambda: MessageBus()),
        low=Toy(provide_bus=lambda: mine),
        high=Toy(provide_bus=lambda: None),
    )
    assert framework.create_bus() is mine
    assert isinstance(bub(toy=Toy(run_model=lambda: "hi")).create_bus(), MessageBus)


async def test_provide_tape_store_is_asked_when_the_runtime_opens_and_closed_with_it(bub: Workshop) -> None:
    seen: list[str] = []

    @contextmanager
    def store() -> Iterator[str]:
        seen.append("opened")
        yield "the store"
        seen.append("closed")

    framework = bub(low=Toy(provide_tape_store=store), high=Toy(provide_tape_store=noting(seen, "asked")))
    assert seen == []
    async with framework.running():
        assert framework.get_tape_store() == "the store"
    assert seen == ["asked", "opened", "closed"]
    assert framework.get_tape_store() is None


def test_provide_channels_is_given_what_takes_messages_and_the_higher_priority_has_the_name(bub: Workshop) -> None:
    seen: list[Any] = []
    low, high, other = (SimpleNamespace(name=name) for name in ("line", "line", "other"))

    async def handler(message: Any) -> None:
        """Takes messages."""

    framework = bub(
        low=Toy(provide_channels=lambda message_handler: note(seen, message_handler, [low, other])),
        high=Toy(provide_channels=lambda: [high]),
        none=Toy(provide_channels=lambda: None),
    )
    channels = framework.get_channels(handler)
    assert (channels["line"], channels["other"]) == (high, other)
    assert seen == [handler]
