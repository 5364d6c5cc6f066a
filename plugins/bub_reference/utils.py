"""Small helpers that plugins share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

from bub_reference.tape import TapeEntry

_T = TypeVar("_T")


def exclude_none(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping without what is None."""
    return {name: value for name, value in mapping.items() if value is not None}


def workspace_from_state(state: Mapping[str, Any]) -> Path:
    """The folder that a turn works in."""
    said = state.get("_runtime_workspace")
    chosen = Path(said).expanduser() if isinstance(said, str) and said.strip() else Path.cwd()
    return chosen.resolve()


def get_entry_text(entry: TapeEntry) -> str:
    """What happened, as YAML."""
    text: str = yaml.safe_dump(entry.payload)
    return text


async def wait_until_stopped(work: Coroutine[None, None, _T], stop_event: asyncio.Event) -> _T:
    """Do the work; raises `CancelledError` if the event is set before it is done."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop_event.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not stop_event.is_set():
            return working.result()
        raise asyncio.CancelledError("it was stopped")
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def maybe_context_manager(given: Any, stack: AsyncExitStack) -> Any:
    """What an iterator or context manager yields, closed with `stack`; anything else as it is."""
    if hasattr(given, "__aenter__"):
        return await stack.enter_async_context(given)
    if hasattr(given, "__enter__"):
        return stack.enter_context(given)
    if isinstance(given, AsyncIterator):
        return await stack.enter_async_context(asynccontextmanager(lambda: given)())
    if isinstance(given, Iterator):
        return stack.enter_context(contextmanager(lambda: given)())
    return given
