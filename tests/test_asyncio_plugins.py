"""Plugins with `runtime: asyncio` in whole turns: hooks of every kind, cancelling, calls back, two at once, reloads."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import trio
from fakes.islands import loops, on_asyncio, thread_here
from fakes.stages import one_stage
from fakes.toys import HELLO, Errors, Toy, Workshop, outcomes

from bub.errors import HookTypeError
from bub.streaming import AsyncStreamEvents, StreamEvent

pytestmark = pytest.mark.anyio

TOLD = "hooks: {ask: {kind: void}}\nstages: {ask: {kind: void}}"

WHO: ContextVar[str] = ContextVar("who", default="nobody")


# Kinds.


async def found_on_asyncio(bub: Workshop, kind: str, more: str, *answers: Callable[[], Any]) -> Any:
    """What a stage of one kind makes of implementations on asyncio, the lowest priority given first."""
    seen: list[Any] = []
    plugins = {f"p{index}": Toy(ask=answer) for index, answer in enumerate(answers)}
    look = Toy(look=lambda found: seen.append(found))
    framework = on_asyncio(bub, one_stage(kind, f"into: found, {more}"), "last", **plugins, last=look)
    async with framework.running():
        await framework.process_inbound(HELLO)
    return seen[0]


async def test_firstresult_and_broadcast_await_on_the_loop_of_each_plugin(bub: Workshop) -> None:
    assert await found_on_asyncio(bub, "firstresult", "on_failure: propagate", thread_here) == "bub island p0"
    found = await found_on_asyncio(bub, "broadcast", "combine: list", thread_here, lambda: "plain", thread_here)
    assert found == ["bub island p2", "plain", "bub island p0"]


async def test_a_plain_function_may_start_tasks_of_asyncio(bub: Workshop) -> None:
    done: list[str] = []

    async def later() -> None:
        done.append(threading.current_thread().name)

    def load_state() -> dict[str, Any]:
        task = asyncio.create_task(later())
        return {"task": task}

    async def build_prompt(state: dict[str, Any]) -> str:
        await state["task"]
        return "asked"

    framework = on_asyncio(
        bub,
        "extends: bub:default",
        one=Toy(load_state=load_state, build_prompt=build_prompt, run_model=lambda prompt: prompt),
    )
    async with framework.running():
        result = await framework.process_inbound(HELLO)
    assert result.model_output == "asked"
    assert done == ["bub island one"]


async def test_void_and_observer_points_are_told(bub: Workshop) -> None:
    seen: list[str] = []

    async def told() -> None:
        seen.append(await thread_here())

    for kind in ("void", "observer"):
        framework = on_asyncio(bub, TOLD.replace("void", kind), one=Toy(ask=told))
        async with framework.running():
            await framework.process_inbound(HELLO)
    assert seen == ["bub island one"] * 2


async def test_a_claim_a_change_and_a_denial_come_across(bub: Workshop) -> None:
    async def change(message: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"message": {**message, "content": message["content"] + "!"}}

    async def claim(message: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"handled": True, "reply": f"taken: {message['content']}"}

    async def deny() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"deny": "not today"}

    stages = dedent(
        """
        hooks: {change: {kind: modifying}, claim: {kind: claiming}}
        stages:
          change: {kind: modifying, changes: [message]}
          claim: {kind: claiming, needs: [change]}
        """
    )
    framework = on_asyncio(bub, stages, one=Toy(change=change, claim=claim))
    async with framework.running():
        result = await framework.process_inbound(HELLO)
    assert result.ended_by == "claimed:claim"
    framework = on_asyncio(
        bub,
        "extends: bub:default\nhooks: {guard: {kind: gate}}\nstages: {guard: {kind: gate, before: run_model}}",
        one=Toy(guard=deny),
    )
    async with framework.running():
        result = await framework.process_inbound(HELLO)
    assert (result.ended_by, outcomes(result)["guard"]) == ("denied:guard", "denied")


async def test_a_stream_is_made_on_the_loop_and_told_piece_by_piece(bub: Workshop) -> None:
    events: list[str] = []

    def run_model_stream() -> AsyncStreamEvents:
        async def pieces() -> AsyncIterator[StreamEvent]:
            async with asyncio.timeout(60):
                for piece in "abc":
                    await asyncio.sleep(0)
                    yield StreamEvent.text(piece)

        return AsyncStreamEvents(pieces())

    framework = on_asyncio(bub, "extends: bub:default", one=Toy(run_model_stream=run_model_stream))
    async with framework.running():
        result = await framework.process_inbound(HELLO, on_event=lambda event, _: events.append(event.data["delta"]))
    assert (result.model_output, events) == ("abc", ["a", "b", "c"])


async def test_a_hook_of_the_wrong_type_is_the_same_error_as_anywhere(bub: Workshop) -> None:
    async def build_prompt() -> int:
        return 3

    framework = on_asyncio(bub, "extends: bub:default", one=Toy(build_prompt=build_prompt))
    async with framework.running():
        with pytest.raises(HookTypeError, match="one"):
            await framework.process_inbound(HELLO)


# Time, cancelling, context.


async def test_a_timeout_leaves_the_call_of_the_plugin_and_not_its_loop(bub: Workshop) -> None:
    ended, errors = list[str](), Errors()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(threading.current_thread().name)
            raise

    pipeline = "hooks: {ask: {kind: void}}\nstages: {ask: {kind: void, timeout: 50ms}}"
    framework = on_asyncio(bub, pipeline, "last", one=Toy(ask=wait_for_ever), last=Toy(on_error=errors.told))
    async with framework.running():
        with trio.fail_after(5):
            for _ in range(2):
                await framework.process_inbound(HELLO)
    assert ended == ["bub island one"] * 2
    assert errors.stages == ["ask"] * 2


async def test_a_cancelled_turn_cancels_what_it_waits_for(bub: Workshop) -> None:
    ended: list[bool] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    framework = on_asyncio(bub, "extends: bub:default", one=Toy(run_model=wait_for_ever))
    async with framework.running():
        with trio.fail_after(5), trio.move_on_after(0.05) as limit:
            await framework.process_inbound(HELLO)
    assert limit.cancelled_caught
    assert ended == [True]


async def test_context_variables_of_one_plugin_are_seen_by_the_next(bub: Workshop) -> None:
    async def load_state() -> dict[str, Any]:
        WHO.set("asyncio")
        return {}

    framework = on_asyncio(
        bub, "extends: bub:default", "last", one=Toy(load_state=load_state), last=Toy(run_model=lambda: WHO.get())
    )
    async with framework.running():
        assert (await framework.process_inbound(HELLO)).model_output == "asyncio"


async def test_fire_runs_in_trio_within_the_turn(bub: Workshop) -> None:
    async def ask(fire: Any) -> str:
        await asyncio.sleep(0)
        return str(await fire("mine", word="hello"))

    async def mine(word: str) -> str:
        await trio.lowlevel.checkpoint()
        return f"{word} from trio"

    pipeline = "extends: bub:default\nhooks: {mine: {kind: firstresult, takes: [word]}}"
    framework = on_asyncio(bub, pipeline, "last", one=Toy(run_model=ask), last=Toy(mine=mine))
    async with framework.running():
        assert (await framework.process_inbound(HELLO)).model_output == "hello from trio"


# The life of a loop.


async def test_two_plugins_have_two_loops_and_both_end_with_the_runtime(bub: Workshop) -> None:
    framework = on_asyncio(bub, TOLD, one=Toy(ask=thread_here), other=Toy(ask=thread_here))
    assert not loops()
    async with framework.running():
        await framework.process_inbound(HELLO)
        assert loops() == ["bub island one", "bub island other"]
    assert not loops()


async def test_a_reload_ends_the_loop_of_the_generation_before(bub: Workshop) -> None:
    seen: list[Any] = []

    async def load_state() -> dict[str, Any]:
        seen.append(asyncio.get_running_loop())
        return {}

    framework = on_asyncio(bub, "extends: bub:default", one=Toy(load_state=load_state, run_model=lambda: "x"))
    async with framework.running():
        for _ in range(3):
            await framework.process_inbound(HELLO)
            await trio.to_thread.run_sync(framework.reload)
    assert len(set(map(id, seen))) == 3
    assert not loops()


PACKAGE = """
import asyncio
from bub import hookimpl

