"""How many tokens an answer cost, from what its provider counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def tokens_of(usage: Mapping[str, Any] | None) -> int:
    """All tokens of a `usage` event, sent and received, cached ones counted once; 0 where nothing was counted.

    OpenAI's `prompt_tokens` hold the cached ones already and its total is their sum with the completion. Anthropic
    counts what was read from the cache, what was written to it, and what passed it by, each on its own.
    """
    if not usage:
        return 0
    total = _count(usage, "total_tokens")
    if total:
        return total
    return sum(count_directions(usage))


def count_directions(usage: Mapping[str, Any] | None) -> tuple[int, int]:
    """The tokens of a `usage` event by direction, cached ones counted as sent; zeros where nothing was counted."""
    if not usage:
        return 0, 0
    if "prompt_tokens" in usage or "completion_tokens" in usage:
        return _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    sent = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(_count(usage, key) for key in sent), _count(usage, "output_tokens")


def _count(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
