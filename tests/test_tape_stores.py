"""The stores of tapes: one contract, and nothing lost to a crash, another process or a full disk."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fakes.blocking_tapes import BlockingTapes
from fakes.command_line import SOURCES
from fakes.redis_server import find_redis_server
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bub.errors import TapeError
from bub.tape.entry import TapeEntry, words_of
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.opening import open_tape_store
from bub.tape.query import LAST_ANCHOR, TapeQuery
from bub.tape.sqlite import SqliteTapeStore

Store = SqliteTapeStore | JsonlTapeStore | BlockingTapes
FILES: dict[str, Callable[[Path], SqliteTapeStore | JsonlTapeStore]] = {
    "sqlite": lambda folder: SqliteTapeStore(folder / "tapes.db"),
    "jsonl": lambda folder: JsonlTapeStore(folder / "tapes"),
}
MAKERS: dict[str, Callable[[Path], Store]] = {**FILES, **({"redis": BlockingTapes} if find_redis_server() else {})}


pytestmark = pytest.mark.usefixtures("redis_for_tapes")


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens the same tapes anew at each call, as another process would."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(MAKERS[request.param](tmp_path)))


@pytest.fixture
def store(make: Callable[[], Store]) -> Store:
    return make()


@pytest.fixture
def sqlite_tapes(tmp_path: Path) -> Iterator[Callable[..., SqliteTapeStore]]:
    """Opens a file of tapes, `tapes.db` if no other is named, and closes it after the test."""
    with ExitStack() as stack:
        yield lambda name="tapes.db": stack.enter_context(closing(SqliteTapeStore(tmp_path / name)))


def said(text: str, **meta: Any) -> TapeEntry:
    return TapeEntry.message({"role": "user", "content": text}, **meta)


def texts(found: list[TapeEntry]) -> list[str]:
    """What messages say, and the names of anchors and events."""
    return [str(entry.payload.get("content") or entry.payload.get("name")) for entry in found]


def fill(store: Store) -> TapeQuery:
    """A tape with two anchors, and the question for all of it."""
    store.extend("t", [TapeEntry.anchor("a", {"n": 1}), said("one"), said("two")])
    store.append("t", TapeEntry.anchor("b"))
    store.extend("t", [said("three"), said("Four ONE")])
    return TapeQuery("t")


def test_P1_an_entry_comes_back_as_it_was_written(store: Store) -> None:
    payload = {"calls": [{"id": "1", "arguments": {"path": "a/ü\n\u2028", "n": [1, 2.5, None, True]}}]}
    entry = TapeEntry(0, "tool_call", payload, {"run": "r1"}, "2026-01-02T03:04:05.000006+00:00")
    store.append("t", entry)
    (found,) = store.fetch_all(TapeQuery("t"))
    assert (found.id, found.kind, found.payload, found.meta, found.date) == (
        1,
        "tool_call",
        payload,
        {"run": "r1"},
        entry.date,
    )


def test_P2_tapes_are_listed_and_apart(store: Store) -> None:
    assert store.list_tapes() == []
    store.append("b", said("1"))
    store.append("a", said("2"))
    assert store.list_tapes() == ["a", "b"]
    assert texts(store.fetch_all(TapeQuery("a"))) == ["2"]
    assert store.fetch_all(TapeQuery("c")) == []


def test_P4_ids_count_up_from_1_also_when_two_write_in_turn(make: Callable[[], Store]) -> None:
    one, other = make(), make()
    for index in range(3):
        one.append("t", said(f"a{index}"))
        other.extend("t", [said(f"b{index}"), said(f"c{index}")])
    assert [entry.id for entry in one.fetch_all(TapeQuery("t"))] == list(range(1, 10))
    assert texts(other.fetch_all(TapeQuery("t"))) == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_P7_after_a_reset_a_tape_begins_anew_for_everybody(make: Callable[[], Store]) -> None:
    one, other = make(), make()
    one.extend("t", [said("old"), TapeEntry.anchor("a")])
    assert texts(other.fetch_all(TapeQuery("t"))) == ["old", "a"]
    other.reset("t")
    assert (one.list_tapes(), one.fetch_all(TapeQuery("t"))) == ([], [])
    one.append("t", said("new"))
    assert [(entry.id, entry.payload["content"]) for entry in other.fetch_all(TapeQuery("t"))] == [(1, "new")]
    with pytest.raises(TapeError):
        other.fetch_all(TapeQuery("t").after_anchor("a"))
    one.reset("never there")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\\b", "a\0b"])
def test_P8_what_leads_elsewhere_is_no_name(store: Store, name: str) -> None:
    with pytest.raises(TapeError) as caught:
        store.append(name, said("hi"))
    assert caught.value.reason == "not_found"


QUESTIONS: dict[str, tuple[Callable[[TapeQuery], TapeQuery], list[str]]] = {
    "all": (lambda q: q, ["a", "one", "two", "b", "three", "Four ONE"]),
    "behind the last anchor": (lambda q: q.last_anchor(), ["three", "Four ONE"]),
    "behind a named one": (lambda q: q.after_anchor("a"), ["one", "two", "b", "three", "Four ONE"]),
    "no name": (lambda q: q.after_anchor("a").after_anchor(""), ["a", "one", "two", "b", "three", "Four ONE"]),
    "between two": (lambda q: q.between_anchors("a", "b"), ["one", "two"]),
    "between two, behind the last": (lambda q: q.between_anchors("a", "b").last_anchor(), []),
    "the first two": (lambda q: q.limit(2), ["a", "one"]),
    "the newest two": (lambda q: q.newest().limit(2), ["Four ONE", "three"]),
    "none": (lambda q: q.limit(0), []),
    "kinds": (lambda q: q.kinds("anchor", "event"), ["a", "b"]),
    "a text in any case": (lambda q: q.query("one"), ["one", "Four ONE"]),
    "a text and a limit": (lambda q: q.query("one").limit(1), ["one"]),
    "a short text": (lambda q: q.query("o").newest(), ["Four ONE", "two", "one"]),
    "a text behind an anchor": (lambda q: q.query("one").last_anchor(), ["Four ONE"]),
    "a text that is not there": (lambda q: q.query('"one" OR *'), []),
    "an empty text": (lambda q: q.query("").kinds("anchor"), ["a", "b"]),
}  # fmt: skip


@pytest.mark.parametrize("ask", QUESTIONS)
def test_P9_a_query_gives_the_same_from_every_store(store: Store, ask: str) -> None:
    question, expected = QUESTIONS[ask]
    assert texts(store.fetch_all(question(fill(store)))) == expected


def test_P9_of_two_anchors_of_a_name_the_last_one_begins_and_the_first_behind_it_ends(store: Store) -> None:
    names = ["a", "1", "b", "2", "a", "3", "b", "4", "b"]
    store.extend("t", [TapeEntry.anchor(name) if name in "ab" else said(name) for name in names])
    assert texts(store.fetch_all(TapeQuery("t").between_anchors("a", "b"))) == ["3"]
    assert texts(store.fetch_all(TapeQuery("t").after_anchor("a"))) == ["3", "b", "4", "b"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda q: q.after_anchor("zz"),
        lambda q: q.between_anchors("zz", "b"),
        lambda q: q.between_anchors("b", "a"),
        lambda q: TapeQuery("empty").last_anchor(),
    ],
)
def test_P10_an_anchor_that_is_not_there_is_an_error(store: Store, ask: Callable[[TapeQuery], TapeQuery]) -> None:
    with pytest.raises(TapeError) as caught:
        store.fetch_all(ask(fill(store)))
    assert caught.value.reason == "not_found"


def test_P10_a_plain_date_is_the_whole_day_in_utc(store: Store) -> None:
    moments = [
        "2026-03-01T23:59:59.999999",
        "2026-03-02T00:00:00.000000",
        "2026-03-02T23:59:59.999999",
        "2026-03-03T00:00:00.000000",
    ]
    store.extend("t", [TapeEntry(0, "event", {"name": moment}, {}, f"{moment}+00:00") for moment in moments])
    query = TapeQuery("t")
    assert texts(store.fetch_all(query.between_dates("2026-03-02", "2026-03-02"))) == moments[1:3]
    assert texts(store.fetch_all(query.between_dates(date(2026, 3, 1), date(2026, 3, 2)))) == moments[:3]
    assert (
        texts(store.fetch_all(query.between_dates("2026-03-02T01:00:00+01:00", "2026-03-02T00:00:00Z"))) == moments[1:2]
    )


@pytest.mark.parametrize(("start", "end"), [("", "2026-01-01"), ("soon", "2026-01-01"), ("2026-01-02", "2026-01-01")])
def test_P10_bad_dates_are_refused(start: str, end: str) -> None:
    with pytest.raises(TapeError) as caught:
        TapeQuery("t").between_dates(start, end)
    assert caught.value.reason == "invalid_input"


def test_P25_what_is_done_to_an_entry_that_was_read_changes_nothing(store: Store) -> None:
    entry = said("as it was")
    store.append("t", entry)
    store.fetch_all(TapeQuery("t"))[0].payload["content"] = "changed"
    entry.payload["content"] = "changed"
    assert texts(store.fetch_all(TapeQuery("t"))) == ["as it was"]


def test_what_json_does_not_know_is_refused_and_nothing_of_it_written(store: Store) -> None:
    with pytest.raises(TapeError):
        store.extend("t", [said("fine"), said("bad", thing=object())])
    assert store.fetch_all(TapeQuery("t")) == []


def test_a_letter_that_no_encoding_can_carry_costs_itself_only(store: Store) -> None:
    store.extend("t", [said("a\ud800b"), TapeEntry.anchor("\udc80", {"\udc80": ["\ud800"]}), said("two")])
    assert texts(store.fetch_all(TapeQuery("t"))) == ["a\ufffdb", "\ufffd", "two"]
    assert texts(store.fetch_all(TapeQuery("t").after_anchor("\udc80"))) == ["two"]
    assert texts(store.fetch_all(TapeQuery("t").query("a\ud800b"))) == ["a\ufffdb"]


def test_P11_all_stores_find_a_text_alike_the_newest_first_and_as_often_as_it_was_said(store: Store) -> None:
    store.extend("t", [said("weather"), said("WEATHER today"), said("whether"), said("weather")])
    assert [entry.id for entry in store.fetch_all(TapeQuery("t").query("weather").newest().limit(20))] == [4, 2, 1]


names = st.sampled_from(["a", "b"])
words = st.text("oneTWO ß\n\"'", max_size=6)
entries = st.one_of(
    st.builds(said, words), st.builds(TapeEntry.anchor, names), st.builds(TapeEntry.event, names, st.just({"x": "two"}))
)
questions = st.builds(
    lambda after, anchors, text, only, most, backwards, below: TapeQuery(
        "t", text, after, anchors, None, None, only, most, backwards, below
    ),
    st.sampled_from([None, LAST_ANCHOR, "a", "b"]),
    st.one_of(st.none(), st.tuples(names, names)),
    st.one_of(st.none(), words.filter(bool)),
    st.sampled_from([(), ("message",), ("anchor", "event")]),
    st.one_of(st.none(), st.integers(0, 4)),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 6)),
)


def expected(written: list[TapeEntry], query: TapeQuery) -> list[int] | str:
    """The ids that a query has to give, worked out over the whole tape; "not found" for an anchor that is not there."""
    anchors = [(index, entry.anchor_name) for index, entry in enumerate(written, 1) if entry.anchor_name is not None]

    def last(name: Any) -> int:
        return max((index for index, other in anchors if name is LAST_ANCHOR or name == other), default=0)

    if query.most == 0:
        return []
    low, high = 0, len(written) + 1
    if query.after is not None:
        if not last(query.after):
            return "not found"
        low = last(query.after)
    if query.anchors is not None:
        start = last(query.anchors[0])
        ends = [index for index, name in anchors if index > start and name == query.anchors[1]]
        if not start or not ends:
            return "not found"
        low, high = max(low, start), min(ends)
    found = [
        index
        for index, entry in enumerate(written, 1)
        if low < index < high
        and (query.below is None or index < query.below)
        and (not query.only or entry.kind in query.only)
        and (query.text is None or query.text.casefold() in words_of(entry.payload).casefold())
    ]
    return (found[::-1] if query.backwards else found)[: query.most]


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(batches=st.lists(st.lists(entries, max_size=4), max_size=4), query=questions)
def test_every_store_answers_every_query_as_the_whole_tape_would(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[TapeEntry]], query: TapeQuery
) -> None:
    folder = tmp_path_factory.mktemp("tapes")
    for maker in MAKERS.values():
        with closing(maker(folder)) as store:
            for batch in batches:
                store.extend("t", batch)
            try:
                found: list[int] | str = [entry.id for entry in store.fetch_all(query)]
            except TapeError as error:
                found = error.reason.replace("_", " ")
        assert found == expected([entry for batch in batches for entry in batch], query)


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_files_are_for_their_owner_only_and_so_are_the_folders_made_for_them(kind: str, tmp_path: Path) -> None:
    with open_tape_store(tmp_path / "far" / "home", {"tapes": {"store": kind}}) as store:
        store.append("t", said("secret"))
        found = list(tmp_path.rglob("*"))
        assert len(found) >= 4
        for path in found:
            assert path.stat().st_mode & 0o077 == 0, path


# Crashes

WRITER = """
import sys
from pathlib import Path
from bub.tape.entry import TapeEntry
kind, folder, name = sys.argv[1:]
if kind == "sqlite":
    from bub.tape.sqlite import SqliteTapeStore
    store = SqliteTapeStore(Path(folder) / "tapes.db")
