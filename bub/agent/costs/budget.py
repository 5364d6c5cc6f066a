"""What a turn may use: model calls, tool calls, the same call in a row, tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from bub.agent.calls.caller import ToolCall, ToolOutcome
from bub.agent.costs.bill import Bill
from bub.agent.window.measure import tokens_of_messages, tokens_of_text
from bub.errors import BubError
from bub.pipeline.plan.limits import DEFAULT_LIMITS

_ASKING = ("tokens_per_turn", "tokens_per_day", "denials", "steps")
"""The limits that count when the model is asked."""

_NEARLY = 0.8
"""The part of a limit at which Bub warns the model."""

_WARNED_OF: Mapping[str, str] = {
    "steps": "answers",
    "tool_calls": "tool calls",
    "tokens_per_turn": "tokens",
    "tokens_per_day": "tokens for today",
}
"""The limits that Bub warns the model about before they end the turn, and what they count."""

_SUM_UP = "No tool can be called any more. Tell the person now what you have done, what you found, and what is left"

_WHAT: Mapping[str, str] = {
    "steps": "it asked the model {} time{}",
    "tool_calls": "it called tools {} time{}",
    "calls_per_tool": "it repeated calls of one tool {} time{} without effect",
    "identical_calls": "it made the same tool call {} time{} in a row, with the same result",
    "denials": "a rule or a person denied every tool call of {} step{} in a row",
    "tokens_per_turn": "it used {} token{}",
    "tokens_per_day": "{} token{} were used today",
}


class BudgetError(BubError):
    """A turn was ended because it reached a limit of its profile's `budget:`; `limit` is the key of it."""

    def __init__(self, limit: str, most: int) -> None:
        what = _WHAT[limit].format(f"{most:,}", "s" if most > 1 else "")
        super().__init__(
            f"the turn was stopped: {what}, and more is not allowed",
            help=f"raise `budget.{limit}` of the profile if that was too early",
        )
        self.limit = limit
        self._most = most

    def copy(self) -> BudgetError:
        """Return another error that says the same; by its traceback, one that is raised names whoever keeps it."""
        return BudgetError(self.limit, self._most)


