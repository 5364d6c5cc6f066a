"""What answers cost, as far as the settings say what their provider takes for a model."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from bub.agent.models.usage import Tokens
from bub.pipeline.plan.providers import split_model

_UNIT = 1_000_000


class Price(msgspec.Struct, frozen=True):
    """What a million tokens cost. Those of the cache cost as much as others, unless a price for them is given."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def cost_of(self, tokens: Tokens) -> float:
        """What these tokens cost, in the currency of the price."""
        read = self.input if self.cache_read is None else self.cache_read
        written = self.input if self.cache_write is None else self.cache_write
        rest = tokens.sent - tokens.read - tokens.written
        whole = rest * self.input + tokens.read * read + tokens.written * written + tokens.received * self.output
        return whole / _UNIT


def price_of(settings: Mapping[str, Any], model: str) -> Price | None:
    """The price of a model, from `providers: {name: {price: {glob: …}}}`; the first glob that fits its name counts."""
    provider, name = split_model(model)
    entry = (settings.get("providers") or {}).get(provider) or {}
    for glob, price in (entry.get("price") or {}).items():
        if fnmatchcase(name, glob):
            return msgspec.convert(price, Price, strict=False)
    return None
