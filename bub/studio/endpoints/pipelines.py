"""The pipeline as it is loaded: its picture, one stage, and the way of a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import trio

from bub.studio.access import RefusedRequestError
from bub.studio.requests import Asked
from bub.studio.studio import Studio
from bub.studio.views.graph import draw_graph
from bub.studio.views.stage import show_stage
from bub.studio.views.way import find_way


async def show_graph(studio: Studio, asked: Asked) -> Any:
    """Return the picture of a profile."""
    profile = asked.name("profile", studio.framework.profile)
    return await trio.to_thread.run_sync(draw_graph, studio.framework.generation, profile)


async def describe_stage(studio: Studio, asked: Asked) -> Any:
    """Describe a stage as `bub explain` does, with what was counted of it and its last errors."""
    framework, stage = studio.framework, asked.name("stage")
    profile = asked.name("profile", framework.profile)
    shown = await trio.to_thread.run_sync(show_stage, framework.generation, profile, stage, framework.mask)
    numbers = studio.recorder.stages.get((profile, stage))
    count, failed, p50, p95, p99 = numbers.summary() if numbers is not None else (0, 0, None, None, None)
    # Not what `live` saw: nobody may be looking, and it would keep these turns after their end.
    under_way = (turn for turn in framework.turns_under_way if turn.profile.name == profile)
    running = sum(list(turn.stages_now).count(stage) for turn in under_way)
    return {
        **shown,
        "errors": [msgspec.structs.asdict(one) for one in reversed(numbers.errors)] if numbers is not None else [],
        "numbers": {"count": count, "failed": failed, "running": running, "p50": p50, "p95": p95, "p99": p99},
    }


async def find_way_of(studio: Studio, asked: Asked) -> Any:
    """Return which way a message would go; nothing runs."""
    framework, message = studio.framework, asked.body.get("message")
    if not isinstance(message, Mapping):
        raise RefusedRequestError(400, "`message` has to be an object")
    return find_way(
        framework.generation,
        {str(name): str(value) for name, value in message.items()},
        asked.name("session", "new"),
        framework.mask,
        profile=asked.name("profile", "") or None,
        registered=framework.registry.registered,
    )
