"""Time-outs of a turn: one deadline that is moved from stage to stage, and none that outlives its stage."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from fakes.graphs import graph_of, turn_on
from fakes.toys import Toy, noting

from bub.base.waiting import Expired, MovingDeadline
from bub.pipeline.run.turn import Turn

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def staged(stages: str, more: str = "", **functions: Any) -> Turn:
    """A turn on stages given by their lines; each calls the function of its name, an observer where it says no kind."""
    names = [line.split(":")[0].strip() for line in stages.strip().splitlines()]
    hooks = "".join(f"  {name}: {{kind: {_kind_of(name, stages)}}}\n" for name in names)
    return turn_on(graph_of(f"hooks:\n{hooks}{more}\nstages:\n{stages}", toy=Toy(**functions)))


def _kind_of(name: str, stages: str) -> str:
    (line,) = [line for line in stages.splitlines() if line.strip().startswith(f"{name}:")]
    return line.split("kind: ")[1].split(",")[0].rstrip("} ")


def lasting(seconds: float) -> Callable[[], Awaitable[None]]:
    async def sleep() -> None:
        await trio.sleep(seconds)

    return sleep


async def run(turn: Turn) -> None:
    """Run a turn; one that nothing ends fails its test at once, since an hour costs nothing here."""
    with trio.fail_after(3600):
        await turn.run()


def outcomes(turn: Turn) -> dict[str, str]:
    return {record.stage: record.outcome for record in turn.trace}


async def test_after_a_time_out_the_next_stage_has_a_time_out_too() -> None:
    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  two: {kind: observer, timeout: 3s}
  three: {kind: observer, timeout: 4s}
""",
        one=trio.sleep_forever,
        two=trio.sleep_forever,
        three=lasting(1),
    )
    await run(turn)
    assert outcomes(turn) == {"one": "timeout", "two": "timeout", "three": "ok"}
    assert trio.current_time() == 6.0


@pytest.mark.parametrize("first", [1.0, 9.0], ids=["in time", "too late"])
@pytest.mark.parametrize("kind", ["observer", "void", "modifying", "claiming", "broadcast, on_failure: skip"])
async def test_a_stage_without_a_time_out_takes_as_long_as_it_takes(kind: str, first: float) -> None:
    turn = staged(
        f"""
  one: {{kind: {kind}, timeout: 2s}}
  two: {{kind: {kind}}}
  three: {{kind: observer}}
""",
        one=lasting(first),
        two=lasting(60),
        three=lasting(60),
    )
    await run(turn)
    assert outcomes(turn) == {"one": "ok" if first < 2 else "timeout", "two": "ok", "three": "ok"}
    assert trio.current_time() == min(first, 2.0) + 120.0


@pytest.mark.parametrize(("first", "second"), [(2, 60), (60, 2)])
async def test_each_stage_has_its_own_time_and_not_that_of_its_neighbour(first: int, second: int) -> None:
    turn = staged(
        f"""
  one: {{kind: observer, timeout: {first}s}}
  two: {{kind: observer, timeout: {second}s}}
""",
        one=lasting(1.5),
        two=lasting(5),
    )
    await run(turn)
    assert outcomes(turn) == {"one": "ok", "two": "ok" if second == 60 else "timeout"}
    assert trio.current_time() == 1.5 + min(second, 5)


async def test_the_time_of_a_stage_begins_with_the_stage_and_not_with_what_is_awaited_first() -> None:
    plugins = {"low": Toy(one=lasting(4)), "high": Toy(one=lasting(4))}
    graph = graph_of("hooks: {one: {kind: observer}}\nstages: {one: {kind: observer, timeout: 5s}}", **plugins)
    turn = turn_on(graph)
    await run(turn)
    assert outcomes(turn) == {"one": "timeout"}
    assert trio.current_time() == 5.0


async def test_a_turn_that_waits_for_its_session_waits_beyond_the_stage_that_found_it() -> None:
    async def resolve() -> str:
        await trio.sleep(1)
        return "s"

    graph = graph_of(
        """
hooks: {find: {kind: firstresult}, last: {kind: observer, takes: [session_id]}}
stages:
  find: {kind: firstresult, into: session_id, timeout: 2s}
  last: {kind: observer, timeout: 2s}
""",
        toy=Toy(find=resolve, last=lasting(1)),
    )
    turn = turn_on(graph)
    await turn.arrive()
    await trio.sleep(60)
    await turn.answer("known")
    assert outcomes(turn) == {"find": "ok", "last": "ok"}
    assert trio.current_time() == 62.0


