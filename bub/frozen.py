"""Containers that refuse to be changed, for implementations that may look but not touch."""

from __future__ import annotations

from typing import Any, NoReturn


def freeze(value: Any) -> Any:
    """A read-only copy of dicts and lists, all the way down; every other value as it is.

    What comes back still is a dict or a list, so that it prints, serialises and compares as one; changing it
    raises TypeError. `dict(frozen)` and `list(frozen)` give the reader a copy to work on.
    """
    kind = type(value)
    if kind is dict:
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if kind is list:
        return FrozenList([freeze(item) for item in value])
    return value


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError("this value is shared by several plugins and cannot be changed; return what you want changed")


class FrozenDict(dict[Any, Any]):
    """A dict that cannot be changed."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: Any) -> dict[Any, Any]:
        return {key: thaw(item) for key, item in self.items()}


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = reverse = (
        sort
    ) = _refuse

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return [thaw(item) for item in self]


def thaw(value: Any) -> Any:
    """The plain dicts and lists that `freeze` made read-only, as fresh copies."""
    if isinstance(value, FrozenDict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, FrozenList):
        return [thaw(item) for item in value]
    return value
