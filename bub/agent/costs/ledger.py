"""The counts of each answer of a turn: in the runtime's numbers, on the bill, in the budget, and for the day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bub.agent.costs.budget import Budget, estimate_tokens
from bub.agent.costs.spending import DailySpending
from bub.agent.models.usage import count_directions, tokens_of
from bub.plugins.view import ProfileView


class Ledger:
    """Counts for one turn of a profile, whose `budget` may be that of the turn or of a sub-agent."""

    def __init__(self, framework: ProfileView, budget: Budget) -> None:
        self._framework = framework
        self._budget = budget
        self._spending = DailySpending(framework.get_tape_store(), framework.profile)

    async def read_day(self) -> None:
        """Let the budget know what was used today, if that is limited."""
        if self._budget.is_daily:
            self._budget.used_today = await self._spending.today()

    def note(self, model: str, usage: Mapping[str, Any] | None, outcome: str, took: float) -> None:
        """Note that a model, "" for that of the settings, was asked, what it counted, and how long it took."""
        settings = self._framework.settings
        model = model or str(settings.get("model") or "")
        sent, received = count_directions(usage)
        self._framework.counts.model(model, outcome, took, sent=sent, received=received)
        if usage or outcome == "ok":
            self._budget.bill.add(usage, settings, model)

    async def spend(self, usage: Mapping[str, Any] | None, messages: Sequence[Mapping[str, Any]], text: str) -> None:
        """Take the tokens of an answer off the budget: what nobody counted is estimated (BEHAVIOURS E21)."""
        tokens = tokens_of(usage)
        if not tokens and self._budget.counts_tokens:
            tokens = estimate_tokens(messages, text)
        self._budget.spend_tokens(tokens)
        if self._budget.is_daily:
            await self._spending.add(tokens)
