"""What a copy carries: any records go from files to a Redis and back unchanged, and what has moved goes on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.copying import call_of, said
from fakes.redis_server import RedisServer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from bub.approval import Approval, NotedCall
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of_memory
from bub.inbox.copying.leading import copy_store
from bub.inbox.copying.records import (
    Fired,
    InboxRecord,
    Message,
    Note,
    Numbers,
    Own,
    Progress,
    Reply,
    Taken,
    Tally,
)
from bub.inbox.copying.sides import FileSide, Side
from bub.inbox.questions import AskedQuestion
from bub.inbox.shared.redis.copy_side import RedisSide
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.store import Received
from bub.inbox.texts import MessageTexts
from bub.tape import TapeEntry, TapeQuery
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.tape import prefix_of

MEMORY = "agent:alone"

EXAMPLES = int(os.environ.get("COPY_EXAMPLES", "5"))
"""How many inboxes are made up; `make copy` makes 100."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = st.sampled_from(["line", "post", "a b", "{x}", "ü*?"])
TIME = st.floats(0, 2e9).map(lambda at: round(at, 6))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXT, below, max_size=3),
    max_leaves=5,
)


def body_of(channel: str, chat: str, content: str, draft: str) -> str:
    body, _ = MessageTexts().write(said(content, chat, draft=draft))
    return body


CALLS = st.builds(NotedCall, TEXT, TEXT, TEXT, has_ended=st.booleans())


@st.composite
def questions(draw: st.DrawFn) -> AskedQuestion:
    number = draw(st.integers(1, 1000))
    approval = Approval(draw(TEXT), draw(TEXT), "s", draw(TEXT), "p", "r", id=f"q{number}", until=draw(TIME))
    state = draw(st.sampled_from(["open", "yes", "no", "spent", "over"]))
    return AskedQuestion(approval, 0, draw(TEXT), draw(TEXT), draw(NAME), draw(TEXT), draw(TIME), state, draw(TEXT))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    chat, draft = draw(NAME), draw(TEXT)
    body = draw(st.just(body_of("line", chat, draw(TEXT), draw(st.just(draft) | TEXT))) | TEXT)
    known = MessageTexts().read_or_none(body)
    channel, chat = (known.channel, known.chat_id) if known is not None else ("?", "?")
    firing = draw(st.none() | st.tuples(NAME, TIME, st.none() | TEXT, st.booleans()))
    return Message(
        *(channel, chat, draw(TIME), body, draft if known is not None else "", draw(st.integers(0, 9))),
        *(draw(st.none() | TEXT), firing),
        tuple(draw(st.lists(CALLS, max_size=2))),
        tuple(draw(st.lists(questions(), max_size=1))),
    )


REPLIES = st.builds(
    lambda chat, content, draft, at, attempts, later, reason: Reply(
        "line", chat, at, body_of("line", chat, content, draft), attempts, later if reason is None else 0.0, reason
    ),
    *(NAME, TEXT, TEXT, TIME, st.integers(0, 9), TIME, st.none() | TEXT),
)


@st.composite
def inboxes(draw: st.DrawFn) -> list[InboxRecord]:
    """Give everything that an inbox can have, as a store would give it."""
    waiting = draw(st.lists(messages(), max_size=6))
    fired = {(one.firing[0], one.firing[1]) for one in waiting if one.firing is not None}
    fired |= set(draw(st.lists(st.tuples(NAME, TIME), max_size=3)))
    names = [one.firing[:2] for one in waiting if one.firing is not None]
    waiting = [
        structs.replace(one, firing=None) if one.firing is not None and names.count(one.firing[:2]) > 1 else one
        for one in waiting
    ]
    return [
        Numbers(draw(st.integers(0, 2000)), draw(st.integers(0, 2000))),
        *draw(st.lists(st.builds(Progress, NAME, TEXT, TIME, st.integers(0, 99)), unique_by=lambda one: one.schedule)),
        *draw(st.lists(st.builds(Own, st.integers(1, 99), TEXT, TEXT), unique_by=lambda one: one.number, max_size=3)),
        *(Fired(*one) for one in sorted(fired)),
        *draw(st.lists(st.builds(Taken, NAME, TEXT), unique=True, max_size=5)),
        *draw(st.lists(st.builds(Note, NAME, TEXT, TEXT), unique_by=lambda one: (one.channel, one.name), max_size=5)),
        *waiting,
        *draw(st.lists(REPLIES, max_size=5)),
    ]


ENTRIES = st.builds(
    lambda kind, payload, meta: TapeEntry(0, kind, payload, meta),
    *(st.sampled_from(["message", "anchor", "event", "ü"]), st.dictionaries(TEXT | st.just("name"), JSON, max_size=3)),
    st.dictionaries(TEXT, JSON, max_size=2),
)


