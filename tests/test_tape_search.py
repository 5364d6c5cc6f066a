"""Searching tapes for a text: what is not indexed yet is found too, nobody waits for an index, and a search can end."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bub.errors import TapeError
from bub.tape import Tape, TapeEntry, TapeQuery
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.search.sqlite import open_for_search
from bub.tape.sqlite import SqliteTapeStore
from tests.test_tape_stores import FILES, MAKERS, Store, entries, expected, questions, said, texts

pytestmark = pytest.mark.usefixtures("redis_for_tapes")

MANY = 1_500
"""So many that an index pays, and more than one slice of it."""


@pytest.fixture
def sqlite_tapes(tmp_path: Path) -> Iterator[Callable[[], SqliteTapeStore]]:
    """Opens the same tapes anew at each call, as another process would."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(SqliteTapeStore(tmp_path / "tapes.db")))


def indexers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "bub-tape-index"]


def index_all(store: SqliteTapeStore, tape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a search index everything, though it is little."""
    with monkeypatch.context() as little:
        little.setattr("bub.tape.sqlite._LEFT_TO_SCAN", 0)
        store.fetch_all(TapeQuery(tape, "any text"))
    wait_for_the_index()


def wait_for_the_index() -> None:
    for thread in indexers():
        thread.join()


def not_indexed(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "tapes.db")) as db:
        return int(db.execute("select (select max(seq) from entries) - seq from indexed").fetchone()[0])


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(indexed=st.lists(entries, max_size=5), newer=st.lists(entries, max_size=5), query=questions)
def test_a_search_finds_the_same_however_much_is_indexed(
    tmp_path_factory: pytest.TempPathFactory,
    indexed: list[TapeEntry],
    newer: list[TapeEntry],
    query: TapeQuery,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with closing(SqliteTapeStore(tmp_path_factory.mktemp("tapes") / "tapes.db")) as store:
        store.extend("other", [said("one TWO"), *newer])
        store.extend("t", indexed)
        index_all(store, "t", monkeypatch)
        store.extend("t", newer)
        try:
            found: list[int] | str = [entry.id for entry in store.fetch_all(query)]
        except TapeError as error:
            found = error.reason.replace("_", " ")
    assert found == expected([*indexed, *newer], query)


@pytest.mark.parametrize("text", ["needle", "ne", "hay"])
@pytest.mark.parametrize("backwards", [False, True])
def test_many_entries_are_searched_slice_by_slice_without_losing_one(
    sqlite_tapes: Callable[[], SqliteTapeStore], text: str, backwards: bool
) -> None:
    store = sqlite_tapes()
    written = [said("Needle" if number % 100 == 7 else "hay") for number in range(MANY)]
    for tape in ("other", "t"):
        store.extend(tape, written)
    query = TapeQuery("t", text, backwards=backwards)
    for question in (query, query.limit(3), query.limit(300)):
        assert [entry.id for entry in store.fetch_all(question)] == expected(written, question)
    wait_for_the_index()
    store.extend("t", written)
    for question in (query, query.limit(3), query.limit(300), query.limit(2_000)):
        assert [entry.id for entry in store.fetch_all(question)] == expected(written * 2, question)


@pytest.mark.parametrize("text", ["needle", "ne", "Hay", 'a "b" \\ c', "%", "no such"])
def test_all_tapes_of_an_agent_are_searched_at_once_the_newest_first_whatever_is_indexed(
    sqlite_tapes: Callable[[], SqliteTapeStore], text: str
) -> None:
    store = sqlite_tapes()
    for number in range(0, MANY, 3):
        store.extend(f"a[*]__{number % 4}", [said("Needle"), said(f"hay {number}"), said('A "b" \\ C')])
        store.append("a[*]__1__sidecar__media", said("needle"))
        store.append("a*__1", said("needle"))

    def found(most: int = 9_999) -> list[tuple[str, int]]:
        return [(name, entry.id) for name, entry in store.search_all("a[*]__", text, most)]

    by_tape = [
        (entry.date, name, entry.id)
        for name in store.list_tapes()
        if name.startswith("a[*]__") and "sidecar" not in name
        for entry in store.fetch_all(TapeQuery(name).query(text))
    ]
    wanted = [(name, number) for _, name, number in sorted(by_tape, reverse=True)]
    assert found() == wanted and found(3) == wanted[:3]
    wait_for_the_index()
    assert found() == wanted and found(3) == wanted[:3]
    store.append("a[*]__1", said(f"{text}, again"))
    assert len(found()) == len(wanted) + 1 and found(1)[0][0] == "a[*]__1"


def test_the_first_search_answers_from_what_there_is_and_has_the_index_built_after_it(
    tmp_path: Path, sqlite_tapes: Callable[[], SqliteTapeStore]
) -> None:
    store = sqlite_tapes()
    store.extend("t", [said(f"number {number}") for number in range(MANY)])
    assert texts(store.fetch_all(TapeQuery("t").query("NUMBER 1234"))) == ["number 1234"]
    wait_for_the_index()
    assert not_indexed(tmp_path) == 0
    assert texts(store.fetch_all(TapeQuery("t").query("NUMBER 1234"))) == ["number 1234"]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_search_keeps_those_who_write_no_longer_however_many_entries_of_other_tapes_have_its_text(
    sqlite_tapes: Callable[[], SqliteTapeStore], backwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sqlite_tapes()
    query = TapeQuery("t", "hay", backwards=backwards)

    def steps_of_a_search() -> int:
        steps: list[None] = []
        written_on = store._connection
        assert written_on is not None
        written_on.set_progress_handler(lambda: steps.append(None), 1)
        assert len(store.fetch_all(query)) == 2
        written_on.set_progress_handler(None, 1)
        return len(steps)

    store.append("t", said("hay"))
    store.extend("other", [said("hay")] * 2)
    store.append("t", said("hay"))
    index_all(store, "t", monkeypatch)
    with_few = steps_of_a_search()
    store.extend("other", [said("hay")] * MANY)
    index_all(store, "t", monkeypatch)
    assert steps_of_a_search() <= with_few + 10


def test_a_few_entries_are_read_and_the_index_left_alone(
    tmp_path: Path, sqlite_tapes: Callable[[], SqliteTapeStore]
) -> None:
    store = sqlite_tapes()
    store.extend("t", [said(f"number {number}") for number in range(100)])
    assert texts(store.fetch_all(TapeQuery("t").query("number 99"))) == ["number 99"]
    assert not indexers()
    assert not_indexed(tmp_path) == 100


def test_while_another_process_writes_a_search_answers_and_leaves_the_index_to_the_next(
    tmp_path: Path, sqlite_tapes: Callable[[], SqliteTapeStore]
) -> None:
    store = sqlite_tapes()
    store.extend("t", [said(f"number {number}") for number in range(MANY)])
    with closing(sqlite3.connect(tmp_path / "tapes.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        for _ in range(2):
            assert texts(store.fetch_all(TapeQuery("t").query("number 1234"))) == ["number 1234"]
            wait_for_the_index()
        assert not_indexed(tmp_path) == MANY
    assert texts(store.fetch_all(TapeQuery("t").query("number 1234"))) == ["number 1234"]
    wait_for_the_index()
    assert not_indexed(tmp_path) == 0


def test_closing_ends_the_indexing_and_the_next_search_goes_on_with_it(
    tmp_path: Path, sqlite_tapes: Callable[[], SqliteTapeStore]
) -> None:
    store = sqlite_tapes()
    store.extend("t", [said(f"number {number}") for number in range(20_000)])
    query = TapeQuery("t").query("number 1234")
    found = store.fetch_all(query)
    store.close()
    assert not indexers()
    assert not_indexed(tmp_path) > 0
    assert store.fetch_all(query) == found
    assert indexers()


def test_two_processes_that_index_at_once_find_each_entry_once(sqlite_tapes: Callable[[], SqliteTapeStore]) -> None:
    one, other = sqlite_tapes(), sqlite_tapes()
    one.extend("t", [said(f"number {number}") for number in range(MANY)])
    query = TapeQuery("t").query("number 77")
    expected_ids = [78, *range(771, 781)]
    assert [entry.id for entry in one.fetch_all(query)] == expected_ids
    assert [entry.id for entry in other.fetch_all(query)] == expected_ids
    wait_for_the_index()
    assert [entry.id for entry in one.fetch_all(query)] == expected_ids


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    ("text", "sought"),
    [
        ("Straße", "STRASSE"),
        ("STRASSE", "straße"),
        ("10 \N{KELVIN SIGN}", "10 k"),
        ('he said "no"\n\tand left', 'SAID "NO"\n\tAND'),
        ("C:\\new\\x/y", "\\NEW\\X/"),
        ('"', '"'),
        ("\x1f\x7f", "\x1f"),
        ("天气很好", "天气"),
        ("👍🏽", "🏽"),
        ("one", "e\nu"),
        ("one", "one\nuser"),
    ],
)
def test_a_text_is_found_however_it_is_written_in_json(kind: str, text: str, sought: str, tmp_path: Path) -> None:
    entry = TapeEntry(0, "message", {"content": text, "role": "user"})
    with closing(MAKERS[kind](tmp_path)) as store:
        store.append("t", entry)
        assert len(store.fetch_all(TapeQuery("t").query(sought))) == 1


def test_a_line_of_somebody_elses_with_letters_by_their_numbers_is_found(tmp_path: Path) -> None:
    line = {"id": 1, "kind": "message", "payload": {"content": "天气 ÄPFEL"}, "meta": {}, "date": "2026-11-22"}
    (tmp_path / "t.jsonl").write_text(json.dumps(line) + "\n")
    store = JsonlTapeStore(tmp_path)
    for text in ("天气", "äpfel", "气 Ä"):
        assert texts(store.fetch_all(TapeQuery("t").query(text))) == ["天气 ÄPFEL"]


@dataclass(frozen=True)
class Cancelling(TapeQuery):
    """A question that is given up as soon as the first entry is looked at."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    looked_at: list[int] = field(default_factory=list)

    def wants(self, entry: TapeEntry) -> bool:
        if not self.looked_at:
            trio.from_thread.run_sync(self.scope.cancel)
        self.looked_at.append(entry.id)
        return False


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("text", ["hay", "ay"])
def test_a_search_whose_turn_is_cancelled_ends_with_it(kind: str, text: str, tmp_path: Path) -> None:
    async def search(store: Store) -> Cancelling:
        query = Cancelling("t", text)
        with query.scope:
            await Tape("t", store).fetch(query)
        return query

    with closing(FILES[kind](tmp_path)) as store:
        store.extend("t", [said("hay") for _ in range(MANY)])
        for _ in range(2):
            query = trio.run(search, store)
            assert query.scope.cancelled_caught
            assert len(query.looked_at) < MANY / 2
            wait_for_the_index()


def test_a_search_that_finds_nothing_for_long_ends_with_its_turn(tmp_path: Path) -> None:
    endless = (
        "with recursive number(n) as (select 1 union all select n + 1 from number) select n from number where n < 0"
    )

    def search(scope: trio.CancelScope) -> None:
        with open_for_search(tmp_path / "tapes.db") as db:
            trio.from_thread.run_sync(scope.cancel)
            db.execute(endless)

    async def turn() -> bool:
        with trio.CancelScope() as scope:
            await trio.to_thread.run_sync(search, scope)
        return scope.cancelled_caught

    with closing(SqliteTapeStore(tmp_path / "tapes.db")) as store:
        store.append("t", said("hay"))
        assert trio.run(turn)


def test_a_search_in_a_file_that_was_removed_says_so_and_makes_none(tmp_path: Path) -> None:
    with pytest.raises(TapeError, match="cannot be used: unable to open"), open_for_search(tmp_path / "tapes.db"):
        pass
    assert not list(tmp_path.iterdir())


class Asked:
    """A store that notes what it is asked for."""

    def __init__(self, store: SqliteTapeStore) -> None:
        self._store = store
        self.most: list[int | None] = []

    def list_tapes(self) -> list[str]:
        return self._store.list_tapes()

    def append(self, tape: str, entry: TapeEntry) -> None:
        self._store.append(tape, entry)

    def fetch_all(self, query: TapeQuery) -> Iterable[TapeEntry]:
        self.most.append(query.most)
        return self._store.fetch_all(query)

    def reset(self, tape: str) -> None:
        self._store.reset(tape)


def test_a_search_in_a_turn_asks_the_tape_for_no_more_than_it_shows(
    sqlite_tapes: Callable[[], SqliteTapeStore],
) -> None:
    store = Asked(sqlite_tapes())

    async def search() -> list[str]:
        tape = Tape("t", store)
        await tape.append(*(said(f"hay {number}") for number in range(10)))
        async with tape.fork() as fork:
            await fork.append(said("more hay"))
            return texts(await fork.search(fork.query().query("hay"), most=3))

    assert trio.run(search) == ["more hay", "hay 9", "hay 8"]
    assert store.most == [1, 3]
