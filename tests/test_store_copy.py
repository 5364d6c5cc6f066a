"""`bub store copy`: all that an agent has, from files to a Redis and back, whatever comes between."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.copying import LATER, bub, call_of, digest_in, fill, fill_inbox, fill_tapes, said, tapes_in
from fakes.gateway import FILES, gateway
from fakes.redis_server import RedisServer, serving_redis

from bub.agent.costs.spending import DailySpending
from bub.approval import OPERATOR
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of
from bub.channels import ChannelMessage
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.questions import YES
from bub.inbox.schedules.firing import Firing
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.inbox.store import InboxStore
from bub.tape import Tape
from bub.tape.settings import session_settings
from bub.tape.shared.store import open_redis_tapes
from bub.tape.tape import tape_name

Capsys = pytest.CaptureFixture[str]

ENTRIES = int(os.environ.get("COPY_ENTRIES", "2000"))
MESSAGES = int(os.environ.get("COPY_MESSAGES", "200"))
"""How much is copied; the full size is 100,000 and 1,000."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bub's own folder, of an agent that works in `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


async def waiting_in(home: Path, workspace: Path) -> tuple[list[Any], list[Any], dict[str, str], list[Any]]:
    """What an inbox in files says of what waits, its notes, and its schedules, all ids apart."""
    inbox = Mailbox(inbox_file(home), workspace)
    await inbox.open()
    try:
        claim = await inbox.claim({"line"})
        messages = [(one.message, one.attempts, one.at, one.firing, one.has_calls) for one in claim.messages]
        replies = [(one.message, one.attempts, one.not_before) for one in claim.replies]
        schedules = [*await inbox.followed(), *await inbox.own_schedules()]
        questions = [replace(one, turn=0) for one in await inbox.open_questions()]
        return messages, replies, await inbox.recall("line"), [*schedules, *questions]
    finally:
        await inbox.close()


# There and back


def test_all_that_an_agent_has_is_the_same_in_a_redis_and_back_in_files(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys
) -> None:
    fill(home, tmp_path, ENTRIES, MESSAGES)
    began = time.monotonic()
    there = bub(capsys, "store", "copy", "files", redis.address)
    midway = time.monotonic()
    assert f"{ENTRIES + 2:,} entries of 22 tapes" in there.out
    assert f"{MESSAGES + 4:,} messages" in there.out
    back = bub(capsys, "store", "copy", redis.address, "./back")
    took = [midway - began, time.monotonic() - midway]
    with capsys.disabled():
        print(f"\n{ENTRIES:,} entries and {MESSAGES:,} messages: {took[0]:.1f} s to Redis, {took[1]:.1f} s back")
    assert max(took) < 120
    assert digest_in(there.out) == digest_in(back.out)
    assert tapes_in(tmp_path / "back") == tapes_in(home)
    before, after = [trio.run(waiting_in, folder, tmp_path) for folder in (home, tmp_path / "back")]
    order = sorted(before[0], key=lambda one: one[0].chat_id)
    assert sorted(after[0], key=lambda one: one[0].chat_id) == order
    assert after[1:] == before[1:]


