"""A whole turn: how it ends, and what is recorded of it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fakes.stages import forever
from fakes.toys import HELLO, Errors, Toy, Workshop, noting, raising

from bub.errors import NoAnswerError

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


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
