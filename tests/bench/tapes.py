"""What tapes cost a turn, with more and more entries before the last anchor: both stores, and the reference Bub's."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import trio

from bub.tape import Tape, TapeEntry, TapeQuery
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.settings import session_settings
from bub.tape.sqlite import SqliteTapeStore

SIZES = (0, 1_000, 10_000, 100_000)
ROUNDS = 200
NAME = "bench__tape"
ABSENT = "a text that nobody ever said"

REFERENCE = os.environ.get("REFERENCE_PYTHON") or f"{sys.prefix}/reference/bin/python"
"""The Python that has the reference Bub; `make bench` sees to it where there is a Python 3.12."""

REFERENCE_PROGRAM = """
import asyncio, json, statistics, sys
from pathlib import Path
from time import perf_counter
from bub.store import AsyncTapeStoreAdapter, FileTapeStore, ForkTapeStore, TapeQuery
from bub.tape import TapeEntry

folder, name, absent, rounds = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
store = FileTapeStore(folder)
query = TapeQuery(name, store)
anchor = lambda: store.append(name, TapeEntry.anchor("next"))
said = lambda: TapeEntry.message({"role": "user", "content": "how is the weather in the mountains today"})

async def turn():
    parent = AsyncTapeStoreAdapter(store)
    asked = TapeQuery(name, parent)
    list(await parent.fetch_all(asked.kinds("anchor").limit(1)))
    list(await parent.fetch_all(asked.kinds("event")))
    fork = ForkTapeStore(parent, name)
    for _ in range(2):
        list(await fork.fetch_all(asked.last_anchor()))
    for _ in range(7):
        await fork.append(name, said())
    await fork.merge_back()

def timed(work, times, after=lambda: None):
    took = []
    for _ in range(times):
        began = perf_counter()
        work()
        took.append((perf_counter() - began) * 1000)
        after()
    return statistics.median(took)

async def turns(times):
    took = []
    for _ in range(times):
        began = perf_counter()
        await turn()
        took.append((perf_counter() - began) * 1000)
        anchor()
    return statistics.median(took)