@pytest.mark.anyio
async def test_a_gateway_finds_in_a_redis_what_was_copied(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys
) -> None:
    await fill_inbox(home, tmp_path)
    await fill_tapes(home, tmp_path, 100)
    await trio.to_thread.run_sync(bub, capsys, "store", "copy", "files", f"{redis.address}?partitions=2")
    inbox = RedisInbox(StoreAddress.parse(redis.address), agent_of(tmp_path))
    await inbox.open()
    try:
        for name in ("partition:0", "partition:1", "channel:line"):
            lease = await inbox.leases.take(name, "one")
            assert lease is not None
            await (inbox.claim_channel if name == "channel:line" else inbox.claim_partition)(lease)
        claim = await inbox.claim(["line"])
        found = {one.message.content: one for one in claim.messages}
        assert [one.message.content for one in claim.messages if one.message.chat_id == "2"] == [
            "first ✓",
            "second",
            "fourth",
        ]
        first = found["first ✓"]
        assert (first.attempts, first.message.draft, first.has_calls) == (1, "draft 7", True)
        assert [(one.call_id, one.has_ended) for one in await inbox.begin([first.id])] == [("c1", False), ("c2", True)]
        assert found["good morning"].firing == Firing("morning", 28_800.0)
        assert [(one.message.content, one.attempts, one.not_before) for one in claim.replies] == [
            ("one", 0, 0.0),
            ("two", 1, LATER),
            ("three", 0, 0.0),
        ]
        assert claim.replies[0].message.draft == "half of it is sent"
        (question,) = await inbox.open_questions()
        assert (question.turn, question.call_id, question.shown) == (found["second"].id, "c3", "shown 9")
        yes = await inbox.find_question("q2")
        assert yes is not None
        assert (yes.state, yes.by, yes.turn) == (YES, OPERATOR, found["fourth"].id)
        await inbox.begin_call([yes.turn], call_of("c4"), "q2")  # what was allowed may be called
        assert await inbox.receive(said("again", "2", once="dead")) is None  # it came before the copy
        assert await inbox.fire(Firing("morning", 28_800.0), said("x"), until=28_802.0, missed=0) is None
        assert [one.name for one in await inbox.own_schedules()] == ["2"]
        assert await inbox.recall("line") == {"older": "1", "offset": "4711"}
        received = await inbox.receive(said("new", "2", once="new"))
        assert received is not None
        assert received.id > max(one.id for one in claim.messages if one.message.chat_id == "2")
        posted = await inbox.finish([], [said("behind", "2")])
        assert posted[0].id not in {one.id for one in claim.replies}
        entries = await inbox.list_entries()
        assert {(one.kind, one.reason) for one in entries if one.reason} == {
            ("message", "its turn died three times"),
            ("reply", "the bot was blocked"),
        }
    finally:
        await inbox.close()
    async with open_redis_tapes(StoreAddress.parse(redis.address), agent_of(tmp_path)) as store:
        tape = Tape(tape_name(tmp_path, "line:0"), store)
        assert await session_settings(tape) == {"model": "openai:x"}
        assert len(await tape.fetch(tape.query().after_anchor("session/start"))) == 3
        assert await DailySpending(store, "default").today() == 1234


async def receive(store: InboxStore, *contents: str) -> None:
    """Keep messages as a gateway does."""
    await store.open()
    for content in contents:
        assert await store.receive(ChannelMessage("post", "1", content, once=content))
    await store.close()


# Which stores, and which not


def test_a_store_that_is_not_empty_is_refused_unless_it_is_given_up(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys
) -> None:
    fill(home, tmp_path)
    first = bub(capsys, "store", "copy", "files", redis.address)
    trio.run(receive, Mailbox(inbox_file(home), tmp_path), "one", "more")
    trio.run(fill_tapes, home, tmp_path, 100)
    refused = bub(capsys, "store", "copy", "files", redis.address)
    assert (refused.code, refused.out) == (1, "")
    assert "is not empty: it has 22 tapes" in refused.err
    assert "4 messages" in refused.err
    unasked = bub(capsys, "store", "copy", "files", redis.address, "--replace")
    assert (unasked.code, "say --yes" in unasked.err) == (2, True)
    again = bub(capsys, "store", "copy", "files", redis.address, "--replace", "--yes")
    assert "6 messages" in again.out
    assert digest_in(again.out) != digest_in(first.out)
    back = bub(capsys, "store", "copy", redis.address, "files", "--replace", "--yes")
    assert digest_in(back.out) == digest_in(again.out)


def test_one_store_under_two_addresses_is_not_emptied(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys
) -> None:
    fill(home, tmp_path)
    first = bub(capsys, "store", "copy", "files", redis.address)
    for other in (redis.address, redis.socket_address, redis.address_at("localhost")):
        same = bub(capsys, "store", "copy", redis.address, other, "--replace", "--yes")
        assert (same.code, "are the same store" in same.err) == (1, True)
    same = bub(capsys, "store", "copy", "files", f"{home}/../home", "--replace", "--yes")
    assert (same.code, "are the same store" in same.err) == (1, True)
    again = bub(capsys, "store", "copy", redis.address, "./back")
    assert digest_in(again.out) == digest_in(first.out)


def test_what_is_no_store_is_said(home: Path, redis: RedisServer, capsys: Capsys, tmp_path: Path) -> None:
    for arguments, said_of_it in (
        (("file", redis.address), "`file` is no store"),
        (("files", "shared"), "no store is shared"),
        (("files", "http://host"), "the address of a store begins with"),
        (("files", "redis://:${env:NO_SUCH}@127.0.0.1"), "`NO_SUCH` is not set"),
        (("files", redis.address), "has nothing of this agent"),
    ):
        ended = bub(capsys, "store", "copy", *arguments)
        assert ended.code in (1, 2)
        assert said_of_it in ended.err
    refused = bub(capsys, "store", "copy", redis.address, "./new")
    assert "has nothing of this agent" in refused.err
    assert not home.exists()
    assert not (tmp_path / "new").exists()


