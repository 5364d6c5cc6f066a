"""Plugins that run on asyncio: toys in pipeline files, and the threads of their loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from fakes.toys import Workshop

from bub import BubFramework


def on_asyncio(bub: Workshop, pipeline: str, *below: str, **toys: object) -> BubFramework:
    """A pipeline whose plugins run on asyncio, but for those named `below`."""
    plugins = ", ".join(f"{name}: {{path: {name}.py{'' if name in below else ', runtime: asyncio'}}}" for name in toys)
    return bub(f"{pipeline.strip()}\nplugins: {{{plugins}}}", **toys)


async def thread_here(*_: Any) -> str:
    """Where it runs: on a loop, in which thread."""
    await asyncio.sleep(0)
    return threading.current_thread().name


def loops() -> list[str]:
    """The threads of loops that run now."""
    names = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("bub island"))
    return [name for name in names if not name.endswith("watched")]
