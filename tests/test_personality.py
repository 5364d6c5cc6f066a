"""Personalities: a session chooses its profile, and from then on that profile's plugins alone have a say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk, adding, bringing
from fakes.toys import Toy, Workshop, admission_of, note
from trio.testing import wait_all_tasks_blocked

from bub import BubFramework, TurnResult, hookimpl
from bub.agent.confine.machine import find_ways
from bub.base.diagnostics import PipelineError
from bub.hooks.admission import Admission
from bub.streaming import AsyncStreamEvents

pytestmark = pytest.mark.anyio

PIPELINE = """
extends: bub:ethos
plugins: {plain: {path: plain.py}, loud: {path: loud.py}, switching: {path: switching.py}}
profiles:
  default: {plugins: [plain, switching]}
  shouter: {plugins: [plain, loud, switching], settings: {voice: {volume: 11}}}
  guest: {plugins: [plain], tools: {allow: [fs.read]}}
routes: [{match: {chat_id: "g*"}, profile: guest}]
"""


class Plain:
    """Says in which profile it was asked, and how loud that one is."""

    def __init__(self, framework: BubFramework) -> None:
        self.framework = framework

    @hookimpl
    def inbound_claim(self, message: Any) -> None:
        message.get("asked", []).append(self.framework.profile)

    @hookimpl
    def call_model(self) -> Any:
        volume = self.framework.settings.get("voice", {}).get("volume", 1)
        return AsyncStreamEvents.of_text(f"{self.framework.profile} at {volume}")


class Room:
    """A running framework with the profiles, and what its plugins have seen."""

    def __init__(self, bub: Workshop) -> None:
        self.bub = bub
        self.seen: list[Any] = []
        self.choice: Any = None
        self.loud: dict[str, Any] = {}

    @asynccontextmanager
    async def open(self, pipeline: str = PIPELINE) -> AsyncIterator[BubFramework]:
        def switched(session_id: str, previous: str, personality: str) -> Any:
            return note(self.seen, (session_id, previous, personality), self.choice)

        points = (
            "inbound_claim",
            "message_received",
            "before_prompt_build",
            "after_llm_call",
            "agent_done",
            "admit_message",
        )
        loud = {point: (lambda point=point: self.seen.append(f"loud {point}")) for point in points}
        self.framework = self.bub(
            pipeline,
            plain=Plain,
            loud=Toy(**{**loud, **self.loud}),
            switching=Toy(personality_switched=switched),
        )
        async with self.framework.running():
            yield self.framework

    async def turn(self, content: str, **more: Any) -> TurnResult:
        return await self.framework.process_inbound({"channel": "cli", "chat_id": "a", "content": content, **more})

    async def say(self, content: str, **more: Any) -> str:
        return (await self.turn(content, **more)).model_output or ""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(Workshop(tmp_path, monkeypatch))


async def test_a_session_chooses_its_profile_from_the_next_turn_on(room: Room) -> None:
    async with room.open():
        assert await room.say("hello") == "default at 1"
        said = await room.turn(",personality shouter")
        assert (said.profile, said.model_output) == (
            "default",
            "shouter is the personality of this session from the next message on",
        )
        assert room.seen == [("cli:a", "default", "shouter")]
        answered = await room.turn("hello")
        assert (answered.profile, answered.model_output) == ("shouter", "shouter at 11")
        assert await room.say("hello", chat_id="b") == "default at 1"  # another session is as it was


async def test_the_plugins_of_the_chosen_profile_have_a_say_at_every_point_and_others_at_none(room: Room) -> None:
    points = ["inbound_claim", "message_received", "before_prompt_build", "after_llm_call", "agent_done"]
    async with room.open() as framework:
        await room.say("hello")
        assert room.seen == []
        await room.say(",personality shouter")
        room.seen.clear()
        asked: list[str] = []
        await room.say("hello", asked=asked)
        assert room.seen == [f"loud {point}" for point in points]
        assert asked == ["default", "shouter"]  # it is the route's profile that finds out whose session it is
        room.seen.clear()
        for chat_id in ("a", "b"):
            await admission_of(framework, {"channel": "cli", "chat_id": chat_id, "content": "hello"}, Admission())
        assert room.seen == ["loud inbound_claim", "loud admit_message"]


async def test_a_choice_is_kept_when_the_process_is_started_again(room: Room) -> None:
    async with room.open():
        await room.say(",personality shouter")
    async with room.open():
        assert await room.say("hello") == "shouter at 11"


async def test_a_choice_beats_the_route_and_the_routes_own_profile_takes_it_back(room: Room) -> None:
    routed = PIPELINE.replace("[fs.read]", "[fs.read, personality]")
    async with room.open(routed):
        assert await room.say("hello", chat_id="g1") == "guest at 1"
        await room.say(",personality shouter", chat_id="g1")
        assert await room.say("hello", chat_id="g1") == "shouter at 11"
        await room.say(",personality guest", chat_id="g1")
        assert await room.say("hello", chat_id="g1") == "guest at 1"
    async with room.open(routed.replace("profile: guest}]", "profile: default}]")):
        assert await room.say("hello", chat_id="g1") == "default at 1"  # what was taken back is no choice any more


async def test_personality_alone_lists_them_and_an_unknown_one_is_told(room: Room) -> None:
    async with room.open():
        assert await room.say(",personality") == "* default\n  guest\n  shouter"
        assert await room.say(",personality shoutr") == (
            "error: there is no personality `shoutr` (did you mean `shouter`?)"
        )
        assert await room.say(",personality default") == "default is the personality of this session already"
        assert room.seen == []
        await room.say(",personality shouter")
        assert await room.say(",personality") == "  default\n  guest\n* shouter"


async def test_a_plugin_may_choose_another_one_which_has_to_exist(room: Room) -> None:
    async with room.open():
        room.choice = {"personality": "guest"}
        await room.say(",personality shouter")
        assert await room.say("hello") == "guest at 1"
        room.choice = {"personality": "nobody"}
        assert "there is no personality `nobody`" in await room.say(",personality shouter", chat_id="b")
        assert await room.say("hello", chat_id="b") == "default at 1"


async def test_a_profile_whose_tools_do_not_allow_it_cannot_be_left(room: Room) -> None:
    async with room.open():
        assert "not allowed here" in await room.say(",personality shouter", chat_id="g1")


async def test_a_message_that_waits_while_its_session_chooses_is_answered_by_the_chosen_one(room: Room) -> None:
    gate = trio.Event()

    async def slowly() -> None:
        await gate.wait()

    room.loud = {"personality_switched": slowly}
    answers: dict[str, str] = {}

    async def say(content: str) -> None:
        answers[content] = await room.say(content)

    everywhere = PIPELINE.replace("[plain, switching]", "[plain, switching, loud]")
    async with room.open(everywhere), trio.open_nursery() as nursery:
        nursery.start_soon(say, ",personality shouter")
        await wait_all_tasks_blocked(0.05)
        nursery.start_soon(say, "hello")
        await wait_all_tasks_blocked(0.05)
        gate.set()
    assert answers["hello"] == "shouter at 11"


async def test_a_session_starts_once_whoever_answers_it(room: Room) -> None:
    started: list[Any] = []
    room.loud = {"session_start": lambda profile: started.append(profile)}
    async with room.open(PIPELINE.replace("[plain, switching]", "[plain, switching, loud]")):
        await room.say(",personality shouter")
        await room.say("hello")
    assert started == ["default"]


async def test_a_chosen_profile_that_is_gone_leaves_the_session_to_its_route(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    async with room.open():
        await room.say(",personality shouter")
    async with room.open(PIPELINE.replace("shouter", "other")):
        assert await room.say("hello") == "default at 1"


async def test_a_pipeline_that_does_not_declare_the_point_has_no_personalities(room: Room) -> None:
    async with room.open(PIPELINE.replace("bub:ethos", "bub:default").replace(", switching]", "]")) as framework:
        assert framework.profiles == ("default", "guest")
        assert "there are no personalities in this pipeline" in await room.say(",personality guest")


def test_every_profile_that_can_be_chosen_is_proved_at_the_start(bub: Workshop) -> None:
    with pytest.raises(PipelineError, match="not_installed"):
        bub(
            """
            extends: bub:ethos
            profiles: {default: {}, broken: {plugins: [not_installed]}}
            """
        )


# Sub-agents.


async def test_a_sub_agent_can_be_given_another_personality_with_no_more_tools_than_its_caller(
    bub: Workshop, address: str
) -> None:
    talk = Talk(bub, address)
    spawning: list[Any] = []
    wanted: list[str] = ["poet"]

    def subagent_spawning(personality: str) -> dict[str, Any]:
        return note(spawning, personality, {"personality": wanted[0]})

    task = json.dumps([OPENAI.answer("A rose is a rose.")])
    call = OPENAI.answer(calls=[Called("subagent", json.dumps({"prompt": task}))])
    async with talk.open(
        extends="ethos",
        tools="{allow: [math.add, subagent]}",
        profile='}, poet: {plugins: [toy], tools: {allow: ["*", bash]}',
        toy=bringing(adding(), subagent_spawning=subagent_spawning),
        prose=Toy(system_prompt=lambda: "Speak in prose."),
    ):
        await talk.say(call, OPENAI.answer("done"))
        wanted[0] = "nobody"
        await talk.say(call, OPENAI.answer("done again"), session="other")
    outer, inner, _, _, last = await talk.asked()
    assert spawning == ["default", "default"]
    assert "Speak in prose." in outer["messages"][0]["content"]
    assert "Speak in prose." not in inner["messages"][0]["content"]
    assert [one["function"]["name"] for one in inner["tools"]] == ["math_add"]
    assert "there is no such personality" in last["messages"][-1]["content"]


@pytest.mark.skipif(not find_ways()[0], reason="; ".join(find_ways()[1]))
async def test_the_commands_of_a_sub_agent_reach_no_more_than_its_callers(
    bub: Workshop, address: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUB_HOME", str(tmp_path_factory.mktemp("home")))  # Landlock hides nothing in an open folder
    talk = Talk(bub, address)
    command = json.dumps({"command": "touch made; echo tried"})
    task = json.dumps([OPENAI.answer(calls=[Called("bash", command)]), OPENAI.answer("over")])
    call = OPENAI.answer(calls=[Called("subagent", json.dumps({"prompt": task}))])
    async with talk.open(
        extends="ethos",
        tools="{allow: [bash, subagent]}",
        profile=", reach: {write: []}}, poet: {plugins: [toy], reach: {}, tools: {allow: [bash]}",
        toy=bringing(subagent_spawning=lambda: {"personality": "poet"}),
    ):
        await talk.say(call, OPENAI.answer("done"))
    assert "tried" in (await talk.asked())[2]["messages"][-1]["content"]
    assert not (bub.folder / "made").exists()
