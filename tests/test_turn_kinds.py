"""A whole turn: how the implementations of a stage are called, and what their answers become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from fakes.stages import found_by, sleeping
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, noting, raising

from bub import hookimpl
from bub.errors import HookTypeError
from bub.streaming import StreamEvent

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_firstresult_takes_the_first_answer_that_is_not_none(bub: Workshop) -> None:
    asked: list[str] = []
    answers = (noting(asked, "low", 1), noting(asked, "middle", 0), noting(asked, "high"))
    assert await found_by(bub, "firstresult", "on_failure: propagate", *answers) == 0
    assert asked == ["high", "middle"]


async def test_firstresult_awaits_what_has_to_be_awaited(bub: Workshop) -> None:
    assert await found_by(bub, "firstresult", "on_failure: propagate", sleeping(3, answer="late")) == "late"
    assert trio.current_time() == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("combine", "answers", "found"),
    [
        ("list", (1, None, [2]), [[2], None, 1]),
        ("list", (None,), [None]),
        ("merge", (None,), {}),
        ("concat", ([], None), []),
        ("join", (None,), ""),
        ("merge", ({"a": 1, "b": 1}, {"b": 2}, None), {"a": 1, "b": 2}),
        ("concat", ({"a": 1}, [2, 3], None), [2, 3, {"a": 1}]),
        ("join", ("base", "", None, "top"), "base\n\ntop"),
    ],
)
async def test_broadcast_combines_what_all_return(
    bub: Workshop, combine: str, answers: tuple[Any, ...], found: Any
) -> None:
    functions = [lambda answer=answer: answer for answer in answers]
    assert await found_by(bub, "broadcast", f"combine: {combine}", *functions) == found


async def test_broadcast_runs_one_after_another(bub: Workshop) -> None:
    seen: list[Any] = []
    await found_by(bub, "broadcast", "combine: list", sleeping(1, seen, "low"), sleeping(2, seen, "high"))
    assert seen == ["high", "low"]
    assert trio.current_time() == pytest.approx(3.0)


async def test_observers_run_one_after_another_and_one_that_fails_is_told(bub: Workshop) -> None:
    seen: list[Any] = []
    errors = Errors()
    framework = bub(
        "hooks: {watch: {kind: observer}}\nstages: {watch: {kind: observer}}",
        low=Toy(watch=sleeping(1, seen, "low"), on_error=errors.told),
        middle=Toy(watch=raising(ValueError("oops"))),
        high=Toy(watch=sleeping(2, seen, "high")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["high", "low"]
    assert errors.stages == ["watch:middle"]
    assert trio.current_time() == pytest.approx(3.0)


async def test_void_runs_all_at_once_and_waits_for_the_slowest(bub: Workshop) -> None:
    seen: list[Any] = []
    errors = Errors()

    async def fails_late() -> None:
        await trio.sleep(0.5)
        raise ValueError("late")

    framework = bub(
        "hooks: {watch: {kind: void}}\nstages: {watch: {kind: void}}",
        low=Toy(watch=sleeping(2, seen, "slow"), on_error=errors.told),
        quick=Toy(watch=sleeping(1, seen, "quick")),
        late=Toy(watch=fails_late),
        plain=Toy(watch=noting(seen, "plain")),
        high=Toy(watch=raising(ValueError("at once"))),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["plain", "quick", "slow"]
    assert sorted(errors.stages) == ["watch:high", "watch:late"]
    assert trio.current_time() == pytest.approx(2.0)


MODIFYING = """
extends: bub:default
hooks: {amend: {kind: modifying, takes: [prompt]}}
stages: {amend: {kind: modifying, changes: [prompt], after: build_prompt}}
"""


async def prompt_after(bub: Workshop, *parts: Callable[..., Any]) -> Any:
    """The prompt that reaches the model once plugins, the lowest priority first, have amended "hello"."""
    plugins = {f"p{index}": Toy(amend=part) for index, part in enumerate(parts)}
    framework = bub(MODIFYING, **plugins, model=Toy(run_model=lambda prompt: f"re: {prompt}"))
    result = await framework.process_inbound(HELLO)
    assert result.model_output == f"re: {result.prompt}"
    return result.prompt


@pytest.mark.parametrize(
    ("parts", "prompt"),
    [
        (({"prompt": "new"},), "new"),
        (({"prompt": "low"}, {"prompt": "high"}), "high"),
        (({"prompt": "low"}, {"prompt": None}), "low"),
        (({"prompt": ""},), ""),
        (({"prepend_prompt": "above"},), "above\n\nhello"),
        (({"append_prompt": "below"},), "hello\n\nbelow"),
        (({"prepend_prompt": "above", "prompt": "new", "append_prompt": "below"},), "above\n\nnew\n\nbelow"),
        (({"prepend_prompt": "above"}, {"append_prompt": "below"}), "above\n\nhello\n\nbelow"),
        (({"promt": "misspelt"},), "hello"),
        ((None, {}), "hello"),
    ],
)
async def test_modifying_applies_the_first_value_of_each_key(
    bub: Workshop, parts: tuple[Any, ...], prompt: str
) -> None:
    assert await prompt_after(bub, *(lambda part=part: part for part in parts)) == prompt


async def test_modifying_gives_each_the_original(bub: Workshop) -> None:
    given: list[Any] = []

    def amend(prompt: str) -> dict[str, str]:
        given.append(prompt)
        return {"prompt": f"{prompt}!"}

    assert await prompt_after(bub, amend, lambda prompt: amend(prompt)) == "hello!"
    assert given == ["hello", "hello"]


@pytest.mark.parametrize("broken", [raising(ValueError("oops")), lambda: "no dict"], ids=["fails", "wrong type"])
async def test_modifying_leaves_out_the_part_that_fails(bub: Workshop, broken: Any) -> None:
    assert await prompt_after(bub, lambda: {"prompt": "low"}, broken) == "low"


async def test_what_an_amender_does_to_its_argument_changes_nothing(bub: Workshop) -> None:
    seen: list[Any] = []

    def spoil(message: dict[str, Any]) -> None:
        message["content"] = "spoilt"

    framework = bub(
        MODIFYING,
        low=Toy(run_model=lambda message: message["content"], amend=lambda message: seen.append(message["content"])),
        high=Toy(amend=spoil),
    )
    assert (await framework.process_inbound(HELLO)).model_output == "hello"
    assert seen == ["hello"]


async def test_a_stream_stage_can_call_a_point_of_the_users_own(bub: Workshop) -> None:
    streaming = lambda: a_stream("one ", 1.0, "two")  # noqa: E731
    assert await found_by(bub, "stream", "on_failure: propagate", lambda: "unasked", streaming) == "one two"


async def test_a_plain_text_is_a_stream_of_one_event(bub: Workshop) -> None:
    told: list[StreamEvent] = []
    framework = bub(model=Toy(run_model=lambda: "hi"))
    await framework.process_inbound(HELLO, on_event=lambda event, message: told.append(event))
    assert told == [StreamEvent("text", {"delta": "hi"})]


async def test_text_and_stream_plugins_are_asked_in_one_order(bub: Workshop) -> None:
    asked: list[str] = []
    framework = bub(
        low=Toy(run_model=noting(asked, "low", "from low")),
        middle=Toy(run_model_stream=noting(asked, "middle")),
        high=Toy(run_model=noting(asked, "high")),
    )
    assert (await framework.process_inbound(HELLO)).model_output == "from low"
    assert asked == ["high", "middle", "low"]


async def test_an_empty_text_is_an_answer_of_the_model(bub: Workshop) -> None:
    framework = bub(low=Toy(run_model=lambda: "low"), high=Toy(run_model=lambda: ""))
    assert (await framework.process_inbound(HELLO)).model_output == ""


async def test_a_model_that_answers_with_something_else_is_named(bub: Workshop) -> None:
    with pytest.raises(HookTypeError, match="run_model must return str or None, but plugin `model` returned int"):
        await bub(model=Toy(run_model=lambda: 7)).process_inbound(HELLO)


class Endless:
    """A stream that never ends by itself, and notes when it is closed."""

    def __init__(self, closed: list[float]) -> None:
        self.closed = closed

    def __aiter__(self) -> Endless:
        return self

    async def __anext__(self) -> StreamEvent:
        await trio.sleep(1)
        return StreamEvent.text(".")

    async def aclose(self) -> None:
        await trio.sleep(1)
        self.closed.append(trio.current_time())


async def test_a_stream_is_closed_when_the_turn_is_cancelled(bub: Workshop) -> None:
    closed: list[float] = []
    framework = bub(model=Toy(run_model_stream=lambda: Endless(closed)))
    with trio.move_on_after(5):
        await framework.process_inbound(HELLO)
    assert closed == [6.0]


async def test_who_watches_a_stream_and_fails_does_not_change_the_answer(bub: Workshop) -> None:
    framework = bub(model=Toy(run_model_stream=lambda: a_stream("one ", "two")))
    result = await framework.process_inbound(HELLO, on_event=lambda event, message: 1 / 0)
    assert result.model_output == "one two"


async def test_two_stages_can_call_one_hook_each_for_its_own_plugins(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks: {watch: {kind: observer}}
        stages:
          first: {kind: observer, hook: watch, only: [b]}
          second: {kind: observer, hook: watch, only: [a, c]}
        """,
        a=Toy(watch=noting(seen, "a")),
        b=Toy(watch=noting(seen, "b")),
        c=Toy(watch=noting(seen, "c")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["b", "c", "a"]


async def test_only_can_stand_at_the_hook_and_a_stage_overrides_it(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks: {watch: {kind: observer, only: [a]}}
        stages:
          first: {kind: observer, hook: watch}
          second: {kind: observer, hook: watch, only: [b]}
        """,
        a=Toy(watch=noting(seen, "a")),
        b=Toy(watch=noting(seen, "b")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["a", "b"]


async def test_implementations_say_that_they_come_first_or_last(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        "hooks: {watch: {kind: observer}}\nstages: {watch: {kind: observer}}",
        a=Toy(watch=noting(seen, "a")),
        b=Toy(watch=hookimpl(trylast=True)(noting(seen, "b"))),
        c=Toy(watch=hookimpl(tryfirst=True)(noting(seen, "c"))),
        d=Toy(watch=noting(seen, "d")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["c", "d", "a", "b"]


async def test_an_implementation_gets_what_it_names_and_nothing_else(bub: Workshop) -> None:
    given: dict[str, Any] = {}

    def save_state(session_id: str, *, model_output: str, more: str = "default", **rest: Any) -> None:
        given.update(session_id=session_id, model_output=model_output, more=more, rest=sorted(rest))

    framework = bub(model=Toy(run_model=lambda prompt, workspace=None: f"{prompt} {workspace}", save_state=save_state))
    await framework.process_inbound(HELLO)
    assert given == {
        "session_id": "cli:local",
        "model_output": f"hello {bub.folder}",
        "more": "default",
        "rest": ["fire", "inbound", "message", "profile", "state", "workspace"],
    }


MOODS = """
    extends: bub:default
    hooks: {moods: {kind: broadcast}, look: {kind: observer, takes: [mood]}}
    stages:
      moods: {kind: broadcast, combine: %s, into: mood, default: nobody said, before: run_model}
      look: {kind: observer, after: moods}
"""
"""A pipeline with a point of its own, of which no hook spec says what it returns."""


async def mood_of(bub: Workshop, combine: str, *said: Any) -> Any:
    """What some plugins come to whom a stage asks, the one of the highest priority first."""
    moods: list[Any] = []
    toys = {f"toy{number}": Toy(moods=lambda value=value: value) for number, value in enumerate(reversed(said))}
    toys["model"] = Toy(run_model=lambda: "hi", look=lambda mood: moods.append(mood))
    await bub(MOODS % combine, **toys).process_inbound(HELLO)
    return moods[0]


@pytest.mark.parametrize(
    ("combine", "said", "mood"),
    [
        ("merge", [{}, None], {}),
        ("merge", [None, {}, None], {}),
        ("merge", [None, None], "nobody said"),
        ("join", ["", None], ""),
        ("join", [None, None], "nobody said"),
        ("list", [None], [None]),
        ("concat", [[], None], "nobody said"),
        ("concat", [[], []], "nobody said"),
    ],
    ids=str,
)
async def test_an_empty_answer_of_some_counts_though_others_say_nothing(
    bub: Workshop, combine: str, said: list[Any], mood: Any
) -> None:
    assert await mood_of(bub, combine, *said) == mood


async def test_nobody_speaks_for_the_runtime_at_a_point_of_ones_own(bub: Workshop) -> None:
    low, high = {"_runtime_workspace": "/elsewhere", "a": 1}, {"_runtime_": 1, "_runtime_turn": {}, "b": 2, 3: "c"}
    assert await mood_of(bub, "merge", high, low) == {"a": 1, "b": 2, 3: "c"}


async def test_keys_that_are_no_text_are_kept_with_and_without_reserved_ones(bub: Workshop) -> None:
    assert await mood_of(bub, "merge", {1: "one", ("_runtime_",): 2, None: 3}) == {1: "one", ("_runtime_",): 2, None: 3}


async def test_what_is_not_combined_into_one_is_handed_on_as_it_was_said(bub: Workshop) -> None:
    """It is no state, so there is nobody to speak for."""
    said = [{"_runtime_workspace": "/elsewhere"}, "words", 7]
    assert await mood_of(bub, "list", *said) == said
