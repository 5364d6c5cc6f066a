"""What the page of `bub studio` shows of tapes, in each store: sessions, pages, searches, the part of a turn."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.lowlevel
from fakes.redis_server import TAPES, find_redis_server
from fakes.toys import Toy, Workshop

from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of
from bub.secrets.redactor import Redactor
from bub.studio.endpoints.turns import describe_turn
from bub.studio.recorder import Recorder
from bub.studio.requests import Asked
from bub.studio.views.loaded import NotThereError
from bub.studio.views.rows import MOST_TEXT, row_of
from bub.studio.views.tapes import list_sessions, read_tape, read_turn, search_tapes
from bub.tape.entry import TapeEntry
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.shared.store import open_redis_tapes
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.tape import Tape, tape_name

pytestmark = [pytest.mark.usefixtures("redis_for_tapes"), pytest.mark.anyio]

MASK = Redactor.of(["hunter22-secret"])
Open = Callable[[], AbstractAsyncContextManager[Any]]


@pytest.fixture(params=["sqlite", "jsonl", *(["redis"] if find_redis_server() else [])])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens a store of each kind."""

    @asynccontextmanager
    async def open_it() -> AsyncIterator[Any]:
        if request.param == "redis":
            async with open_redis_tapes(StoreAddress.parse(os.environ[TAPES]), agent_of(tmp_path)) as shared:
                yield shared
            return
        store = JsonlTapeStore(tmp_path / "t") if request.param == "jsonl" else SqliteTapeStore(tmp_path / "t.db")
        yield store
        store.close()

    return open_it


