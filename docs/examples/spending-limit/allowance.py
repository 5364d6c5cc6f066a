"""An allowance of tokens for each person and day (in UTC), counted in one SQLite file of the workspace."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import trio

from bub import BubFramework, Settings, hookimpl
from bub.envelope import field_of


class AllowanceSettings(Settings, section="allowance"):
    tokens_a_day: int


class Allowance:
    def __init__(self, framework: BubFramework) -> None:
        self._most = AllowanceSettings.of(framework).tokens_a_day
        self._file = framework.workspace / "allowance.db"

    @hookimpl
    async def allowance(self, message: Any) -> dict[str, str] | None:
        """Whether whoever writes may ask the model once more."""
        used = await trio.to_thread.run_sync(self._used, _who(message))
        if used < self._most:
            return None
        return {"deny": f"Your {self._most:,} tokens for today are used up. Until tomorrow!"}

    @hookimpl
    async def after_llm_call(self, message: Any, response: dict[str, Any]) -> None:
        """Count what an answer has used, as its provider counted it."""
        tokens = int((response["usage"] or {}).get("total_tokens", 0))
        await trio.to_thread.run_sync(self._add, _who(message), tokens)

    def _used(self, who: str) -> int:
        with closing(self._open()) as database:
            row = database.execute("SELECT sum(tokens) FROM used WHERE who = ? AND day = ?", (who, _today()))
            return int(row.fetchone()[0] or 0)

    def _add(self, who: str, tokens: int) -> None:
        with closing(self._open()) as database, database:
            database.execute("INSERT INTO used VALUES (?, ?, ?)", (who, _today(), tokens))

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file)
        database.execute("CREATE TABLE IF NOT EXISTS used (who TEXT, day TEXT, tokens INTEGER)")
        return database


def _who(message: Any) -> str:
    return f"{field_of(message, 'channel')}:{field_of(message, 'sender_id', '')}"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


plugin = Allowance
