"""A message before its turn and its replies after it: its session, whether it is let in, and who takes a reply."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fakes.line import Line, lines, opened
from fakes.toys import HELLO, Errors, Toy, Workshop, admission_of, note, raising, session_of

from bub.errors import HookError, HookTypeError
from bub.hooks.admission import Admission
from bub.runtime.sessions import Sessions, TurnUnderWay

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

IDLE = Admission()
BUSY = Admission(is_running=True, running_count=1, pending_count=2, steering_count=3)


async def never() -> None:
    """An implementation that does not come to an end."""
    await trio.sleep_forever()


ROUTED = """
    extends: bub:default
    plugins: {one: {path: one.py}, other: {path: other.py}}
    profiles:
      default: {plugins: [one]}
      work: {plugins: [other]}
    routes: [{match: {channel: work}, profile: work}]
"""
"""The plugin of the profile chosen at start, and one of a profile that messages of one channel are routed to."""


# Which session.


@pytest.mark.parametrize(
    ("message", "session_id"),
    [
        (HELLO, "cli:local"),
        ({}, "default:default"),
        ({**HELLO, "session_id": " own "}, "own"),
        ({**HELLO, "session_id": " "}, "cli:local"),
    ],
)
async def test_T4_a_session_is_found_before_the_turn_as_in_it(
    bub: Workshop, message: dict[str, Any], session_id: str
) -> None:
    framework = bub(toy=Toy(run_model=lambda: "hi"))
    assert await session_of(framework, message) == session_id
    assert (await framework.process_inbound(message)).session_id == session_id


@pytest.mark.parametrize("answer", ["mine", 42, "", None])
async def test_T3_a_plugin_says_the_session_before_the_turn_as_in_it(bub: Workshop, answer: Any) -> None:
    framework = bub(toy=Toy(run_model=lambda: "hi", resolve_session=lambda: answer))
    expected = (await framework.process_inbound(HELLO)).session_id
    assert await session_of(framework, HELLO) == expected


async def test_a_message_that_a_stage_normalises_is_asked_about_as_that_left_it(bub: Workshop) -> None:
    toy = Toy(
        normalize_inbound=lambda message: {**message, "chat_id": "shared"},
        resolve_session=lambda message: f"of {message['chat_id']}",
    )
    assert await session_of(bub("extends: bub:classic", toy=toy), HELLO) == "of shared"
    assert await session_of(bub("extends: bub:classic", toy=Toy(resolve_session=lambda: "")), HELLO) == "cli:local"


async def test_where_nobody_says_the_session_the_file_does(bub: Workshop) -> None:
    text = "extends: bub:default\nstages: {resolve_session: {default: everyone}}"
    framework = bub(text, toy=Toy(run_model=lambda: "hi", resolve_session=lambda: ""))
    assert await session_of(framework, HELLO) == "everyone"


async def test_a_session_is_found_by_the_profile_that_the_message_is_routed_to(bub: Workshop) -> None:
    framework = bub(
        ROUTED, one=Toy(resolve_session=lambda: "one"), other=Toy(resolve_session=lambda profile: f"in {profile}")
    )
    assert await session_of(framework, HELLO) == "one"
    assert await session_of(framework, {**HELLO, "channel": "work"}) == "in work"


async def test_a_pipeline_without_the_stage_takes_where_the_message_comes_from(bub: Workshop) -> None:
    bare = "stages: {run_model: {kind: firstresult, into: model_output}}"
    framework = bub(bare, toy=Toy(run_model=lambda: "hi"))
    assert await session_of(framework, HELLO) == "cli:local"


async def test_C20_a_session_that_cannot_be_found_is_an_error_that_is_told(bub: Workshop) -> None:
    errors = Errors()
    broken = ValueError("no idea")
    framework = bub(toy=Toy(resolve_session=raising(broken), on_error=errors.told))
    with pytest.raises(ValueError, match="no idea"):
        await session_of(framework, HELLO)
    assert errors.all == [("resolve_session", broken)]


async def test_C20_a_plugin_that_is_left_out_where_the_file_says_so_hides_nothing(bub: Workshop) -> None:
    errors = Errors()
    text = "extends: bub:default\nstages: {resolve_session: {on_failure: skip}}"
    framework = bub(text, toy=Toy(resolve_session=raising(ValueError("no idea")), on_error=errors.told))
    assert await session_of(framework, HELLO) == "cli:local"
    assert errors.stages == ["resolve_session:toy"]


async def test_a_plugin_that_never_says_the_session_has_the_time_of_its_stage(bub: Workshop) -> None:
    errors = Errors()
    text = "extends: bub:default\nstages: {resolve_session: {timeout: 5s}}"
    framework = bub(text, toy=Toy(resolve_session=never, on_error=errors.told))
    with pytest.raises(trio.TooSlowError, match="longer than 5 seconds"):
        await session_of(framework, HELLO)
    assert errors.stages == ["resolve_session"]


# Whether it is let in.


@pytest.mark.parametrize("action", ["process", "drop", "follow_up", "steer", None])
async def test_C18_a_plugin_says_what_becomes_of_a_message(bub: Workshop, action: str | None) -> None:
    seen: list[Any] = []

    async def admit_message(session_id: str, message: Any, turn: Admission) -> str | None:
        await trio.lowlevel.checkpoint()
        seen.append((session_id, message["content"], turn))
        return action

    framework = bub(toy=Toy(admit_message=admit_message))
    assert await admission_of(framework, HELLO, BUSY) == action
    assert seen == [("cli:local", "hello", BUSY)]


async def test_C18_the_first_opinion_counts_and_nobodys_is_none(bub: Workshop) -> None:
    asked: list[str] = []
    framework = bub(
        low=Toy(admit_message=lambda: note(asked, "low", "drop")),
        middle=Toy(admit_message=lambda: note(asked, "middle", "steer")),
        high=Toy(admit_message=lambda: note(asked, "high")),
    )
    assert await admission_of(framework, HELLO, IDLE) == "steer"
    assert asked == ["high", "middle"]
    assert await admission_of(bub(toy=Toy(run_model=lambda: "hi")), HELLO, IDLE) is None


async def test_C18_what_is_told_of_a_session_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        BUSY.is_running = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(raising(ValueError("broken")), ValueError), (lambda: 3, HookTypeError), (lambda: "wait", HookError)],
)
async def test_C20_an_admission_that_fails_lets_the_message_in_and_is_told(
    bub: Workshop, answer: Any, error: type[Exception]
) -> None:
    errors = Errors()
    framework = bub(low=Toy(admit_message=lambda: "drop"), high=Toy(admit_message=answer, on_error=errors.told))
    assert await admission_of(framework, HELLO, IDLE) is None
    ((stage, told),) = errors.all
    assert stage == "admit_message"
    assert type(told) is error


async def test_C20_an_admission_that_takes_too_long_lets_the_message_in(bub: Workshop) -> None:
    errors = Errors()
    framework = bub(toy=Toy(admit_message=never, on_error=errors.told))
    assert await admission_of(framework, HELLO, IDLE) is None
    assert trio.current_time() == pytest.approx(10.0)
    assert errors.stages == ["admit_message"]


async def test_admission_is_asked_of_the_profile_that_the_message_is_routed_to(bub: Workshop) -> None:
    framework = bub(ROUTED, one=Toy(admit_message=lambda: "drop"), other=Toy(admit_message=lambda: "steer"))
    assert await admission_of(framework, {**HELLO, "channel": "work"}, IDLE) == "steer"


# What is told of a failure.


class Unprepared(Line):
    """A channel that cannot complete what it brings."""

    def __init__(self, failure: Exception) -> None:
        super().__init__("work")
        self.failure = failure

    async def prepare(self, message: Any) -> Any:
        raise self.failure


async def test_a_failure_outside_of_the_stages_is_told_to_the_observers_of_its_profile(bub: Workshop) -> None:
    one, other, failure = Errors(), Errors(), ValueError("lost")
    line = Unprepared(failure)
    framework = bub(ROUTED, one=Toy(on_error=one.told, provide_channels=lines(line)), other=Toy(on_error=other.told))
    async with opened(framework) as manager:
        await line.say("hello")
        await manager.settled()
    assert (one.all, other.all) == ([], [("turn", failure)])
    assert [reply.kind for reply in line.sent] == ["error"]


async def test_telling_of_a_failure_never_fails_and_takes_its_time_only(bub: Workshop) -> None:
    heard, line = Errors(), Unprepared(ValueError("lost"))
    framework = bub(
        low=Toy(on_error=heard.told, provide_channels=lines(line)),
        slow=Toy(on_error=never),
        high=Toy(on_error=raising(RuntimeError("worse"))),
    )
    async with opened(framework) as manager:
        await line.say("hello")
        await manager.settled()
        assert heard.stages == ["turn"]
        assert trio.current_time() == pytest.approx(10.0)


# Who takes the replies.


async def test_T27_a_reply_is_handed_to_who_asked_for_the_turn(bub: Workshop) -> None:
    taken: list[Any] = []

    async def dispatch(reply: Any) -> bool:
        taken.append(reply)
        return True

    framework = bub(toy=Toy(run_model=lambda: "hi"))
    result = await framework.process_inbound(HELLO, dispatch=dispatch)
    assert taken == result.outbounds
    assert [reply["content"] for reply in taken] == ["hi"]


async def test_a_turn_that_a_turn_starts_replies_to_who_asked_for_that_one(bub: Workshop) -> None:
    taken: list[str] = []

    async def dispatch(reply: Any) -> bool:
        taken.append(reply["content"])
        return True

    async def run_model(prompt: str) -> str:
        if prompt == "hello":
            await framework.process_inbound({**HELLO, "chat_id": "other", "content": "inner"})
        return f"re: {prompt}"

    framework = bub(toy=Toy(run_model=run_model))
    await framework.process_inbound(HELLO, dispatch=dispatch)
    assert taken == ["re: inner", "re: hello"]


async def test_where_nobody_takes_replies_that_is_said(bub: Workshop) -> None:
    said: list[bool] = []
    over = trio.Event()

    async def dispatch(reply: Any) -> bool:
        return True

    async def late() -> None:
        await over.wait()
        said.append(await framework.dispatch({"content": "too late"}))

    async with trio.open_nursery() as nursery:

        async def run_model() -> str:
            said.append(await framework.dispatch({"content": "now"}))
            nursery.start_soon(late)
            return "hi"

        framework = bub(toy=Toy(run_model=run_model))
        assert await framework.dispatch({"content": "no turn"}) is False
        await framework.process_inbound(HELLO)
        await framework.process_inbound(HELLO, dispatch=dispatch)
        over.set()
    assert said == [False, True, False, False]  # nobody; somebody; and nobody once the turns are over


async def test_what_steers_a_turn_is_of_no_use_once_it_is_over(bub: Workshop) -> None:
    class Inbox:
        def take(self) -> list[Any]:
            return []

    inbox, seen, over = Inbox(), list[Any](), trio.Event()

    async def late() -> None:
        await over.wait()
        seen.append(framework.steering)

    async with trio.open_nursery() as nursery:

        async def run_model(message: Any) -> str:
            seen.append(framework.steering)
            if message["content"] == "hello":
                await framework.process_inbound({**HELLO, "chat_id": "other", "content": "inner"})
                nursery.start_soon(late)
            return "hi"

        framework = bub(toy=Toy(run_model=run_model))
        await framework.process_inbound(HELLO, steering=inbox)
        over.set()
    assert seen == [inbox, None, None]  # a turn that it starts is not steered, and nothing is afterwards


# Side by side.

PARALLEL = """
    extends: bub:default
    plugins: {toy: {path: toy.py}}
    profiles:
      default: {plugins: [toy]}
      work: {plugins: [toy], concurrency: parallel}
    routes: [{match: {channel: work}, profile: work}]
