"""What the answers of one turn have used and cost, those of its sub-agents included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bub.agent.costs.prices import price_of
from bub.agent.models.usage import Tokens, count_tokens


class Bill:
    """Grows with each answer of a turn. What it says of the costs, it says only if it knows those of each answer."""

    def __init__(self) -> None:
        self._tokens = Tokens()
        self._cost: float | None = 0.0

    def add(self, usage: Mapping[str, Any] | None, settings: Mapping[str, Any], model: str) -> None:
        """Add an answer of a model, with what its provider counted."""
        tokens = count_tokens(usage)
        price = price_of(settings, model) if tokens != Tokens() else None
        self._tokens += tokens
        self._cost = self._cost + price.cost_of(tokens) if self._cost is not None and price is not None else None

    def as_dict(self) -> dict[str, Any]:
        """Say what is known: the `usage`, if a provider counted, and the `cost`, if the settings have the prices."""
        tokens = self._tokens
        if tokens == Tokens():
            return {}
        counted = {"input_tokens": tokens.sent, "output_tokens": tokens.received, "cached_tokens": tokens.read}
        return {"usage": counted, **({"cost": round(self._cost, 9)} if self._cost is not None else {})}
