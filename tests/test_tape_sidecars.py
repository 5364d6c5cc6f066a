"""What is kept beside a tape, and what becomes of it all when the tape is archived and reset."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from bub.errors import TapeError
from bub.tape import Tape, TapeEntry, TapeQuery
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.lines import read_lines, tape_in, write_archive, write_lines
from bub.tape.settings import session_settings, set_session_setting
from bub.tape.spill import LONGEST, PART, is_long, parts_of, read_spilled, spill
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.tape import list_tapes
from tests.test_tape import AsyncNotebook
from tests.test_tape_stores import MAKERS, said, texts

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("redis_for_tapes")]


@pytest.fixture(params=MAKERS)
def tape(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tape]:
    with closing(MAKERS[request.param](tmp_path / "store")) as store:
        yield Tape("t", store)


class BrokenSidecars(SqliteTapeStore):
    """A store whose disk gives out wherever a sidecar is written or removed."""

    def extend(self, tape: str, entries: Sequence[TapeEntry]) -> None:
        if "__sidecar__" in tape:
            raise TapeError("the disk is full", reason="unavailable")
        super().extend(tape, entries)

    def reset(self, tape: str) -> None:
        if "__sidecar__" in tape:
            raise OSError("the disk is gone")
        super().reset(tape)


# Archives


async def test_P20_a_reset_keeps_a_copy_and_the_new_tape_says_where(tape: Tape, tmp_path: Path) -> None:
    await tape.ensure_bootstrap_anchor("cli:local", tmp_path)
    await tape.append(said("grüße"), TapeEntry.event("run", {"n": 1}, a=1))
    before = await tape.fetch(tape.query())
    archive = tmp_path / "tapes" / "archive"
    kept = await tape.reset(archive)
    assert kept is not None
    assert kept.parent == archive
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(archive.stat().st_mode)) == (0o600, 0o700)
    assert read_lines(kept.read_bytes().splitlines(), "it") == before
    assert tape_in(kept) == "t"
    start = (await tape.fetch(tape.query()))[0]
    assert (start.id, start.payload["state"]) == (1, {"owner": "human", "archived": str(kept)})
    summary = await tape.summary()
    assert (summary.session, summary.workspace) == ("cli:local", str(tmp_path))


async def test_P20_two_resets_in_one_moment_leave_two_copies(tape: Tape, tmp_path: Path) -> None:
    for index in range(20):
        await tape.append(said(str(index)))
        await tape.reset(tmp_path / "archive")
    assert len(list((tmp_path / "archive").iterdir())) == 20


async def test_P20_what_cannot_be_archived_is_not_reset(tape: Tape, tmp_path: Path) -> None:
    await tape.append(said("dear"))
    (tmp_path / "file").touch()
    for _ in range(2):
        with pytest.raises(TapeError) as caught:
            await tape.reset(tmp_path / "file" / "archive")
        assert caught.value.reason == "unavailable"
        assert texts(await tape.fetch(tape.query())) == ["dear"]


def test_of_an_archive_that_fails_half_way_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(TapeError):
        write_archive(tmp_path, "t", [said("fine"), said("bad", thing=object())])
    assert list(tmp_path.iterdir()) == []


async def test_P17_an_archive_of_a_fork_has_what_the_fork_wrote_too(tape: Tape, tmp_path: Path) -> None:
    await tape.append(said("before"))
    async with tape.fork() as fork:
        await fork.append(said("inside"))
        kept = await fork.reset(tmp_path / "archive")
        assert texts(await tape.fetch(tape.query())) == ["before"]
    assert kept is not None
    assert texts(read_lines(kept.read_bytes().splitlines(), "it")) == ["before", "inside"]
    assert texts(await tape.fetch(tape.query())) == ["session/start", "handoff"]


# Lines


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"id": 1, "kind": "", "payload": {}}',
        b'{"id": 1, "kind": "message", "payload": []}',
        b'{"id": 1, "kind": "message", "payload": {}, "date": "soon"}',
        b'{"id": 1, "kind": "message", "payload": {}, "date": "0001-01-01T00:00:00+14:00"}',
    ],
)
def test_of_lines_all_are_read_or_none_and_the_bad_ones_are_named(line: bytes) -> None:
    good = b'{"id": 1, "kind": "message", "payload": {}, "meta": {}, "date": "2026-01-02T03:04:05"}'
    with pytest.raises(TapeError, match="in line 2, 4: "):
        read_lines([good, line, b"", line, good], "it")
    (entry,) = read_lines([b" \n", good], "it")
    assert entry.date == "2026-01-02T03:04:05.000000+00:00"
    with pytest.raises(TapeError, match="no entry"):
        read_lines([b""], "it")


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(TapeError, match="exists already"):
        write_lines(tmp_path / "mine", [said("hi")])
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "tape"),
    [
        ("a__b.20261122T073105.123456Z.jsonl", "a__b"),
        ("a.b.jsonl", "a.b"),
        ("a", "a"),
        ("a.20261122T073105Z.jsonl", "a.20261122T073105Z"),
    ],
)
def test_the_name_of_a_file_tells_the_tape(name: str, tape: str) -> None:
    assert tape_in(Path("folder") / name) == tape


# Sidecars


async def test_P21_a_sidecar_is_forked_merged_and_reset_with_its_tape(tape: Tape, tmp_path: Path) -> None:
    async with tape.fork() as fork:
        await fork.append(said("main"))
        await fork.sidecar("notes").append(said("aside"))
        assert texts(await fork.sidecar("notes").fetch(fork.sidecar("notes").query())) == ["aside"]
        assert await list_tapes(fork.store) == ["t", "t__sidecar__notes"]
        assert await list_tapes(tape.store) == []
    assert texts(await tape.fetch(tape.query())) == ["main"]
    assert await list_tapes(tape.store) == ["t", "t__sidecar__notes"]
    await Tape("t2", tape.store).append(said("another"))
    await tape.reset(tmp_path / "archive")
    assert await list_tapes(tape.store) == ["t", "t2"]
    assert sorted(tape_in(path) for path in (tmp_path / "archive").iterdir()) == ["t", "t__sidecar__notes"]


async def test_P21_a_sidecar_of_a_fork_that_is_not_merged_leaves_nothing(tape: Tape) -> None:
    async with tape.fork(merge_back=False) as fork:
        await fork.sidecar("notes").append(said("aside"))
    assert await list_tapes(tape.store) == []


async def test_P21_a_sidecar_that_was_reset_in_a_fork_is_hidden_at_once(tape: Tape) -> None:
    await set_session_setting(tape, "model", "a")
    async with tape.fork() as fork:
        await fork.reset()
        assert await session_settings(fork) == {}
        assert await list_tapes(fork.store) == ["t"]
        assert await session_settings(tape) == {"model": "a"}
    assert await list_tapes(tape.store) == ["t"]


async def test_P21_whatever_fails_beside_it_the_tape_is_written_and_reset(tmp_path: Path) -> None:
    with closing(SqliteTapeStore(tmp_path / "tapes.db")) as store:
        store.append("t__sidecar__old", said("aside"))
    with closing(BrokenSidecars(tmp_path / "tapes.db")) as broken:
        tape = Tape("t", broken)
        async with tape.fork() as fork:
            await fork.append(said("main"))
            await fork.sidecar("notes").append(said("aside"))
        *_, main, note = await tape.fetch(tape.query())
        assert main.payload["content"] == "main"
        assert note.payload == {
            "name": "sidecar_failed",
            "data": {"tape": "t__sidecar__notes", "action": "merge", "error": "the disk is full"},
        }
        await tape.reset(tmp_path / "archive")
        assert texts(await tape.fetch(tape.query())) == ["session/start", "handoff", "sidecar_failed"]


async def test_what_several_write_side_by_side_to_a_sidecar_of_a_fork_is_all_there(tape: Tape) -> None:
    """All find the sidecar unopened: whoever comes second must not begin it anew."""
    waiting = Tape("t", AsyncNotebook())
    for each in (tape, waiting):
        async with each.fork() as fork, trio.open_nursery() as nursery:
            for text in "abc":
                nursery.start_soon(fork.sidecar("notes").append, said(text))
        notes = each.sidecar("notes")
        assert sorted(texts(await notes.fetch(notes.query()))) == ["a", "b", "c"]


# Settings of a session


async def test_P23_the_last_word_counts_and_nothing_unsets(tape: Tape) -> None:
    assert await session_settings(tape) == {}
    for name, value in [("model", "a"), ("effort", "high"), ("model", "b"), ("effort", ""), ("gone", None), ("n", 0)]:
        await set_session_setting(tape, name, value)
    assert await session_settings(tape) == {"model": "b", "n": 0}
    assert await session_settings(Tape("other", tape.store)) == {}


async def test_P23_reading_the_settings_reads_one_entry(tmp_path: Path) -> None:
    asked: list[TapeQuery] = []

    class Noting(JsonlTapeStore):
        def fetch_all(self, query: TapeQuery) -> list[TapeEntry]:
            asked.append(query)
            return super().fetch_all(query)

    tape = Tape("t", Noting(tmp_path))
    for n in range(3):
        await set_session_setting(tape, "n", n)
    asked.clear()
    assert await session_settings(tape) == {"n": 2}
    assert [(query.most, query.backwards) for query in asked] == [(1, True)]


# Spilled texts


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), st.text("x日😀\n", max_size=4))
def test_P22_the_parts_of_a_text_are_the_text(begin: str, again: str) -> None:
    whole = begin + again * 12_000
    parts = list(parts_of(whole))
    assert "".join(parts) == whole
    assert all(0 < len(part.encode()) <= PART for part in parts)


def test_P22_a_text_is_cut_at_the_ends_of_lines() -> None:
    line = "x" * 99 + "\n"
    assert all(part.endswith("\n") for part in parts_of(line * 1000))
    assert [len(part) for part in parts_of("x" * (PART + 1))] == [PART, 1]


def test_P22_what_fits_into_a_part_is_not_long() -> None:
    assert not is_long("x" * LONGEST)
    assert is_long("x" * LONGEST + "x")
    assert is_long("ü" * (LONGEST // 2) + "x")


async def test_P22_a_long_result_is_put_aside_and_read_part_by_part(tape: Tape) -> None:
    text = "".join(f"line {n} grün\n" for n in range(5000)) + "x" * LONGEST * 2 + "\nthe end\n"
    other = await spill(tape, "y" * PART * 2)
    spilled = await spill(tape, text)
    assert spilled.preview.startswith("line 0 grün\nline 1")
    assert spilled.preview.endswith("xxx\nthe end\n")
    assert spilled.handle in spilled.preview
    assert len(spilled.preview) < 600 + 120
    read = [await read_spilled(tape, spilled.handle, part) for part in range(1, spilled.parts + 1)]
    assert "".join(part.rpartition("\n[part ")[0] for part in read) == text
    assert read[1].endswith(f"\n[part 2 of {spilled.parts}]")
    assert not any(is_long(part) for part in read)  # else it would be put aside once more
    assert (await read_spilled(tape, other.handle, 2)).startswith("yyy")


@pytest.mark.parametrize(
    ("handle", "part", "words"),
    [
        ("nowhere", 1, "nothing is kept"),
        ("nowhere", 7, "nothing is kept"),
        (None, 3, "no part 3"),
        (None, 0, "no part 0"),
    ],
)
async def test_P22_a_handle_or_a_part_that_is_not_there_is_told(
    tape: Tape, handle: str | None, part: int, words: str
) -> None:
    spilled = await spill(tape, "x" * (PART + 1))
    with pytest.raises(TapeError, match=words) as caught:
        await read_spilled(tape, handle or spilled.handle, part)
    assert caught.value.reason == "not_found"
    assert caught.value.help


async def test_P22_a_text_that_no_encoding_can_carry_is_mended(tape: Tape) -> None:
    spilled = await spill(tape, "\ud800" + "x" * PART)
    assert (await read_spilled(tape, spilled.handle)).startswith("\ufffdxxx")
    assert (await spill(tape, "")).preview == ""
