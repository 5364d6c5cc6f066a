"""How a broadcast combines what its implementations return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from bub.envelope import Envelope, unpack_batch


def merge_low_to_high(results: Sequence[Any]) -> dict[str, Any]:
    """One dict of all dicts; high priority wins per key (BEHAVIOURS T8)."""
    merged: dict[str, Any] = {}
    for part in reversed(results):
        if part:
            merged.update(part)
    return merged


def join_low_to_high(results: Sequence[Any]) -> str:
    """Return the strings that are not empty, low priority first, with a blank line between (BEHAVIOURS T34)."""
    return "\n\n".join(text for text in reversed(results) if text)


def concat(results: Sequence[Any]) -> list[Envelope]:
    """One list of all batches, flattened, in call order (BEHAVIOURS T24)."""
    return [item for batch in results for item in unpack_batch(batch)]


class Combining(msgspec.Struct, frozen=True):
    """One value of `combine`: what makes one of many, what an implementation has to return beside None, and more.

    `empty` makes the result if nothing was combined. `is_answer_if_empty`: an empty value counts if somebody gave just
    that.
    """

    together: Callable[[Sequence[Any]], Any]
    empty: Callable[[], Any]
    returns: tuple[type, ...] | None = None
    is_answer_if_empty: bool = True


COMBININGS: Mapping[str, Combining] = MappingProxyType(
    {
        "list": Combining(list, list),
        "merge": Combining(merge_low_to_high, dict, (dict,)),
        "concat": Combining(concat, list, is_answer_if_empty=False),
        "join": Combining(join_low_to_high, str, (str,)),
    }
)
"""Every `combine` by name."""
