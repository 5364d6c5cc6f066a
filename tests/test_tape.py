"""The tape of a session: anchors and forks, and the messages that a model is sent of it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bub.errors import TapeError
from bub.tape import Tape, TapeContext, TapeEntry, TapeQuery
from bub.tape.context import LOST
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.tape import Summary, tape_name
from tests.test_tape_stores import entries, expected, questions, said, texts

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteTapeStore]:
    with closing(SqliteTapeStore(tmp_path / "tapes.db")) as opened:
        yield opened


@pytest.fixture
def tape(store: SqliteTapeStore) -> Tape:
    return Tape("t", store)


def call(*ids: str, content: str | None = None) -> TapeEntry:
    return TapeEntry.tool_call(
        [{"id": key, "name": "fs.read", "arguments": {"path": key}} for key in ids], content=content
    )


def result(**contents: str) -> TapeEntry:
    return TapeEntry.tool_result([{"id": key, "content": content} for key, content in contents.items()])


def spoken(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Who said what: for calls their ids, for results the id as well."""
    return [
        (
            message["role"],
            [each["id"] for each in message["tool_calls"]]
            if "tool_calls" in message
            else (message["tool_call_id"], message["content"])
            if "tool_call_id" in message
            else message["content"],
        )
        for message in messages
    ]


def test_P3_a_tape_is_named_for_its_workspace_and_its_session(tmp_path: Path) -> None:
    names = {tape_name(tmp_path, "a"), tape_name(tmp_path, "b"), tape_name(tmp_path / "x", "a")}
    assert len(names) == 3
    assert all(len(name) == 34 and name[16:18] == "__" for name in names)
    tape_name(tmp_path, "\ud800/..")  # any text can be a session


def test_P3_a_workspace_is_the_same_however_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len({tape_name(path, "a") for path in (tmp_path, Path(), tmp_path / "link", tmp_path / "x" / "..")}) == 1


async def test_P15_a_tape_begins_with_an_anchor_once(tape: Tape) -> None:
    await tape.ensure_bootstrap_anchor()
    await tape.ensure_bootstrap_anchor()
    found = await tape.fetch(tape.query())
    assert [(entry.kind, entry.payload["name"]) for entry in found] == [
        ("anchor", "session/start"),
        ("event", "handoff"),
    ]
    assert found[0].payload["state"] == {"owner": "human"}


async def test_P15_the_first_anchor_notes_whose_tape_it_is(tape: Tape, tmp_path: Path) -> None:
    assert await tape.summary() == Summary("t", 0, 0, None, 0)
    await tape.ensure_bootstrap_anchor("cli:local", tmp_path)
    await tape.append(said("one"), TapeEntry.anchor("b"), said("two"))
    last = (await tape.fetch(tape.query()))[-1]
    assert await tape.summary() == Summary("t", 5, 2, "b", 1, last.date, "cli:local", str(tmp_path), "two")
    await tape.reset()
    assert (await tape.summary()).session == "cli:local"


async def test_a_handoff_leaves_the_past_behind_but_for_what_it_takes_along(tape: Tape) -> None:
    await tape.append(said("old"))
    await tape.handoff("part two", {"summary": "we met"})
    await tape.append(said("new"))
    assert spoken(await tape.messages()) == [
        ("assistant", '[Anchor created: part two]: {"summary": "we met"}'),
        ("user", "new"),
    ]
    with pytest.raises(TapeError):
        await tape.handoff(" ")


async def test_P12_the_context_begins_where_it_says(store: SqliteTapeStore, tape: Tape) -> None:
    await tape.append(
        said("0"), TapeEntry.anchor("a"), said("1"), TapeEntry.anchor("b"), said("2", context=False), said("3")
    )

    async def contents(context: TapeContext) -> list[str]:
        return [message["content"] for message in await Tape("t", store, context).messages()]

    assert await contents(TapeContext()) == ["3"]
    assert await contents(TapeContext("a")) == ["1", "3"]
    assert await contents(TapeContext(None)) == ["0", "1", "3"]
    with pytest.raises(TapeError) as caught:
        await contents(TapeContext("c"))
    assert caught.value.reason == "not_found"

    def loud(chosen: Iterable[TapeEntry], context: TapeContext) -> Iterable[dict[str, Any]]:
        return [
            {"content": f"{context.state['sign']}{entry.payload['content']}"}
            for entry in chosen
            if entry.kind == "message"
        ]

    assert await contents(TapeContext("a", loud, {"sign": "!"})) == ["!1", "!3"]