elif kind == "jsonl":
    from bub.tape.jsonl import JsonlTapeStore
    store = JsonlTapeStore(Path(folder) / "tapes")
else:
    from fakes.blocking_tapes import BlockingTapes
    store = BlockingTapes(Path(folder))
for turn in range(100_000):
    said = [f"{name}:{turn}:{part}:" + "x" * (turn % 50) * 40 for part in range(7)]
    store.extend("t", [TapeEntry.message({"content": text}) for text in said])
    print(turn, flush=True)
"""


CRASHES = int(os.environ.get("CRASHES", "6"))
"""How often two writers are killed; `make crash` does it more often."""


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.timeout(60 + 10 * CRASHES)  # `make crash` has 200
def test_P6_a_finished_turn_survives_kill_9_whoever_else_is_writing(kind: str, tmp_path: Path) -> None:
    """Two processes write turns of seven entries; both are killed, again and again, at moments nobody chose."""
    chance = random.Random(kind)
    sources = os.pathsep.join((str(Path(__file__).parent), SOURCES))
    crashes = CRASHES if kind in FILES else max(1, CRASHES // 6)  # its writers take longer to begin
    finished: dict[str, int] = {}
    for attempt in range(crashes):
        writers = {
            f"{attempt}{letter}": subprocess.Popen(
                [sys.executable, "-c", WRITER, kind, str(tmp_path), f"{attempt}{letter}"],
                stdout=subprocess.PIPE,
                bufsize=0,  # else what was read ahead with the first line would not be counted
                env={**os.environ, "PYTHONPATH": sources},
            )
            for letter in "ab"
        }
        for writer in writers.values():
            assert writer.stdout is not None
            writer.stdout.readline()  # it is under way
        time.sleep(chance.random() * 0.05)
        for name, writer in writers.items():
            writer.send_signal(signal.SIGKILL)
            out, _ = writer.communicate(timeout=30)
            finished[name] = 1 + out.count(b"\n")
        store = MAKERS[kind](tmp_path)
        store.append("t", said(f"{attempt}c:0:0:"))  # the next turn works, and takes nothing along
        store.close()

    with closing(MAKERS[kind](tmp_path)) as store:
        found = store.fetch_all(TapeQuery("t"))
    ids = [entry.id for entry in found]
    assert ids == sorted(set(ids))
    seen: dict[str, list[tuple[int, int]]] = {}
    for entry in found:
        writer_name, turn, part, _ = entry.payload["content"].split(":", 3)
        seen.setdefault(writer_name, []).append((int(turn), int(part)))
    for name, turns in finished.items():
        wanted = [(turn, part) for turn in range(turns) for part in range(7)]
        assert seen[name][: len(wanted)] == wanted, "an entry of a finished turn is missing, or out of order"
        rest = seen[name][len(wanted) :]
        if kind != "jsonl":
            assert len(rest) % 7 == 0, "half a turn was written"
    assert all(f"{attempt}c" in seen for attempt in range(crashes))
    print(f"{kind}: {crashes} crashes of two writers, {sum(finished.values())} finished turns, {len(found)} entries")


def test_a_torn_line_takes_no_other_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = JsonlTapeStore(tmp_path)
    store.extend("t", [said("one"), said("two")])
    path = tmp_path / "t.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    again = JsonlTapeStore(tmp_path)
    again.append("t", said("three"))
    assert texts(again.fetch_all(TapeQuery("t"))) == ["one", "three"]
    assert again.bad_lines("t") == 1
    assert json.loads(path.read_text().splitlines()[-1])["payload"]["content"] == "three"


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"id": "x"}', b"\xff\xfe", b"[" * 100_000, b"null"])
def test_P5_a_line_that_cannot_be_read_is_left_out_and_counted(tmp_path: Path, line: bytes) -> None:
    store = JsonlTapeStore(tmp_path)
    store.append("t", said("one"))
    with (tmp_path / "t.jsonl").open("ab") as file:
        file.write(line + b"\n\n")
    store.append("t", said("two"))
    assert [(entry.id, entry.payload["content"]) for entry in store.fetch_all(TapeQuery("t"))] == [
        (1, "one"),
        (2, "two"),
    ]
    assert store.bad_lines("t") == 1


def test_only_what_lies_behind_the_anchor_is_read(tmp_path: Path) -> None:
    store = JsonlTapeStore(tmp_path)
    store.extend("t", [said("x" * 1000) for _ in range(500)])
    store.extend("t", [TapeEntry.anchor("a"), said("new")])
    path = tmp_path / "t.jsonl"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"\0" * (size // 2))  # nobody looks there
    again = JsonlTapeStore(tmp_path)
    assert texts(again.fetch_all(TapeQuery("t").last_anchor())) == ["new"]
    again.append("t", said("newer"))
    assert [entry.id for entry in again.fetch_all(TapeQuery("t").newest().limit(1))] == [503]


def test_what_is_written_cannot_be_changed_or_taken_out(
    tmp_path: Path, sqlite_tapes: Callable[..., SqliteTapeStore]
) -> None:
    store = sqlite_tapes()
    store.append("t", said("one"))
    store.close()
    with closing(sqlite3.connect(tmp_path / "tapes.db")) as db:
        for statement in ("update entries set payload = '{}'", "delete from entries"):
            with pytest.raises(sqlite3.IntegrityError, match="only ever appended to"):
                db.execute(statement)


def test_a_tape_that_was_reset_takes_no_room(tmp_path: Path, sqlite_tapes: Callable[..., SqliteTapeStore]) -> None:
    store = sqlite_tapes()
    store.extend("t", [said("one"), said("two")])
    store.extend("other", [said("three")])
    store.reset("t")
    store.close()
    with closing(sqlite3.connect(tmp_path / "tapes.db")) as db:
        assert db.execute("select count(*) from entries").fetchone() == (1,)


def test_a_child_process_opens_the_file_for_itself(
    tmp_path: Path, sqlite_tapes: Callable[..., SqliteTapeStore]
) -> None:
    script = """
