"""`bub test` and time: what is virtual, what really passes, and how a test that hangs is ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from textwrap import dedent

import pytest
from fakes.desk import HOUSE_RULES, PIPELINE, Desk, Write

from bub.testing import Report, VirtualClock
from bub.testing.bounds import AbortedError, run_bounded

ROOT = Path(__file__).parent.parent


@pytest.fixture
def desk(write: Write) -> Desk:
    return Desk(write)


def test_what_really_takes_time_passes_and_is_not_counted_against_the_test(desk: Desk) -> None:
    desk.write(
        "house_rules.py",
        """
        import threading
        from bub import hookimpl

        @hookimpl
        def moderate():
            threading.Event().wait(0.1)
        """,
    )
    pipeline = PIPELINE.replace("timeout: 5s", "timeout: 5s, thread: true")
    report = desk.run(
        """
        it:
          message: {content: hello}
          mock: {run_model: {delay: 1m, return: hi}}
          expect: {took: 1m, model_output: hi}
        """,
        pipeline,
    )
    assert report.ok, str(report)
    assert 60.09 <= report.verdicts[0].took < 65


def with_and_without(desk: Desk, look_up: str, stage: str = "look_up: {before: run_model}") -> Report:
    """Two tests: in the first the hook `look_up` runs, in the second it is mocked."""
    rules = dedent(HOUSE_RULES).strip()
    desk.write("house_rules.py", f"import trio\n{rules}\n\n@hookimpl\nasync def look_up():\n    {look_up}\n")
    return desk.run(
        """
        goes wrong:
          message: {content: hello}
          mock: {run_model: {return: hi}}
          expect: {prompt: hello}
        goes on:
          message: {content: hello}
          mock: {run_model: {return: hi}, look_up: {return: null}}
          expect: {prompt: hello}
        """,
        PIPELINE.replace("hooks:\n", "hooks:\n  look_up: {kind: broadcast}\n").replace(
            "stages:\n", f"stages:\n  {stage}\n", 1
        ),
        timeout=0.2,
    )


@pytest.mark.parametrize(
    "how",
    ["await trio.sleep_forever()", "one, other = trio.socket.socketpair()\n    with one, other: await one.recv(1)"],
)
def test_a_test_that_hangs_is_ended(desk: Desk, how: str) -> None:
    began = time.perf_counter()
    hangs, follows = with_and_without(desk, how).verdicts
    assert time.perf_counter() - began < 30
    assert str(hangs.failures[0].got).startswith(
        "it did not end within 0.2 seconds of real time (mock the stage that waits"
    )
    assert [record.outcome for record in hangs.trace][-1] == "cancelled"
    assert follows.passed


def test_a_hook_that_hangs_runs_out_of_the_time_of_its_stage(desk: Desk) -> None:
    stage = "look_up: {before: run_model, timeout: 30s}"
    hangs, follows = with_and_without(desk, "await trio.sleep_forever()", stage).verdicts
    assert "stage `look_up` took longer than 30 seconds" in str(hangs.failures[0].got)
    assert [record.outcome for record in hangs.trace][-1] == "timeout"
    assert follows.passed


async def block() -> None:
    time.sleep(60)  # noqa: ASYNC251 (just that is to be ended)


async def spin() -> None:
    while True:
        pass


async def insist() -> None:
    ended = time.perf_counter() + 60
    for _ in range(3):  # one interrupt, and one more, are not enough
        try:
            time.sleep(max(0, ended - time.perf_counter()))  # noqa: ASYNC251
        except:  # noqa: E722 (a plugin may be written like that)
            continue


@pytest.mark.parametrize("work", [block, spin, insist])
@pytest.mark.usefixtures("interruptible")
def test_code_that_blocks_is_interrupted(work: Callable[[], Awaitable[None]]) -> None:
    began = time.perf_counter()
    with pytest.raises(AbortedError, match="did not end within"):
        run_bounded(work, VirtualClock(), 0.1, grace=0.1)
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
@pytest.mark.usefixtures("interruptible")
def test_code_that_blocks_is_interrupted_whatever_the_program_makes_of_interrupts(handler: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, handler)
    with pytest.raises(AbortedError, match="did not end within"):
        run_bounded(block, VirtualClock(), 0.1, grace=0.1)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_is_to_be_ignored_is_ignored() -> None:
    async def work() -> str:
        signal.raise_signal(signal.SIGINT)
        return "done"

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert run_bounded(work, VirtualClock(), 60) == "done"
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        run_bounded(work, VirtualClock(), 60)


def test_what_ends_too_late_has_not_passed() -> None:
    async def late() -> None:
        time.sleep(0.3)  # noqa: ASYNC251

    with pytest.raises(AbortedError, match="did not end within"):
        run_bounded(late, VirtualClock(), 0.1)


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "GeneratorExit"])
def test_a_plugin_that_ends_the_program_ends_its_own_test(desk: Desk, name: str) -> None:
    ended, follows = with_and_without(desk, f"raise {name}").verdicts
    assert ended.failures[0].got == f"a plugin raised {name} (a hook has to return, or to raise an Exception)"
    assert follows.passed
