"""Pipelines as people have them: the shipped ones, files that extend them, and the sessions that run on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, note, noting, outcomes, raising
from trio.testing import wait_all_tasks_blocked

from bub import BubFramework, hookimpl
from bub.base.diagnostics import PipelineError
from bub.errors import BubError

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

DEFAULT = (
    "resolve_session",
    "load_state",
    "build_prompt",
    "run_model_stream",
    "save_state",
    "render_outbound",
    "dispatch_outbound",
)
CLASSIC = ("normalize_inbound", *DEFAULT[:3], "run_model", *DEFAULT[4:])
ETHOS = (
    "inbound_claim",
    "resolve_session",
    "message_received",
    "session_start",
    "load_state",
    "build_prompt",
    "system_prompt",
    "before_prompt_build",
    "run_model_stream",
    "agent_done",
    "save_state",
    "render_outbound",
    "message_sending",
    "before_dispatch",
    "dispatch_outbound",
    "message_sent",
)
SHIPPED = {"default": DEFAULT, "classic": CLASSIC, "ethos": ETHOS}


def answer_of(hook: str) -> Any:
    """What a model answers, in the form that its hook has."""
    return {"run_model": "hi", "run_model_stream": a_stream("hi") if hook == "run_model_stream" else None}.get(hook)


# The shipped pipelines.


@pytest.mark.parametrize("name", SHIPPED)
async def test_a_shipped_pipeline_runs_a_plugin_on_every_stage_in_the_documented_order(
    bub: Workshop, name: str
) -> None:
    seen: list[str] = []
    hooks = {hook: noting(seen, hook, answer_of(hook)) for hook in SHIPPED[name]}
    result = await bub(f"extends: bub:{name}", toy=Toy(**hooks)).process_inbound(HELLO)
    assert tuple(seen) == SHIPPED[name]
    assert result.outbounds == [{"content": "hi", "session_id": "cli:local", "channel": "cli", "chat_id": "local"}]
    assert result.ended_by is None


@pytest.mark.parametrize("name", SHIPPED)
async def test_a_shipped_pipeline_compiles_by_itself(name: str, tmp_path: Path) -> None:
    framework = BubFramework(f"bub:{name}", workspace=tmp_path)
    framework.load_hooks()
    assert [step.hook for step in framework.graph.steps] == list(SHIPPED[name])


async def test_an_ethos_turn_observes_amends_and_claims(bub: Workshop) -> None:
    systems: list[Any] = []
    sent: list[Any] = []
    done: list[Any] = []

    def run_model(system: str, prompt: str) -> str:
        systems.append(system.split("\n\n"))
        return f"re: {prompt}"

    framework = bub(
        "extends: bub:ethos",
        model=Toy(
            run_model=run_model,
            system_prompt=lambda: "Be kind.",
            agent_done=lambda model_output: done.append(model_output),
            render_outbound=lambda model_output: [{"content": model_output}, {"content": "taken"}],
            dispatch_outbound=lambda message: sent.append(message["content"]),
        ),
        amender=Toy(
            before_prompt_build=lambda system: {"prepend_system": "First.", "append_system": "Last."},
            message_sending=lambda message: {"message": {**message, "content": f"[{message['content']}]"}},
            before_dispatch=lambda message: {"handled": message["content"] == "[taken]"},
            message_sent=lambda message: sent.append(f"sent {message['content']}"),
        ),
    )
    await framework.process_inbound(HELLO)
    assert [systems[0][0], *systems[0][-2:]] == ["First.", "Be kind.", "Last."]
    assert done == ["re: hello"]
    assert sent == ["[re: hello]", "sent [re: hello]"]


async def test_an_ethos_claim_ends_the_turn_before_anything_is_done(bub: Workshop) -> None:
    seen: list[Any] = []
    hooks = {hook: noting(seen, hook, answer_of(hook)) for hook in ETHOS[1:]}
    framework = bub("extends: bub:ethos", toy=Toy(inbound_claim=lambda: {"handled": True}, **hooks))
    assert (await framework.process_inbound(HELLO)).ended_by == "claimed:inbound_claim"
    assert seen == []


async def test_an_ethos_agent_is_not_done_when_it_failed(bub: Workshop) -> None:
    seen: list[Any] = []
    toy = Toy(run_model=raising(ValueError("down")), agent_done=noting(seen, "done"), save_state=noting(seen, "saved"))
    with pytest.raises(ValueError, match="down"):
        await bub("extends: bub:ethos", toy=toy).process_inbound(HELLO)
    assert seen == ["saved"]


async def test_an_ethos_model_fires_the_nine_points_of_the_agent(bub: Workshop) -> None:
    points = {
        "before_llm_call": "request",
        "after_llm_call": "response",
        "before_tool_call": "args",
        "after_tool_call": "result",
        "tool_end_with_path": "path",
        "personality_switched": "personality",
        "subagent_spawning": "prompt",
        "subagent_spawned": "child_session_id",
        "subagent_ended": "result",
    }
    seen: list[Any] = []

    def noting_argument(point: str, argument: str) -> Any:
        namespace: dict[str, Any] = {"seen": seen}
        exec(f"def note(session_id, {argument}): seen.append(({point!r}, session_id, {argument}))", namespace)
        return namespace["note"]

    async def run_model(fire: Any) -> str:
        for point, argument in points.items():
            await fire(point, **{argument: f"the {argument}"})
        return "hi"

    notes = {point: noting_argument(point, argument) for point, argument in points.items()}
    await bub("extends: bub:ethos", toy=Toy(run_model=run_model, **notes)).process_inbound(HELLO)
    assert seen == [(point, "cli:local", f"the {argument}") for point, argument in points.items()]


# Files of people's own.


async def test_a_file_that_extends_the_default_runs_as_it_is_written(bub: Workshop) -> None:
    seen: list[Any] = []

    class HouseRules:
        """A plugin as people write it, on a hook point that their own file declares."""

        def __init__(self, framework: BubFramework) -> None:
            self.limit = int(framework.settings["house"]["limit"])

        @hookimpl
        async def moderate(self, prompt: str, session_id: str) -> dict[str, str] | None:
            seen.append(f"moderate {prompt} of {session_id}")
            return {"deny": "Too long for this house."} if len(prompt) > self.limit else None

    bub.plugin("house_rules", HouseRules)

    async def run_model(prompt: str) -> str:
        await trio.sleep(len(prompt))
        return f"re: {prompt}"

    bub.plugin("model", Toy(run_model=run_model, save_state=noting(seen, "save"), load_state=noting(seen, "load")))
    framework = bub(
        """
        extends: bub:default
        hooks:
          moderate: {kind: gate, takes: [prompt, session_id]}
        stages:
          moderate: {before: run_model, kind: gate, timeout: 5s}
          run_model: {timeout: 10s}
          load_state: {enabled: false}
        plugins:
          house_rules: {path: house_rules.py}
          model: {path: model.py}
        profiles:
          default: {plugins: [house_rules, model]}
        settings:
          house: {limit: 20}
        """
    )
    result = await framework.process_inbound(HELLO)
    assert (result.model_output, result.state) == ("re: hello", {})
    assert seen == ["moderate hello of cli:local", "save"]
    assert outcomes(result)["load_state"] == "off"

    result = await framework.process_inbound({**HELLO, "content": "x" * 21})
    assert result.ended_by == "denied:moderate"
    assert [reply["content"] for reply in result.outbounds or ()] == ["Too long for this house."]

    with pytest.raises(trio.TooSlowError, match="stage `run_model` took longer than 10 seconds"):
        await framework.process_inbound({**HELLO, "content": "x" * 15})


async def test_a_stage_may_leave_its_kind_to_its_hook(bub: Workshop) -> None:
    framework = bub(
        """
        extends: bub:default
        hooks: {moderate: {kind: gate, takes: [prompt]}}
        stages: {moderate: {before: run_model, timeout: 5s}}
        """,
        toy=Toy(run_model=lambda: "hi", moderate=lambda prompt: {"deny": prompt}),
    )
    assert (await framework.process_inbound(HELLO)).ended_by == "denied:moderate"


async def test_shipped_stages_are_swapped_reordered_and_removed_by_yaml_alone(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        extends: bub:default
        hooks:
          oracle: {kind: stream, takes: [prompt]}
          build_prompt: {takes: [message]}
        stages:
          build_prompt: {before: resolve_session}
          load_state: {enabled: false}
          run_model: {hook: oracle}
          save_state: {after: dispatch_outbound}
        """,
        toy=Toy(
            oracle=lambda prompt: note(seen, "oracle", f"the oracle on {prompt}"),
            **{name: noting(seen, name) for name in DEFAULT if name != "run_model_stream"},
        ),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == ["build_prompt", "resolve_session", "oracle", "render_outbound", "dispatch_outbound", "save_state"]
    assert result.model_output == "the oracle on hello"
    assert result.state == {}


