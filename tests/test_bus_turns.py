"""Turns over a bus: the framework makes one, and takes messages off it."""

from __future__ import annotations

from typing import Any

import pytest
from fakes.toys import HELLO, Errors, Toy, Workshop, raising

from bub.bus import MessageBus
from bub.errors import HookTypeError

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["default", "classic"])
def pipeline(request: pytest.FixtureRequest) -> str:
    return f"extends: bub:{request.param}"


def test_U4_without_a_provider_there_is_a_message_bus(workshop: Workshop, pipeline: str) -> None:
    assert isinstance(workshop(pipeline, toy=Toy(provide_bus=lambda: None)).create_bus(), MessageBus)


def test_U4_the_first_bus_that_is_provided_counts(workshop: Workshop) -> None:
    low, high = MessageBus(), MessageBus()
    framework = workshop(low=Toy(provide_bus=lambda: low), high=Toy(provide_bus=lambda: high))
    assert framework.create_bus() is high


def test_U5_what_is_no_bus_is_an_error_and_hides_nothing(workshop: Workshop) -> None:
    errors = Errors()
    framework = workshop(
        good=Toy(provide_bus=lambda: MessageBus()),
        bad=Toy(provide_bus=lambda: object()),
        watcher=Toy(on_error=errors.told),
    )
    with pytest.raises(HookTypeError, match="`bad`"):
        framework.create_bus()
    assert errors.stages == ["provide_bus:bad"]


def test_U5_a_provider_that_fails_is_told_and_raised(workshop: Workshop) -> None:
    errors = Errors()
    framework = workshop(toy=Toy(provide_bus=raising(OSError("no broker")), on_error=errors.told))
    with pytest.raises(OSError, match="no broker"):
        framework.create_bus()
    assert errors.stages == ["provide_bus:toy"]


async def test_U6_a_message_is_answered_over_the_bus_and_dispatched_too(workshop: Workshop, pipeline: str) -> None:
    dispatched: list[Any] = []
    toy = Toy(run_model=lambda: "hi there", dispatch_outbound=lambda message: dispatched.append(message))
    framework = workshop(pipeline, toy=toy)
    bus = framework.create_bus()
    await bus.publish_inbound(HELLO)
    result = await framework.handle_bus_once(bus, timeout_seconds=0)
    assert result is not None
    reply = await bus.next_outbound(0)
    assert (reply["content"], result.session_id) == ("hi there", "cli:local")
    assert dispatched == result.outbounds == [reply]
    assert await framework.handle_bus_once(bus, timeout_seconds=0) is None


async def test_U7_a_message_whose_turn_fails_is_put_aside(workshop: Workshop) -> None:
    framework = workshop(toy=Toy(run_model=raising(ValueError("no idea"))))
    bus = MessageBus()
    await bus.publish_inbound(HELLO)
    with pytest.raises(ValueError, match="no idea"):
        await framework.handle_bus_once(bus, timeout_seconds=0)
    assert [message for message, *_ in bus.aside] == [HELLO]
