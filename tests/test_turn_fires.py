"""A whole turn: points that implementations fire themselves."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
import trio
from fakes.stages import UNCHECKED, forever
from fakes.toys import HELLO, Errors, Toy, Workshop, a_stream, raising

from bub.errors import BubError
from bub.hookspecs import BubHookSpecs

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


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


def test_the_docstring_of_on_error_says_that_it_gets_the_name_of_a_late_fired_point() -> None:
    said = " ".join((BubHookSpecs.on_error.__doc__ or "").split())
    assert "the name of the hook point if a point that is no stage, such as `tool_gate`, took longer than" in said


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
