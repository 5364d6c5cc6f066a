"""A whole turn: what a stage does if it fails or takes too long: `on_failure`, `timeout`, `retry`, `thread`."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
from fakes.stages import forever, found_by, sleeping
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, note, noting, outcomes, raising

from bub.errors import NoAnswerError

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


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
