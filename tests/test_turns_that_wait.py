"""A message finds its session once, waits its turn, and goes on with what it has found: nothing is asked twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.line import Line, lines, opened
from fakes.toys import HELLO, Errors, Toy, Workshop, note
from trio.testing import wait_all_tasks_blocked

from bub import BubFramework, hookimpl
from bub.channels import ChannelManager
from bub.errors import BubError
from bub.inbox.mailbox import Mailbox
from bub.streaming import AsyncStreamEvents

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


real_time = pytest.mark.parametrize("anyio_backend", ["trio"])
"""Tapes are written in threads, while which a virtual clock would jump."""


@pytest.fixture(params=["default", "classic", "ethos"])
def shipped(request: pytest.FixtureRequest) -> str:
    """The name of a shipped pipeline."""
    name: str = request.param
    return name


async def settled(manager: ChannelManager) -> None:
    """Wait until everything is answered; what never is fails the test at once."""
    with trio.fail_after(60):
        await manager.settled()


class Asked:
    """Counts how often the points around the session are asked, and answers as a plugin does."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()

    def hooks(self, **more: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
        """The implementations that count; `more` are further ones."""

        def normalize_inbound(message: Any) -> Any:
            self.times["normalize_inbound"] += 1
            return {**message, "chat_id": "shared"}

        def resolve_session(message: Any) -> str:
            self.times["resolve_session"] += 1
            return f"of {message['chat_id']}"

        return {"normalize_inbound": normalize_inbound, "resolve_session": resolve_session, **more}

    def expected(self, shipped: str, messages: int) -> dict[str, int]:
        """What is counted if each point is asked once a message."""
        points = ["normalize_inbound", "resolve_session"] if shipped == "classic" else ["resolve_session"]
        return dict.fromkeys(points, messages)


def a_model() -> AsyncStreamEvents:
    return AsyncStreamEvents.of_text("hi")


# A session is found once.


async def test_a_session_is_found_once_where_a_message_is_carried_through_by_hand(bub: Workshop, shipped: str) -> None:
    asked = Asked()
    framework = bub(f"extends: bub:{shipped}", toy=Toy(**asked.hooks(run_model=lambda: "hi")))
    await framework.process_inbound(HELLO)
    assert asked.times == asked.expected(shipped, 1)


async def test_a_session_is_found_once_where_a_channel_brings_the_message(bub: Workshop, shipped: str) -> None:
    asked, line, admitted = Asked(), Line(), list[str]()
    hooks = asked.hooks(
        run_model=lambda: "hi",
        provide_channels=lines(line),
        admit_message=lambda session_id: note(admitted, session_id),
    )
    async with opened(bub(f"extends: bub:{shipped}", office=Toy(**hooks))) as manager:
        await line.say("hello")
        await line.say("and again")
        await settled(manager)
    assert line.said == ["hi", "hi"]
    assert asked.times == asked.expected(shipped, 2)
    assert admitted == [line.sent[0].session_id] * 2 == [f"of {'shared' if shipped == 'classic' else '1'}"] * 2


PERSONAL = """
extends: bub:{name}
hooks: {{personality_switched: {{kind: modifying}}}}
plugins: {{office: {{path: office.py}}}}
profiles: {{default: {{plugins: [office]}}, poet: {{plugins: [office]}}}}
"""


@real_time
async def test_a_session_is_found_once_where_it_has_chosen_another_profile(bub: Workshop, shipped: str) -> None:
    asked = Asked()
    framework = bub(PERSONAL.format(name=shipped), office=Toy(**asked.hooks(call_model=a_model)))
    async with framework.running():
        await framework.process_inbound({**HELLO, "content": ",personality poet"})
        asked.times.clear()
        assert (await framework.process_inbound(HELLO)).profile == "poet"
    assert asked.times == asked.expected(shipped, 1)


@real_time
async def test_a_session_is_found_once_where_a_channel_brings_it_to_a_chosen_profile(
    bub: Workshop, shipped: str
) -> None:
    asked, line = Asked(), Line()
    hooks = asked.hooks(call_model=a_model, provide_channels=lines(line))
    async with opened(bub(PERSONAL.format(name=shipped), office=Toy(**hooks))) as manager:
        await line.say(",personality poet")
        await settled(manager)
        asked.times.clear()
        await line.say("hello")
        await settled(manager)
    assert line.said[1:] == ["hi"]
    assert asked.times == asked.expected(shipped, 1)


# Two chats that are one session.


def one_room(running: list[str], line: Line, **more: Any) -> dict[str, Any]:
    """Hooks for which all chats are one, and whose model takes a second."""

    async def run_model(session_id: str, prompt: str) -> str:
        running.append(session_id)
        assert len(running) == 1, "two turns of one session at once"
        try:
            await trio.sleep(1)
        finally:
            running.remove(session_id)
        return f"you said {prompt}"

    def normalize_inbound(message: Any) -> Any:
        return {**message, "chat_id": "room"}

    return {"normalize_inbound": normalize_inbound, "run_model": run_model, "provide_channels": lines(line), **more}


async def test_two_chats_that_are_one_session_are_answered_one_after_the_other(bub: Workshop) -> None:
    line, running = Line(), list[str]()
    framework = bub("extends: bub:classic", office=Toy(**one_room(running, line)))
    async with opened(framework) as manager:
        for chat_id in ("1", "2", "1"):
            await line.say(f"from {chat_id}", chat_id=chat_id)
            await wait_all_tasks_blocked()
        began = trio.current_time()
        await settled(manager)
    assert trio.current_time() - began == pytest.approx(3.0)
    assert line.said == ["you said from 1", "you said from 2", "you said from 1"]
    assert {reply.session_id for reply in line.sent} == {"line:room"}


async def test_quit_ends_the_turn_of_the_session_that_two_chats_are(bub: Workshop) -> None:
    line, running = Line(), list[str]()

    async def run_model(prompt: str, message: Any) -> str:
        if prompt == "sleep":
            running.append(message["chat_id"])
            await trio.sleep_forever()
        return f"you said {prompt}"

    framework = bub("extends: bub:classic", office=Toy(**one_room(running, line, run_model=run_model)))
    async with opened(framework) as manager:
        await line.say("sleep", chat_id="1")
        await wait_all_tasks_blocked()
        await line.say("and then?", chat_id="2")
        await wait_all_tasks_blocked()
        assert running == ["room"]
        await line.say(",quit", chat_id="3")
        await settled(manager)
        assert manager.waiting == 0
        await line.say("hello", chat_id="1")
        await settled(manager)
    assert line.said == ["you said ,quit", "you said hello"]


async def test_a_channel_cancels_the_turn_of_the_session_that_was_found(bub: Workshop) -> None:
    line = Line()
    hooks = one_room([], line, run_model=trio.sleep_forever)
    async with opened(bub("extends: bub:classic", office=Toy(**hooks))) as manager:
        await line.say("sleep", chat_id="1")
        await wait_all_tasks_blocked()
        assert not manager.cancel_turn("line:1")
        assert manager.cancel_turn("line:room")
        await settled(manager)
    assert line.said == []


async def test_admission_is_asked_of_the_message_as_the_pipeline_made_it(bub: Workshop) -> None:
    line, seen = Line(), list[Any]()

    def admit_message(session_id: str, message: Any, turn: Any) -> None:
        seen.append((session_id, message["chat_id"], turn.running_count, turn.pending_count))

    hooks = one_room([], line, admit_message=admit_message)
    async with opened(bub("extends: bub:classic", office=Toy(**hooks))) as manager:
        for chat_id in ("1", "2", "3"):
            await line.say("hello", chat_id=chat_id)
            await wait_all_tasks_blocked()
        await settled(manager)
    assert seen == [("line:room", "room", running, pending) for running, pending in ((0, 0), (1, 0), (1, 1))]


NORMALIZED = """
extends: bub:default
stages: {normalize_inbound: {before: resolve_session, kind: firstresult, into: message, default: "{message}"}}
"""


async def test_what_steers_a_turn_is_the_message_as_the_pipeline_made_it(bub: Workshop) -> None:
    line, heard = Line(), list[Any]()
    begun, go = trio.Event(), trio.Event()

    async def run_model(state: Any) -> str:
        begun.set()
        await go.wait()
        heard.extend((one["content"], one["session_id"]) for one in state["_runtime_steering_inbox"].take())
        return "done"

    def normalize_inbound(message: Any) -> Any:
        return {**message, "chat_id": "room", "content": message["content"].removeprefix("bub, ")}

    hooks = {
        "normalize_inbound": normalize_inbound,
        "run_model": run_model,
        "provide_channels": lines(line),
        "admit_message": lambda turn: "steer",
    }
    async with opened(bub(NORMALIZED, office=Toy(**hooks))) as manager:
        await line.say("bub, hello", chat_id="1")
        await begun.wait()
        await line.say("bub, in red", chat_id="2")
        await wait_all_tasks_blocked()
        go.set()
        await settled(manager)
        assert manager.waiting == 0
    assert heard == [("in red", "line:room")]
    assert line.said == ["done"]


# Gates and a change of profile.

GATED = """
extends: bub:default
hooks: {personality_switched: {kind: modifying}}
plugins: {office: {path: office.py}, guard: {path: guard.py}, model: {path: model.py}}
profiles:
  default: {plugins: [office, model]}
  poet:
    plugins: [office, guard, model]
    hooks: {doorkeeper: {kind: gate, takes: [message, profile]}}
    stages: {doorkeeper: {before: resolve_session}}
"""


def denying(asked: list[Any], word: str = "bad") -> Callable[..., Any]:
    def doorkeeper(message: Any, profile: str) -> dict[str, str] | None:
        asked.append((profile, message["session_id"]))
        return {"deny": "not here"} if word in message["content"] else None

    return doorkeeper


@real_time
async def test_a_gate_that_only_the_chosen_profile_has_is_run(bub: Workshop) -> None:
    asked, errors = list[Any](), Errors()
    framework = bub(
        GATED, office=Toy(on_error=errors.told), guard=Toy(doorkeeper=denying(asked)), model=Toy(call_model=a_model)
    )
    async with framework.running():
        assert (await framework.process_inbound({**HELLO, "content": "bad"})).ended_by is None
        await framework.process_inbound({**HELLO, "content": ",personality poet"})
        denied = await framework.process_inbound({**HELLO, "content": "bad"})
        assert (denied.ended_by, denied.profile, denied.session_id) == ("denied:doorkeeper", "poet", "cli:local")
        assert denied.outbounds is not None
        assert [reply["content"] for reply in denied.outbounds] == ["not here"]
        good = await framework.process_inbound(HELLO)
        assert (good.ended_by, good.model_output) == (None, "hi")
    assert asked == [("poet", "cli:local")] * 2
    assert errors.all == []


SHARED_GATE = """
extends: bub:default
hooks:
  personality_switched: {kind: modifying}
  doorkeeper: {kind: gate, takes: [message, profile]}
stages: {doorkeeper: {before: resolve_session}}
plugins: {office: {path: office.py}, guard: {path: guard.py}, model: {path: model.py}}
profiles: {default: {plugins: [office, model]}, poet: {plugins: [office, guard, model]}}
"""


@real_time
async def test_a_gate_whose_plugin_only_the_chosen_profile_has_is_run(bub: Workshop) -> None:
    asked, at_the_door = list[Any](), list[str]()
    framework = bub(
        SHARED_GATE,
        office=Toy(doorkeeper=lambda profile: note(at_the_door, profile)),
        guard=Toy(doorkeeper=denying(asked)),
        model=Toy(call_model=a_model),
    )
    async with framework.running():
        await framework.process_inbound({**HELLO, "content": ",personality poet"})
        at_the_door.clear()
        denied = await framework.process_inbound({**HELLO, "content": "bad"})
        assert (denied.ended_by, denied.profile) == ("denied:doorkeeper", "poet")
    assert asked == [("poet", "cli:local")]
    assert at_the_door[0] == "default"


@real_time
async def test_a_gate_of_the_chosen_profile_speaks_before_the_message_waits(bub: Workshop) -> None:
    """Through a channel: a message that is denied gets its answer at once, though the session is busy."""
    asked, line = list[Any](), Line()
    begun, go = trio.Event(), trio.Event()

    async def call_model(request: Any) -> AsyncStreamEvents:
        begun.set()
        await go.wait()
        return a_model()

    framework = bub(
        GATED,
        office=Toy(provide_channels=lines(line)),
        guard=Toy(doorkeeper=denying(asked)),
        model=Toy(call_model=call_model),
    )
    async with opened(framework) as manager:
        await line.say(",personality poet")
        await settled(manager)
        await line.say("hello")
        await begun.wait()
        await line.say("something bad")
        with trio.fail_after(5):
            while len(line.sent) < 2:  # noqa: ASYNC110 (what is sent tells nobody)
                await trio.sleep(0.01)
        assert line.sent[1].content == "not here"
        go.set()
        await settled(manager)
    assert line.said[2:] == ["hi"]


# Clean-ups of what waits.

CLEANED = """
extends: bub:default
hooks:
  open_case: {kind: firstresult, takes: [message]}
  close_case: {kind: broadcast, takes: [case]}
stages:
  open_case: {before: resolve_session, into: case}
  close_case: {after: save_state, cleanup_for: open_case, timeout: 5s}
"""


def a_case(closed: list[str], line: Line, **more: Any) -> Toy:
    def close_case(case: str) -> None:
        closed.append(case)

    return Toy(
        open_case=lambda message: f"case of {message['content']}",
        close_case=close_case,
        provide_channels=lines(line),
        **more,
    )


async def test_a_message_that_is_dropped_cleans_up_once(bub: Workshop) -> None:
    closed, line = list[str](), Line()
    office = a_case(closed, line, run_model=lambda: "hi", admit_message=lambda: "drop")
    async with opened(bub(CLEANED, office=office)) as manager:
        await line.say("hello")
        await settled(manager)
        assert manager.waiting == 0
    assert (closed, line.said) == (["case of hello"], [])


async def test_a_message_that_is_said_to_a_turn_cleans_up_once(bub: Workshop) -> None:
    closed, line, heard = list[str](), Line(), list[str]()
    begun, go = trio.Event(), trio.Event()

    async def run_model(state: Any) -> str:
        begun.set()
        await go.wait()
        heard.extend(one["content"] for one in state["_runtime_steering_inbox"].take())
        await trio.sleep(1)
        return f"done {closed}"

    office = a_case(closed, line, run_model=run_model, admit_message=lambda: "steer")
    async with opened(bub(CLEANED, office=office)) as manager:
        await line.say("one")
        await begun.wait()
        await line.say("two")
        await wait_all_tasks_blocked()
        assert closed == []
        go.set()
        await settled(manager)
        assert manager.waiting == 0
    assert heard == ["two"]
    assert (closed, line.said) == (["case of two", "case of one"], ["done ['case of two']"])


async def test_a_message_that_no_turn_took_goes_on_with_what_it_found(bub: Workshop) -> None:
    closed, line, asked = list[str](), Line(), list[str]()
    begun, go = trio.Event(), trio.Event()

    async def run_model(prompt: str) -> str:
        begun.set()
        await go.wait()
        return f"you said {prompt}"

    office = a_case(
        closed,
        line,
        run_model=run_model,
        admit_message=lambda: "steer",
        resolve_session=lambda message: note(asked, message["content"], "one"),
    )
    async with opened(bub(CLEANED, office=office)) as manager:
        await line.say("one")
        await begun.wait()
        await line.say("two")
        await wait_all_tasks_blocked()
        go.set()
        await settled(manager)
    assert line.said == ["you said one", "you said two"]
    assert closed == ["case of one", "case of two"]
    assert asked == ["one", "two"]


async def test_a_message_that_is_forgotten_while_it_waits_cleans_up_once(bub: Workshop) -> None:
    closed, line = list[str](), Line()
    office = a_case(closed, line, run_model=trio.sleep_forever)
    async with opened(bub(CLEANED, office=office)) as manager:
        await line.say("one")
        await wait_all_tasks_blocked()
        await line.say("two")
        await wait_all_tasks_blocked()
        assert manager.cancel_turn("line:1")
        await settled(manager)
        assert manager.waiting == 0
    assert sorted(closed) == ["case of one", "case of two"]
    assert line.said == []


async def test_a_turn_that_is_cancelled_while_it_waits_cleans_up_once(bub: Workshop) -> None:
    closed = list[str]()
    framework = bub(CLEANED, office=a_case(closed, Line(), run_model=trio.sleep_forever))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(framework.process_inbound, HELLO)
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await framework.process_inbound({**HELLO, "content": "second"})
        assert closed == ["case of second"]
        nursery.cancel_scope.cancel()
    assert closed == ["case of second", "case of hello"]


async def test_a_turn_whose_session_never_comes_free_tells_nobody_of_an_error(bub: Workshop) -> None:
    errors = Errors()

    async def run_model(prompt: str) -> str:
        with pytest.raises(BubError, match="cannot wait for another turn of the same session"):
            await framework.process_inbound({**HELLO, "content": "inner"})
        return "hi"

    closed = list[str]()
    framework = bub(CLEANED, office=a_case(closed, Line(), run_model=run_model, on_error=errors.told))
    await framework.process_inbound(HELLO)
    assert errors.stages == ["turn"]
    assert closed == ["case of inner", "case of hello"]


# A failure is told once.


async def test_C20_a_session_that_cannot_be_found_is_told_once_through_a_channel(bub: Workshop, shipped: str) -> None:
    errors, line = Errors(), Line()

    def resolve_session() -> str:
        raise ValueError("no idea")

    hooks = {"resolve_session": resolve_session, "run_model": lambda: "hi", "on_error": errors.told}
    pipeline = f"extends: bub:{shipped}\nstages: {{resolve_session: {{on_failure: propagate}}}}"
    async with opened(bub(pipeline, office=Toy(provide_channels=lines(line), **hooks))) as manager:
        await line.say("hello")
        await settled(manager)
        assert manager.waiting == 0
    assert [type(error) for _, error in errors.all] == [ValueError]
    assert [reply.kind for reply in line.sent] == ["error"]


# What a reload takes away.


def reload_with(framework: BubFramework, changes: Mapping[str, str]) -> None:
    """Change the pipeline file and load it anew."""
    assert framework.config_file is not None
    file = Path(framework.config_file)
    text = file.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    framework.reload()


RELOADED = """
extends: bub:default
hooks: {doorkeeper: {kind: gate, takes: [message, profile]}}
stages: {doorkeeper: {before: resolve_session, enabled: false}}
plugins: {office: {path: office.py}}
profiles: {default: {plugins: [office], tools: {allow: ["*", bash]}}}
"""


async def test_a_gate_that_a_reload_brings_holds_for_a_turn_that_waits(bub: Workshop) -> None:
    go, asked, answers = trio.Event(), list[Any](), dict[str, Any]()

    async def run_model(prompt: str) -> str:
        await go.wait()
        return prompt

    framework = bub(RELOADED, office=Toy(run_model=run_model, doorkeeper=denying(asked)))

    async def say(content: str) -> None:
        answers[content] = await framework.process_inbound({**HELLO, "content": content})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say, "bad, but under way")
        await wait_all_tasks_blocked()
        nursery.start_soon(say, "bad, and waits")
        await wait_all_tasks_blocked()
        reload_with(framework, {", enabled: false": ""})
        go.set()
    assert answers["bad, but under way"].ended_by is None
    assert answers["bad, and waits"].ended_by == "denied:doorkeeper"
    assert asked == [("default", "cli:local")]


