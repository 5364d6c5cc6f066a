"""Facts that are kept for each session, in one SQLite file of the workspace."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Annotated, Any

import trio

import bub
from bub import BubFramework, hookimpl
from bub.tools import Tool, ToolContext


@bub.tool(name="memory.keep")
def keep(fact: Annotated[str, "One fact, in one sentence."], *, context: ToolContext) -> str:
    """Keep a fact that will still matter in later conversations."""
    context.state["facts"].append(fact)
    return f"kept: {fact}"


class Memory:
    def __init__(self, framework: BubFramework) -> None:
        self._file = framework.workspace / "memory.db"

    @hookimpl
    def provide_tools(self) -> list[Tool]:
        return [keep]

    @hookimpl
    async def load_state(self, session_id: str) -> dict[str, Any]:
        """What is known in this session, at the beginning of each turn."""
        return {"facts": await trio.to_thread.run_sync(self._read, session_id)}

    @hookimpl
    def system_prompt(self, state: dict[str, Any]) -> str:
        """What the model is told of it."""
        return "\n".join(["What you know:", *(f"- {fact}" for fact in state["facts"])]) if state["facts"] else ""

    @hookimpl
    async def save_state(self, session_id: str, state: dict[str, Any]) -> None:
        """What is known now, at the end of each turn, however it ended."""
        await trio.to_thread.run_sync(self._write, session_id, state["facts"])

    def _read(self, session_id: str) -> list[str]:
        with closing(self._open()) as database:
            rows = database.execute("SELECT fact FROM facts WHERE session = ? ORDER BY rowid", (session_id,))
            return [fact for (fact,) in rows]

    def _write(self, session_id: str, facts: list[str]) -> None:
        with closing(self._open()) as database, database:
            rows = [(session_id, fact) for fact in facts]
            database.executemany("INSERT OR IGNORE INTO facts VALUES (?, ?)", rows)

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._file)
        database.execute("CREATE TABLE IF NOT EXISTS facts (session TEXT, fact TEXT, UNIQUE (session, fact))")
        return database


plugin = Memory
