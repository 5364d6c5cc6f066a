"""A whole turn: the order of stages, what they yield without an answer, and when they run."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fakes.stages import sleeping
from fakes.toys import HELLO, Errors, Toy, Workshop, noting, outcomes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


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