async def test_a_tool_that_a_reload_takes_away_is_away_for_a_message_that_waits(bub: Workshop) -> None:
    go, line, seen = trio.Event(), Line(), list[Any]()

    class Office:
        def __init__(self, framework: BubFramework) -> None:
            self.framework = framework

        @hookimpl
        def provide_channels(self, message_handler: Any) -> Any:
            return lines(line)(message_handler)

        @hookimpl
        async def run_model(self, prompt: str) -> str:
            if not seen:
                await go.wait()
            seen.append((prompt, "bash" in self.framework.tools.usable()))
            return prompt

    framework = bub(RELOADED, office=Office)
    async with opened(framework) as manager:
        await line.say("one")
        await wait_all_tasks_blocked()
        await line.say("two")
        await wait_all_tasks_blocked()
        reload_with(framework, {'["*", bash]': '["*"]'})
        go.set()
        await settled(manager)
    assert seen == [("one", True), ("two", False)]


async def test_what_a_turn_opened_before_a_reload_is_closed_once_and_opened_anew(bub: Workshop) -> None:
    go, seen = trio.Event(), list[str]()

    async def run_model(prompt: str) -> str:
        await go.wait()
        return prompt

    office = Toy(
        open_case=lambda message: note(seen, f"open {message['content']}", "case"),
        close_case=lambda case: seen.append(f"close {case}"),
        run_model=run_model,
    )
    framework = bub(f"{CLEANED}\ndescription: before", office=office)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(framework.process_inbound, HELLO)
        await wait_all_tasks_blocked()
        nursery.start_soon(framework.process_inbound, {**HELLO, "content": "second"})
        await wait_all_tasks_blocked()
        reload_with(framework, {"before": "after"})
        go.set()
    assert seen == ["open hello", "open second", "close case", "close case", "open second", "close case"]


