"""Rows H25 to H29: who answers for the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from fakes.hooks import answering, answering_later, runtime_of
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream

from bub import hookimpl
from bub.errors import HookTypeError
from bub.streaming import AsyncStreamEvents, StreamEvent

pytestmark = pytest.mark.anyio


MODEL: dict[str, Any] = {"prompt": "hello", "session_id": "s", "state": {}}


async def both_ways(**plugins: object) -> list[str | None]:
    """What `HookRuntime` gives as one text and as a stream, and what a turn of each pipeline gives."""
    hooks = runtime_of(**plugins)
    events = await hooks.run_model_stream(**MODEL)
    streamed = None
    if events is not None:
        streamed = "".join([event.data["delta"] async for event in events if event.kind == "text"])
    return [await hooks.run_model(**MODEL), streamed]


async def turns(bub: Workshop, **plugins: object) -> list[str | None]:
    """The model's output in a turn of the default pipeline, whose stage streams, and of the classic one."""
    results = [await bub(f"extends: bub:{name}", **plugins).process_inbound(HELLO) for name in ("default", "classic")]
    return [result.model_output for result in results]


def streaming(*script: Any, **mark: Any) -> Toy:
    return Toy(run_model_stream=hookimpl(lambda: a_stream(*script), **mark))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: {"low": streaming("low"), "high": answering(run_model="high")}, "high"),
        (lambda: {"low": answering(run_model="low"), "high": streaming("hi", "gh")}, "high"),
        (lambda: {"low": streaming("low", tryfirst=True), "high": answering(run_model="high")}, "low"),
        (
            lambda: {
                "low": answering(run_model="low"),
                "high": Toy(run_model=hookimpl(lambda: "high", trylast=True)),
            },
            "low",
        ),
    ],
    ids=["text above", "stream above", "tryfirst", "trylast"],
)
async def test_H25_text_and_stream_models_are_asked_in_one_order(
    bub: Workshop, make: Callable[[], dict[str, object]], expected: str
) -> None:
    assert await both_ways(**make()) == [expected] * 2
    assert await turns(bub, **make()) == [expected] * 2


class Unmarked:
    """A plugin with an attribute of the name of a hook that is not marked as one."""

    def run_model(self) -> str:
        raise AssertionError("never called")

    run_model_stream = run_model

    @hookimpl
    def save_state(self) -> None:
        return None


async def test_H26_what_is_not_marked_is_no_hook_and_hides_none(bub: Workshop) -> None:
    assert await both_ways(low=streaming("low"), high=Unmarked()) == ["low"] * 2
    assert await turns(bub, low=streaming("low"), high=Unmarked()) == ["low"] * 2


OVERLOADED = StreamEvent("error", {"message": "overloaded"})


async def test_H27_a_stream_is_collected_and_its_errors_are_told() -> None:
    errors = Errors()
    hooks = runtime_of(model=streaming("par", OVERLOADED, "tial"), errors=Toy(on_error=errors.told))
    assert await hooks.run_model(**MODEL) == "partial"
    assert [(stage, str(error)) for stage, error in errors.all] == [("run_model", "overloaded")]


@pytest.mark.parametrize("pipeline", ["default", "classic"])
@pytest.mark.parametrize("stream_output", [True, False])
async def test_H27_in_a_turn_errors_of_the_stream_are_told_in_both_modes(
    bub: Workshop, pipeline: str, stream_output: bool
) -> None:
    errors = Errors()
    framework = bub(f"extends: bub:{pipeline}", m=streaming("par", OVERLOADED, "tial"), e=Toy(on_error=errors.told))
    result = await framework.process_inbound(HELLO, stream_output=stream_output)
    assert result.model_output == "partial"
    assert [(stage, str(error)) for stage, error in errors.all] == [("run_model", "overloaded")]


async def test_H27_a_text_is_a_stream_of_one_event(bub: Workshop) -> None:
    model = answering_later(run_model="all of it")
    events = await runtime_of(model=model).run_model_stream(**MODEL)
    assert isinstance(events, AsyncStreamEvents)
    expected = [StreamEvent("text", {"delta": "all of it"})]
    assert [event async for event in events] == expected

    seen: list[StreamEvent] = []
    await bub(model=model).process_inbound(HELLO, on_event=lambda event, message: seen.append(event))
    assert seen == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"low": answering(run_model="low"), "high": answering(run_model_stream=None)},
        lambda: {"low": streaming("low"), "high": answering(run_model=None)},
        lambda: {"low": streaming("low"), "mid": answering(run_model=None), "high": answering_later(run_model=None)},
    ],
    ids=["stream gives none", "text gives none", "several give none"],
)
async def test_H28_none_asks_the_next_whatever_form_it_answers_in(
    bub: Workshop, make: Callable[[], dict[str, object]]
) -> None:
    assert await both_ways(**make()) == ["low"] * 2
    assert await turns(bub, **make()) == ["low"] * 2


async def test_H28_when_no_model_answers_there_is_no_answer() -> None:
    assert await both_ways(a=answering(run_model=None), b=answering_later(run_model_stream=None)) == [None, None]
    assert await both_ways() == [None, None]


@pytest.mark.parametrize("wrong", [7, b"bytes", ["text"], {"text": "x"}], ids=repr)
async def test_H29_a_text_model_must_return_text(bub: Workshop, wrong: Any) -> None:
    hooks = runtime_of(wrong=answering(run_model=wrong))
    for call in (hooks.run_model, hooks.run_model_stream):
        with pytest.raises(HookTypeError, match=r"hook\.run_model must return str or None, but plugin `wrong`"):
            await call(**MODEL)
    with pytest.raises(HookTypeError, match=r"hook\.run_model must return str or None"):
        await bub(wrong=answering(run_model=wrong)).process_inbound(HELLO)


@pytest.mark.parametrize("wrong", ["text", 7, ["event"]], ids=repr)
async def test_H29_a_stream_model_must_return_a_stream(bub: Workshop, wrong: Any) -> None:
    hooks = runtime_of(wrong=answering_later(run_model_stream=wrong))
    for call in (hooks.run_model, hooks.run_model_stream):
        with pytest.raises(HookTypeError, match=r"hook\.run_model_stream must return AsyncStreamEvents or None"):
            await call(**MODEL)
    with pytest.raises(HookTypeError, match=r"hook\.run_model_stream must return AsyncStreamEvents or None"):
        await bub(wrong=answering_later(run_model_stream=wrong)).process_inbound(HELLO)


@pytest.mark.parametrize(
    "empty", [lambda: answering(run_model=""), lambda: streaming(), lambda: streaming("")], ids=["text", "no", "one"]
)
async def test_H29_an_empty_text_is_an_answer(bub: Workshop, empty: Callable[[], Toy]) -> None:
    low = answering(run_model="low")
    assert await both_ways(low=low, high=empty()) == ["", ""]
    assert await turns(bub, low=low, high=empty()) == ["", ""]


async def test_H29_an_asynchronous_generator_is_a_stream_too(bub: Workshop) -> None:
    async def run_model_stream() -> AsyncIterator[StreamEvent]:
        yield StreamEvent.text("gen")
        yield StreamEvent.text("erated")

    assert await both_ways(model=Toy(run_model_stream=run_model_stream)) == ["generated"] * 2
    assert await turns(bub, model=Toy(run_model_stream=run_model_stream)) == ["generated"] * 2
