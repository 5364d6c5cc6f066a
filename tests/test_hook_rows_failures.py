"""Rows H11, H12, H18 to H22 and H30: implementations that fail, and what cannot be awaited."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import trio
from fakes.hooks import (
    BOOTSTRAP,
    answering,
    answering_later,
    only_finding,
    runtime_of,
)
from fakes.toys import HELLO, Errors, Toy, Workshop, outcomes, raising

from bub import hookimpl
from bub.hookspecs import HOOK_POINTS
from bub.tape import TapeContext

pytestmark = pytest.mark.anyio


CLASSIC = "extends: bub:classic"


ETHOS = "extends: bub:ethos"


SYNC_ONLY = {
    "provide_bus",
    "register_cli_commands",
    "onboard_config",
    "provide_channels",
    "provide_tape_store",
    "provide_tools",
    "build_tape_context",
    "system_prompt",
}


# H11, H12: where nothing can be awaited.


class Coroutines:
    """Holds a `function` that is plain to look at, but returns a coroutine; `all` are those it returned."""

    def __init__(self) -> None:
        self.all: list[Any] = []

        async def answer() -> str:
            return "never"

        def function() -> Any:
            self.all.append(answer())
            return self.all[-1]

        self.function = function

    def assert_closed(self) -> None:
        assert self.all
        assert [inspect.getcoroutinestate(one) for one in self.all] == [inspect.CORO_CLOSED] * len(self.all)


@pytest.fixture
def coroutines() -> Coroutines:
    return Coroutines()


WARNING = "hook.async_not_supported hook={} adapter=late"


def test_H11_a_synchronous_call_skips_closes_and_warns_of_what_must_be_awaited(
    log: list[str], coroutines: Coroutines
) -> None:
    hooks = runtime_of(low=answering(system_prompt="low"), late=Toy(system_prompt=coroutines.function))
    assert hooks.call_first_sync("system_prompt", prompt="", state={}) == "low"
    assert hooks.call_many_sync("system_prompt", prompt="", state={}) == ["low"]
    coroutines.assert_closed()
    assert log == [WARNING.format("system_prompt")] * 2


async def test_H11_a_stage_of_a_sync_only_hook_does_the_same(
    bub: Workshop, log: list[str], coroutines: Coroutines
) -> None:
    seen: list[str] = []

    def model(system: str) -> str:
        seen.append(system)
        return "hi"

    framework = bub(
        ETHOS, low=answering(system_prompt="Be brief."), late=Toy(system_prompt=coroutines.function, run_model=model)
    )
    await framework.process_inbound(HELLO)
    coroutines.assert_closed()
    assert len(seen) == 1 and seen[0].endswith("\n\nBe brief.")
    assert log == [WARNING.format("system_prompt")]


WITHOUT: dict[str, Any] = {
    "onboard_config": {"a": 1},
    "provide_channels": ["cli"],  # the builtin plugin's terminal
    "build_tape_context": TapeContext(),  # the builtin plugin's
    "register_cli_commands": [],
    "system_prompt": False,
}


@pytest.mark.parametrize("hook", BOOTSTRAP)
def test_H11_what_the_framework_calls_by_itself_does_the_same(
    bub: Workshop, log: list[str], coroutines: Coroutines, hook: str
) -> None:
    framework = bub(late=Toy(**{hook: coroutines.function}))
    assert BOOTSTRAP[hook](framework) == WITHOUT[hook]
    coroutines.assert_closed()
    assert log == [WARNING.format(hook)]


async def test_H11_the_tape_store_does_the_same(bub: Workshop, log: list[str], coroutines: Coroutines) -> None:
    framework = bub(low=answering(provide_tape_store="store"), late=Toy(provide_tape_store=coroutines.function))
    async with framework.running():
        assert framework.get_tape_store() == "store"
    coroutines.assert_closed()
    assert log == [WARNING.format("provide_tape_store")]


def test_H12_these_hooks_are_sync_only() -> None:
    assert {name for name, point in HOOK_POINTS.items() if point.sync_only} == SYNC_ONLY


@pytest.mark.parametrize("hook", sorted(SYNC_ONLY))
def test_H12_an_async_implementation_of_a_sync_only_hook_does_not_compile(bub: Workshop, hook: str) -> None:
    finding = only_finding(bub, late=answering_later(**{hook: None}))
    assert finding.code == "B203"
    assert "`late`" in finding.message and f"`{hook}`" in finding.message
    assert finding.help == "write it as a plain `def`"


# H18 to H22: failures.


async def test_H18_what_an_implementation_raises_leaves_the_call() -> None:
    asked: list[str] = []
    low = Toy(save_state=lambda: asked.append("low"), build_prompt=lambda: asked.append("low"))
    error = OSError("disk full")
    hooks = runtime_of(low=low, high=Toy(save_state=raising(error), build_prompt=raising(error)))
    for call in (hooks.call_first("build_prompt"), hooks.call_many("save_state")):
        with pytest.raises(OSError, match="disk full") as raised:
            await call
        assert raised.value is error
    for call_sync in (hooks.call_first_sync, hooks.call_many_sync):
        with pytest.raises(OSError, match="disk full"):
            call_sync("build_prompt")
    assert asked == []


async def test_H18_a_failure_ends_the_turn_and_is_told_as_the_turns(bub: Workshop) -> None:
    errors, error = Errors(), OSError("disk full")
    framework = bub(low=answering(run_model="hi"), high=Toy(build_prompt=raising(error), on_error=errors.told))
    with pytest.raises(OSError, match="disk full") as raised:
        await framework.process_inbound(HELLO)
    assert raised.value is error
    assert errors.all == [("turn", error)]


async def test_H18_a_stage_that_skips_goes_on_with_the_next(bub: Workshop) -> None:
    errors, error = Errors(), OSError("disk full")
    framework = bub(
        "extends: bub:default\nstages: {build_prompt: {on_failure: skip}}",
        low=answering(build_prompt="low", run_model="hi"),
        high=Toy(build_prompt=raising(error), on_error=errors.told),
    )
    result = await framework.process_inbound(HELLO)
    assert (result.prompt, result.model_output) == ("low", "hi")
    assert errors.all == [("build_prompt:high", error)]


async def test_H19_every_observer_is_told_whatever_the_others_do(log: list[str]) -> None:
    seen: list[tuple[str, str, Any]] = []

    def observer(stage: str, error: Exception, message: Any) -> None:
        seen.append((stage, str(error), message))

    async def later(stage: str, error: Exception, message: Any) -> None:
        await trio.lowlevel.checkpoint()
        observer(stage, error, message)

    hooks = runtime_of(
        a=Toy(on_error=observer),
        b=Toy(on_error=raising(KeyError("b"))),
        c=Toy(on_error=later),
        d=Toy(on_error=raising(KeyError("d"))),
    )
    await hooks.notify_error(stage="turn", error=OSError("disk full"), message="m")
    assert seen == [("turn", "disk full", "m")] * 2
    assert [line.split(" error=")[0] for line in log] == [
        "hook.on_error_failed stage=turn adapter=d",
        "hook.on_error_failed stage=turn adapter=b",
    ]


def test_H19_the_synchronous_way_skips_async_observers_with_a_warning(log: list[str], coroutines: Coroutines) -> None:
    errors = Errors()
    hooks = runtime_of(
        a=Toy(on_error=errors.told), late=Toy(on_error=coroutines.function), c=Toy(on_error=raising(KeyError("c")))
    )
    hooks.notify_error_sync(stage="start", error=OSError("disk full"))
    assert errors.stages == ["start"]
    coroutines.assert_closed()
    assert log[0].startswith("hook.on_error_failed stage=start adapter=c")
    assert log[1] == WARNING.format("on_error")


async def test_H20_a_cancellation_passes_through_an_observer() -> None:
    errors = Errors()
    hooks = runtime_of(low=Toy(on_error=errors.told), hangs=Toy(on_error=trio.sleep_forever))
    with trio.CancelScope() as scope:
        scope.cancel()
        await hooks.notify_error(stage="turn", error=OSError())
    assert scope.cancelled_caught
    assert errors.stages == []


async def test_H20_an_interrupt_passes_through_an_observer() -> None:
    hooks = runtime_of(interrupted=Toy(on_error=raising(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        await hooks.notify_error(stage="turn", error=OSError())
    with pytest.raises(KeyboardInterrupt):
        hooks.notify_error_sync(stage="turn", error=OSError())


async def test_H22_an_observer_that_fails_does_not_hide_the_error(bub: Workshop) -> None:
    errors, error = Errors(), OSError("disk full")
    framework = bub(
        low=Toy(build_prompt=raising(error), on_error=errors.told), high=Toy(on_error=raising(KeyError("observer")))
    )
    with pytest.raises(OSError, match="disk full") as raised:
        await framework.process_inbound(HELLO)
    assert raised.value is error
    assert errors.all == [("turn", error)]


# H30: the classic pipeline isolates.


async def test_H30_a_failing_implementation_is_skipped_and_told_and_the_next_is_asked(bub: Workshop) -> None:
    errors = Errors()
    hooks = ["normalize_inbound", "resolve_session", "load_state", "build_prompt", "run_model", "save_state"]
    hooks += ["render_outbound", "dispatch_outbound"]
    failures = {hook: OSError(hook) for hook in hooks}
    sent: list[Any] = []
    low = Toy(
        resolve_session=lambda: "low",
        load_state=lambda: {"from": "low"},
        build_prompt=lambda: "low prompt",
        run_model=lambda: "low answer",
        dispatch_outbound=lambda message: sent.append(message["content"]),
    )
    high = Toy(on_error=errors.told, **{hook: raising(error) for hook, error in failures.items()})
    result = await bub(CLASSIC, low=low, high=high).process_inbound(HELLO)
    assert errors.all == [(f"{hook}:high", failures[hook]) for hook in hooks]
    assert (result.session_id, result.state, result.prompt) == ("low", {"from": "low"}, "low prompt")
    assert (result.model_output, sent) == ("low answer", ["low answer"])


async def test_H30_when_all_fail_the_default_holds_and_the_turn_completes(bub: Workshop) -> None:
    errors = Errors()
    broken = Toy(
        on_error=errors.told,
        load_state=raising(OSError("state")),
        build_prompt=raising(OSError("prompt")),
        run_model=hookimpl(raising(OSError("model")), tryfirst=True),
    )

    async def broken_too() -> str:
        raise OSError("model too")

    result = await bub(CLASSIC, low=Toy(run_model=broken_too), high=broken).process_inbound(HELLO)
    assert result.prompt == "hello"
    assert result.ended_by is None
    assert [record for record in result.trace if record.outcome in ("failed", "cancelled")] == []
    assert {"load_state:high", "build_prompt:high", "run_model:high", "run_model:low"} <= set(errors.stages)
    assert [(one["chat_id"], one["content"]) for one in result.outbounds or ()] == [("local", "hello")]
    assert {outcomes(result)[stage] for stage in ("load_state", "build_prompt", "run_model")} == {"default"}
    assert outcomes(result)["dispatch_outbound"] == "ok"


async def test_H30_observers_are_told_the_message_of_the_turn_whatever_the_hook_takes(bub: Workshop) -> None:
    told: list[tuple[str, Any]] = []
    high = Toy(
        on_error=lambda stage, message: told.append((stage, message["content"])),
        load_state=raising(OSError()),
        run_model=raising(OSError()),
    )
    await bub(CLASSIC, low=answering(run_model="hi"), high=high).process_inbound(HELLO)
    assert told == [("load_state:high", "hello"), ("run_model:high", "hello")]


async def test_H30_a_failing_observer_is_not_told_about_itself(bub: Workshop, log: list[str]) -> None:
    asked: list[str] = []

    def observer(stage: str) -> None:
        asked.append(stage)
        raise KeyError("observer")

    high = Toy(on_error=observer, build_prompt=raising(OSError()))
    result = await bub(CLASSIC, low=answering(run_model="hi"), high=high).process_inbound(HELLO)
    assert result.model_output == "hi"
    assert asked == ["build_prompt:high"]
    assert [line for line in log if line.startswith("hook.on_error_failed stage=build_prompt:high adapter=high")]