began = perf_counter()
list(store.fetch_all(query.last_anchor()))
first = (perf_counter() - began) * 1000
append = timed(lambda: store.append(name, said()), rounds)
anchor()
turn = asyncio.run(turns(rounds))
search = timed(lambda: list(store.fetch_all(query.query(absent))), 3)
print(json.dumps([first, append, turn, search]))
"""


def measure() -> None:
    """Print milliseconds: the first read of a process, an append, a turn's reads and writes, searches without a hit.

    The first search finds nothing indexed; `search` is what one takes when its index is there, `index` what that took.
    """
    print(f"tapes, milliseconds: median of {ROUNDS} (first read, first search and index: once)")
    columns = ("first read", "append", "turn", "first search", "search", "2 letters", "index")
    print(f"{'':<10}{'entries before':>15}" + "".join(f"{column:>13}" for column in columns))
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'by hand':<10}{'':>15}{'':>13}{_by_hand(Path(folder) / 'floor.db'):>13.3f}")
        for kind in ("sqlite", "jsonl"):
            for size in SIZES:
                _measure_store(kind, Path(folder) / f"{kind}{size}", size)
        for size in SIZES:
            _measure_reference(Path(folder) / f"reference{size}", size)


def _measure_store(kind: str, folder: Path, size: int) -> None:
    fill_tape(_store(kind, folder), size)
    store = _store(kind, folder)
    began = perf_counter()
    store.fetch_all(TapeQuery(NAME).last_anchor())
    first = (perf_counter() - began) * 1000
    append = _median(lambda: store.append(NAME, _said()))
    store.append(NAME, TapeEntry.anchor("next"))
    turn = trio.run(take_turns, store)
    question = TapeQuery(NAME).newest().limit(20).query(ABSENT)
    began = perf_counter()
    store.fetch_all(question)
    searched = perf_counter()
    wait_for_index()
    index = (perf_counter() - searched) * 1000
    search = _median(lambda: store.fetch_all(question), 20)
    letters = _median(lambda: store.fetch_all(question.query("zq")), 5)
    store.close()
    _print_row(kind, size, first, append, turn, (searched - began) * 1000, search, letters, index)


def wait_for_index() -> None:
    """Wait until the thread that a search has started is done with the index."""
    for thread in threading.enumerate():
        if thread.name == "bub-tape-index":
            thread.join()


def _print_row(kind: str, size: int, *took: float | None) -> None:
    cells = (f"{'-':>13}" if milliseconds is None else f"{milliseconds:>13.3f}" for milliseconds in took)
    print(f"{kind:<10}{size:>15,}" + "".join(cells))


def _measure_reference(folder: Path, size: int) -> None:
    if not Path(REFERENCE).exists():
        if size == SIZES[0]:
            print("reference  left out: it needs Python 3.12, see the Makefile")
        return
    fill_tape(JsonlTapeStore(folder), size)
    command = [REFERENCE, "-I", "-c", REFERENCE_PROGRAM, str(folder), NAME, ABSENT, "20" if size > 10_000 else "50"]
    # Its log is not what is measured.
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LOGURU_LEVEL": "ERROR"})
    if done.returncode:
        print(f"reference  failed: {done.stderr.strip().splitlines()[-1]}")
        return
    first, append, turn, search = json.loads(done.stdout.splitlines()[-1])
    _print_row("reference", size, first, append, turn, search, search, None, None)


async def take_turns(store: SqliteTapeStore | JsonlTapeStore) -> float:
    """What a turn asks and writes: its session's settings, the context of two steps, seven entries in a fork."""
    tape = Tape(NAME, store)

    async def turn() -> None:
        await tape.ensure_bootstrap_anchor()
        await session_settings(tape)
        async with tape.fork() as fork:
            for _ in range(2):
                await fork.messages()
            await fork.append(*(_said() for _ in range(7)))

    return await _median_of_turns(turn, partial(tape.append, TapeEntry.anchor("next")))


async def _median_of_turns(turn: Callable[[], Awaitable[None]], after: Callable[[], Awaitable[None]]) -> float:
    took = []
    for _ in range(ROUNDS):
        began = perf_counter()
        await turn()
        took.append((perf_counter() - began) * 1000)
        await after()
    return statistics.median(took)


def _by_hand(file: Path) -> float:
    """One row in a transaction of its own: what any store on SQLite has to pay."""
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("pragma journal_mode = wal")
    db.execute("pragma synchronous = normal")
    db.execute("create table entries (id integer primary key, payload text)")
    payload = json.dumps(_said().payload)
    append = _median(lambda: db.execute("insert into entries (payload) values (?)", (payload,)))
    db.close()
    return append


def _median(work: Callable[[], object], times: int = ROUNDS) -> float:
    took = []
    for _ in range(times):
        began = perf_counter()
        work()
        took.append((perf_counter() - began) * 1000)
    return statistics.median(took)


def _store(kind: str, folder: Path) -> SqliteTapeStore | JsonlTapeStore:
    return SqliteTapeStore(folder / "tapes.db") if kind == "sqlite" else JsonlTapeStore(folder)


def fill_tape(store: SqliteTapeStore | JsonlTapeStore, size: int) -> None:
    """A tape with so many entries before its last anchor, and twenty behind it."""
    for start in range(0, size, 1_000):
        store.extend(NAME, [_said(number) for number in range(start, min(start + 1_000, size))])
    store.extend(NAME, [TapeEntry.anchor("last"), *(_said() for _ in range(20))])
    store.close()


def _said(number: int = 0) -> TapeEntry:
    return TapeEntry.message({"role": "user", "content": f"how is the weather in the mountains today, part {number}"})


if __name__ == "__main__":
    measure()
