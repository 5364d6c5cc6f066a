"""An object of Bub's own, as code on an island sees it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable
from typing import Any

from bub.base.waiting import is_awaitable
from bub.island.island import Island


class Guest:
    """Has what the object has that it stands for; whatever of it has to be awaited runs in trio.

    `__getattr__` finds what the object has; a subclass overrides what needs more than that.
    """

    def __init__(self, island: Island, host: Any) -> None:
        object.__setattr__(self, "_island", island)
        object.__setattr__(self, "_host", host)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._host, name)
        if inspect.iscoroutinefunction(found):
            return self._island.back(found)
        return functools.wraps(found)(_Method(self._island, found)) if inspect.isroutine(found) else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._host, name, value)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._island, self._host)(*arguments, **named)

    def __contains__(self, item: object) -> bool:
        return item in self._host

    def __repr__(self) -> str:
        return repr(self._host)


class _Method:
    """A method of such an object; what it returns is awaited in trio if it has to be awaited."""

    def __init__(self, island: Island, function: Any) -> None:
        self._island = island
        self._function = function

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        value = self._function(*arguments, **named)
        return self._island.back(_settle)(value) if is_awaitable(value) else value


async def _settle(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