async def test_a_session_stays_what_it_was_whatever_a_reload_makes_of_it(bub: Workshop) -> None:
    go, asked, answers = trio.Event(), list[str](), dict[str, Any]()

    async def run_model(prompt: str) -> str:
        await go.wait()
        return prompt

    def resolve_session(message: Any) -> str:
        return note(asked, message["content"], f"{len(asked)}")

    framework = bub(RELOADED, office=Toy(run_model=run_model, resolve_session=lambda message: "one"))

    async def say(content: str) -> None:
        answers[content] = await framework.process_inbound({**HELLO, "content": content})

    async with trio.open_nursery() as nursery:
        for content in ("first", "second"):
            nursery.start_soon(say, content)
            await wait_all_tasks_blocked()
        bub.plugin("office", Toy(run_model=run_model, resolve_session=resolve_session))
        framework.reload()
        go.set()
    assert [answers[content].session_id for content in ("first", "second")] == ["one", "one"]
    assert asked == []


# Where the two halves of a turn meet.


async def test_nothing_below_the_session_begins_before_all_above_is_over(bub: Workshop) -> None:
    pipeline = """
    extends: bub:default
    hooks:
      slow: {kind: void, takes: [message]}
      early: {kind: void, takes: [inbound]}
    stages:
      slow: {before: resolve_session}
      resolve_session: {needs: []}
      early: {after: resolve_session, needs: []}
    """
    seen = list[tuple[str, float]]()

    async def slow() -> None:
        await trio.sleep(5)
        seen.append(("slow", trio.current_time()))

    framework = bub(
        pipeline,
        toy=Toy(
            slow=slow,
            resolve_session=lambda: note(seen, ("session", trio.current_time()), "s"),
            early=lambda: seen.append(("early", trio.current_time())),
            run_model=lambda: "hi",
        ),
    )
    await framework.process_inbound(HELLO)
    assert seen == [("session", 0.0), ("slow", 5.0), ("early", 5.0)]