LOCK = asyncio.Lock()

class Plugin:
    @hookimpl
    async def run_model(self):
        async with LOCK:  # it belongs to the loop that has waited for it first
            await asyncio.gather(*[self.wait() for _ in range(2)])
        return str(id(asyncio.get_running_loop()))

    async def wait(self):
        async with OTHER:
            await asyncio.sleep(0)

OTHER = asyncio.Lock()
"""


async def test_a_package_keeps_its_loop_over_profiles_and_reloads(
    bub: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "boxed-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boxed\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[bub]\nboxed = bub_boxed:Plugin\n", encoding="utf-8")
    (info.parent / "bub_boxed.py").write_text(PACKAGE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(info.parent))
    framework = bub(
        "extends: bub:default\nplugins: {boxed: {runtime: asyncio}}\n"
        "routes: [{match: {channel: other}, profile: other}]\n"
        "profiles: {default: {plugins: [boxed]}, other: {plugins: [boxed]}}"
    )
    seen: set[str | None] = set()
    async with framework.running():
        for _ in range(2):
            for channel in ("cli", "other"):
                seen.add((await framework.process_inbound({**HELLO, "channel": channel})).model_output)
            await trio.to_thread.run_sync(framework.reload)
    assert len(seen) == 1
    assert not loops()
    sys.modules.pop("bub_boxed")


async def test_what_fails_in_a_task_that_nobody_awaits_is_in_the_log(bub: Workshop, log: list[str]) -> None:
    async def fail() -> None:
        raise ValueError("nobody looks")

    async def run_model() -> str:
        await asyncio.wait([asyncio.create_task(fail())])
        gc.collect()
        return "x"

    framework = on_asyncio(bub, "extends: bub:default", one=Toy(run_model=run_model))
    async with framework.running():
        await framework.process_inbound(HELLO)
    assert any("island.task_failed" in line and "nobody looks" in line for line in log)
