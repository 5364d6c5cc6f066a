"""What a turn may use: model calls, tool calls, the same call in a row, tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import msgspec
import trio

from bub.agent.bill import Bill
from bub.agent.journal import WRITING_PATIENCE
from bub.errors import BubError
from bub.pipeline.plan.limits import DEFAULT_LIMITS
from bub.tape import Tape, TapeEntry

_AT_ONCE = 100
"""Of how many answers that end at the same moment all are counted."""

_ASKING = ("tokens_per_turn", "tokens_per_day", "denials", "steps")
"""The limits that count when the model is asked."""

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


class Budget:
    """What one turn has used of what it may use. `limits` are those of the profile; a sub-agent shares its caller's."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = {**DEFAULT_LIMITS, **limits}
        self._used = dict.fromkeys(_WHAT, 0)
        self._last_call = b""
        self._results: dict[bytes, str] = {}
        self._repeats_of: Counter[str] = Counter()
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
        """How many tokens all turns have used today, as far as this one was told."""
        return self._used["tokens_per_day"]

    @used_today.setter
    def used_today(self, tokens: int) -> None:
        self._used["tokens_per_day"] = tokens

    @property
    def is_used_up(self) -> bool:
        """Whether the model may not be asked once more."""
        return any(self._used[limit] >= self._limits.get(limit, math.inf) for limit in _ASKING)

    def step(self) -> None:
        """Ask the model once more. Raises `BudgetError` when it may not be asked."""
        for limit in _ASKING:
            self._refuse_if_used_up(limit)
        self._used["steps"] += 1

    def call(self, tool: str, arguments: Any) -> None:
        """Call a tool once more. Raises `BudgetError` when none may be called, or not this again.

        A call that was made before counts as one without effect until `note_result` says that it had one.
        """
        self._spend("tool_calls")
        call = _encode_call(tool, arguments)
        if call in self._results:
            self._used["calls_per_tool"] = self._repeats_of[tool]
            self._refuse_if_used_up("calls_per_tool")
            self._repeats_of[tool] += 1
        self._results.setdefault(call, "")
        if call != self._last_call:
            self._last_call, self._used["identical_calls"] = call, 0
        self._spend("identical_calls")

    def note_result(self, tool: str, arguments: Any, result: str) -> None:
        """Note what a call came to: one that came to something else than last time was no mere repetition."""
        call, digest = _encode_call(tool, arguments), sha256(result.encode(errors="replace")).hexdigest()
        before, self._results[call] = self._results[call], digest
        if before in ("", digest):
            return
        self._repeats_of[tool] = max(self._repeats_of[tool] - 1, 0)
        if call == self._last_call:
            self._used["identical_calls"] = 1

    def note_denials(self, denied: Iterable[bool]) -> None:
        """Note of each call of a step whether a rule or a person was against it; one that went through ends a row."""
        self._used["denials"] = self._used["denials"] + 1 if all(denied) else 0

    def spend_tokens(self, tokens: int) -> None:
        """Note what an answer has used."""
        self._used["tokens_per_turn"] += tokens
        self._used["tokens_per_day"] += tokens

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
        most = self._limits.get(limit)
        if most is not None and self._used[limit] >= most:
            raise BudgetError(limit, most)


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


class DailySpending:
    """The tokens that a profile has used today, kept with the tapes, so that all turns and processes share them.

    Without a `store`, nothing is known of other turns.
    """

    def __init__(self, store: Any, profile: str) -> None:
        self._tape = Tape(f"budget__sidecar__{profile}", store) if store is not None else None

    async def today(self) -> int:
        """How many there are so far; a day is one in UTC."""
        total, _ = await self._count_day(_day())
        return total

    async def add(self, tokens: int) -> None:
        """Add what an answer has used, whoever wants to leave meanwhile."""
        if self._tape is None or not tokens:
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + WRITING_PATIENCE):
            day = _day()
            before, upto = await self._count_day(day)
            spent = {"day": day, "tokens": tokens, "before": before, "upto": upto}
            await self._tape.append(TapeEntry.event("tokens", spent))

    async def _count_day(self, day: str) -> tuple[int, int]:
        """The tokens of a day, and the entry up to which they are counted.

        Each entry says what was spent, and what had been spent before, as far as who wrote it knew: `upto` which entry.
        What others wrote behind that at the same moment is added, so reading a few entries counts all of them.
        """
        if self._tape is None:
            return 0, 0
        entries = await self._tape.search(self._tape.query(), most=_AT_ONCE)
        if not entries:
            return 0, 0
        newest = entries[0].payload["data"]
        if newest["day"] != day:
            return 0, entries[0].id
        spent = [entry.payload["data"] for entry in entries if entry.id > newest["upto"]]
        tokens = sum(one["tokens"] for one in spent if one["day"] == day)
        return newest["before"] + tokens, entries[0].id


def _encode_call(tool: str, arguments: Any) -> bytes:
    return sha256(msgspec.json.encode((tool, arguments), order="deterministic")).digest()


def _day() -> str:
    return datetime.now(UTC).date().isoformat()


def estimate_tokens(messages: Sequence[Mapping[str, Any]], answer: str) -> int:
    """About how many tokens a request and its answer are, where nobody counted: four letters are one."""
    return (len(msgspec.json.encode(messages, enc_hook=str)) + len(answer)) // 4
