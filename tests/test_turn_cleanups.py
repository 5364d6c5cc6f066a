"""A whole turn: stages that clean up behind others, however the turn ends."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fakes.stages import forever, sleeping
from fakes.toys import HELLO, Errors, Toy, Workshop, noting, outcomes, raising

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


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
