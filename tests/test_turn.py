"""A whole turn: what every key of a stage or a hook does, and how turns end."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, empty, note, noting, outcomes, raising

from bub import hookimpl
from bub.errors import BubError, HookTypeError, NoAnswerError
from bub.streaming import StreamEvent

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

UNCHECKED = "This could not be checked, so it was not done."


async def forever() -> Any:
    await trio.sleep_forever()


def sleeping(seconds: float, seen: list[Any] | None = None, name: str = "", answer: Any = None) -> Any:
    """An implementation that takes a while, notes that it came through, and answers."""

    async def sleep() -> Any:
        await trio.sleep(seconds)
        if seen is not None:
            seen.append(name)
        return answer

    return sleep


# Kinds: how the implementations of a stage are called and what they come to.

ONE_STAGE = """
hooks:
  ask: {{kind: {kind}}}
  look: {{kind: observer, takes: [found]}}
stages:
  ask: {{kind: {kind}, {more}}}
  look: {{kind: observer}}
"""


def one_stage(kind: str, more: str) -> str:
    return ONE_STAGE.format(kind=kind, more=more)


async def found_by(bub: Workshop, kind: str, more: str, *answers: Callable[[], Any]) -> Any:
    """What a stage of one kind makes of its implementations, the lowest priority given first."""
    seen: list[Any] = []
    plugins = {f"p{index}": Toy(ask=answer) for index, answer in enumerate(answers)}
    framework = bub(one_stage(kind, f"into: found, {more}"), **plugins, last=Toy(look=lambda found: seen.append(found)))
    await framework.process_inbound(HELLO)
    return seen[0]


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


# `hook`, `only` and priorities.


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


# Order: `needs`, `before`, `after`.


async def test_stages_wait_for_all_above_unless_needs_says_otherwise(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks: {slow: {kind: observer}, quick: {kind: observer}, last: {kind: observer}}
        stages:
          slow: {kind: observer}
          quick: {kind: observer, needs: []}
          last: {kind: observer}
        """,
        toy=Toy(slow=sleeping(3, seen, "slow"), quick=sleeping(1, seen, "quick"), last=noting(seen, "last")),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == ["quick", "slow", "last"]
    assert trio.current_time() == pytest.approx(3.0)
    assert [record.stage for record in result.trace] == ["quick", "slow", "last"]


async def test_needs_names_what_a_stage_waits_for_beside_the_makers_of_its_values(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks:
          make: {kind: firstresult}
          other: {kind: observer}
          slowest: {kind: observer}
          take: {kind: observer, takes: [made]}
        stages:
          make: {kind: firstresult, into: made}
          other: {kind: observer, needs: []}
          slowest: {kind: observer, needs: []}
          take: {kind: observer, needs: [other]}
        """,
        toy=Toy(
            make=sleeping(4, answer="it"),
            other=sleeping(3, seen, "other"),
            slowest=sleeping(9, seen, "slowest"),
            take=lambda made: seen.append((made, trio.current_time())),
        ),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["other", ("it", 4.0), "slowest"]


async def test_nothing_passes_a_gate_or_runs_beside_it(bub: Workshop) -> None:
    seen: list[Any] = []

    async def judge() -> dict[str, str]:
        seen.append("judging")
        await trio.sleep(5)
        return {"deny": "no"}

    framework = bub(
        """
        hooks: {above: {kind: observer}, judge: {kind: gate}, below: {kind: observer}}
        stages:
          above: {kind: observer, needs: []}
          judge: {kind: gate, needs: []}
          below: {kind: observer, needs: []}
        """,
        toy=Toy(above=sleeping(2, seen, "above"), judge=judge, below=noting(seen, "below")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["above", "judging"]


async def test_the_first_failure_side_by_side_cancels_the_others_and_leaves_by_itself(bub: Workshop) -> None:
    seen: list[Any] = []
    broken = ValueError("broken")

    async def fail() -> None:
        await trio.sleep(1)
        raise broken

    errors = Errors()
    framework = bub(
        """
        hooks: {fail: {kind: firstresult}, slow: {kind: observer}, last: {kind: observer}}
        stages:
          fail: {kind: firstresult}
          slow: {kind: observer, needs: []}
          last: {kind: observer}
        """,
        toy=Toy(fail=fail, slow=sleeping(9, seen, "slow"), last=noting(seen, "last"), on_error=errors.told),
    )
    with pytest.raises(ValueError, match="broken") as caught:
        await framework.process_inbound(HELLO)
    assert caught.value is broken
    assert errors.all == [("turn", broken)]
    assert seen == []
    assert trio.current_time() == pytest.approx(1.0)


async def test_a_new_stage_stands_where_before_and_after_say(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        extends: bub:default
        hooks: {one: {kind: observer}, two: {kind: observer}, three: {kind: observer}, four: {kind: observer}}
        stages:
          one: {kind: observer, before: run_model}
          two: {kind: observer, before: run_model}
          three: {kind: observer, after: run_model}
          four: {kind: observer, after: three}
        """,
        toy=Toy(
            build_prompt=noting(seen, "prompt"),
            run_model=noting(seen, "model", "hi"),
            save_state=noting(seen, "save"),
            **{name: noting(seen, name) for name in ("one", "two", "three", "four")},
        ),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["prompt", "one", "two", "model", "three", "four", "save"]


async def test_a_stage_may_make_a_new_version_of_a_value_it_takes(bub: Workshop) -> None:
    framework = bub(
        """
        extends: bub:default
        hooks: {louder: {kind: firstresult, takes: [prompt]}}
        stages: {louder: {kind: firstresult, into: prompt, after: build_prompt}}
        """,
        toy=Toy(louder=lambda prompt: prompt.upper(), run_model=lambda prompt: f"re: {prompt}"),
    )
    result = await framework.process_inbound(HELLO)
    assert (result.prompt, result.model_output) == ("HELLO", "re: HELLO")


# `default`, `default_if`.


def defaulting(default: str, more: str = "") -> str:
    return f"extends: bub:default\nstages: {{build_prompt: {{default: {default}, {more or 'default_if: falsy'}}}}}"


@pytest.mark.parametrize(
    ("default", "prompt"),
    [
        ("'{content} from {sender_id}'", "hello from ada"),
        ("'[{nothing}]'", "[]"),
        ("'{number}'", 7),
        ("'{message}'", {**HELLO, "sender_id": "ada", "number": 7, "session_id": "cli:local"}),
        ("{said: '{content}', dropped: '{nothing}', kept: 'a {nothing}'}", {"said": "hello", "kept": "a "}),
        ("[{text: '{content}'}, '{nothing}', 5]", [{"text": "hello"}, 5]),
        ("'{{content}} is {content}'", "{content} is hello"),
        ("'{{content}}'", "{content}"),
        ("'{session_id} in {profile}'", "cli:local in default"),
        ("12", 12),
        ("false", False),
    ],
)
async def test_a_default_is_any_value_with_names_filled_in(bub: Workshop, default: str, prompt: Any) -> None:
    framework = bub(defaulting(default), model=Toy(run_model=lambda: "hi"))
    result = await framework.process_inbound({**HELLO, "sender_id": "ada", "number": 7})
    assert result.prompt == prompt
    assert outcomes(result)["build_prompt"] == "default"


async def test_a_default_is_fresh_for_every_turn(bub: Workshop) -> None:
    framework = bub(
        "extends: bub:classic", toy=Toy(run_model=lambda state: str(state), save_state=lambda state: state.update(x=1))
    )
    for _ in range(2):
        assert (await framework.process_inbound(HELLO)).model_output == "{}"


@pytest.mark.parametrize(("default_if", "prompt"), [("none", ""), ("falsy", "fallback")])
async def test_default_if_says_whether_a_falsy_answer_counts(bub: Workshop, default_if: str, prompt: str) -> None:
    framework = bub(
        defaulting("fallback", f"default_if: {default_if}"), toy=Toy(run_model=lambda: "hi", build_prompt=lambda: "")
    )
    assert (await framework.process_inbound(HELLO)).prompt == prompt


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


# `when`, `enabled`.


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("{channel: cli}", True),
        ("{channel: telegram}", False),
        ("{channel: '[ct]*', chat_id: 'l?cal'}", True),
        ("{channel: cli, chat_id: other}", False),
        ("{content: 'hel*'}", True),
        ("{content: HELLO}", False),
        ("{session_id: 'cli:*'}", True),
        ("{kind: command}", False),
        ("{kind: '*'}", False),
        ("{sender_id: 'ad*'}", True),
    ],
)
async def test_when_matches_the_current_message(bub: Workshop, when: str, runs: bool) -> None:
    seen: list[Any] = []
    framework = bub(
        f"""
        extends: bub:default
        hooks: {{watch: {{kind: observer}}}}
        stages: {{watch: {{kind: observer, when: {when}, before: run_model}}}}
        """,
        toy=Toy(run_model=lambda: "hi", watch=noting(seen, "ran")),
    )
    result = await framework.process_inbound({**HELLO, "sender_id": "ada"})
    assert seen == (["ran"] if runs else [])
    assert outcomes(result)["watch"] == ("ok" if runs else "skipped")