async def test_a_stage_above_the_session_and_one_below_may_have_the_same_deadline() -> None:
    async def resolve() -> str:
        await trio.lowlevel.checkpoint()
        return "s"

    graph = graph_of(
        """
hooks: {find: {kind: firstresult}, last: {kind: observer, takes: [session_id]}}
stages:
  find: {kind: firstresult, into: session_id, timeout: 5s}
  last: {kind: observer, timeout: 5s, on_failure: skip}
""",
        toy=Toy(find=resolve, last=lasting(100)),
    )
    turn = turn_on(graph)
    await run(turn)
    assert outcomes(turn) == {"find": "ok", "last": "timeout"}
    assert trio.current_time() == 5.0


async def answering() -> str:
    await trio.sleep(10)
    return "hi"


async def test_an_answer_without_a_time_out_takes_as_long_as_it_takes() -> None:
    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  say: {kind: stream, into: text}
""",
        one=lasting(1),
        say=answering,
    )
    await run(turn)
    assert outcomes(turn) == {"one": "ok", "say": "ok"}
    assert trio.current_time() == 11.0


async def test_an_answer_has_its_own_time() -> None:
    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  say: {kind: stream, into: text, timeout: 3s}
""",
        one=lasting(1),
        say=answering,
    )
    with pytest.raises(trio.TooSlowError, match="stage `say` took longer than 3 seconds"):
        await run(turn)
    assert trio.current_time() == 4.0


async def test_an_answer_that_is_asked_for_again_has_the_time_of_its_stage() -> None:
    asked: list[float] = []

    def answer() -> Awaitable[None]:
        asked.append(trio.current_time())
        if len(asked) == 1:
            raise OSError("the line is dead")  # before anything is awaited
        return lasting(600)()

    turn = staged("  say: {kind: stream, into: text, timeout: 10s, retry: {times: 1}}", say=answer)
    with pytest.raises(trio.TooSlowError):
        await run(turn)
    assert asked == [0.0, 0.0]
    assert trio.current_time() == 10.0


# A cancellation from outside.


@pytest.mark.parametrize("cancelled_at", [1.0, 2.0, 3.5])
async def test_a_cancellation_from_outside_is_no_time_out(cancelled_at: float) -> None:
    """At 2.0 the stage's own time is up in the same moment: who cancels from outside is obeyed all the same."""
    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  two: {kind: observer, timeout: 2s}
""",
        one=trio.sleep_forever,
        two=trio.sleep_forever,
    )
    with trio.move_on_after(cancelled_at) as scope:
        await run(turn)
    assert scope.cancelled_caught
    assert trio.current_time() == cancelled_at
    assert list(outcomes(turn).values())[-1] == "cancelled"


async def test_a_turn_that_was_timed_leaves_no_cancellation_behind() -> None:
    turn = staged("\n  one: {kind: observer, timeout: 2s}\n", one=lasting(1))
    await run(turn)
    await trio.sleep(60)
    assert trio.current_time() == 61.0


# What is inside a stage, and beside it.


async def test_branches_that_run_side_by_side_have_their_own_time() -> None:
    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  two: {kind: observer, needs: [one], timeout: 3s}
  three: {kind: observer, needs: [one], timeout: 5s}
  four: {kind: observer, needs: [one]}
  five: {kind: observer, timeout: 2s}
""",
        one=lasting(1),
        two=trio.sleep_forever,
        three=lasting(4.5),
        four=lasting(60),
        five=trio.sleep_forever,
    )
    await run(turn)
    assert outcomes(turn) == {"one": "ok", "two": "timeout", "three": "ok", "four": "ok", "five": "timeout"}
    assert trio.current_time() == 63.0


