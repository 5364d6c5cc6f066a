"""How many tokens an answer cost, from what its provider counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Tokens(msgspec.Struct, frozen=True):
    """The tokens of answers. `sent` holds those that were `read` from the provider's cache, or `written` to it."""

    sent: int = 0
    received: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.sent + other.sent,
            self.received + other.received,
            self.read + other.read,
            self.written + other.written,
        )


def tokens_of(usage: Mapping[str, Any] | None) -> int:
    """All tokens of a `usage` event, sent and received, cached ones counted once; 0 if nothing was counted.

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
    """The tokens of a `usage` event by direction, cached ones counted as sent; zeros if nothing was counted."""
    counted = count_tokens(usage)
    return counted.sent, counted.received


def count_tokens(usage: Mapping[str, Any] | None) -> Tokens:
    """The tokens of a `usage` event; zeros if nothing was counted.

    OpenAI's APIs, and those like them, say in details, or in a field beside it (DeepSeek), how many of what was sent
    they had in their cache.
    """
    if not usage:
        return Tokens()
    if "prompt_tokens" in usage or "completion_tokens" in usage:
        read = _detail(usage, "prompt_tokens_details") or _count(usage, "prompt_cache_hit_tokens")
        return Tokens(_count(usage, "prompt_tokens"), _count(usage, "completion_tokens"), read)
    received = _count(usage, "output_tokens")
    if "input_tokens_details" in usage:
        return Tokens(_count(usage, "input_tokens"), received, _detail(usage, "input_tokens_details"))
    written, read = _count(usage, "cache_creation_input_tokens"), _count(usage, "cache_read_input_tokens")
    return Tokens(_count(usage, "input_tokens") + written + read, received, read, written)


def _detail(usage: Mapping[str, Any], key: str) -> int:
    details = usage.get(key)
    return _count(details, "cached_tokens") if isinstance(details, Mapping) else 0


def _count(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