async def test_without_any_anchor_the_context_is_the_whole_tape(tape: Tape) -> None:
    assert await tape.messages() == []
    await tape.append(said("hi"))
    assert spoken(await tape.messages()) == [("user", "hi")]


async def test_P13_results_belong_to_the_calls_whose_ids_they_name(tape: Tape) -> None:
    await tape.append(
        call("1", "2", content="let me see"), call("3"), result(**{"3": "c"}), result(**{"2": "b", "1": "a"})
    )
    assert spoken(await tape.messages()) == [
        ("assistant", ["1", "2"]), ("tool", ("1", "a")), ("tool", ("2", "b")),
        ("assistant", ["3"]), ("tool", ("3", "c")),
    ]  # fmt: skip
    assert (await tape.messages())[0]["content"] == "let me see"


async def test_a_call_runs_once_so_its_first_result_counts(tape: Tape) -> None:
    await tape.append(call("1"), result(**{"1": "a"}), result(**{"1": "again"}))
    assert spoken(await tape.messages()) == [("assistant", ["1"]), ("tool", ("1", "a"))]


async def test_P14_a_call_without_a_result_gets_one_and_a_result_without_a_call_is_left_out(tape: Tape) -> None:
    await tape.append(result(**{"9": "whose?"}), call("1", "2"), result(**{"1": "a"}), said("go on"))
    assert spoken(await tape.messages()) == [
        ("assistant", ["1", "2"]), ("tool", ("1", "a")), ("tool", ("2", LOST)), ("user", "go on")
    ]  # fmt: skip


async def test_what_is_no_conversation_is_left_out(tape: Tape) -> None:
    await tape.append(
        TapeEntry.system("be kind"),
        TapeEntry.event("run", {"status": "ok"}),
        TapeEntry.error(ValueError("no")),
        said("hi"),
    )
    assert spoken(await tape.messages()) == [("user", "hi")]


async def test_a_tape_that_somebody_else_wrote_raises_nothing(tape: Tape) -> None:
    odd: list[Any] = [None, 5, "x", {}, {"id": None}, {"id": 7, "name": None, "arguments": None}]
    await tape.append(
        TapeEntry(0, "tool_call", {"calls": odd}), TapeEntry(0, "tool_result", {"results": odd}),
        TapeEntry(0, "tool_call", {}), TapeEntry(0, "tool_result", {"results": None}),
        TapeEntry(0, "tool_call", {"calls": 5}), TapeEntry(0, "tool_result", {"results": 5}),
        TapeEntry(0, "anchor", {}), TapeEntry(0, "?", {}),
    )  # fmt: skip
    assert spoken(await Tape("t", tape.store, TapeContext(None)).messages()) == [
        ("assistant", ["7"]),
        ("tool", ("7", LOST)),
    ]


# Forks


async def test_P16_a_fork_sees_the_tape_and_joins_it_when_it_is_left(tape: Tape) -> None:
    await tape.append(said("before"))
    async with tape.fork() as fork:
        await fork.append(said("inside"))
        assert texts(await fork.fetch(fork.query())) == ["before", "inside"]
        assert texts(await tape.fetch(tape.query())) == ["before"]
    assert [(entry.id, entry.payload["content"]) for entry in await tape.fetch(tape.query())] == [
        (1, "before"),
        (2, "inside"),
    ]