async def test_the_time_of_a_fired_point_does_not_move_that_of_the_stage() -> None:
    fired: list[float] = []

    async def fires(fire: Any) -> None:
        await fire("point")
        fired.append(trio.current_time())
        await trio.sleep(60)

    turn = turn_on(
        graph_of(
            """
hooks:
  one: {kind: observer, takes: [fire]}
  two: {kind: observer, takes: [fire]}
  point: {kind: observer, timeout: 2s}
stages:
  one: {kind: observer, timeout: 5s}
  two: {kind: observer}
""",
            toy=Toy(one=fires, two=fires, point=trio.sleep_forever),
        )
    )
    await run(turn)
    assert fired == [2.0, 7.0]
    assert outcomes(turn) == {"one": "timeout", "two": "ok"}
    assert trio.current_time() == 67.0


async def test_a_clean_up_has_its_own_time_and_leaves_none_to_what_follows() -> None:
    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  tidy: {kind: observer, cleanup_for: one, timeout: 10s}
  two: {kind: observer}
  three: {kind: observer, timeout: 2s}
""",
        one=lasting(1),
        tidy=lasting(8),
        two=lasting(60),
        three=trio.sleep_forever,
    )
    await run(turn)
    assert outcomes(turn) == {"one": "ok", "tidy": "ok", "two": "ok", "three": "timeout"}
    assert trio.current_time() == 71.0


@pytest.mark.parametrize("kind", ["observer", "void", "broadcast"])
@pytest.mark.parametrize("fails", [False, True])
async def test_a_clean_up_that_takes_too_long_is_ended_also_in_a_turn_that_failed(kind: str, fails: bool) -> None:
    async def one() -> None:
        if fails:
            raise ValueError("oh")

    turn = staged(
        f"""
  one: {{kind: observer, on_failure: propagate}}
  tidy: {{kind: {kind}, cleanup_for: one, timeout: 10s, on_failure: propagate}}
""",
        one=one,
        tidy=lasting(600),  # not for ever: nothing from outside ends a clean-up, so the test could not end
    )
    with pytest.raises(ValueError if fails else trio.TooSlowError):
        await run(turn)
    assert trio.current_time() == 10.0
    assert outcomes(turn)["tidy"] == "timeout"


async def test_a_clean_up_that_outstays_its_time_takes_none_from_the_next_one() -> None:
    ended: list[str] = []

    async def stay() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(20)

    async def tidy() -> None:
        await trio.sleep(5)
        ended.append("tidied")

    graph = graph_of(
        """
hooks: {one: {kind: observer}, tidy: {kind: broadcast}}
stages:
  one: {kind: observer}
  tidy: {kind: broadcast, cleanup_for: one, timeout: 10s}
""",
        neat=Toy(one=lasting(0), tidy=tidy),
        stubborn=Toy(tidy=stay),
    )
    with pytest.raises(trio.TooSlowError, match="plugin `stubborn` took longer than 10 seconds"):
        await run(turn_on(graph))
    assert ended == ["tidied"]
    assert trio.current_time() == 25.0


async def test_a_plain_function_between_async_ones_has_its_time_and_takes_none_from_them() -> None:
    ended: list[str] = []

    def linger() -> None:
        trio.lowlevel.current_clock().jump(11)  # type: ignore[attr-defined]

    async def tidy() -> None:
        await trio.sleep(9)
        ended.append("tidied")

    def sweep() -> None:
        trio.lowlevel.current_clock().jump(9)  # type: ignore[attr-defined]
        ended.append("swept")

    graph = graph_of(
        """
hooks: {one: {kind: observer}, tidy: {kind: broadcast}}
stages:
  one: {kind: observer}
  tidy: {kind: broadcast, cleanup_for: one, timeout: 10s}
""",
        careful=Toy(one=lasting(0), tidy=tidy),
        brisk=Toy(tidy=sweep),
        slow=Toy(tidy=linger),
        neat=Toy(tidy=tidy),
    )
    with pytest.raises(trio.TooSlowError, match="plugin `slow` took longer than 10 seconds"):
        await run(turn_on(graph))
    assert sorted(ended) == ["swept", "tidied", "tidied"]


async def test_what_a_failing_clean_up_tells_is_not_cut_off_by_a_stage_before_it() -> None:
    told: list[float] = []

    async def on_error() -> None:
        await trio.sleep(5)
        told.append(trio.current_time())

    def fails() -> None:
        raise OSError("broken")

    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  tidy: {kind: observer, cleanup_for: one, timeout: 10s}
""",
        one=lasting(1),
        tidy=fails,
        on_error=on_error,
    )
    await run(turn)
    assert told == [6.0]


