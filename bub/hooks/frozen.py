"""Containers that refuse to be changed, for implementations that may look but not touch."""

from __future__ import annotations

from typing import Any, NoReturn


def freeze(value: Any) -> Any:
    """A read-only copy of dicts, lists and tuples, all the way down; every other value as it is.

    What comes back still is a dict or a list, so that it prints, serialises and compares as one; changing it
    raises TypeError. `dict(frozen)` and `list(frozen)` give the reader a copy to work on.
    """
    kind = type(value)
    if kind is dict:
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if kind is list:
        return FrozenList([freeze(item) for item in value])
    if kind is tuple:
        return tuple([freeze(item) for item in value])
    return value


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError("this value is shared by several plugins and cannot be changed; return what you want changed")


class FrozenDict(dict[Any, Any]):
    """A dict that cannot be changed."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return dict, (thaw(self),)  # a copy is a plain one: `copy` and `pickle` fill what they made item by item


class FrozenList(list[Any]):
    """A list that cannot be changed."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = reverse = (
        sort
    ) = _refuse

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return list, (thaw(self),)


def thaw(value: Any) -> Any:
    """Plain dicts and lists, as fresh copies, wherever `freeze` made read-only ones, inside plain ones too.

    What holds nothing read-only stays the object it is.
    """
    if isinstance(value, FrozenDict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, FrozenList):
        return [thaw(item) for item in value]
    kind = type(value)
    if kind is dict:
        fields = {key: thaw(item) for key, item in value.items()}
        return fields if any(fields[key] is not value[key] for key in value) else value
    if kind is list:
        items = [thaw(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value
