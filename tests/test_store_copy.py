"""`bub store copy`: all that an agent has, from files to a Redis and back, whatever comes between."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.copying import LATER, call_of, digest_in, fill, fill_inbox, fill_tapes, said, tapes_in
from fakes.redis_server import RedisServer

from bub.agent.costs.spending import DailySpending
from bub.approval import OPERATOR
from bub.base.redis.address import StoreAddress
from bub.base.redis.settings import agent_of
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.questions import YES
from bub.inbox.schedules.firing import Firing
from bub.inbox.shared.redis.inbox import RedisInbox
from bub.tape import Tape
from bub.tape.settings import session_settings
from bub.tape.shared.store import open_redis_tapes
from bub.tape.tape import tape_name

ENTRIES = int(os.environ.get("COPY_ENTRIES", "2000"))
MESSAGES = int(os.environ.get("COPY_MESSAGES", "200"))
"""How much is copied; the full size is 100,000 and 1,000."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Bub's own folder, of an agent that works in `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def copy(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `bub store copy ARGUMENTS` prints, which has to end well."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        ended = exit_code(lambda: command_line(["store", "copy", *arguments]))
        printed = capsys.readouterr()
        assert ended == 0, printed.err
        return printed.out

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `bub store copy ARGUMENTS` says, which has to fail."""

    def run(*arguments: str) -> str:
        capsys.readouterr()
        assert exit_code(lambda: command_line(["store", "copy", *arguments])) in (1, 2)
        printed = capsys.readouterr()
        assert printed.out == ""
        return printed.err

    return run


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
    home: Path, tmp_path: Path, redis: RedisServer, copy: Callable[..., str]
) -> None:
    fill(home, tmp_path, ENTRIES, MESSAGES)
    there = copy("files", redis.address)
    assert f"{ENTRIES + 2:,} entries of 22 tapes" in there
    assert f"{MESSAGES + 4:,} messages" in there
    back = copy(redis.address, "./back")
    assert digest_in(there) == digest_in(back)
    assert tapes_in(tmp_path / "back") == tapes_in(home)
    before, after = [trio.run(waiting_in, folder, tmp_path) for folder in (home, tmp_path / "back")]
    order = sorted(before[0], key=lambda one: one[0].chat_id)
    assert sorted(after[0], key=lambda one: one[0].chat_id) == order
    assert after[1:] == before[1:]


@pytest.mark.anyio
async def test_a_gateway_finds_in_a_redis_what_was_copied(
    home: Path, tmp_path: Path, redis: RedisServer, copy: Callable[..., str]
) -> None:
    await fill_inbox(home, tmp_path)
    await fill_tapes(home, tmp_path, 100)
    await trio.to_thread.run_sync(copy, "files", f"{redis.address}?partitions=2")
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