async def test_the_replies_of_a_denied_turn_have_time_of_their_own() -> None:
    sent: list[Any] = []

    async def judge() -> dict[str, str]:
        await trio.sleep(1)
        return {"deny": "no"}

    async def send(message: Any) -> None:
        await trio.sleep(50)
        sent.append(message["content"])

    turn = turn_on(
        graph_of(
            """
extends: bub:default
hooks: {judge: {kind: gate}}
stages: {judge: {kind: gate, timeout: 2s, before: run_model}}
""",
            toy=Toy(judge=judge, run_model=noting([], "never"), dispatch_outbound=send),
        )
    )
    await run(turn)
    assert sent == ["no"]


async def test_telling_of_a_failure_counts_into_the_time_of_its_stage() -> None:
    async def fails() -> None:
        raise OSError("broken")

    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  two: {kind: observer, timeout: 2s}
""",
        one=fails,
        two=lasting(1),
        on_error=trio.sleep_forever,
    )
    await run(turn)
    assert outcomes(turn)["two"] == "ok"


async def test_telling_of_a_failure_is_not_cut_off_by_the_time_of_the_stage_before() -> None:
    told: list[float] = []

    async def on_error() -> None:
        await trio.sleep(5)
        told.append(trio.current_time())

    def fails() -> None:
        raise OSError("broken")

    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  two: {kind: observer, timeout: 60s}
""",
        one=lasting(1),
        two=fails,
        on_error=on_error,
    )
    await run(turn)
    assert told == [6.0]
    assert outcomes(turn) == {"one": "ok", "two": "ok"}


async def test_who_goes_on_after_its_time_is_up_does_not_take_that_of_the_next_stage() -> None:
    """An implementation may shield itself; its answer comes too late, and what follows is bounded anew."""

    async def stubborn() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(9)

    turn = staged(
        """
  one: {kind: observer, timeout: 2s}
  two: {kind: observer}
  three: {kind: observer, timeout: 2s}
  four: {kind: observer, timeout: 3s}
""",
        one=stubborn,
        two=lasting(1),
        three=stubborn,
        four=trio.sleep_forever,
    )
    await run(turn)
    assert outcomes(turn) == {"one": "timeout", "two": "ok", "three": "timeout", "four": "timeout"}
    assert trio.current_time() == 9.0 + 1.0 + 9.0 + 3.0


async def test_a_failure_in_the_moment_of_the_time_out_is_the_failure() -> None:
    async def breaks() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("it broke while it was cancelled")

    turn = staged("\n  one: {kind: broadcast, timeout: 2s}\n", one=breaks)
    with pytest.raises(OSError, match="while it was cancelled"):
        await run(turn)
    assert outcomes(turn) == {"one": "failed"}


# The deadline by itself.


async def test_a_deadline_is_moved_and_taken_off() -> None:
    with MovingDeadline() as limit:
        limit.start(1)
        with pytest.raises(Expired):
            await limit(lasting(2)())
        limit.start(3)
        await limit(lasting(2)())
        limit.start(3)
        await limit(lasting(2)())
        limit.release()
        await trio.sleep(60)
        limit.start(1)
        with pytest.raises(Expired):
            await limit(lasting(2)())
    assert trio.current_time() == 1 + 2 + 2 + 60 + 1


async def test_what_is_awaited_after_a_deadline_without_it_is_not_taken_for_done() -> None:
    with pytest.raises(Expired), MovingDeadline() as limit:
        limit.start(1)
        await limit(lasting(0.5)())
        await trio.sleep(60)  # whoever forgot the `release` hears of it
    assert trio.current_time() == 1.0


async def test_a_deadline_does_not_take_a_cancellation_from_outside() -> None:
    with trio.move_on_after(1) as scope, MovingDeadline() as limit:
        limit.start(1)
        await limit(lasting(60)())
    assert scope.cancelled_caught
