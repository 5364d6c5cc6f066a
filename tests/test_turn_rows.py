"""The turn, row by row: each test is named after the row T1-T40 of the list of behaviours that it holds to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, empty, note, noting, outcomes, raising

from bub import hookimpl
from bub.errors import BubError, HookTypeError, NoAnswerError
from bub.streaming import StreamEvent
from bub.tape import TapeStore

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CLASSIC = "extends: bub:classic"


def answering(text: str = "hi") -> Toy:
    return Toy(run_model=lambda: text)


def noting_all(seen: list[str], *hooks: str) -> Toy:
    """A plugin that notes which of its hooks is called, and has nothing to say."""
    return Toy(**{name: noting(seen, name) for name in hooks})


# The order of a turn.


async def test_T1_a_turn_calls_its_hooks_in_the_documented_order(bub: Workshop) -> None:
    order = ["resolve_session", "load_state", "build_prompt", "run_model_stream", "save_state", "render_outbound"]
    seen: list[str] = []
    await bub(model=answering(), notes=noting_all(seen, *order, "dispatch_outbound")).process_inbound(HELLO)
    assert seen == [*order, "dispatch_outbound"]


async def test_T2_the_classic_turn_normalises_the_message_first(bub: Workshop) -> None:
    order = ["normalize_inbound", "resolve_session", "load_state", "build_prompt", "run_model", "save_state"]
    seen: list[str] = []
    framework = bub(CLASSIC, model=answering(), notes=noting_all(seen, *order, "render_outbound", "dispatch_outbound"))
    await framework.process_inbound(HELLO)
    assert seen == [*order, "render_outbound", "dispatch_outbound"]


# The session.


@pytest.mark.parametrize("falsy", ["", 0, False])
async def test_T3_a_falsy_session_stops_the_chain_and_means_the_default(bub: Workshop, falsy: Any) -> None:
    asked = []
    low = Toy(run_model=lambda: "hi", resolve_session=lambda: asked.append("low"))
    result = await bub(low=low, high=Toy(resolve_session=lambda: falsy)).process_inbound({**HELLO, "session_id": "own"})
    assert result.session_id == "cli:local"
    assert asked == []


async def test_T3_no_answer_asks_the_next_plugin_for_the_session(bub: Workshop) -> None:
    low = Toy(run_model=lambda: "hi", resolve_session=lambda: "from-low")
    result = await bub(low=low, high=Toy(resolve_session=lambda: None)).process_inbound(HELLO)
    assert result.session_id == "from-low"


@pytest.mark.parametrize(
    ("message", "session_id"),
    [
        ({"channel": "cli", "chat_id": "7"}, "cli:7"),
        ({"channel": "cli"}, "cli:default"),
        ({}, "default:default"),
        ({"channel": "cli", "chat_id": "7", "session_id": "own"}, "own"),
        ({"channel": "cli", "chat_id": "7", "session_id": ""}, "cli:7"),
    ],
)
async def test_T4_the_session_is_the_messages_own_else_its_channel_and_chat(
    bub: Workshop, message: dict[str, Any], session_id: str
) -> None:
    assert (await bub(model=answering()).process_inbound(message)).session_id == session_id


async def test_T4_the_session_is_made_a_text(bub: Workshop) -> None:
    model = Toy(run_model=lambda: "hi", resolve_session=lambda: 42)
    assert (await bub(model=model).process_inbound(HELLO)).session_id == "42"


@pytest.mark.parametrize(("own", "session_id"), [("  own  ", "own"), ("   ", "cli:local"), (None, "cli:local")])
async def test_T5_a_blank_session_of_the_message_does_not_count(
    bub: Workshop, own: str | None, session_id: str
) -> None:
    result = await bub(model=answering()).process_inbound({**HELLO, "session_id": own})
    assert result.session_id == session_id


async def test_T6_the_message_carries_its_session_and_the_callers_dict_stays_as_it_was(bub: Workshop) -> None:
    carried = []
    model = Toy(
        run_model=lambda: "hi", resolve_session=lambda: "resolved", build_prompt=lambda message: carried.append(message)
    )
    message = {**HELLO, "session_id": "other"}
    await bub(model=model).process_inbound(message)
    assert carried[0]["session_id"] == "resolved"
    assert message == {**HELLO, "session_id": "other"}


async def test_T6_what_a_plugin_does_to_the_message_does_not_reach_the_caller(bub: Workshop) -> None:
    def run_model(message: dict[str, Any], inbound: dict[str, Any]) -> str:
        message["content"] = inbound["content"] = "spoilt"
        return "hi"

    message = dict(HELLO)
    await bub(model=Toy(run_model=run_model)).process_inbound(message)
    assert message == HELLO


async def test_T6_an_object_as_message_carries_its_session_in_a_copy(bub: Workshop) -> None:
    @dataclass
    class Message:
        channel: str = "cli"
        chat_id: str = "local"
        content: str = "hello"
        session_id: str = "other"

    carried = []
    model = Toy(
        run_model=lambda: "hi", resolve_session=lambda: "resolved", build_prompt=lambda message: carried.append(message)
    )
    message = Message()
    await bub(model=model).process_inbound(message)
    assert carried == [Message(session_id="resolved")]
    assert message == Message()


# The state.


async def test_T7_the_state_begins_with_the_workspace(bub: Workshop) -> None:
    result = await bub(model=answering()).process_inbound(HELLO)
    assert result.state == {"_runtime_workspace": str(bub.folder)}


async def test_T8_states_are_merged_and_the_high_priority_wins_each_key(bub: Workshop) -> None:
    asked: list[str] = []

    def stating(name: str, **state: Any) -> Toy:
        return Toy(run_model=lambda: "hi", load_state=noting(asked, name, state))

    framework = bub(low=stating("low", a=1, b={"x": 1}), high=stating("high", b={"y": 2}))
    result = await framework.process_inbound(HELLO)
    assert result.state == {"_runtime_workspace": str(bub.folder), "a": 1, "b": {"y": 2}}
    assert asked == ["high", "low"]


@pytest.mark.parametrize("trylast", [False, True])
async def test_T8_no_plugin_overwrites_what_the_runtime_put_into_the_state(bub: Workshop, trylast: bool) -> None:
    stating = hookimpl(trylast=trylast)(lambda: {"_runtime_workspace": "/elsewhere", "mine": 1})
    result = await bub(model=Toy(run_model=lambda: "hi", load_state=stating)).process_inbound(HELLO)
    assert result.state == {"_runtime_workspace": str(bub.folder), "mine": 1}


async def test_T8_a_state_that_is_no_dict_fails_the_turn(bub: Workshop) -> None:
    with pytest.raises(HookTypeError, match=r"load_state must return dict or None, but plugin `model` returned list"):
        await bub(model=Toy(run_model=lambda: "hi", load_state=lambda: ["a"])).process_inbound(HELLO)


async def test_T9_the_classic_state_is_the_first_answer_alone(bub: Workshop) -> None:
    asked = []

    def load_state(session_id: str) -> dict[str, Any]:
        asked.append(session_id)
        return {"from": "high"}

    low = Toy(run_model=lambda: "hi", load_state=lambda: {"from": "low", "more": 1})
    result = await bub(CLASSIC, low=low, high=Toy(load_state=load_state)).process_inbound(HELLO)
    assert result.state == {"from": "high"}
    assert asked == ["cli:local"]


@pytest.mark.parametrize("answer", [None, {}, ["no dict"]])
async def test_T9_the_classic_state_is_empty_without_a_useful_answer(bub: Workshop, answer: Any) -> None:
    result = await bub(CLASSIC, model=Toy(run_model=lambda: "hi", load_state=lambda: answer)).process_inbound(HELLO)
    assert result.state == {}


def lifespan(seen: list[str]) -> Any:
    @asynccontextmanager
    async def open_and_close() -> AsyncIterator[None]:
        seen.append("opened")
        yield
        seen.append("closed")

    return open_and_close()


@pytest.mark.parametrize("hook", ["load_state", "build_prompt"])
async def test_T10_a_failure_before_the_model_saves_nothing_and_closes_the_messages_lifespan(
    bub: Workshop, hook: str
) -> None:
    seen: list[str] = []
    errors = Errors()
    broken = RuntimeError("no state")
    model = Toy(
        run_model=lambda: "hi",
        save_state=lambda: seen.append("saved"),
        on_error=errors.told,
        **{hook: raising(broken)},
    )
    with pytest.raises(RuntimeError) as caught:
        await bub(model=model).process_inbound({**HELLO, "lifespan": lifespan(seen)})
    assert caught.value is broken
    assert errors.all == [("turn", broken)]
    assert seen == ["opened", "closed"]


# The prompt.


@pytest.mark.parametrize("falsy", ["", []])
async def test_T11_a_falsy_prompt_means_the_content_and_stops_the_chain(bub: Workshop, falsy: Any) -> None:
    asked = []
    low = Toy(run_model=lambda prompt: f"re: {prompt}", build_prompt=lambda: asked.append("low"))
    result = await bub(low=low, high=Toy(build_prompt=lambda: falsy)).process_inbound(HELLO)
    assert (result.prompt, result.model_output, asked) == ("hello", "re: hello", [])


async def test_T12_a_prompt_may_be_a_list_of_parts(bub: Workshop) -> None:
    parts = [{"type": "text", "text": "hello"}]
    given: list[Any] = []
    model = Toy(build_prompt=lambda: parts, run_model=lambda prompt: note(given, prompt, "seen"))
    result = await bub(model=model).process_inbound(HELLO)
    assert given == [parts]
    assert (result.prompt, result.model_output) == (parts, "seen")


async def test_T12_the_classic_turn_without_an_answer_gives_a_text_prompt_back(bub: Workshop) -> None:
    result = await bub(CLASSIC, only=Toy(build_prompt=lambda: "so to speak", run_model=lambda: None)).process_inbound(
        HELLO
    )
    assert result.model_output == "so to speak"


async def test_T12_the_classic_turn_answers_with_the_message_if_its_prompt_is_in_parts(bub: Workshop) -> None:
    parts = [{"type": "text", "text": "so to speak"}]
    result = await bub(CLASSIC, only=Toy(build_prompt=lambda: parts, run_model=lambda: None)).process_inbound(HELLO)
    assert (result.model_output, result.outbounds[0]["content"]) == ("hello", "hello")


@pytest.mark.parametrize("message", [{"content": None}, {}])
async def test_T13_no_content_is_no_text_and_never_the_word_none(bub: Workshop, message: dict[str, Any]) -> None:
    result = await bub(model=Toy(run_model=lambda prompt: f"[{prompt}]")).process_inbound(message)
    assert result.model_output == "[]"


# The model.


async def test_T14_a_turn_that_no_model_answers_is_told_once_and_fails(bub: Workshop) -> None:
    errors = Errors()
    framework = bub(
        """
        extends: bub:default
        stages: {run_model: {only: [silent]}}
        """,
        silent=Toy(run_model=lambda: None, on_error=errors.told),
    )
    with pytest.raises(NoAnswerError, match="no plugin answered stage `run_model`") as caught:
        await framework.process_inbound(HELLO)
    assert errors.all == [("run_model", caught.value)]


async def test_T14_only_the_classic_turn_echoes_the_prompt(bub: Workshop) -> None:
    framework = bub(
        """
        extends: bub:classic
        stages: {run_model: {only: [silent]}}
        """,
        silent=Toy(run_model=lambda: None),
    )
    result = await framework.process_inbound(HELLO)
    assert result.model_output == "hello"
    assert [outbound["content"] for outbound in result.outbounds or []] == ["hello"]


@pytest.mark.parametrize(("said", "text"), [(0, "0"), (False, "False"), ("", ""), ([1], "[1]"), ("hi", "hi")])
async def test_T15_the_classic_answer_is_whatever_was_said_as_a_text(bub: Workshop, said: Any, text: str) -> None:
    async def later() -> Any:
        return said

    for run_model in (lambda: said, later):
        framework = bub("extends: bub:classic", toy=Toy(run_model=run_model))
        assert (await framework.process_inbound(HELLO)).model_output == text


async def test_T15_a_stream_where_a_text_is_due_is_no_answer_in_the_classic_turn_either(bub: Workshop) -> None:
    errors = Errors()
    framework = bub(
        "extends: bub:classic\nstages: {run_model: {only: [toy]}}",
        toy=Toy(run_model=lambda: a_stream("hi"), on_error=errors.told),
    )
    assert (await framework.process_inbound(HELLO)).model_output == "hello"
    assert errors.stages == ["run_model:toy"]


async def test_T16_events_are_told_however_the_reply_is_shown(bub: Workshop) -> None:
    framework = bub(model=Toy(run_model_stream=lambda: a_stream("one ", "two")))
    told: list[Any] = []
    for stream_output in (True, False):
        result = await framework.process_inbound(
            HELLO, stream_output, on_event=lambda event, message: told.append(event.data["delta"])
        )
        assert result.model_output == "one two"
    assert told == ["one ", "two"] * 2


async def test_T17_what_is_done_with_the_events_does_not_change_the_text(bub: Workshop) -> None:
    def spoil(event: StreamEvent, message: Any) -> str:
        if isinstance(event.data, dict):
            event.data["delta"] = "spoilt"
        return "dropped"

    framework = bub(model=Toy(run_model_stream=lambda: a_stream("  ", "kept")))
    assert (await framework.process_inbound(HELLO, True, on_event=spoil)).model_output == "  kept"


async def test_T18_each_event_is_told_with_the_message_as_it_comes(bub: Workshop) -> None:
    told: list[tuple[float, str, str]] = []

    async def on_event(event: StreamEvent, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        told.append((trio.current_time() - began, event.data["delta"], message["session_id"]))

    framework = bub(model=Toy(run_model_stream=lambda: a_stream("a", 5.0, "b")))
    began = trio.current_time()
    await framework.process_inbound(HELLO, on_event=on_event)
    assert told == [(0.0, "a", "cli:local"), (5.0, "b", "cli:local")]


async def test_T19_only_text_events_make_the_answer_and_every_kind_passes(bub: Workshop) -> None:
    kinds = ["reasoning", "tool_call", "tool_result", "usage", "never_heard_of", "final"]
    script: list[Any] = ["so ", *(StreamEvent(kind, {"delta": "not this"}) for kind in kinds), "it is"]
    told: list[str] = []
    framework = bub(model=Toy(run_model_stream=lambda: a_stream(*script)))
    result = await framework.process_inbound(HELLO, on_event=lambda event, message: told.append(event.kind))
    assert result.model_output == "so it is"
    assert told == ["text", *kinds, "text"]


@pytest.mark.parametrize("data", [{"message": "overloaded", "kind": "server"}, {"kind": "never_heard_of"}, {}])
async def test_T19_an_error_event_is_told_and_the_stream_goes_on(bub: Workshop, data: dict[str, str]) -> None:
    errors = Errors()
    model = Toy(
        run_model_stream=lambda: a_stream("before, ", StreamEvent("error", data), "after"), on_error=errors.told
    )
    result = await bub(model=model).process_inbound(HELLO)
    assert result.model_output == "before, after"
    assert errors.stages == ["run_model"]
    assert isinstance(errors.all[0][1], BubError)
    assert data.get("message", "") in str(errors.all[0][1])


# Saving.


def saving(saved: list[Any], seconds: float = 1.0) -> Any:
    """A `save_state` that takes its time."""

    async def save_state(model_output: str) -> None:
        await trio.sleep(seconds)
        saved.append(model_output)

    return save_state


async def test_T20_the_state_is_saved_once_after_an_answer(bub: Workshop) -> None:
    saved: list[Any] = []
    await bub(model=Toy(run_model=lambda: "hi", save_state=saving(saved))).process_inbound(HELLO)
    assert saved == ["hi"]


async def test_T20_the_state_is_saved_when_the_model_fails(bub: Workshop) -> None:
    saved: list[Any] = []
    model = Toy(run_model_stream=lambda: a_stream("half of ", ValueError("cut")), save_state=saving(saved))
    with pytest.raises(ValueError, match="cut"):
        await bub(model=model).process_inbound(HELLO)
    assert saved == ["half of "]


async def test_T20_the_state_is_saved_with_no_text_when_the_model_had_none(bub: Workshop) -> None:
    saved: list[Any] = []
    model = Toy(run_model=raising(ValueError("down")), save_state=saving(saved))
    with pytest.raises(ValueError, match="down"):
        await bub(model=model).process_inbound(HELLO)
    assert saved == [""]


async def test_T20_the_state_is_saved_when_the_turn_is_cancelled(bub: Workshop) -> None:
    saved: list[Any] = []
    framework = bub(model=Toy(run_model_stream=lambda: a_stream("so far", 1e9), save_state=saving(saved, 20.0)))
    with trio.move_on_after(5) as scope:
        await framework.process_inbound(HELLO)
    assert scope.cancelled_caught
    assert saved == ["so far"]
    assert trio.current_time() == pytest.approx(25.0)


async def test_T20_saving_is_limited_in_time(bub: Workshop) -> None:
    saved: list[Any] = []
    framework = bub(model=Toy(run_model_stream=lambda: a_stream(1e9), save_state=saving(saved, 1e9)))
    with trio.move_on_after(5):
        await framework.process_inbound(HELLO)
    assert saved == []
    assert trio.current_time() == pytest.approx(35.0, rel=0.02)


async def test_T21_the_classic_turn_does_not_save_what_was_cancelled(bub: Workshop) -> None:
    saved: list[Any] = []
    framework = bub(CLASSIC, model=Toy(run_model=trio.sleep_forever, save_state=saving(saved)))
    with trio.move_on_after(5):
        await framework.process_inbound(HELLO)
    assert saved == []


async def test_T21_the_classic_turn_goes_on_when_saving_fails(bub: Workshop) -> None:
    saved: list[Any] = []
    errors = Errors()
    low = Toy(run_model=lambda: "hi", save_state=saving(saved), on_error=errors.told)
    result = await bub(CLASSIC, low=low, high=Toy(save_state=raising(OSError("full")))).process_inbound(HELLO)
    assert result.model_output == "hi"
    assert saved == ["hi"]
    assert errors.stages == ["save_state:high"]


async def test_T22_every_plugin_saves_and_the_first_error_counts(bub: Workshop) -> None:
    saved: list[Any] = []
    errors = Errors()
    first, second = OSError("disk full"), OSError("also full")
    framework = bub(
        low=Toy(run_model=lambda: "hi", save_state=saving(saved), on_error=errors.told),
        middle=Toy(save_state=raising(second)),
        high=Toy(save_state=raising(first)),
    )
    with pytest.raises(OSError, match="disk full") as caught:
        await framework.process_inbound(HELLO)
    assert caught.value is first
    assert saved == ["hi"]
    assert errors.all == [("save_state:middle", second), ("turn", first)]


async def test_T22_a_failure_to_save_never_masks_that_of_the_model(bub: Workshop) -> None:
    errors = Errors()
    down, full = ValueError("model down"), OSError("disk full")
    model = Toy(run_model=raising(down), save_state=raising(full), on_error=errors.told)
    with pytest.raises(ValueError, match="model down") as caught:
        await bub(model=model).process_inbound(HELLO)
    assert caught.value is down
    assert errors.all == [("save_state", full), ("turn", down)]


@pytest.mark.parametrize("ending", ["answers", "fails", "is cancelled"])
async def test_T23_the_lifespan_of_a_message_is_open_for_the_turn_and_closed_after(bub: Workshop, ending: str) -> None:
    seen: list[str] = []

    async def run_model() -> str:
        seen.append("model")
        if ending == "fails":
            raise ValueError("down")
        if ending == "is cancelled":
            await trio.sleep_forever()
        return "hi"

    framework = bub(model=Toy(run_model=run_model, save_state=lambda: seen.append("saved")))
    with trio.move_on_after(5):
        try:
            await framework.process_inbound({**HELLO, "lifespan": lifespan(seen)})
        except ValueError:
            seen.append("raised")
    assert [step for step in seen if step != "raised"] == ["opened", "model", "saved", "closed"]


async def test_T23_a_lifespan_may_be_a_plain_context_manager(bub: Workshop) -> None:
    seen: list[str] = []

    @contextmanager
    def plain() -> Iterator[None]:
        seen.append("opened")
        yield
        seen.append("closed")

    await bub(model=answering()).process_inbound({**HELLO, "lifespan": plain()})
    assert seen == ["opened", "closed"]


# Rendering and dispatching.


async def test_T24_all_batches_are_sent_high_priority_first(bub: Workshop) -> None:
    sent: list[Any] = []
    framework = bub(
        one=Toy(run_model=lambda: "hi", dispatch_outbound=lambda message: sent.append(message["content"])),
        two=Toy(render_outbound=lambda: {"content": "alone"}),
        three=Toy(render_outbound=lambda: None),
        four=Toy(render_outbound=lambda: ({"content": "of a tuple"},)),
        five=Toy(render_outbound=lambda: [{"content": "first"}, {"content": "second"}]),
    )
    result = await framework.process_inbound(HELLO)
    assert sent == ["first", "second", "of a tuple", "alone"]
    assert result.outbounds == [{"content": content} for content in sent]


async def test_T25_nothing_in_a_batch_is_no_reply(bub: Workshop) -> None:
    sent: list[Any] = []
    model = Toy(
        run_model=lambda: "hi",
        render_outbound=lambda: [None, {"content": "real"}, None],
        dispatch_outbound=lambda message: sent.append(message),
    )
    await bub(model=model).process_inbound(HELLO)
    assert sent == [{"content": "real"}]


@pytest.mark.parametrize("batch", [None, [], [None]])
async def test_T26_without_a_reply_there_is_exactly_one_with_the_models_text(bub: Workshop, batch: Any) -> None:
    result = await bub(model=Toy(run_model=lambda: "hi", render_outbound=lambda: batch)).process_inbound(HELLO)
    assert result.outbounds == [
        {"content": "hi", "session_id": "cli:local", "channel": "cli", "chat_id": "local"},
    ]


@pytest.mark.parametrize("pipeline", ["default", "classic"])
async def test_T26_a_message_without_an_address_gets_a_reply_without_one(bub: Workshop, pipeline: str) -> None:
    framework = bub(f"extends: bub:{pipeline}", model=Toy(run_model=lambda: "hi"))
    result = await framework.process_inbound({"content": "hello", "chat_id": "7"})
    assert result.outbounds == [{"content": "hi", "session_id": "default:7", "chat_id": "7"}]


async def test_T27_every_reply_goes_to_every_dispatcher_in_turn(bub: Workshop) -> None:
    sent: list[tuple[str, str]] = []

    def dispatching(name: str) -> Any:
        async def dispatch_outbound(message: Any) -> bool:
            await trio.sleep(1)
            sent.append((message["content"], name))
            return True

        return dispatch_outbound

    low = Toy(
        run_model=lambda: "hi",
        render_outbound=lambda: [{"content": "a"}, {"content": "b"}],
        dispatch_outbound=dispatching("low"),
    )
    await bub(low=low, high=Toy(dispatch_outbound=dispatching("high"))).process_inbound(HELLO)
    assert sent == [("a", "high"), ("a", "low"), ("b", "high"), ("b", "low")]


def three_replies_of_which_two_fail(sent: list[str], errors: Errors) -> Toy:
    def dispatch_outbound(message: Any) -> None:
        if message["content"] != "b":
            raise ConnectionError(message["content"])
        sent.append(message["content"])

    return Toy(
        run_model=lambda: "hi",
        render_outbound=lambda: [{"content": "a"}, {"content": "b"}, {"content": "c"}],
        dispatch_outbound=dispatch_outbound,
        on_error=errors.told,
    )


async def test_T28_a_reply_that_cannot_be_sent_keeps_no_other_back_and_fails_the_turn(bub: Workshop) -> None:
    sent: list[str] = []
    errors = Errors()
    with pytest.raises(ConnectionError) as caught:
        await bub(model=three_replies_of_which_two_fail(sent, errors)).process_inbound(HELLO)
    assert sent == ["b"]
    assert caught.value.args == ("a",)
    assert errors.all == [("turn", caught.value)]


async def test_T28_the_classic_turn_attempts_all_and_completes(bub: Workshop) -> None:
    sent: list[str] = []
    errors = Errors()
    low = three_replies_of_which_two_fail(sent, errors)
    high = Toy(dispatch_outbound=raising(ConnectionError("high")))
    result = await bub(CLASSIC, low=low, high=high).process_inbound(HELLO)
    assert sent == ["b"]
    assert outcomes(result)["dispatch_outbound"] == "ok"
    high_fails, low_fails = "dispatch_outbound:high", "dispatch_outbound:low"
    assert errors.stages == [high_fails, low_fails, high_fails, high_fails, low_fails]


# Failures.


async def test_T29_a_failing_turn_is_told_with_its_message_and_raises_what_failed(bub: Workshop) -> None:
    told: list[Any] = []
    down = ValueError("down")
    low = Toy(run_model=raising(down), on_error=lambda stage, error, message: told.append((stage, error, message)))
    with pytest.raises(ValueError, match="down") as caught:
        await bub(low=low, high=Toy(on_error=raising(RuntimeError("observer")))).process_inbound(HELLO)
    assert caught.value is down
    assert [(stage, error) for stage, error, _ in told] == [("turn", down)]
    assert told[0][2] == {**HELLO, "session_id": "cli:local"}


async def test_T29_a_cancelled_turn_is_not_told(bub: Workshop) -> None:
    errors = Errors()
    framework = bub(model=Toy(run_model=trio.sleep_forever, on_error=errors.told))
    with trio.move_on_after(5) as scope:
        await framework.process_inbound(HELLO)
    assert scope.cancelled_caught
    assert errors.all == []


async def test_T31_a_turn_results_in_its_values(bub: Workshop) -> None:
    result = await bub(model=Toy(run_model=lambda: "hi", load_state=lambda: {"mood": "fine"})).process_inbound(HELLO)
    assert (result.session_id, result.prompt, result.model_output) == ("cli:local", "hello", "hi")
    assert result.outbounds == [{"content": "hi", "session_id": "cli:local", "channel": "cli", "chat_id": "local"}]
    assert result.state == {"_runtime_workspace": str(bub.folder), "mood": "fine"}
    assert (result.ended_by, result.profile) == (None, "default")


async def test_T32_the_classic_turn_works_on_the_message_that_was_normalised(bub: Workshop) -> None:
    kept: list[Any] = []
    model = Toy(
        normalize_inbound=lambda message: {**message, "content": message["content"].strip()},
        run_model=lambda message, inbound: note(kept, inbound, message["content"]),
    )
    result = await bub(CLASSIC, model=model).process_inbound({**HELLO, "content": "  hello "})
    assert result.model_output == "hello"
    assert kept[0]["content"] == "  hello "


async def test_T32_nothing_normalised_means_the_message_itself(bub: Workshop) -> None:
    model = Toy(normalize_inbound=lambda: None, run_model=lambda prompt: prompt)
    message = dict(HELLO)
    assert (await bub(CLASSIC, model=model).process_inbound(message)).model_output == "hello"
    assert message == HELLO


async def test_T32_an_empty_message_is_an_answer_too(bub: Workshop) -> None:
    model = Toy(normalize_inbound=empty, run_model=lambda prompt: f"[{prompt}]")
    result = await bub(CLASSIC, model=model).process_inbound(HELLO)
    assert (result.session_id, result.model_output) == ("default:default", "[]")


# The builtin plugin's prompts.


async def test_T33_the_context_of_a_channel_stands_above_the_dated_content(bub: Workshop) -> None:
    result = await bub(model=answering()).process_inbound({**HELLO, "context_str": "sender=ada"})
    assert isinstance(result.prompt, str)
    context, date, content = result.prompt.split("\n")
    assert (context, content) == ("sender=ada", "hello")
    assert date.startswith("---Date: 2")
    assert date.endswith("---")


async def test_T34_system_prompts_are_joined_base_first_and_async_ones_left_out(bub: Workshop) -> None:
    def waits() -> Any:
        async def later() -> str:
            return "never"

        return later()

    framework = bub(
        low=Toy(run_model=lambda: "hi", system_prompt=lambda prompt: f"low: {prompt}"),
        empty=Toy(system_prompt=lambda: ""),
        waiting=Toy(system_prompt=waits),
        high=Toy(system_prompt=lambda state: f"high: {state['mood']}"),
    )
    base, *rest = framework.get_system_prompt("hello", {"mood": "fine"}).split("\n\n")
    assert base.startswith("You are Bub")
    assert rest == ["low: hello", "high: fine"]


async def test_T35_the_workspace_speaks_in_the_builtin_system_prompt(bub: Workshop) -> None:
    framework = bub(model=answering())
    assert "workspace_instruction" not in framework.get_system_prompt("", {})
    (bub.folder / "AGENTS.md").write_text("Speak softly.\n", encoding="utf-8")
    assert "<workspace_instruction>\nSpeak softly.\n</workspace_instruction>" in framework.get_system_prompt("", {})


@pytest.mark.parametrize("unreadable", ["a folder", "no text"])
async def test_T35_instructions_that_cannot_be_read_do_no_harm(bub: Workshop, unreadable: str) -> None:
    framework = bub(model=answering())
    file = bub.folder / "AGENTS.md"
    if unreadable == "a folder":
        file.mkdir()
    else:
        file.write_bytes(b"\xff\xfe caf\xe9")
    assert framework.get_system_prompt("", {}).startswith("You are Bub")


# The runtime.


def store_as(form: str, seen: list[str]) -> Any:
    """A `provide_tape_store` that gives its store in one of the permitted forms."""

    def plain() -> str:
        return "the store"

    def iterator() -> Iterator[str]:
        seen.append("opened")
        yield "the store"
        seen.append("closed")

    async def async_iterator() -> AsyncIterator[str]:
        seen.append("opened")
        yield "the store"
        seen.append("closed")

    def manager() -> Any:
        return contextmanager(iterator)()

    def async_manager() -> Any:
        return asynccontextmanager(async_iterator)()

    return {
        "plain": plain,
        "iterator": lambda: iterator(),
        "async iterator": lambda: async_iterator(),
        "context manager": manager,
        "async context manager": async_manager,
    }[form]


@pytest.mark.parametrize("form", ["plain", "iterator", "async iterator", "context manager", "async context manager"])
async def test_T36_the_tape_store_is_made_once_and_open_while_running(bub: Workshop, form: str) -> None:
    seen: list[str] = []
    provide = store_as(form, seen)
    made: list[int] = []
    framework = bub(model=Toy(run_model=lambda: "hi", provide_tape_store=lambda: note(made, 1, provide())))
    assert framework.get_tape_store() is None
    async with framework.running():
        assert framework.get_tape_store() == "the store"
        await framework.process_inbound(HELLO)
        await framework.process_inbound(HELLO)
        assert framework.get_tape_store() == "the store"
    assert framework.get_tape_store() is None
    assert len(made) == 1
    assert seen == ([] if form == "plain" else ["opened", "closed"])


async def test_T36_builtins_tapes_are_files_in_bubs_own_folder(bub: Workshop) -> None:
    async with bub(model=Toy(run_model=lambda: "hi")).running() as framework:
        assert framework.get_tape_store().path == framework.home / "tapes" / "tapes.db"


async def test_T36_a_coroutine_is_no_tape_store(bub: Workshop) -> None:
    def provide_tape_store() -> Any:
        async def later() -> str:
            return "never"

        return later()

    async with bub(model=Toy(run_model=lambda: "hi", provide_tape_store=provide_tape_store)).running() as framework:
        assert isinstance(framework.get_tape_store(), TapeStore)  # the builtin plugin's, which is asked next


async def test_T36_a_tape_store_that_cannot_open_leaves_nothing_running(bub: Workshop) -> None:
    @contextmanager
    def broken() -> Iterator[str]:
        raise OSError("locked")
        yield "never"

    stores: list[Any] = [broken(), "the store"]
    framework = bub(model=Toy(run_model=lambda: "hi", provide_tape_store=lambda: stores.pop(0)))
    with pytest.raises(OSError, match="locked"):
        async with framework.running():
            pass
    async with framework.running():
        assert framework.get_tape_store() == "the store"


async def test_T37_running_cannot_be_opened_inside_itself(bub: Workshop) -> None:
    framework = bub(model=Toy(run_model=lambda: "hi", provide_tape_store=lambda: "the store"))
    async with framework.running():
        with pytest.raises(BubError, match="the runtime is open already"):
            async with framework.running():
                pass
        assert framework.get_tape_store() == "the store"
    async with framework.running():
        assert framework.get_tape_store() == "the store"


@pytest.mark.parametrize("fails", [False, True])
async def test_T38_what_is_shared_closes_in_reverse_whatever_fails(bub: Workshop, fails: bool) -> None:
    seen: list[str] = []

    def resource(name: str) -> Any:
        @asynccontextmanager
        async def open_it() -> AsyncIterator[str]:
            seen.append(f"open {name}")
            yield name
            await trio.lowlevel.checkpoint()
            seen.append(f"close {name}")
            if name == "second":
                raise OSError("will not close")

        return open_it

    first, second, third = resource("first"), resource("second"), resource("third")

    class Needy:
        def __init__(self, framework: Any) -> None:
            self.framework = framework

        @hookimpl
        async def run_model(self) -> str:
            return " ".join([await self.framework.shared(factory) for factory in (first, second, third, first)])

    framework = bub(model=Needy)
    try:
        async with framework.running():
            for _ in range(2):
                assert (await framework.process_inbound(HELLO)).model_output == "first second third first"
            assert "close third" not in seen
            if fails:
                raise ValueError("out of here")
    except ValueError:
        assert fails
    opened = ["open first", "open second", "open third"]
    assert seen == [*opened, "close third", "close second", "close first"]


async def test_T38_without_running_what_is_shared_lives_as_long_as_the_turn(bub: Workshop) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def resource() -> AsyncIterator[str]:
        seen.append("open")
        yield "it"
        seen.append("close")

    class Needy:
        def __init__(self, framework: Any) -> None:
            self.framework = framework

        @hookimpl
        async def run_model(self) -> str:
            return str(await self.framework.shared(resource))

    framework = bub(model=Needy)
    for _ in range(2):
        await framework.process_inbound(HELLO)
    assert seen == ["open", "close"] * 2


def test_T39_the_first_plugin_in_priority_order_gives_the_tape_context(bub: Workshop) -> None:
    context = object()
    low = Toy(build_tape_context=lambda: context)
    assert bub(low=low).build_tape_context() is context
    assert bub(low=low, high=Toy(build_tape_context=lambda: None)).build_tape_context() is context
    assert bub(low=low, high=Toy(build_tape_context=lambda: "mine")).build_tape_context() == "mine"


async def test_T40_two_messages_of_one_session_never_run_two_turns_at_once(bub: Workshop) -> None:
    running: list[str] = []
    most = 0

    async def run_model(session_id: str) -> str:
        nonlocal most
        running.append(session_id)
        most = max(most, len(running))
        await trio.sleep(1)
        running.remove(session_id)
        return "hi"

    framework = bub(model=Toy(run_model=run_model))
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(framework.process_inbound, HELLO)
    assert most == 1
    assert trio.current_time() == pytest.approx(5.0)