def said(text: str, role: str = "user", at: float | None = None, **meta: Any) -> TapeEntry:
    date = {} if at is None else {"date": datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")}
    return TapeEntry(0, "message", {"role": role, "content": text}, meta, **date)


async def talk(store: Any, workspace: Path, session: str, *entries: TapeEntry) -> None:
    tape = Tape(tape_name(workspace, session), store)
    await tape.ensure_bootstrap_anchor(session, workspace)
    await tape.append(*entries)


async def test_sessions_are_listed_by_their_last_use_and_those_of_other_folders_and_sidecars_are_not(
    opened: Open, tmp_path: Path
) -> None:
    now = time.time()
    async with opened() as store:
        await talk(store, tmp_path, "cli:local", said("hi", at=now), said("hello", "assistant", now + 1))
        await talk(store, tmp_path, "telegram:7", said("yes", at=now + 5), said("my hunter22-secret", at=now + 9))
        await talk(store, tmp_path / "elsewhere", "cli:other", said("not ours"))
        await Tape(tape_name(tmp_path, "cli:local"), store).sidecar("media").append(TapeEntry.event("media"))
        found = await list_sessions(store, tmp_path, MASK)
        assert [(one["session"], one["turns"], one["text"]) for one in found["sessions"]] == [
            ("telegram:7", 2, "my ***"),
            ("cli:local", 1, "hello"),
        ]
        assert not found["more"] and found["sessions"][0]["at"] == pytest.approx(now + 9, abs=0.001)
        first = await list_sessions(store, tmp_path, MASK, most=1)
        assert first["more"] and len(first["sessions"]) == 1
        rest = await list_sessions(store, tmp_path, MASK, before=first["sessions"][0]["at"])
        assert [one["session"] for one in rest["sessions"]] == ["cli:local"]


async def test_a_tape_is_read_page_by_page_from_its_end_and_each_entry_comes_once(opened: Open, tmp_path: Path) -> None:
    async with opened() as store:
        await talk(store, tmp_path, "s", *(said(f"number {number}") for number in range(25)))
        seen: list[int] = []
        before = None
        while True:
            page = await read_tape(store, tmp_path, "s", MASK, before=before, limit=10)
            ids = [row["id"] for row in page["entries"]]
            assert ids == sorted(ids) and len(ids) <= 10
            seen = [*ids, *seen]
            if not page["more"]:
                break
            before = page["first"]
        assert seen == list(range(1, len(seen) + 1)) and len(seen) == 27  # two of them begin the tape
        said_only = await read_tape(store, tmp_path, "s", MASK, limit=200, everything=False)
        assert {row["kind"] for row in said_only["entries"]} == {"message"}
        with pytest.raises(NotThereError):
            await read_tape(store, tmp_path, "nobody", MASK)


async def test_a_search_looks_through_all_tapes_of_the_agent_and_shows_the_words_around_with_secrets_covered(
    opened: Open, tmp_path: Path
) -> None:
    now = time.time()
    async with opened() as store:
        for number in range(12):
            entry = said(f"{'x' * 300} a Needle of hunter22-secret no. {number}", at=now + number)
            await talk(store, tmp_path, f"cli:{number}", entry, said("hay", at=now + number))
        await talk(store, tmp_path / "elsewhere", "cli:other", said("needle"))
        found = await search_tapes(store, tmp_path, "needle", MASK, most=5)
        assert [row["session"] for row in found["found"]] == [f"cli:{number}" for number in (11, 10, 9, 8, 7)]
        assert all("Needle of *** no." in row["text"] and len(row["text"]) < 200 for row in found["found"])
        assert not found["partial"]
        one = await search_tapes(store, tmp_path, "NEEDLE", MASK, session="cli:3")
        assert [row["session"] for row in one["found"]] == ["cli:3"]
        assert (await search_tapes(store, tmp_path, "  ", MASK))["found"] == []
        assert (await search_tapes(store, tmp_path, "no such thing", MASK))["found"] == []


async def test_the_part_of_a_turn_is_what_was_written_while_it_ran_and_not_what_it_waited_for(
    opened: Open, tmp_path: Path
) -> None:
    at = time.time() - 100
    async with opened() as store:
        await talk(
            store,
            tmp_path,
            "s",
            said("first", at=at),
            said("answer", "assistant", at + 3),
            said("second", at=at + 4),
            said("by the way", at=at + 5, steered=True),
            said("done", "assistant", at + 6),
            said("third", at=at + 8),
        )
        # The second turn came while the first one was under way, and waited for it.
        rows = await read_turn(store, tmp_path, "s", at + 1, at + 7, MASK)
        assert [row["text"] for row in rows] == ["second", "by the way", "done"]
        assert await read_turn(store, tmp_path, "nobody", at, at + 7, MASK) == []


async def test_the_part_of_a_turn_begins_with_the_anchor_and_the_system_prompt_that_it_wrote(
    opened: Open, tmp_path: Path
) -> None:
    async with opened() as store:
        began = time.time()
        answer = said("answer", "assistant")
        done = TapeEntry.event("loop.end")
        await talk(store, tmp_path, "s", TapeEntry.system("Be brief."), said("first"), answer, done)
        between = time.time() + 0.01
        second = [said("second", at=between), said("fine", "assistant", between)]
        prompt = replace(TapeEntry.system("Be long."), date=second[0].date)
        await talk(store, tmp_path, "s", prompt, *second)
        first = await read_turn(store, tmp_path, "s", began, between - 0.005, MASK)
        assert [row["kind"] for row in first] == ["anchor", "event", "system", "message", "message", "event"]
        # The second turn waited for the first one.
        rows = await read_turn(store, tmp_path, "s", began, between, MASK)
        assert [row["text"] for row in rows] == ["Be long.", "second", "fine"]


async def test_the_part_of_a_comma_command_has_nothing_of_the_turn_that_it_waited_for(workshop: Workshop) -> None:
    begun, go = trio.Event(), trio.Event()

    async def load_state(message: Any) -> dict[str, Any]:
        begun.set()
        await go.wait()
        return {}

    framework = workshop("extends: bub:default", slow=Toy(load_state=load_state))
    recorder = Recorder()
    studio: Any = SimpleNamespace(framework=framework, recorder=recorder)
    async with framework.running():
        with framework.watch(recorder):
            async with trio.open_nursery() as turns:
                turns.start_soon(framework.process_inbound, {"channel": "cli", "chat_id": "1", "content": ",skill one"})
                await begun.wait()
                turns.start_soon(framework.process_inbound, {"channel": "cli", "chat_id": "1", "content": ",skill two"})
                while len(framework.turns_under_way) < 2:
                    await trio.lowlevel.checkpoint()
                waiting = list(framework.turns_under_way)[1]
                assert (await describe_turn(studio, Asked({"id": waiting.id}, {})))["tape"] == []
                go.set()
        ran = [await describe_turn(studio, Asked({"id": past.facts.id}, {})) for past in recorder.newest()]
    shown = [[row["data"]["data"]["raw"] for row in one["tape"] if row["name"] == "command"] for one in ran]
    assert shown == [["skill two"], ["skill one"]]


def test_a_row_has_the_names_of_tools_and_files_and_is_cut_where_a_page_would_suffer() -> None:
    call = {"id": "1", "name": "fs.write", "arguments": {"path": "a", "text": "y" * 5_000, "key": "hunter22-secret"}}
    row = row_of(TapeEntry.tool_call([call], content="I write"), MASK)
    assert (row["name"], row["text"].splitlines()[0]) == ("fs.write", "I write")
    assert row["data"]["calls"][0]["arguments"]["key"] == "***"
    assert len(row["data"]["calls"][0]["arguments"]["text"]) < 1_100

    long = row_of(said("z" * 50_000 + "hunter22-secret"), MASK)
    assert long["text"].startswith("z" * MOST_TEXT + "…") and "42,015 more characters" in long["text"]
    at_the_cut = row_of(said("z" * (MOST_TEXT - 3) + "hunter22-secret and more"), MASK)
    assert "hunt" not in at_the_cut["text"]

    picture = row_of(said("[image a.png]", media=[{"place": 1, "handle": "x", "bytes": 9}]), MASK)
    assert picture["text"] == "[image a.png]" and picture["data"]["media"][0]["bytes"] == 9
    packed = row_of(TapeEntry.event("media", {"part": {"url": "data:image/png;base64," + "A" * 99_999}}), MASK)
    assert packed["data"]["data"]["part"]["url"] == "[image/png]"

    deep: Any = "end"
    for _ in range(50):
        deep = [deep]
    assert row_of(TapeEntry.event("odd", {"deep": deep, "many": list(range(999))}), MASK)["data"]["data"]["many"][-1]
    odd = row_of(TapeEntry(3, "message", {"role": 7, "content": None}, {}, "yesterday"), MASK)
    assert (odd["at"], odd["role"], odd["text"]) == (None, "7", "")