def test_a_password_is_a_reference_and_is_never_printed(
    home: Path, tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, tmp_path)
    with serving_redis(password="never said") as redis:
        place = f"127.0.0.1:{redis.port}"
        monkeypatch.setenv("WORD", "never%20said")
        there = bub(capsys, "store", "copy", "files", f"redis://:${{env:WORD}}@{place}")
        assert there.code == 0, there.err
        wrong = bub(capsys, "store", "copy", "files", f"redis://:never-right@{place}")
        assert (wrong.code, "does not let Bub in" in wrong.err) == (1, True)
        monkeypatch.setenv("BUB_GATEWAY_STORE", redis.address)
        back = bub(capsys, "store", "copy", "shared", "./back")
        assert digest_in(back.out) == digest_in(there.out)
        assert "never" not in there.out + there.err + wrong.err + back.out + back.err


def test_another_name_on_the_way_gives_the_same_memory_to_that_agent(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, tmp_path)
    there = bub(capsys, "store", "copy", "files", redis.address, "--as", "front-desk")
    assert "set BUB_AGENT to front-desk" in there.err
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("BUB_GATEWAY_STORE", redis.address)
    monkeypatch.setenv("BUB_AGENT", "front-desk")
    assert "line:19" in bub(capsys, "tape", "list").out
    assert bub(capsys, "store", "copy", "shared", "./back").code == 0
    assert len(tapes_in(tmp_path / "elsewhere" / "back")) == 22


def test_what_belongs_to_all_agents_of_a_folder_goes_along_and_is_not_lost_there(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys
) -> None:
    """Another agent works in the folder that is copied to: what it has stays, and nothing is put behind that."""
    fill(home, tmp_path)
    other = tmp_path / "other"
    trio.run(fill_tapes, tmp_path / "back", other, 40)
    before = tapes_in(tmp_path / "back")
    assert bub(capsys, "store", "copy", "files", redis.address).code == 0
    refused = bub(capsys, "store", "copy", redis.address, "./back")
    assert (refused.code, "other agents use the tape `budget__sidecar__default__" in refused.err) == (1, True)
    assert tapes_in(tmp_path / "back").items() >= before.items()


def test_tapes_of_lines_are_copied_as_lines(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home, tmp_path)
    there = bub(capsys, "store", "copy", "files", redis.address)
    monkeypatch.setenv("BUB_TAPES_STORE", "jsonl")
    lines = bub(capsys, "store", "copy", redis.address, "./lines")
    assert digest_in(lines.out) == digest_in(there.out)
    assert len(list((tmp_path / "lines" / "tapes").glob("*.jsonl"))) == 22
    again = bub(capsys, "store", "copy", "./lines", f"{redis.address}?prefix=again")
    assert digest_in(again.out) == digest_in(there.out)


# Gateways


def test_a_gateway_that_runs_keeps_a_copy_away_and_the_next_one_answers_what_was_copied_in_order(
    home: Path, tmp_path: Path, redis: RedisServer, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    address = f"{redis.address}?partitions=2"
    trio.run(receive, Mailbox(inbox_file(home), tmp_path), "wait go", "b", "c")
    there = bub(capsys, "store", "copy", "files", address)
    assert "3 messages" in there.out, there.err
    with gateway(tmp_path, BUB_GATEWAY_STORE=address) as running:
        running.until(lambda: (tmp_path / "go.begun").exists())
        busy = bub(capsys, "store", "copy", address, "./back")
        assert (busy.code, "gateways run on redis://" in busy.err) == (1, True), busy.err
        (tmp_path / "go").touch()
        running.until(lambda: [text for _, text in running.replies if "c" in text])
        answered = " ".join(text for _, text in running.replies)
        assert re.sub(r"\bone\b", "", answered).split() == ["wait", "go", "b", "c"]
        running.say("never twice", once="b")
        assert running.end() == 0
    inbox = RedisInbox(StoreAddress.parse(address), agent_of(tmp_path))
    trio.run(receive, inbox, "d", "e", "f")
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    back = bub(capsys, "store", "copy", address, "./back")
    assert "3 messages" in back.out, back.err
    before = len(running.replies)
    with gateway(tmp_path, BUB_HOME=str(tmp_path / "back")) as running:
        running.until(lambda: [text for _, text in running.replies if "f" in text])
        busy = bub(capsys, "store", "copy", "./back", f"{redis.address}?prefix=other")
        assert (busy.code, "another gateway works on" in busy.err) == (1, True), busy.err
        assert running.end() == 0
    answered = " ".join(text for _, text in running.replies[before:])
    assert re.sub(r"\bone\b", "", answered).split() == ["d", "e", "f"]