async def test_P16_what_a_turn_wrote_is_kept_when_it_fails_or_is_cancelled(tape: Tape) -> None:
    with pytest.raises(ValueError, match="no"):
        async with tape.fork() as fork:
            await fork.append(said("failed"))
            raise ValueError("no")
    with trio.CancelScope() as scope:
        async with tape.fork() as fork:
            await fork.append(said("cancelled"))
            scope.cancel()
            await trio.sleep(1)
    assert texts(await tape.fetch(tape.query())) == ["failed", "cancelled"]


async def test_P16_a_cancelled_turn_is_written_by_a_store_that_waits_too() -> None:
    tape = Tape("t", AsyncNotebook())
    with trio.CancelScope() as scope:
        async with tape.fork() as fork:
            await fork.append(said("cancelled"))
            scope.cancel()
            await trio.sleep(1)
    assert texts(await tape.fetch(tape.query())) == ["cancelled"]


async def test_P18_a_stretch_may_begin_on_the_tape_and_end_in_the_fork(tape: Tape) -> None:
    await tape.append(TapeEntry.anchor("a"), said("1"), TapeEntry.anchor("b"), said("2"), said("3"))
    async with tape.fork() as fork:
        await fork.append(said("4"), TapeEntry.anchor("end"), said("5"))
        stretch = fork.query().between_anchors("a", "end")
        assert texts(await fork.fetch(stretch)) == ["1", "b", "2", "3", "4"]
        assert texts(await fork.fetch(stretch.after_anchor("b"))) == ["2", "3", "4"]


async def test_P24_what_two_turns_write_at_once_never_interleaves(tape: Tape) -> None:
    async with tape.fork() as one, tape.fork() as other:
        for fork, key in ((one, "1"), (other, "2"), (one, "3"), (other, "4")):
            await fork.append(call(key))
            await fork.append(result(**{key: f"of {key}"}))
    assert [message[1] for message in spoken(await tape.messages())] == [
        *(["2"], ("2", "of 2"), ["4"], ("4", "of 4")),
        *(["1"], ("1", "of 1"), ["3"], ("3", "of 3")),
    ]
    assert [entry.id for entry in await tape.fetch(tape.query())] == list(range(1, 9))


async def test_P16_a_fork_that_is_not_merged_leaves_nothing(tape: Tape) -> None:
    async with tape.fork(merge_back=False) as fork:
        await fork.append(said("for a while"))
        await fork.reset()
    assert await tape.fetch(tape.query()) == []


async def test_P17_a_reset_in_a_fork_hides_at_once_and_takes_place_at_the_end(tape: Tape) -> None:
    await tape.append(said("before"))
    async with tape.fork() as fork:
        await fork.append(said("hidden, too"))
        await fork.reset()
        await fork.append(said("after"))
        assert texts(await fork.fetch(fork.query().kinds("message"))) == ["after"]
        assert texts(await tape.fetch(tape.query())) == ["before"]
    assert texts(await tape.fetch(tape.query())) == ["session/start", "handoff", "after"]
    assert [entry.id for entry in await tape.fetch(tape.query())] == [1, 2, 3]


async def test_P19_what_is_no_text_is_kept_and_what_was_given_is_left_as_it_was(tape: Tape) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8gaGVsbG8="}}
    content = [{"type": "text", "text": "look"}, picture]
    async with tape.fork() as fork:
        await fork.append(TapeEntry.message({"role": "user", "content": content}))
    assert content == [{"type": "text", "text": "look"}, picture]
    assert (await tape.messages())[0]["content"] == content
    assert await tape.search(tape.query().query("aGVsbG8")) == []  # letters of a picture are no words
    assert len(await tape.search(tape.query().query("LOOK"))) == 1


async def test_P25_what_is_done_to_an_entry_of_a_fork_changes_nothing(tape: Tape) -> None:
    content = [{"type": "text", "text": "as it was"}]
    async with tape.fork() as fork:
        await fork.append(TapeEntry.message({"role": "user", "content": content}))
        content[0]["text"] = "changed"
        (await fork.messages())[0]["content"][0]["text"] = "changed"
    assert (await tape.messages())[0]["content"] == [{"type": "text", "text": "as it was"}]