import os, sys
from pathlib import Path
from bub.tape.entry import TapeEntry
from bub.tape.sqlite import SqliteTapeStore
said = lambda text: TapeEntry.message({"role": "user", "content": text})
store = SqliteTapeStore(Path(sys.argv[1]) / "tapes.db")
store.append("t", said("parent"))
connection = store._connection
if os.fork() == 0:
    store.append("t", said("child"))
    os._exit(0 if store._connection is not connection else 1)
print(os.wait()[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "0\n", done.stderr
    assert texts(sqlite_tapes().fetch_all(TapeQuery("t"))) == ["parent", "child"]


def test_a_text_is_found_that_another_process_wrote_after_the_last_search(
    tmp_path: Path, sqlite_tapes: Callable[..., SqliteTapeStore]
) -> None:
    one, other = (sqlite_tapes() for _ in range(2))
    one.append("t", said("früher ÄPFEL"))
    assert texts(other.fetch_all(TapeQuery("t").query("äpfel"))) == ["früher ÄPFEL"]
    one.append("t", said("noch mehr äpfel"))
    assert len(other.fetch_all(TapeQuery("t").query("äpfel"))) == 2
    one.reset("t")
    assert other.fetch_all(TapeQuery("t").query("äpfel")) == []


def test_a_text_is_found_that_was_written_after_a_reset(store: Store) -> None:
    fill(store)
    assert store.fetch_all(TapeQuery("t").query("three"))
    store.reset("t")
    store.append("t", said("thirteen"))
    assert texts(store.fetch_all(TapeQuery("t").query("thirteen"))) == ["thirteen"]
    assert store.fetch_all(TapeQuery("t").query("three")) == []


def test_a_file_that_is_no_database_or_from_a_newer_bub_is_told(
    tmp_path: Path, sqlite_tapes: Callable[..., SqliteTapeStore]
) -> None:
    (tmp_path / "text.db").write_text("this is no database, " * 100)
    with closing(sqlite3.connect(tmp_path / "newer.db")) as db:
        db.execute("pragma user_version = 99")
    for name in ("text.db", "newer.db"):
        with pytest.raises(TapeError) as caught:
            sqlite_tapes(name).append("t", said("hi"))
        assert caught.value.reason == "unavailable"
        assert name in str(caught.value)


def test_a_file_that_another_program_holds_is_told(
    tmp_path: Path, sqlite_tapes: Callable[..., SqliteTapeStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bub.tape.sqlite.PATIENCE", 0.05)
    store = sqlite_tapes()
    store.append("t", said("one"))
    with closing(sqlite3.connect(tmp_path / "tapes.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        assert texts(store.fetch_all(TapeQuery("t"))) == ["one"]  # readers need not wait
        with pytest.raises(TapeError, match="locked") as caught:
            store.append("t", said("two"))
    assert caught.value.help == "another program holds the file; end it, or try again"
    store.append("t", said("two"))
    assert texts(store.fetch_all(TapeQuery("t"))) == ["one", "two"]


def test_a_file_that_is_damaged_is_told(tmp_path: Path, sqlite_tapes: Callable[..., SqliteTapeStore]) -> None:
    path = tmp_path / "tapes.db"
    store = sqlite_tapes()
    store.extend("t", [said("x" * 1000) for _ in range(100)])
    store.close()
    path.write_bytes(path.read_bytes()[:8192] + os.urandom(path.stat().st_size - 8192))
    with pytest.raises(TapeError) as caught:
        store.fetch_all(TapeQuery("t"))
    assert "most of it can be saved" in str(caught.value.help)


def test_the_settings_choose_the_store_and_nothing_is_made_before_it_is_used(tmp_path: Path) -> None:
    chosen: list[tuple[dict[str, Any], str]] = [
        ({}, "tapes.db"), ({"tapes": {"store": "sqlite"}}, "tapes.db"), ({"tapes": {"store": "jsonl"}}, "t.jsonl")
    ]  # fmt: skip
    for number, (wanted, file) in enumerate(chosen):
        home = tmp_path / str(number)
        with open_tape_store(home, wanted) as store:
            assert not home.exists()
            store.append("t", said("hi"))
        assert [path.name for path in (home / "tapes").iterdir()] == [file]  # nothing is left open


def test_a_disk_that_is_full_costs_nothing_that_was_written(tmp_path: Path) -> None:
    script = """
import resource, signal, sys
from pathlib import Path
from bub.tape.opening import open_tape_store
from bub.errors import TapeError
from bub.tape.query import TapeQuery
from bub.tape.entry import TapeEntry
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.sqlite import SqliteTapeStore
said = lambda text: TapeEntry.message({"content": text})
folder = Path(sys.argv[2])
store = SqliteTapeStore(folder / "tapes.db") if sys.argv[1] == "sqlite" else JsonlTapeStore(folder / "tapes")
store.extend("t", [said("one"), said("two")])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    store.extend("t", [said("x" * 100_000) for _ in range(20)])
except TapeError as error:
    print(error.reason, [entry.payload["content"] for entry in store.fetch_all(TapeQuery("t"))])
"""
    for kind in FILES:
        done = subprocess.run(
            [sys.executable, "-c", script, kind, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": SOURCES},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout == "unavailable ['one', 'two']\n", done.stderr


def test_only_the_module_that_opens_a_store_knows_which_there_are() -> None:
    root = Path(__file__).parent.parent
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in (root / "bub").rglob("*.py")
    }
    named = ("from bub.tape.sqlite ", "from bub.tape.jsonl ")
    assert {path for path, text in texts.items() if any(name in text for name in named)} == {"bub/tape/opening.py"}