async def test_a_claim_above_the_session_does_not_wait_for_it(bub: Workshop) -> None:
    line, begun, go = Line(), trio.Event(), trio.Event()

    async def run_model() -> str:
        begun.set()
        await go.wait()
        return "hi"

    def inbound_claim(message: Any) -> Any:
        return {"handled": True, "reply": "claimed"} if message["content"] == "claim" else None

    office = Toy(run_model=run_model, inbound_claim=inbound_claim, provide_channels=lines(line))
    async with opened(bub("extends: bub:ethos", office=office)) as manager:
        await line.say("hello")
        await begun.wait()
        await line.say("claim")
        await wait_all_tasks_blocked()
        assert line.said == ["claimed"]
        go.set()
        await settled(manager)
        assert manager.waiting == 0
    assert line.said == ["claimed", "hi"]


class Fetching(Line):
    """A channel that fetches what belongs to a message."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []

    async def prepare(self, message: Any) -> Any:
        self.fetched.append(message.content)
        return replace(message, context={"picture": "of a cat"})


async def test_what_waits_is_completed_only_when_it_is_answered(bub: Workshop) -> None:
    line, begun, go, seen = Fetching(), trio.Event(), trio.Event(), list[Any]()

    async def run_model(message: Any, inbound: Any) -> str:
        seen.append((message["context"], inbound["context"], message["session_id"], inbound["session_id"]))
        begun.set()
        await go.wait()
        return "hi"

    async with opened(
        bub("extends: bub:classic", office=Toy(run_model=run_model, provide_channels=lines(line)))
    ) as manager:
        await line.say("one")
        await begun.wait()
        await line.say("two")
        await wait_all_tasks_blocked()
        assert line.fetched == ["one"]
        go.set()
        await settled(manager)
    picture = {"picture": "of a cat"}
    assert line.fetched == ["one", "two"]
    assert seen == [(picture, picture, "line:1", "")] * 2


async def test_who_looks_at_a_message_above_the_session_sees_it_completed(bub: Workshop) -> None:
    line, seen = Fetching(), list[Any]()
    office = Toy(
        run_model=lambda message: note(seen, message["context"], "hi"),
        inbound_claim=lambda message: seen.append(message["context"]),
        provide_channels=lines(line),
    )
    async with opened(bub("extends: bub:ethos", office=office)) as manager:
        await line.say("one")
        await settled(manager)
    assert (line.fetched, seen) == (["one"], [{"picture": "of a cat"}] * 2)


async def test_an_attempt_is_not_counted_while_a_message_waits(bub: Workshop) -> None:
    line, begun, mailbox = Line(), trio.Event(), Mailbox(None, bub.folder)

    async def run_model() -> str:
        begun.set()
        await trio.sleep_forever()
        return ""

    async with opened(bub(office=Toy(run_model=run_model, provide_channels=lines(line))), mailbox=mailbox) as manager:
        await line.say("one")
        await begun.wait()
        await line.say("two")
        await wait_all_tasks_blocked()
        assert [one.attempts for one in await mailbox.waiting()] == [1, 0]
        assert manager.cancel_turn("line:1")
        await settled(manager)


async def test_what_a_turn_hands_to_a_channel_of_its_own_session_is_answered_after_it(bub: Workshop) -> None:
    line = Line()

    async def run_model(prompt: str) -> str:
        if prompt == "one":
            await line.say("two")
        return f"you said {prompt}"

    async with opened(bub(office=Toy(run_model=run_model, provide_channels=lines(line)))) as manager:
        await line.say("one")
        await settled(manager)
    assert line.said == ["you said one", "you said two"]


async def test_process_inbound_and_channels_wait_in_the_same_queue(bub: Workshop) -> None:
    line, seen = Line(), list[str]()

    async def run_model(prompt: str) -> str:
        seen.append(f"begin {prompt}")
        await trio.sleep(1)
        seen.append(f"end {prompt}")
        return prompt

    framework = bub(office=Toy(run_model=run_model, provide_channels=lines(line)))
    message = {"channel": "line", "chat_id": "1", "content": "by hand"}
    async with opened(framework) as manager, trio.open_nursery() as nursery:
        await line.say("by channel")
        await wait_all_tasks_blocked()
        nursery.start_soon(framework.process_inbound, message)
        await wait_all_tasks_blocked()
        await line.say("again")
        await settled(manager)
    assert seen == [f"{what} {who}" for who in ("by channel", "by hand", "again") for what in ("begin", "end")]