async def test_a_fork_refuses_at_once_what_no_store_could_write(tape: Tape) -> None:
    async with tape.fork() as fork:
        await fork.append(said("fine"))
        with pytest.raises(TapeError):
            await fork.append(said("bad", thing=object()))
    assert texts(await tape.fetch(tape.query())) == ["fine"]


async def test_a_fork_can_be_forked(tape: Tape) -> None:
    async with tape.fork() as fork:
        await fork.append(said("one"))
        async with fork.fork() as inner:
            await inner.append(said("two"))
            assert texts(await inner.fetch(inner.query())) == ["one", "two"]
        assert texts(await fork.fetch(fork.query())) == ["one", "two"]
    assert texts(await tape.fetch(tape.query())) == ["one", "two"]


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    below=st.lists(entries, max_size=5),
    own=st.lists(entries, max_size=5),
    query=questions,
    reset=st.sampled_from([False] * 4 + [True]),
)
@pytest.mark.timeout(180)  # 300 examples, and a store for each
def test_P18_every_query_sees_a_fork_as_if_it_were_on_the_tape_already(
    tmp_path_factory: pytest.TempPathFactory,
    below: list[TapeEntry],
    own: list[TapeEntry],
    query: TapeQuery,
    reset: bool,
) -> None:
    async def ask() -> list[int] | str:
        with closing(SqliteTapeStore(tmp_path_factory.mktemp("tapes") / "tapes.db")) as store:
            tape = Tape("t", store)
            await tape.append(*below)
            async with tape.fork(merge_back=False) as fork:
                if reset:
                    assert not isinstance(fork.store, SqliteTapeStore)
                    await fork.store.reset("t")
                await fork.append(*own)
                try:
                    return [entry.id for entry in await fork.fetch(query)]
                except TapeError as error:
                    return error.reason.replace("_", " ")

    assert trio.run(ask) == expected(own if reset else [*below, *own], query)


# Stores of others


class Notebook:
    """A store of somebody else's, with nothing but the protocol; it notes the threads it is called in."""

    def __init__(self) -> None:
        self.kept: dict[str, list[TapeEntry]] = {}
        self.threads: set[int] = set()

    def list_tapes(self) -> list[str]:
        return sorted(self.kept)

    def append(self, tape: str, entry: TapeEntry) -> None:
        self.threads.add(threading.get_ident())
        self.kept.setdefault(tape, []).append(entry)

    def fetch_all(self, query: TapeQuery) -> Iterable[TapeEntry]:
        self.threads.add(threading.get_ident())
        return iter([entry for entry in self.kept.get(query.tape, []) if query.wants(entry)])

    def reset(self, tape: str) -> None:
        self.kept.pop(tape, None)


class AsyncNotebook:
    """The same, awaited."""

    def __init__(self) -> None:
        self._notebook = Notebook()

    async def list_tapes(self) -> list[str]:
        return self._notebook.list_tapes()

    async def append(self, tape: str, entry: TapeEntry) -> None:
        await trio.lowlevel.checkpoint()
        self._notebook.append(tape, entry)

    async def fetch_all(self, query: TapeQuery) -> Iterable[TapeEntry]:
        await trio.lowlevel.checkpoint()
        return self._notebook.fetch_all(query)

    async def reset(self, tape: str) -> None:
        self._notebook.reset(tape)


@pytest.mark.parametrize("store", [Notebook(), AsyncNotebook()], ids=["sync", "async"])
async def test_P2_a_store_needs_no_more_than_the_protocol(store: Any) -> None:
    tape = Tape("t", store)
    async with tape.fork() as fork:
        await fork.append(said("one"), said("two"))
    assert texts(await tape.fetch(tape.query())) == ["one", "two"]
    await store.reset("t") if isinstance(store, AsyncNotebook) else store.reset("t")
    assert await tape.fetch(tape.query()) == []


async def test_P2_a_sync_store_of_somebody_elses_never_blocks_the_loop() -> None:
    store = Notebook()
    await Tape("t", store).append(said("one"))
    assert threading.get_ident() not in store.threads
