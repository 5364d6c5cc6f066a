"""Pipelines with one stage of any kind, and implementations that take their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from fakes.toys import HELLO, Toy, Workshop


async def forever() -> Any:
    await trio.sleep_forever()


def sleeping(seconds: float, seen: list[Any] | None = None, name: str = "", answer: Any = None) -> Any:
    """An implementation that takes a while, notes that it came through, and answers."""

    async def sleep() -> Any:
        await trio.sleep(seconds)
        if seen is not None:
            seen.append(name)
        return answer

    return sleep


UNCHECKED = "This could not be checked, so it was not done."
"""The reason that is given for a gate that broke."""

ONE_STAGE = """
hooks:
  ask: {{kind: {kind}}}
  look: {{kind: observer, takes: [found]}}
stages:
  ask: {{kind: {kind}, {more}}}
  look: {{kind: observer}}
"""


def one_stage(kind: str, more: str) -> str:
    return ONE_STAGE.format(kind=kind, more=more)


async def found_by(bub: Workshop, kind: str, more: str, *answers: Callable[[], Any]) -> Any:
    """What a stage of one kind makes of its implementations, the lowest priority given first."""
    seen: list[Any] = []
    plugins = {f"p{index}": Toy(ask=answer) for index, answer in enumerate(answers)}
    framework = bub(one_stage(kind, f"into: found, {more}"), **plugins, last=Toy(look=lambda found: seen.append(found)))
    await framework.process_inbound(HELLO)
    return seen[0]