class Budget:
    """What one turn has used of what it may use. `limits` are those of the profile; a sub-agent shares its caller's."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = {**DEFAULT_LIMITS, **limits}
        self._used = dict.fromkeys(_WHAT, 0)
        self._last_call = b""
        self._results: dict[bytes, bytes] = {}
        self._last_tokens = 0
        self._warned: set[str] = set()
        self._repeats_of: Counter[str] = Counter()
        self.ended_by: BudgetError | None = None
        """The limit that ends the turn, once the model may only sum up."""
        self.bill = Bill()
        """What the turn has used and cost."""

    @property
    def is_daily(self) -> bool:
        """Whether it has to be known what other turns have used today."""
        return "tokens_per_day" in self._limits

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens are limited at all."""
        return self.is_daily or "tokens_per_turn" in self._limits

    @property
    def tokens(self) -> int:
        """How many tokens the turn has used, sub-agents included."""
        return self._used["tokens_per_turn"]

    @property
    def used_today(self) -> int:
        """How many tokens all turns have used today, as far as this one knows."""
        return self._used["tokens_per_day"]

    @used_today.setter
    def used_today(self, tokens: int) -> None:
        self._used["tokens_per_day"] = tokens

    @property
    def is_used_up(self) -> bool:
        """Whether the model may not be asked once more."""
        return any(self._used[limit] >= self._limits.get(limit, math.inf) for limit in _ASKING)

    def take_step(self) -> str | None:
        """Count that the model is asked once more; return what it has to read about the limits.

        Before a limit ends the turn, `ended_by` is set: the model sums up, and may call nothing. Raises `BudgetError`
        if it may not be asked at all.
        """
        if self.ended_by is None:
            self.ended_by = self._find_last_limit()
        if self.ended_by is not None:
            self._used["denials"] = 0
        for limit in _ASKING:
            self._refuse_if_used_up(limit)
        self._used["steps"] += 1
        return f"[{self.ended_by}. {_SUM_UP}]" if self.ended_by is not None else self._warn()

    def take_calls(self, calls: Iterable[ToolCall]) -> None:
        """Count the calls of a step. Raises `BudgetError` if one of them may not be made, or not once more.

        A call that was made before counts as one without effect until `note_outcomes` says that it had one.
        """
        if self.ended_by is not None:
            raise self.ended_by.copy()
        try:
            for call in calls:
                self._take_call(call.name, _encode(call))
        except BudgetError as error:
            self.ended_by = error.copy()
            raise

    def _take_call(self, tool: str, call: bytes) -> None:
        self._spend("tool_calls")
        if call in self._results:
            self._used["calls_per_tool"] = self._repeats_of[tool]
            self._refuse_if_used_up("calls_per_tool")
            self._repeats_of[tool] += 1
        self._results.setdefault(call, b"")
        if call != self._last_call:
            self._last_call, self._used["identical_calls"] = call, 0
        self._spend("identical_calls")

    def note_outcomes(self, outcomes: Sequence[ToolOutcome]) -> None:
        """Note the outcomes of the calls of a step.

        If a call had another outcome than last time, it was no repetition. One that nobody was against ends a row of
        denials.
        """
        for outcome in outcomes:
            call, result = _encode(outcome.call), _digest(outcome.content.encode(errors="replace"))
            before, self._results[call] = self._results[call], result
            if before in (b"", result):
                continue
            self._repeats_of[outcome.call.name] -= 1
            if call == self._last_call:
                self._used["identical_calls"] = 1
        self._used["denials"] = self._used["denials"] + 1 if all(one.is_denied for one in outcomes) else 0

    def spend_tokens(self, tokens: int) -> None:
        """Note what an answer has used."""
        self._last_tokens = tokens
        self._used["tokens_per_turn"] += tokens
        self._used["tokens_per_day"] += tokens

    def _find_last_limit(self) -> BudgetError | None:
        """Return the limit that leaves one more answer; None if there is none. A turn of one step has no summary."""
        if 0 < self._used["steps"] == self._limits["steps"] - 1:
            return self._error("steps")
        if self._used["denials"] >= self._limits["denials"]:
            return self._error("denials")
        for limit in ("tokens_per_turn", "tokens_per_day"):
            # The next answer costs what the last one did, or more; after it there must be room for the summary.
            room = 2 * self._last_tokens
            if room and self._used[limit] < self._limits.get(limit, math.inf) <= self._used[limit] + room:
                return self._error(limit)
        return None

    def _warn(self) -> str | None:
        """Return what the model has to know of limits that it comes near to, once for each; None if there is none."""
        near = {
            limit: f"{self._used[limit]:,} of {self._limits[limit]:,} {what}"
            for limit, what in _WARNED_OF.items()
            if limit not in self._warned and self._used[limit] >= _NEARLY * self._limits.get(limit, math.inf)
        }
        if not near or self._used["steps"] == 1:
            return None
        self._warned |= near.keys()
        return f"[this turn has used {', '.join(near.values())}. Do what matters most first, then answer]"

    def for_subagent(self) -> Budget:
        """A budget with steps of its own; tool calls, tokens and costs are counted together with this one's."""
        inner = Budget(self._limits)
        inner._used = _Shared(self._used)
        inner._results, inner._repeats_of = self._results, self._repeats_of
        inner.bill = self.bill
        return inner

    def _spend(self, limit: str) -> None:
        self._refuse_if_used_up(limit)
        self._used[limit] += 1

    def _refuse_if_used_up(self, limit: str) -> None:
        if self._used[limit] >= self._limits.get(limit, math.inf):
            raise self._error(limit)

    def _error(self, limit: str) -> BudgetError:
        return BudgetError(limit, self._limits[limit])


class _Shared(dict[str, int]):
    """What a sub-agent has used: its steps, repetitions and denials are its own, the rest is its caller's too."""

    _OWN = frozenset({"steps", "identical_calls", "denials"})

    def __init__(self, outer: dict[str, int]) -> None:
        super().__init__(dict.fromkeys(self._OWN, 0))
        self._outer = outer

    def __missing__(self, limit: str) -> int:
        return self._outer[limit]

    def __setitem__(self, limit: str, used: int) -> None:
        if limit in self._OWN:
            super().__setitem__(limit, used)
        else:
            self._outer[limit] = used


def estimate_tokens(messages: Sequence[Mapping[str, Any]], answer: str) -> int:
    """About how many tokens a request and its answer are, if nobody counted; a picture is as many, however large."""
    return tokens_of_messages(messages) + tokens_of_text(answer)


def _encode(call: ToolCall) -> bytes:
    return _digest(msgspec.json.encode((call.name, call.asked), order="deterministic"))


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()