async def test_when_session_new_is_true_once_for_every_session(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        extends: bub:default
        stages: {session_start: {kind: void, when: {session: new}, after: resolve_session}}
        """,
        toy=Toy(run_model=lambda: "hi", session_start=lambda session_id: seen.append(session_id)),
    )
    for chat_id in ("1", "1", "2", "1"):
        await framework.process_inbound({**HELLO, "chat_id": chat_id})
    assert seen == ["cli:1", "cli:2"]


async def test_a_gate_whose_when_does_not_match_allows_and_the_trace_says_so(bub: Workshop) -> None:
    framework = bub(
        """
        extends: bub:default
        hooks: {judge: {kind: gate}}
        stages: {judge: {kind: gate, when: {channel: telegram}, before: run_model}}
        """,
        toy=Toy(run_model=lambda: "hi", judge=lambda: {"deny": "never"}),
    )
    result = await framework.process_inbound(HELLO)
    assert (result.model_output, outcomes(result)["judge"]) == ("hi", "skipped")
    assert (await framework.process_inbound({**HELLO, "channel": "telegram"})).ended_by == "denied:judge"


@pytest.mark.parametrize(
    ("key", "outcome"), [("enabled: false", "off"), ("when: {channel: nowhere}", "skipped")], ids=["off", "skipped"]
)
async def test_a_stage_that_does_not_run_yields_its_default_or_nothing(bub: Workshop, key: str, outcome: str) -> None:
    asked: list[Any] = []
    framework = bub(
        f"""
        extends: bub:default
        hooks: {{amend: {{kind: modifying, takes: [prompt]}}}}
        stages:
          load_state: {{{key}}}
          build_prompt: {{{key}}}
          amend: {{kind: modifying, changes: [prompt], after: build_prompt, {key}}}
        """,
        toy=Toy(
            load_state=noting(asked, "state", {"a": 1}),
            build_prompt=noting(asked, "prompt", "x"),
            amend=noting(asked, "amend", {"prompt": "y"}),
            run_model=lambda prompt: f"re: {prompt}",
        ),
    )
    result = await framework.process_inbound(HELLO)
    assert asked == []
    assert (result.state, result.prompt, result.model_output) == ({}, "hello", "re: hello")
    assert {outcomes(result)[stage] for stage in ("load_state", "build_prompt", "amend")} == {outcome}


async def test_needs_on_a_stage_that_is_off_is_met(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks: {gone: {kind: observer}, after_it: {kind: observer}}
        stages:
          gone: {kind: observer, enabled: false}
          after_it: {kind: observer, needs: [gone]}
        """,
        toy=Toy(gone=noting(seen, "gone"), after_it=noting(seen, "after")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["after"]


# `on_failure`.


@pytest.mark.parametrize("kind", ["firstresult", "broadcast", "stream"])
async def test_an_answering_stage_propagates_the_first_failure(bub: Workshop, kind: str) -> None:
    asked: list[Any] = []
    broken = ValueError("broken")
    framework = bub(
        f"hooks: {{ask: {{kind: {kind}}}}}\nstages: {{ask: {{kind: {kind}, into: found}}}}",
        low=Toy(ask=noting(asked, "low", "text")),
        high=Toy(ask=raising(broken)),
    )
    with pytest.raises(ValueError, match="broken") as caught:
        await framework.process_inbound(HELLO)
    assert caught.value is broken
    assert asked == []


@pytest.mark.parametrize(("kind", "found"), [("firstresult", "low"), ("broadcast", ["low"]), ("stream", "low")])
@pytest.mark.parametrize("where", ["stage", "hook", "pipeline"])
async def test_skip_leaves_out_who_fails_and_asks_the_next(bub: Workshop, kind: str, found: Any, where: str) -> None:
    skip = {where: "on_failure: skip"}
    seen: list[Any] = []
    errors = Errors()
    framework = bub(
        f"""
        {skip.get("pipeline", "description: none")}
        hooks:
          ask: {{kind: {kind}, {skip.get("hook", "")}}}
          look: {{kind: observer, takes: [found]}}
        stages:
          ask: {{kind: {kind}, into: found, default: 'nobody', {skip.get("stage", "")}}}
          look: {{kind: observer}}
        """,
        low=Toy(ask=lambda: "low", look=lambda found: seen.append(found), on_error=errors.told),
        high=Toy(ask=raising(ValueError("broken"))),
    )
    await framework.process_inbound(HELLO)
    assert seen == [found]
    assert errors.stages == ["ask:high"]


async def test_skip_with_nobody_left_yields_the_default(bub: Workshop) -> None:
    framework = bub(
        "extends: bub:default\nstages: {run_model: {on_failure: skip, default: 'sorry', only: [toy]}}",
        toy=Toy(run_model=raising(ValueError("down"))),
    )
    result = await framework.process_inbound(HELLO)
    assert (result.model_output, outcomes(result)["run_model"]) == ("sorry", "default")


@pytest.mark.parametrize("kind", ["observer", "void", "modifying", "claiming"])
async def test_a_watching_stage_can_be_told_to_propagate(bub: Workshop, kind: str) -> None:
    more = ", changes: [message]" if kind == "modifying" else ""
    framework = bub(
        f"""
        hooks: {{watch: {{kind: {kind}}}, last: {{kind: observer}}}}
        stages:
          watch: {{kind: {kind}, on_failure: propagate{more}}}
          last: {{kind: observer}}
        """,
        toy=Toy(watch=raising(ValueError("broken")), last=lambda: None),
    )
    with pytest.raises(ValueError, match="broken"):
        await framework.process_inbound(HELLO)


# `timeout`.

TIMED = """
extends: bub:default
stages: {{run_model: {{timeout: 5s, {more}}}}}
"""


@pytest.mark.parametrize("form", ["run_model", "run_model_stream"])
async def test_a_stage_that_takes_too_long_fails_the_turn(bub: Workshop, form: str) -> None:
    errors = Errors()
    slow: Any = forever if form == "run_model" else (lambda: a_stream("a", 4.0, "b", 4.0, "c"))
    framework = bub(TIMED.format(more=""), toy=Toy(on_error=errors.told, **{form: slow}))
    with pytest.raises(trio.TooSlowError, match="stage `run_model` took longer than 5 seconds") as caught:
        await framework.process_inbound(HELLO)
    assert errors.all == [("turn", caught.value)]
    assert trio.current_time() == pytest.approx(5.0)


async def test_a_timeout_counts_for_all_implementations_together(bub: Workshop) -> None:
    low = Toy(run_model=sleeping(3, answer="late"))
    framework = bub(TIMED.format(more=""), low=low, high=Toy(run_model=sleeping(3)))
    with pytest.raises(trio.TooSlowError):
        await framework.process_inbound(HELLO)


async def test_a_timeout_that_is_kept_changes_nothing(bub: Workshop) -> None:
    framework = bub(TIMED.format(more=""), toy=Toy(run_model=sleeping(4.9, answer="in time")))
    assert (await framework.process_inbound(HELLO)).model_output == "in time"


@pytest.mark.parametrize("form", ["run_model", "run_model_stream"])
async def test_with_skip_a_late_stage_counts_as_unanswered(bub: Workshop, form: str) -> None:
    errors = Errors()
    slow: Any = forever if form == "run_model" else (lambda: a_stream("half", 9.0))
    framework = bub(
        TIMED.format(more="on_failure: skip, default: 'too late for {content}'"),
        toy=Toy(on_error=errors.told, **{form: slow}),
    )
    result = await framework.process_inbound(HELLO)
    assert result.model_output == "too late for hello"
    assert outcomes(result)["run_model"] == "timeout"
    assert errors.stages == ["run_model"]
    assert isinstance(errors.all[0][1], trio.TooSlowError)


@pytest.mark.parametrize("kind", ["firstresult", "stream"])
async def test_a_late_stage_without_a_default_has_no_answer(bub: Workshop, kind: str) -> None:
    framework = bub(
        f"""
        hooks: {{ask: {{kind: {kind}}}}}
        stages: {{ask: {{kind: {kind}, into: found, timeout: 5s, on_failure: skip}}}}
        """,
        toy=Toy(ask=forever),
    )
    with pytest.raises(NoAnswerError, match="no plugin answered stage `ask`"):
        await framework.process_inbound(HELLO)


@pytest.mark.parametrize(("kind", "more"), [("observer", ""), ("void", ""), ("modifying", ", changes: [message]")])
async def test_a_late_watcher_does_not_stop_the_turn(bub: Workshop, kind: str, more: str) -> None:
    seen: list[Any] = []
    errors = Errors()
    framework = bub(
        f"""
        hooks: {{watch: {{kind: {kind}, timeout: 5s}}, last: {{kind: observer}}}}
        stages:
          watch: {{kind: {kind}{more}}}
          last: {{kind: observer}}
        """,
        toy=Toy(watch=forever, last=lambda message: seen.append(message["content"]), on_error=errors.told),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["hello"]
    assert errors.stages == ["watch"]


async def test_a_late_claim_is_no_claim(bub: Workshop) -> None:
    framework = bub(
        "extends: bub:default\nstages: {inbound_claim: {kind: claiming, timeout: 1s, before: resolve_session}}",
        toy=Toy(inbound_claim=forever, run_model=lambda: "hi"),
    )
    assert (await framework.process_inbound(HELLO)).model_output == "hi"


async def test_for_each_item_the_time_starts_anew(bub: Workshop) -> None:
    sent: list[Any] = []
    errors = Errors()

    async def dispatch_outbound(message: Any) -> None:
        await trio.sleep(message["seconds"])
        sent.append(message["seconds"])

    framework = bub(
        "extends: bub:default\nstages: {dispatch_outbound: {timeout: 5s, on_failure: skip}}",
        toy=Toy(
            run_model=lambda: "hi",
            render_outbound=lambda: [{"seconds": seconds} for seconds in (4, 6, 3)],
            dispatch_outbound=dispatch_outbound,
            on_error=errors.told,
        ),
    )
    await framework.process_inbound(HELLO)
    assert sent == [4, 3]
    assert errors.stages == ["dispatch_outbound"]
    assert trio.current_time() == pytest.approx(12.0)


# `retry`.


def failing_first(times: int, asked: list[float], answer: Any = "at last") -> Any:
    """An implementation that fails a few times before it answers, and notes when it was asked."""

    def attempt() -> Any:
        asked.append(trio.current_time())
        if len(asked) <= times:
            raise ConnectionError(f"attempt {len(asked)}")
        return answer() if callable(answer) else answer

    return attempt


RETRYING = "extends: bub:default\nstages: {run_model: {retry: {times: 2, backoff: 1s}, timeout: 60s}}"


@pytest.mark.parametrize("form", ["run_model", "run_model_stream"])
async def test_who_fails_is_asked_again_after_a_pause(bub: Workshop, form: str) -> None:
    asked: list[float] = []
    answer: Any = "at last" if form == "run_model" else (lambda: a_stream("at ", "last"))
    framework = bub(RETRYING, toy=Toy(**{form: failing_first(2, asked, answer)}))
    assert (await framework.process_inbound(HELLO)).model_output == "at last"
    assert len(asked) == 3
    assert asked[1] - asked[0] >= 1
    assert asked[2] - asked[1] >= 1


@pytest.mark.parametrize("kind", ["firstresult", "broadcast"])
async def test_every_answering_kind_can_retry(bub: Workshop, kind: str) -> None:
    asked: list[float] = []
    retry = "retry: {times: 1, backoff: 2s}"
    found = await found_by(bub, kind, retry, failing_first(1, asked))
    assert found == ("at last" if kind == "firstresult" else ["at last"])
    assert asked == pytest.approx([0.0, 2.0])


async def test_when_every_attempt_fails_the_last_failure_counts(bub: Workshop) -> None:
    asked: list[float] = []
    with pytest.raises(ConnectionError, match="attempt 3"):
        await bub(RETRYING, toy=Toy(run_model=failing_first(9, asked))).process_inbound(HELLO)
    assert len(asked) == 3


async def test_retries_count_into_the_time_of_the_stage(bub: Workshop) -> None:
    asked: list[float] = []
    framework = bub(
        "extends: bub:default\nstages: {run_model: {retry: {times: 9, backoff: 3s}, timeout: 4s}}",
        toy=Toy(run_model=failing_first(99, asked)),
    )
    with pytest.raises(trio.TooSlowError):
        await framework.process_inbound(HELLO)
    assert trio.current_time() == pytest.approx(4.0)


async def test_a_stream_is_never_asked_again_once_it_has_begun(bub: Workshop) -> None:
    asked: list[float] = []
    framework = bub(
        RETRYING, toy=Toy(run_model_stream=failing_first(0, asked, lambda: a_stream("half", ConnectionError("cut"))))
    )
    with pytest.raises(ConnectionError, match="cut"):
        await framework.process_inbound(HELLO)
    assert len(asked) == 1


async def test_a_stream_that_fails_before_its_first_event_is_asked_again(bub: Workshop) -> None:
    asked: list[float] = []
    streams = [a_stream(ConnectionError("refused")), a_stream("fine")]
    framework = bub(RETRYING, toy=Toy(run_model_stream=failing_first(0, asked, lambda: streams.pop(0))))
    assert (await framework.process_inbound(HELLO)).model_output == "fine"
    assert len(asked) == 2


# `thread`.


@pytest.mark.parametrize("where", ["stage", "hook"])
@pytest.mark.parametrize("kind", ["firstresult", "broadcast", "observer", "void", "gate"])
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_thread_runs_plain_functions_in_another_thread(bub: Workshop, where: str, kind: str) -> None:
    threads: list[int] = []
    key = {where: "thread: true"}

    async def waiting() -> None:
        threads.append(threading.get_ident())

    framework = bub(
        f"""
        hooks: {{work: {{kind: {kind}, {key.get("hook", "")}}}, last: {{kind: observer}}}}
        stages:
          work: {{kind: {kind}, {"default: null," if kind == "firstresult" else ""} {key.get("stage", "")}}}
          last: {{kind: observer}}
        """,
        plain=Toy(work=lambda: note(threads, threading.get_ident(), "done" if kind == "firstresult" else None)),
        waiting=Toy(work=waiting, last=lambda: None),
    )
    await framework.process_inbound(HELLO)
    assert len(threads) == 2
    assert [thread == threading.get_ident() for thread in threads].count(True) == 1


async def test_a_thread_that_takes_too_long_is_left_behind(bub: Workshop) -> None:
    release, finished = threading.Event(), threading.Event()

    def run_model() -> str:
        release.wait(10)
        finished.set()
        return "never"

    framework = bub(
        "extends: bub:default\nstages: {run_model: {thread: true, timeout: 5s, on_failure: skip, default: 'too late'}}",
        toy=Toy(run_model=run_model),
    )
    try:
        assert (await framework.process_inbound(HELLO)).model_output == "too late"
        assert trio.current_time() == pytest.approx(5.0)
        assert not finished.is_set()
    finally:
        release.set()


# `cleanup_for`.

WORK = """
hooks:
  work: {{kind: firstresult}}
  tidy: {{kind: {kind}, takes: [done, message]}}
  last: {{kind: observer}}
stages:
  work: {{kind: firstresult, into: done}}
  tidy: {{kind: {kind}, cleanup_for: work, timeout: 5s}}
  last: {{kind: observer, on_failure: propagate}}
"""


@pytest.mark.parametrize("kind", ["broadcast", "observer", "void"])
async def test_a_cleanup_is_an_ordinary_stage_where_all_goes_well(bub: Workshop, kind: str) -> None:
    seen: list[Any] = []
    framework = bub(
        WORK.format(kind=kind),
        toy=Toy(work=lambda: "it", tidy=lambda done: seen.append(f"tidy {done}"), last=noting(seen, "last")),
    )
    assert outcomes(await framework.process_inbound(HELLO))["tidy"] == "ok"
    assert seen == ["tidy it", "last"]


@pytest.mark.parametrize("kind", ["broadcast", "observer", "void"])
async def test_a_cleanup_runs_when_its_target_fails_and_is_told_that_nothing_was_made(bub: Workshop, kind: str) -> None:
    seen: list[Any] = []
    toy = Toy(work=raising(ValueError("broken")), tidy=lambda done: seen.append(done), last=noting(seen, "last"))
    with pytest.raises(ValueError, match="broken"):
        await bub(WORK.format(kind=kind), toy=toy).process_inbound(HELLO)
    assert seen == [None]


@pytest.mark.parametrize("kind", ["broadcast", "observer", "void"])
async def test_a_cleanup_runs_shielded_when_the_turn_is_cancelled(bub: Workshop, kind: str) -> None:
    seen: list[Any] = []
    framework = bub(
        WORK.format(kind=kind),
        low=Toy(work=forever, tidy=sleeping(4, seen, "low"), last=noting(seen, "last")),
        high=Toy(tidy=sleeping(4, seen, "high")),
    )
    with trio.move_on_after(1) as scope:
        await framework.process_inbound(HELLO)
    assert scope.cancelled_caught
    assert sorted(seen) == ["high", "low"]


@pytest.mark.parametrize("kind", ["broadcast", "observer", "void"])
async def test_a_cancellation_does_not_stop_a_cleanup_that_has_begun(bub: Workshop, kind: str) -> None:
    seen: list[Any] = []
    framework = bub(
        WORK.format(kind=kind), toy=Toy(work=lambda: "it", tidy=sleeping(4, seen, "tidy"), last=sleeping(1, seen))
    )
    with trio.move_on_after(1):
        await framework.process_inbound(HELLO)
    assert seen == ["tidy"]


async def test_a_cleanup_runs_once_even_if_a_later_stage_fails(bub: Workshop) -> None:
    seen: list[Any] = []
    toy = Toy(work=lambda: "it", tidy=noting(seen, "tidy"), last=raising(ValueError("late")))
    with pytest.raises(ValueError, match="late"):
        await bub(WORK.format(kind="broadcast"), toy=toy).process_inbound(HELLO)
    assert seen == ["tidy"]


async def test_a_cleanup_does_not_run_when_its_target_never_started(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks: {first: {kind: firstresult}, work: {kind: observer}, tidy: {kind: observer}}
        stages:
          first: {kind: firstresult}
          work: {kind: observer}
          tidy: {kind: observer, cleanup_for: work, timeout: 5s}
        """,
        toy=Toy(first=raising(ValueError("early")), work=lambda: None, tidy=noting(seen, "tidy")),
    )
    with pytest.raises(ValueError, match="early"):
        await framework.process_inbound(HELLO)
    assert seen == []


async def test_cleanups_unwind_in_reverse_order(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks:
          open_a: {kind: observer}
          open_b: {kind: observer}
          work: {kind: firstresult}
          close_a: {kind: observer}
          close_b: {kind: observer}
        stages:
          open_a: {kind: observer}
          open_b: {kind: observer}
          work: {kind: firstresult}
          close_a: {kind: observer, cleanup_for: open_a, timeout: 5s}
          close_b: {kind: observer, cleanup_for: open_b, timeout: 5s}
        """,
        toy=Toy(
            work=raising(ValueError("broken")),
            **{name: noting(seen, name) for name in ("open_a", "open_b", "close_a", "close_b")},
        ),
    )
    with pytest.raises(ValueError, match="broken"):
        await framework.process_inbound(HELLO)
    assert seen == ["open_a", "open_b", "close_b", "close_a"]


async def test_the_time_of_a_cleanup_counts_for_each_implementation(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        WORK.format(kind="broadcast"),
        low=Toy(work=lambda: "it", tidy=sleeping(4, seen, "low"), last=noting(seen, "last")),
        high=Toy(tidy=sleeping(4, seen, "high")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["high", "low", "last"]


async def test_a_cleanup_that_hangs_keeps_no_other_from_running_and_counts_as_the_first_error(bub: Workshop) -> None:
    seen: list[Any] = []
    errors = Errors()
    framework = bub(
        WORK.format(kind="broadcast"),
        low=Toy(work=lambda: "it", tidy=sleeping(4, seen, "low"), last=noting(seen, "last"), on_error=errors.told),
        middle=Toy(tidy=raising(OSError("second"))),
        high=Toy(tidy=forever),
    )
    with pytest.raises(trio.TooSlowError) as caught:
        await framework.process_inbound(HELLO)
    assert seen == ["low"]
    assert errors.stages == ["tidy:middle", "turn"]
    assert errors.all[1][1] is caught.value


@pytest.mark.parametrize("kind", ["observer", "void"])
async def test_a_watching_cleanup_that_hangs_is_told_and_the_turn_goes_on(bub: Workshop, kind: str) -> None:
    seen: list[Any] = []
    errors = Errors()
    framework = bub(
        WORK.format(kind=kind),
        low=Toy(work=lambda: "it", tidy=sleeping(4, seen, "low"), last=noting(seen, "last"), on_error=errors.told),
        middle=Toy(tidy=raising(OSError("broken"))),
        high=Toy(tidy=forever),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["low", "last"]
    assert sorted(errors.stages) == ["tidy:high", "tidy:middle"]


# `for_each`.

EACH = """
extends: bub:default
hooks: {polish: {kind: modifying}, judge: {kind: gate}, deliver: {kind: claiming}, note: {kind: void}}
stages:
  polish: {kind: modifying, for_each: outbounds, changes: [message], before: dispatch_outbound}
  judge: {kind: gate, for_each: outbounds, before: dispatch_outbound}
  deliver: {kind: claiming, for_each: outbounds, before: dispatch_outbound}
  note: {kind: void, for_each: outbounds, after: dispatch_outbound}
"""


def replying(*contents: str, **hooks: Any) -> Toy:
    """A plugin with several replies."""
    return Toy(run_model=lambda: "hi", render_outbound=lambda: [{"content": content} for content in contents], **hooks)


def step(seen: list[str], name: str, answer: Callable[[str], Any] = lambda content: None) -> Any:
    """An implementation for each item that notes what it was called with."""

    def take(message: Any) -> Any:
        seen.append(f"{name} {message['content']}")
        return answer(message["content"])

    return take


async def test_neighbours_over_one_list_run_item_by_item(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        EACH,
        toy=replying(
            "a",
            "b",
            polish=step(seen, "polish", lambda content: {"message": {"content": content.upper()}}),
            judge=step(seen, "judge"),
            deliver=step(seen, "deliver"),
            dispatch_outbound=step(seen, "dispatch"),
            note=step(seen, "note"),
        ),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == [
        *("polish a", "judge A", "deliver A", "dispatch A", "note A"),
        *("polish b", "judge B", "deliver B", "dispatch B", "note B"),
    ]
    assert result.outbounds == [{"content": "A"}, {"content": "B"}]
    assert result.ended_by is None


async def test_for_each_item_a_gate_or_a_claim_takes_it_out(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        EACH,
        toy=replying(
            *"abc",
            polish=lambda: None,
            judge=lambda message: {"deny": "rude"} if message["content"] == "a" else None,
            deliver=lambda message: {"handled": message["content"] == "b"},
            dispatch_outbound=step(seen, "dispatch"),
            note=step(seen, "note"),
        ),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == ["dispatch c", "note c"]
    assert result.outbounds == [{"content": "c"}]
    assert result.ended_by is None


async def test_a_gate_that_breaks_on_an_item_takes_only_that_one_out(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        EACH,
        toy=replying(
            *"ab",
            polish=lambda: None,
            judge=step([], "judge", lambda content: 1 / 0 if content == "a" else None),
            deliver=lambda: None,
            dispatch_outbound=step(seen, "dispatch"),
            note=lambda: None,
        ),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["dispatch b"]


async def test_a_failing_item_stops_for_itself_and_the_first_failure_leaves_at_the_end(bub: Workshop) -> None:
    seen: list[str] = []

    def fail_on_some(content: str) -> None:
        if content in "ac":
            raise ConnectionError(content)

    framework = bub(
        EACH,
        toy=replying(
            *"abcd",
            polish=lambda: None,
            judge=lambda: None,
            deliver=lambda: None,
            dispatch_outbound=step(seen, "dispatch", fail_on_some),
            note=step(seen, "note"),
        ),
    )
    with pytest.raises(ConnectionError) as caught:
        await framework.process_inbound(HELLO)
    assert caught.value.args == ("a",)
    assert seen == ["dispatch a", "dispatch b", "note b", "dispatch c", "dispatch d", "note d"]


async def test_a_stage_for_each_item_gathers_what_it_makes(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks:
          parts: {kind: firstresult}
          measure: {kind: broadcast}
          look: {kind: observer, takes: [lengths]}
        stages:
          parts: {kind: firstresult, into: texts}
          measure: {kind: broadcast, for_each: texts, into: lengths, combine: list}
          look: {kind: observer}
        """,
        low=Toy(
            parts=lambda: ["a", "bcd"],
            measure=lambda message: len(message),
            look=lambda lengths: seen.extend(lengths),
        ),
        high=Toy(measure=lambda message: message.upper()),
    )
    await framework.process_inbound(HELLO)
    assert seen == [["A", 1], ["BCD", 3]]


@pytest.mark.parametrize("kind", ["observer", "void", "broadcast"])
async def test_who_only_looks_at_the_items_leaves_the_value_as_it_is(bub: Workshop, kind: str) -> None:
    seen: list[Any] = []
    framework = bub(
        f"""
        hooks: {{text: {{kind: firstresult}}, look: {{kind: {kind}}}, last: {{kind: observer, takes: [text]}}}}
        stages:
          text: {{into: text}}
          look: {{for_each: text}}
          last: {{}}
        """,
        toy=Toy(
            text=lambda: "one text", look=lambda message: seen.append(message), last=lambda text: seen.append([text])
        ),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["one text", ["one text"]]


async def test_a_stage_that_makes_its_own_list_anew_is_heard(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        hooks: {parts: {kind: firstresult}, shout: {kind: broadcast}, look: {kind: observer, takes: [texts]}}
        stages:
          parts: {into: texts}
          shout: {for_each: texts, into: texts, combine: join}
          look: {}
        """,
        toy=Toy(parts=lambda: ["a", "b"], shout=lambda message: message.upper(), look=lambda texts: seen.extend(texts)),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["A", "B"]


async def test_who_watches_the_replies_beside_others_takes_none_away(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        """
        extends: bub:default
        hooks: {watch: {kind: observer}, pause: {kind: observer}}
        stages:
          watch: {for_each: outbounds, after: render_outbound}
          pause: {after: watch}
          dispatch_outbound: {needs: [render_outbound]}
        """,
        toy=replying("a", watch=sleeping(1), pause=lambda: None, dispatch_outbound=step(seen, "dispatch")),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == ["dispatch a"]
    assert result.outbounds == [{"content": "a"}]


async def test_one_reply_that_is_no_list_is_a_list_of_one_in_the_result(bub: Workshop) -> None:
    framework = bub(
        """
        hooks: {greet: {kind: firstresult}}
        stages: {greet: {into: outbounds}}
        """,
        toy=Toy(greet=lambda: {"content": "hi"}),
    )
    result = await framework.process_inbound(HELLO)
    assert result.outbounds == [{"content": "hi"}]


async def test_behind_the_items_the_message_is_the_turns_own_again(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        extends: bub:default
        hooks: {last: {kind: observer}}
        stages: {last: {kind: observer, after: dispatch_outbound}}
        """,
        toy=replying("reply", last=lambda message: seen.append(message["content"])),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["hello"]


async def test_when_is_held_against_each_item(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        "extends: bub:default\nstages: {dispatch_outbound: {when: {content: 'b*'}}}",
        toy=replying("a", "b", "bb", dispatch_outbound=step(seen, "dispatch")),
    )
    await framework.process_inbound(HELLO)
    assert seen == ["dispatch b", "dispatch bb"]


# Gates and claims of the turn.

GATED = """
extends: bub:default
hooks: {judge: {kind: gate, takes: [prompt]}, polish: {kind: modifying}}
stages:
  judge: {kind: gate, timeout: 5s, before: run_model}
  polish: {kind: modifying, for_each: outbounds, changes: [message], before: dispatch_outbound}
"""


async def test_a_denied_turn_delivers_one_reply_with_the_reason(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        GATED,
        low=Toy(
            judge=noting(seen, "asked too late"),
            polish=lambda message: {"message": {**message, "polished": True}},
        ),
        high=Toy(
            judge=lambda prompt: {"deny": f"`{prompt}` is not allowed"},
            dispatch_outbound=lambda message: seen.append(message),
            **{name: noting(seen, name) for name in ("run_model", "save_state", "render_outbound")},
        ),
    )
    result = await framework.process_inbound(HELLO)
    reply = {
        "content": "`hello` is not allowed",
        "kind": "denied",
        "polished": True,
        "session_id": "cli:local",
        "channel": "cli",
        "chat_id": "local",
    }
    assert seen == [reply]
    assert result.outbounds == [reply]
    assert (result.ended_by, result.model_output, result.prompt) == ("denied:judge", None, "hello")
    assert outcomes(result)["judge"] == "denied"
    assert "run_model" not in outcomes(result)
    assert [record.implementation for record in result.trace if record.stage == "judge"] == ["high"]


@pytest.mark.parametrize(
    "broken",
    [
        raising(ValueError("secret detail")),
        forever,
        lambda: True,
        lambda: False,
        lambda: "no",
        empty,
        lambda: {"deny": 1},
        lambda: {"deny": None},
        lambda: {"deny": "x", "more": 1},
    ],
    ids=["fails", "hangs", "true", "false", "text", "empty", "no text", "none", "too much"],
)
async def test_a_gate_that_breaks_denies_with_a_fixed_sentence(bub: Workshop, broken: Any) -> None:
    errors = Errors()
    asked: list[Any] = []
    toy = Toy(judge=broken, polish=lambda: None, run_model=noting(asked, "model", "hi"), on_error=errors.told)
    result = await bub(GATED, toy=toy).process_inbound(HELLO)
    assert result.ended_by == "denied:judge"
    assert asked == []
    (reply,) = result.outbounds or [{}]
    assert (reply["kind"], reply["content"]) == ("denied", UNCHECKED)
    assert errors.stages == (["judge"] if broken is forever else ["judge:toy"])


async def test_a_gate_allows_only_when_all_do(bub: Workshop) -> None:
    asked: list[Any] = []
    low = Toy(judge=noting(asked, "low"), polish=lambda: None, run_model=lambda: "hi")
    framework = bub(GATED, low=low, high=Toy(judge=sleeping(1, asked, "high")))
    result = await framework.process_inbound(HELLO)
    assert (result.model_output, result.ended_by, asked) == ("hi", None, ["high", "low"])


async def test_a_gate_cannot_change_what_it_judges(bub: Workshop) -> None:
    def tamper(message: dict[str, Any]) -> None:
        message["content"] = "tampered"

    toy = Toy(judge=tamper, polish=lambda: None, run_model=lambda message: message["content"])
    assert (await bub(GATED, toy=toy).process_inbound(HELLO)).ended_by == "denied:judge"


async def test_a_denied_turn_unwinds_before_its_reply_is_sent(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        """
        extends: bub:default
        hooks: {judge: {kind: gate}}
        stages:
          judge: {kind: gate, after: run_model}
          save_state: {after: render_outbound}
        """,
        toy=Toy(
            run_model=lambda: "so far",
            judge=lambda: {"deny": "not that"},
            save_state=lambda model_output: seen.append(f"saved {model_output}"),
            dispatch_outbound=lambda message: seen.append(message["content"]),
        ),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == ["saved so far", "not that"]
    assert (result.ended_by, result.model_output) == ("denied:judge", "so far")


async def test_a_denied_turn_without_replies_in_its_pipeline_just_ends(bub: Workshop) -> None:
    framework = bub(
        """
        hooks: {judge: {kind: gate}, work: {kind: observer}}
        stages: {judge: {kind: gate}, work: {kind: observer}}
        """,
        toy=Toy(judge=lambda: {"deny": "no"}, work=lambda: None),
    )
    result = await framework.process_inbound(HELLO)
    assert (result.ended_by, result.outbounds, result.session_id) == ("denied:judge", None, None)


CLAIMED = "extends: bub:default\nstages: {inbound_claim: {kind: claiming, before: resolve_session}}"


async def test_a_claimed_turn_ends_without_a_reply(bub: Workshop) -> None:
    seen: list[Any] = []
    framework = bub(
        CLAIMED,
        low=Toy(inbound_claim=noting(seen, "asked too late"), run_model=noting(seen, "model", "hi")),
        high=Toy(inbound_claim=lambda: {"handled": True}, dispatch_outbound=noting(seen, "dispatch")),
    )
    result = await framework.process_inbound(HELLO)
    assert seen == []
    assert (result.ended_by, result.outbounds, result.model_output) == ("claimed:inbound_claim", [], None)
    assert outcomes(result) == {"inbound_claim": "claimed"}


@pytest.mark.parametrize("reply", ["on it", {"content": "on it"}])
async def test_a_claim_can_carry_the_reply(bub: Workshop, reply: Any) -> None:
    sent: list[Any] = []
    toy = Toy(
        inbound_claim=lambda: {"handled": True, "reply": reply}, dispatch_outbound=lambda message: sent.append(message)
    )
    result = await bub(CLAIMED, toy=toy).process_inbound(HELLO)
    assert sent == result.outbounds == [{"content": "on it", "channel": "cli", "chat_id": "local"}]
    assert result.ended_by == "claimed:inbound_claim"


@pytest.mark.parametrize(
    "no_claim",
    [lambda: None, lambda: {"handled": False}, empty, raising(ValueError("oops")), lambda: True],
    ids=["none", "not handled", "empty", "fails", "wrong type"],
)
async def test_what_is_no_claim_asks_the_next(bub: Workshop, no_claim: Any) -> None:
    low, high = Toy(inbound_claim=lambda: {"handled": True}, run_model=lambda: "hi"), Toy(inbound_claim=no_claim)
    assert (await bub(CLAIMED, low=low, high=high).process_inbound(HELLO)).ended_by == "claimed:inbound_claim"
    framework = bub(CLAIMED, alone=Toy(inbound_claim=no_claim, run_model=lambda: "hi"))
    assert (await framework.process_inbound(HELLO)).ended_by is None


async def test_a_reply_of_a_denied_turn_that_cannot_be_sent_fails_the_turn(bub: Workshop) -> None:
    errors = Errors()
    toy = Toy(
        inbound_claim=lambda: {"handled": True, "reply": "on it"},
        dispatch_outbound=raising(ConnectionError("offline")),
        on_error=errors.told,
    )
    with pytest.raises(ConnectionError, match="offline"):
        await bub(CLAIMED, toy=toy).process_inbound(HELLO)
    assert errors.stages == ["turn"]


# Points that implementations fire themselves.

FIRING = """
extends: bub:default
hooks: {{point: {{kind: {kind}, takes: [x], {more}}}}}
"""


def firing(**payload: Any) -> tuple[Toy, list[Any]]:
    """A model that fires `point`, and what came of it."""
    came: list[Any] = []

    async def run_model(fire: Any) -> str:
        came.append(await fire("point", **payload))
        return "fired"

    return Toy(run_model=run_model), came


@pytest.mark.parametrize(
    ("kind", "low", "high", "came"),
    [
        ("firstresult", lambda x: f"low {x}", lambda x: None, "low 1"),
        ("firstresult", lambda: None, lambda: None, None),
        ("broadcast", lambda x: x, lambda x: None, [None, 1]),
        ("observer", lambda x: x, raising(ValueError("oops")), None),
        ("void", lambda x: x, raising(ValueError("oops")), None),
        ("modifying", lambda x: {"x": x + 1, "y": 0}, lambda x: {"x": x + 2}, {"x": 3, "y": 0}),
        ("modifying", lambda x: {"x": x + 1}, raising(ValueError("oops")), {"x": 2}),
        ("claiming", lambda x: {"handled": True, "by": x}, lambda x: None, {"handled": True, "by": 1}),
        ("claiming", lambda x: None, raising(ValueError("oops")), {"handled": False}),
        ("gate", lambda x: None, lambda x: None, None),
        ("gate", lambda x: {"deny": f"no {x}"}, lambda x: None, {"deny": "no 1"}),
        ("gate", raising(ValueError("oops")), lambda x: None, {"deny": UNCHECKED}),
        ("gate", lambda: True, lambda x: None, {"deny": UNCHECKED}),
        ("stream", lambda x: a_stream("one ", "two"), lambda x: None, "one two"),
    ],
)
async def test_a_fired_point_combines_as_its_kind_says(
    bub: Workshop, kind: str, low: Any, high: Any, came: Any
) -> None:
    model, results = firing(x=1)
    framework = bub(FIRING.format(kind=kind, more=""), model=model, low=Toy(point=low), high=Toy(point=high))
    assert (await framework.process_inbound(HELLO)).model_output == "fired"
    assert results == [came]


@pytest.mark.parametrize("kind", ["firstresult", "broadcast", "stream"])
async def test_a_fired_point_that_propagates_raises_where_it_was_fired(bub: Workshop, kind: str) -> None:
    model, results = firing(x=1)
    framework = bub(FIRING.format(kind=kind, more=""), model=model, toy=Toy(point=raising(ValueError("broken"))))
    with pytest.raises(ValueError, match="broken"):
        await framework.process_inbound(HELLO)
    assert results == []


@pytest.mark.parametrize(
    ("kind", "came"),
    [
        ("firstresult", None),
        ("broadcast", []),
        ("observer", None),
        ("void", None),
        ("modifying", {}),
        ("claiming", {"handled": False}),
        ("gate", {"deny": UNCHECKED}),
        ("stream", None),
    ],
)
async def test_a_fired_point_keeps_its_own_time_and_policy(bub: Workshop, kind: str, came: Any) -> None:
    model, results = firing(x=1)
    errors = Errors()
    more = "timeout: 2s" if kind == "gate" else "timeout: 2s, on_failure: skip"
    framework = bub(FIRING.format(kind=kind, more=more), model=model, toy=Toy(point=forever, on_error=errors.told))
    await framework.process_inbound(HELLO)
    assert results == [came]
    assert errors.stages == ["point"]
    assert trio.current_time() == pytest.approx(2.0)


async def test_a_late_fired_point_that_propagates_is_too_slow(bub: Workshop) -> None:
    model, _ = firing(x=1)
    framework = bub(FIRING.format(kind="firstresult", more="timeout: 2s"), model=model, toy=Toy(point=forever))
    with pytest.raises(trio.TooSlowError, match="hook `point` took longer than 2 seconds"):
        await framework.process_inbound(HELLO)


async def test_a_fired_point_sees_its_payload_and_the_values_of_the_stage(bub: Workshop) -> None:
    model, results = firing(x=1)
    toy = Toy(point=lambda x, message, profile, more=5: (x, message["content"], profile, more))
    await bub(FIRING.format(kind="firstresult", more=""), model=model, toy=toy).process_inbound(HELLO)
    assert results == [(1, "hello", "default", 5)]


async def test_a_fired_point_can_be_narrowed_to_plugins_and_run_in_a_thread(bub: Workshop) -> None:
    model, results = firing(x=1)
    framework = bub(
        FIRING.format(kind="broadcast", more="only: [low], thread: true"),
        model=model,
        low=Toy(point=lambda: threading.get_ident()),
        high=Toy(point=lambda: "not asked"),
    )
    trio.lowlevel.current_clock().autojump_threshold = math.inf  # type: ignore[attr-defined]  # threads take real time
    await framework.process_inbound(HELLO)
    (thread,) = results[0]
    assert isinstance(thread, int)
    assert thread != threading.get_ident()


async def test_the_implementation_of_a_fired_point_can_fire_again(bub: Workshop) -> None:
    model, results = firing(x=1)

    async def point(fire: Any, x: int) -> Any:
        return await fire("inner", y=x + 1)

    framework = bub(
        """
        extends: bub:default
        hooks: {point: {kind: firstresult, takes: [x]}, inner: {kind: firstresult, takes: [y]}}
        """,
        model=model,
        toy=Toy(point=point, inner=lambda y: f"inner {y}"),
    )
    await framework.process_inbound(HELLO)
    assert results == ["inner 2"]


async def test_firing_what_the_pipeline_does_not_have_says_what_it_has(bub: Workshop) -> None:
    async def run_model(fire: Any) -> str:
        await fire("pont", x=1)
        return "never"

    framework = bub(FIRING.format(kind="observer", more=""), toy=Toy(run_model=run_model, point=lambda: None))
    with pytest.raises(BubError, match="stage `run_model` fires `pont`, which this pipeline does not have") as caught:
        await framework.process_inbound(HELLO)
    assert "point" in str(caught.value.help)


# Endings and records.


async def test_no_answer_is_told_once_with_the_stage_that_had_none(bub: Workshop) -> None:
    errors = Errors()
    framework = bub(
        "hooks: {ask: {kind: firstresult}}\nstages: {decide: {kind: firstresult, hook: ask, into: found}}",
        toy=Toy(ask=lambda: None, on_error=errors.told),
    )
    with pytest.raises(NoAnswerError, match=r"stage `decide` \(hook `ask`\)") as caught:
        await framework.process_inbound(HELLO)
    assert errors.all == [("decide", caught.value)]


async def test_values_that_were_never_made_are_none(bub: Workshop) -> None:
    framework = bub("hooks: {watch: {kind: observer}}\nstages: {watch: {kind: observer}}", toy=Toy(watch=lambda: None))
    result = await framework.process_inbound(HELLO)
    values = (result.session_id, result.prompt, result.model_output, result.outbounds, result.state, result.ended_by)
    assert values == (None,) * 6


async def test_the_trace_says_what_became_of_each_stage_and_when(bub: Workshop) -> None:
    framework = bub(
        "extends: bub:default\nstages: {load_state: {enabled: false}}",
        low=Toy(run_model=lambda: "hi", build_prompt=lambda: "x"),
        high=Toy(run_model=lambda: None, dispatch_outbound=lambda: True),
    )
    result = await framework.process_inbound(HELLO)
    decided = [(record.stage, record.implementation, record.outcome) for record in result.trace]
    assert decided == [
        ("resolve_session", "builtin", "ok"),
        ("load_state", "", "off"),
        ("build_prompt", "low", "ok"),
        ("run_model", "low", "ok"),
        ("save_state", "", "ok"),
        ("render_outbound", "", "default"),
        ("dispatch_outbound", "", "ok"),
    ]
    starts = [record.start for record in result.trace]
    assert starts == sorted(starts)
    assert all(record.start >= 0 and record.duration >= 0 for record in result.trace)


async def test_an_observer_that_hangs_does_not_hold_the_turn_for_ever(bub: Workshop) -> None:
    told: list[Any] = []
    low = Toy(run_model=raising(ValueError("down")), on_error=noting(told, "told"))
    with pytest.raises(ValueError, match="down"):
        await bub(low=low, high=Toy(on_error=forever)).process_inbound(HELLO)
    assert told == ["told"]


async def test_a_failure_while_the_turn_is_cancelled_stays_a_cancellation(bub: Workshop) -> None:
    errors = Errors()
    toy = Toy(run_model=forever, save_state=raising(OSError("full")), on_error=errors.told)
    with trio.move_on_after(1) as scope:
        await bub(toy=toy).process_inbound(HELLO)
    assert scope.cancelled_caught
    assert errors.stages == ["save_state"]