async def test_a_removed_stage_whose_value_is_taken_is_found_before_anything_runs(bub: Workshop) -> None:
    with pytest.raises(PipelineError, match="`run_model` is switched off, but `save_state` takes `model_output`"):
        bub("extends: bub:default\nstages: {run_model: {enabled: false}}", toy=Toy(save_state=lambda: None))


# Sessions.


def working(seen: list[str]) -> Toy:
    """A model that takes the seconds which the message names, and notes when it begins and ends."""

    async def run_model(message: Any) -> str:
        seen.append(f"{message['content']} begins at {trio.current_time():g}")
        await trio.sleep(message.get("seconds", 1))
        seen.append(f"{message['content']} ends at {trio.current_time():g}")
        return "hi"

    return Toy(run_model=run_model)


async def test_messages_of_one_session_are_answered_in_the_order_they_came(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(model=working(seen))
    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(framework.process_inbound, {**HELLO, "content": f"{number}", "seconds": 4 - number})
            await wait_all_tasks_blocked()
    assert seen == [
        *("0 begins at 0", "0 ends at 4", "1 begins at 4", "1 ends at 7"),
        *("2 begins at 7", "2 ends at 9", "3 begins at 9", "3 ends at 10"),
    ]


async def test_different_sessions_run_side_by_side(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(model=working(seen))
    async with trio.open_nursery() as nursery:
        for chat_id in range(50):
            nursery.start_soon(framework.process_inbound, {**HELLO, "chat_id": str(chat_id), "seconds": 3})
    assert len(seen) == 100
    assert trio.current_time() == pytest.approx(3.0)


async def test_messages_of_different_chats_that_resolve_to_one_session_wait_for_each_other(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(model=working(seen), one=Toy(resolve_session=lambda: "the one"))
    async with trio.open_nursery() as nursery:
        for chat_id in ("a", "b"):
            nursery.start_soon(framework.process_inbound, {**HELLO, "chat_id": chat_id, "content": chat_id})
            await wait_all_tasks_blocked()
    assert seen == ["a begins at 0", "a ends at 1", "b begins at 1", "b ends at 2"]


@pytest.mark.parametrize("ending", ["fails", "is cancelled", "is denied"])
async def test_a_session_is_free_again_however_its_turn_ended(bub: Workshop, ending: str) -> None:
    async def run_model(message: Any) -> str:
        if message["content"] == "fails":
            raise ValueError("down")
        if message["content"] == "is cancelled":
            await trio.sleep_forever()
        return "hi"

    framework = bub(
        """
        extends: bub:default
        hooks: {judge: {kind: gate}}
        stages: {judge: {before: run_model}}
        """,
        model=Toy(
            run_model=run_model,
            judge=lambda message: {"deny": "no"} if message["content"] == "is denied" else None,
        ),
    )
    with trio.move_on_after(1):
        try:
            await framework.process_inbound({**HELLO, "content": ending})
        except ValueError:
            assert ending == "fails"
    with trio.fail_after(5):
        assert (await framework.process_inbound(HELLO)).model_output == "hi"


async def test_a_waiting_message_that_is_cancelled_gives_up_its_place(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(model=working(seen))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(framework.process_inbound, {**HELLO, "content": "first", "seconds": 5})
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await framework.process_inbound({**HELLO, "content": "second"})
        await framework.process_inbound({**HELLO, "content": "third"})
    assert seen == ["first begins at 0", "first ends at 5", "third begins at 5", "third ends at 6"]


def nesting(*chats: str) -> type:
    """A plugin whose model starts a turn in the next of these chats, within its own turn."""

    class Nesting:
        def __init__(self, framework: BubFramework) -> None:
            self.framework = framework

        @hookimpl
        async def run_model(self, message: Any) -> str:
            depth = message.get("depth", 0)
            if depth == len(chats):
                return "deepest"
            inner = {**HELLO, "chat_id": chats[depth], "depth": depth + 1}
            return f"({(await self.framework.process_inbound(inner)).model_output})"

    return Nesting


async def test_a_turn_can_start_one_of_another_session_and_wait_for_it(bub: Workshop) -> None:
    with trio.fail_after(5):
        assert (await bub(toy=nesting("b", "c")).process_inbound(HELLO)).model_output == "((deepest))"


@pytest.mark.parametrize("chats", [("local",), ("b", "local"), ("b", "c", "b")])
async def test_a_turn_inside_a_turn_of_the_same_session_is_an_error(bub: Workshop, chats: tuple[str, ...]) -> None:
    with trio.fail_after(5), pytest.raises(BubError, match="cannot wait for another turn of the same session"):
        await bub(toy=nesting(*chats)).process_inbound(HELLO)


async def test_a_turn_started_before_the_session_is_known_does_not_wait_for_ever(bub: Workshop) -> None:
    class Claims:
        def __init__(self, framework: BubFramework) -> None:
            self.framework = framework

        @hookimpl
        async def inbound_claim(self, message: Any) -> dict[str, Any] | None:
            if "inner" in message:
                return None
            inner = await self.framework.process_inbound({**message, "inner": True})
            return {"handled": True, "reply": f"inner: {inner.model_output}"}

        @hookimpl
        def run_model(self) -> str:
            return "hi"

    framework = bub(
        "extends: bub:default\nstages: {inbound_claim: {kind: claiming, before: resolve_session}}", toy=Claims
    )
    with trio.fail_after(5):
        result = await framework.process_inbound(HELLO)
    assert [reply["content"] for reply in result.outbounds or ()] == ["inner: hi"]


async def test_a_task_that_outlives_its_turn_can_start_one_of_the_same_session(bub: Workshop) -> None:
    results: list[Any] = []

    class Background:
        def __init__(self, framework: BubFramework) -> None:
            self.framework = framework

        async def later(self) -> None:
            await trio.sleep(5)
            results.append((await self.framework.process_inbound({**HELLO, "content": "again"})).model_output)

        @hookimpl
        def run_model(self, message: Any, prompt: str) -> str:
            if prompt == "hello":
                nursery.start_soon(self.later)
            return f"re: {prompt}"

    framework = bub(toy=Background)
    async with trio.open_nursery() as nursery:
        await framework.process_inbound(HELLO)
    assert results == ["re: again"]


# Profiles and routes.

ROUTED = """
extends: bub:default
plugins: {counter: {path: counter.py}, shout: {path: shout.py}}
profiles:
  default: {plugins: [counter]}
  loud:
    plugins: [counter, shout]
    settings: {counter: {start: 100}}
    stages: {run_model: {timeout: 1s}}
  quiet: {extends: loud, plugins: [counter]}
routes:
  - {match: {channel: telegram, chat_id: "-1001*"}, profile: loud}
  - {match: {channel: telegram}, profile: quiet}
"""


@pytest.fixture
def routed(bub: Workshop) -> BubFramework:
    class Counter:
        """Counts its own answers; begins where its profile's settings say."""

        def __init__(self, framework: BubFramework) -> None:
            self.count = int(framework.settings.get("counter", {}).get("start", 0))

        @hookimpl
        def run_model(self, prompt: str) -> str:
            self.count += 1
            return f"{prompt} {self.count}"

    bub.plugin("counter", Counter)
    bub.plugin("shout", Toy(build_prompt=lambda message: message["content"].upper()))
    return bub(ROUTED)


async def test_the_first_route_that_matches_chooses_the_profile(routed: BubFramework) -> None:
    profiles = []
    for channel, chat_id in (("cli", "local"), ("telegram", "-100123"), ("telegram", "7"), ("cli", "-100123")):
        result = await routed.process_inbound({"channel": channel, "chat_id": chat_id, "content": "a"})
        profiles.append((result.profile, result.prompt))
    assert profiles == [("default", "a"), ("loud", "A"), ("quiet", "a"), ("default", "a")]


async def test_each_profile_has_its_own_plugins_settings_and_stages(routed: BubFramework) -> None:
    async def answer(chat_id: str, channel: str = "telegram") -> str | None:
        return (await routed.process_inbound({"channel": channel, "chat_id": chat_id, "content": "a"})).model_output

    assert await answer("local", "cli") == "a 1"
    assert await answer("-1001") == "A 101"
    assert await answer("-1001") == "A 102"
    assert await answer("7") == "a 101"
    assert await answer("local", "cli") == "a 2"


async def test_errors_are_told_to_the_plugins_of_the_turns_own_profile(bub: Workshop) -> None:
    errors = {"one": Errors(), "two": Errors()}
    for name, heard in errors.items():
        bub.plugin(name, Toy(run_model=raising(ValueError(name)), on_error=heard.told))
    framework = bub(
        """
        extends: bub:default
        plugins: {one: {path: one.py}, two: {path: two.py}}
        profiles: {default: {plugins: [one]}, other: {plugins: [two]}}
        routes: [{match: {channel: other}, profile: other}]
        """
    )
    with pytest.raises(ValueError, match="two"):
        await framework.process_inbound({**HELLO, "channel": "other"})
    assert (errors["one"].stages, errors["two"].stages) == ([], ["turn"])


async def test_a_plugin_that_no_profile_lists_is_not_even_imported(bub: Workshop) -> None:
    (bub.folder / "unlisted.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    framework = bub(
        """
        extends: bub:default
        plugins: {model: {path: model.py}, unlisted: {path: unlisted.py}}
        profiles: {default: {plugins: [model]}}
        """,
        model=Toy(run_model=lambda: "hi"),
    )
    assert (await framework.process_inbound(HELLO)).model_output == "hi"


def test_a_key_that_was_given_for_one_provider_does_not_go_to_another(
    bub: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        extends: bub:default
        settings: {model: "openai:x", api_key: "${env:ITS_KEY:-a-key}", retries: 1}
        profiles: {default: {}, other: {settings: {model: "groq:y"}}}
        routes: [{match: {chat_id: other}, profile: other}]
    """
    framework = bub(text)
    assert framework.settings["api_key"] == "a-key"
    assert framework.seen_by("other").settings == {"model": "groq:y", "retries": 1}
    monkeypatch.setenv("BUB_MODEL", "mistral:z")
    assert bub(text).settings == {"model": "mistral:z", "retries": 1}
    monkeypatch.setenv("BUB_API_KEY", "for-whoever-is-chosen-here")
    assert bub(text).settings["api_key"] == "for-whoever-is-chosen-here"
    monkeypatch.delenv("BUB_MODEL")
    framework = bub(text)
    assert framework.settings["api_key"] == "for-whoever-is-chosen-here"
    assert framework.seen_by("other").settings == {"model": "groq:y", "retries": 1}


# What a message brings along is closed with its turn.


@pytest.mark.parametrize(
    "where", ["nowhere", "inbound_claim", "load_state", "run_model", "save_state", "dispatch_outbound", "cancelled"]
)
async def test_the_lifespan_of_a_message_is_closed_wherever_the_turn_ends(bub: Workshop, where: str) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        seen.append("opened")
        try:
            yield
        finally:
            await trio.sleep(1)
            seen.append("closed")

    async def end() -> Any:
        seen.append(where)
        if where == "inbound_claim":
            return {"handled": True}
        if where == "cancelled":
            await trio.sleep_forever()
        raise ValueError(where)

    hooks: dict[str, Any] = {"run_model": lambda: "hi"}
    if where != "nowhere":
        hooks["run_model" if where == "cancelled" else where] = end
    framework = bub(
        "extends: bub:default\nstages: {inbound_claim: {kind: claiming, before: resolve_session}}", toy=Toy(**hooks)
    )
    with trio.move_on_after(5):
        try:
            await framework.process_inbound({**HELLO, "lifespan": lifespan()})
        except ValueError as error:
            assert str(error) == where
    opened = where != "inbound_claim"  # a claimed message never was in a session
    assert seen == [*["opened"] * opened, *([where] if where != "nowhere" else []), *["closed"] * opened]


async def test_a_lifespan_that_cannot_be_opened_ends_the_turn_and_frees_its_session(bub: Workshop) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        raise OSError("no socket")
        yield

    framework = bub(model=Toy(run_model=lambda: "hi"))
    with pytest.raises(OSError, match="no socket"):
        await framework.process_inbound({**HELLO, "lifespan": lifespan()})
    with trio.fail_after(5):
        assert (await framework.process_inbound(HELLO)).model_output == "hi"


async def test_a_lifespan_that_fails_to_close_does_not_change_how_the_turn_ended(bub: Workshop) -> None:
    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        raise OSError("will not close")

    framework = bub(model=Toy(run_model=lambda: "hi"))
    assert (await framework.process_inbound({**HELLO, "lifespan": lifespan()})).model_output == "hi"


async def test_a_lifespan_that_is_nothing_to_open_is_left_alone(bub: Workshop) -> None:
    framework = bub(model=Toy(run_model=lambda message: message["lifespan"]))
    assert (await framework.process_inbound({**HELLO, "lifespan": "a word"})).model_output == "a word"


async def test_the_next_turn_of_a_session_waits_until_the_last_has_closed_what_it_opened(bub: Workshop) -> None:
    seen: list[str] = []

    def lifespan(name: str) -> Any:
        @asynccontextmanager
        async def open_and_close() -> AsyncIterator[None]:
            seen.append(f"open {name}")
            yield
            await trio.sleep(1)
            seen.append(f"close {name}")

        return open_and_close()

    framework = bub(model=Toy(run_model=lambda: "hi"))
    async with trio.open_nursery() as nursery:
        for name in ("first", "second"):
            nursery.start_soon(framework.process_inbound, {**HELLO, "lifespan": lifespan(name)})
            await wait_all_tasks_blocked()
    assert seen == ["open first", "close first", "open second", "close second"]