async def give(records: Sequence[InboxRecord]) -> AsyncIterator[InboxRecord]:
    for record in records:
        yield record


async def tally(side: Side) -> Tally:
    found = Tally()
    async for record in side.read():
        found.add(record)
    return found


def tapes_of(home: Path) -> dict[str, list[TapeEntry]]:
    store = SqliteTapeStore(home / "tapes" / "tapes.db")
    found = {name: store.fetch_all(TapeQuery(name)) for name in store.list_tapes()}
    store.close()
    return found


async def copy(source: Side, target: Side) -> str:
    async with source.opened(is_target=False), target.opened(is_target=True):
        return (await copy_store(source, target, replace=False, tell=lambda *_: None)).digest


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(inbox=inboxes(), tapes=st.lists(st.lists(ENTRIES, min_size=1, max_size=4), min_size=1, max_size=2))
def test_any_records_go_there_and_back_unchanged(
    redis: RedisServer, inbox: list[InboxRecord], tapes: list[list[TapeEntry]]
) -> None:
    redis.ask("FLUSHALL")
    address = StoreAddress.parse(f"{redis.socket_address}?partitions=3")

    async def go(folder: Path) -> None:
        one, two = [FileSide(folder / name, MEMORY, {}) for name in ("one", "two")]
        async with one.opened(is_target=True):
            for number, entries in enumerate(tapes):
                store = SqliteTapeStore(folder / "one" / "tapes" / "tapes.db")
                store.extend(f"{prefix_of(MEMORY)}{number}", entries)
                store.close()
            await one.write(give(inbox))
            expected = Tally()
            for record in inbox:
                expected.add(record)
            found = await tally(one)
            assert (found.counts, found.digest) == (expected.counts, expected.digest)
        there = await copy(one, RedisSide(address, MEMORY))
        assert await copy(RedisSide(address, MEMORY), two) == there
        assert tapes_of(folder / "one") == tapes_of(folder / "two")

    with tempfile.TemporaryDirectory() as folder:
        trio.run(go, Path(folder))


@pytest.mark.anyio
async def test_what_moved_to_its_session_goes_on_in_a_redis_and_begins_again_in_files(
    redis: RedisServer, tmp_path: Path
) -> None:
    first = RedisInbox(StoreAddress.parse(f"{redis.address}?partitions=2"), "alone")
    await claim_all(first)
    ids = [one.id for text in ("one", "two") if (one := await first.receive(said(text)))]
    await first.move(ids, "the session", b'{"values":1}')
    assert await first.receive(said("three"))
    (moved,) = {one.id for one in await waiting(first) if one.message.content == "one"}
    await first.begin([moved])
    await first.begin_call([moved], call_of("c1"))
    await close(first)

    there = StoreAddress.parse(f"{redis.address}?prefix=there&partitions=5")
    source, target = RedisSide(StoreAddress.parse(redis.address), MEMORY), RedisSide(there, MEMORY)
    await copy(source, target)
    second = RedisInbox(there, agent_of_memory(MEMORY))
    await claim_all(second)
    found = {one.message.content: one for one in await waiting(second)}
    arrivals = [found[text].arrival for text in ("one", "two")]
    for arrival in arrivals:
        assert arrival is not None
        assert (arrival.session_id, arrival.values, arrival.number) == ("the session", b'{"values":1}', 2)
        assert arrival.first == found["one"].id
        assert found["one"].id % 1024 == second.partition_of("the session")
    assert found["three"].arrival is None
    assert (found["one"].attempts, found["one"].has_calls) == (1, True)
    await close(second)

    files = FileSide(tmp_path / "files", MEMORY, {})
    await copy(RedisSide(there, MEMORY), files)
    async with files.opened(is_target=False):
        records: list[Any] = [record async for record in files.read() if isinstance(record, Message)]
    assert [(MessageTexts().read(one.body).content, one.attempts, len(one.calls)) for one in records] == [
        ("one", 1, 1),
        ("two", 0, 0),
        ("three", 0, 0),
    ]


async def claim_all(inbox: RedisInbox) -> None:
    await inbox.open()
    for partition in range(inbox.partitions):
        lease = await inbox.leases.take(f"partition:{partition}", "alone")
        assert lease is not None
        await inbox.claim_partition(lease)


async def waiting(inbox: RedisInbox) -> Sequence[Received]:
    return (await inbox.claim(["line"])).messages


async def close(inbox: RedisInbox) -> None:
    for lease in inbox._claims.all():
        await inbox.drop_claim(lease)
    await inbox.close()
