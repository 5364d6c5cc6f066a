"""A turn finds its session in one process and goes on in another: what was made goes along, and nothing runs twice."""

from __future__ import annotations

from typing import Any

import pytest
from fakes.toys import Toy, Workshop

from bub import BubFramework
from bub.channels import ChannelMessage
from bub.runtime.arriving.arrival import read_arrival

pytestmark = pytest.mark.anyio

MESSAGE = ChannelMessage("line", "1", "hello", context={"who": "Zoë"})


class Seen:
    """What the hooks of one process were called for."""

    def __init__(self) -> None:
        self.calls: list[str] = []


async def turn_to(framework: BubFramework) -> tuple[str, bytes]:
    """Let a message arrive, as in the first process; return its session, and what is written of it."""
    turn = framework.begin(MESSAGE)
    await turn.arrive()
    written = turn.write_arrival()
    session = turn.session_id
    await turn.close()
    return session, written


SMALL = """
extends: bub:default
stages:
  guard: {kind: gate, before: resolve_session}
  room: {kind: firstresult, into: room, before: resolve_session}
hooks: {guard: {kind: gate}, room: {kind: firstresult}}
"""


@pytest.mark.parametrize("thing", ["plain", object()])
async def test_what_the_stages_above_the_session_made_goes_along(bub: Workshop, thing: Any) -> None:
    first, second = Seen(), Seen()
    room: Any = {"name": "attic", "seats": [1, 2]} if thing == "plain" else thing

    def toy_of(seen: Seen) -> Toy:
        return Toy(
            guard=lambda: seen.calls.append("guard"),
            room=lambda: (seen.calls.append("room"), room)[1],
            resolve_session=lambda: (seen.calls.append("session"), "shared")[1],
            run_model=lambda: "an answer",
        )

    framework = bub(SMALL, toy=toy_of(first))
    async with framework.running():
        session, written = await turn_to(framework)
    assert (session, first.calls) == ("shared", ["guard", "room", "session"])
    arrival = read_arrival(written)
    assert arrival is not None
    assert arrival.read_values().get("room") == (room if thing == "plain" else None)
    framework = bub(SMALL, toy=toy_of(second))
    async with framework.running():
        turn = framework.begin(MESSAGE)
        await turn.resume(session, written)
        assert turn.session_id == "shared"
        await turn.hold()
        result = await turn.answer()
        await turn.close()
    assert second.calls == ([] if thing == "plain" else ["room"])
    assert result.session_id == "shared"
    assert result.model_output == "an answer"


async def test_what_cannot_be_read_runs_from_the_beginning(bub: Workshop) -> None:
    seen: list[str] = []
    framework = bub(
        SMALL,
        toy=Toy(guard=lambda: seen.append("guard"), room=lambda: 1, resolve_session=lambda: "shared"),
    )
    async with framework.running():
        turn = framework.begin(MESSAGE)
        await turn.resume("shared", b"")
        assert (turn.session_id, seen) == ("shared", ["guard"])
        await turn.close()