"""


async def test_T40_turns_of_one_session_run_side_by_side_where_the_profile_says_so(bub: Workshop) -> None:
    running, most = 0, 0

    async def run_model() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1
        return "hi"

    framework = bub(PARALLEL, toy=Toy(run_model=run_model))
    work = {**HELLO, "channel": "work"}
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(framework.process_inbound, work)
    assert (most, trio.current_time()) == (5, pytest.approx(1.0))
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(framework.process_inbound, HELLO)
    assert trio.current_time() == pytest.approx(6.0)


async def test_T40_turns_side_by_side_do_not_wait_for_each_others_session_to_be_found(bub: Workshop) -> None:
    async def resolve_session() -> str:
        await trio.sleep(1)
        return "one"

    framework = bub(PARALLEL, toy=Toy(run_model=lambda: "hi", resolve_session=resolve_session))
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(framework.process_inbound, {**HELLO, "channel": "work"})
    assert trio.current_time() == pytest.approx(1.0)


async def test_T40_a_turn_that_need_not_be_alone_may_start_one_of_its_own_session(bub: Workshop) -> None:
    async def run_model(prompt: str) -> str:
        if prompt == "hello":
            inner = await framework.process_inbound({**HELLO, "channel": "work", "content": "inner"})
            return f"after {inner.model_output}"
        return prompt

    framework = bub(PARALLEL, toy=Toy(run_model=run_model))
    result = await framework.process_inbound({**HELLO, "channel": "work"})
    assert result.model_output == "after inner"


async def test_turns_side_by_side_still_wait_for_room() -> None:
    sessions = Sessions(2)
    joined: list[int] = []

    async def run(number: int) -> None:
        turn = TurnUnderWay(None)
        await sessions.hold(turn, "one", alone=False)
        joined.append(number)
        await trio.sleep(1)
        sessions.leave(turn)

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(run, number)
    assert len(joined) == 6
    assert trio.current_time() == pytest.approx(3.0)


async def test_only_so_many_sessions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bub.runtime.sessions.MOST_REMEMBERED", 3)
    sessions = Sessions(2)

    async def state(session_id: str) -> str:
        return sessions.remember(session_id)

    assert [await state(name) for name in "abca"] == ["new", "new", "new", "known"]
    assert [await state(name) for name in "dab"] == ["new", "known", "new"]  # `b` had its turn longest ago
