"""All that an agent has, for tests of `bub store copy`, and that command in a process of its own."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from bub.agent.costs.spending import DailySpending
from bub.approval import OPERATOR, Approval, NotedCall
from bub.channels import ChannelMessage
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.questions import AskedQuestion
from bub.inbox.schedules.firing import Firing
from bub.inbox.schedules.own import OwnSchedule
from bub.tape import Tape, TapeEntry, TapeQuery
from bub.tape.settings import set_session_setting
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.tape import tape_name

LATER = time.time() + 3600


def said(content: str, chat: str = "1", **more: Any) -> ChannelMessage:
    """Return a message."""
    return ChannelMessage("line", chat, content, **more)


def digest_in(printed: str) -> str:
    """Return the digest that a copy has printed."""
    found = re.search(r"sha256 ([0-9a-f]{64})", printed)
    assert found is not None
    return found[1]


async def fill_inbox(home: Path, workspace: Path, messages: int = 0) -> None:
    """Keep some of everything that an inbox in files can have."""
    inbox = Mailbox(inbox_file(home), workspace)
    await inbox.open()
    for number in range(messages):
        await inbox.receive(said(f"message {number}", f"chat {number % 50}", once=f"o{number}"))
    first, second, dead, fourth = [
        await inbox.receive(said(text, "2", once=text)) for text in ("first ✓", "second", "dead", "fourth")
    ]
    assert first
    assert second
    assert dead
    assert fourth
    await inbox.begin([first.id, second.id])
    await inbox.keep_draft(first.id, "draft 7")
    await inbox.begin_call([first.id], call_of("c1"))
    await inbox.begin_call([first.id], call_of("c2"))
    await inbox.end_call([first.id], call_of("c2"))
    approval = Approval("line:2", "bash", "s", "a", "default", "r", until=LATER)
    asked = await inbox.ask(AskedQuestion(approval, second.id, "c3", "  cmd: rm", "line", "2", time.time()))
    await inbox.note_shown(asked.id, "shown 9")
    gone = await inbox.ask(AskedQuestion(approval, fourth.id, "c4", "  cmd: ls", "line", "2", time.time()))
    await inbox.answer(gone.id, True, OPERATOR)
    await inbox.set_aside([dead.id], "its turn died three times")
    replies = [said(text, "2") for text in ("one", "two", "three", "blocked")]
    posted = await inbox.finish((), replies)
    await inbox.put_off(posted[1].id, not_before=LATER)
    await inbox.keep_reply_draft(posted[0].id, "half of it is sent")
    await inbox.undeliverable(posted[3].id, "the bot was blocked")
    inbox.remember("line", "older", "1")
    inbox.remember("line", "offset", "4711")
    await inbox.follow("morning", "0 8 * * * UTC", 0.0)
    await inbox.fire(Firing("morning", 28_800.0), said("good morning", "7"), until=28_801.0, missed=2)
    own = OwnSchedule("", "30 9 1 * *", "pay", "line:8", "UTC", "default", session_id="line:8", sender_id="4711")
    for _ in range(2):
        await inbox.add_schedule(own, 5)
    await inbox.remove_schedule("1")
    await inbox.close()


def call_of(name: str) -> NotedCall:
    """Return a call of a tool."""
    return NotedCall(name, "bash", "a")


async def fill_tapes(home: Path, workspace: Path, entries: int) -> None:
    """Write tapes of twenty sessions with `entries` in all, their settings, and what was spent today."""
    store = SqliteTapeStore(home / "tapes" / "tapes.db")
    each = entries // 20
    for session in range(20):
        tape = Tape(tape_name(workspace, f"line:{session}"), store)
        await tape.ensure_bootstrap_anchor(f"line:{session}", workspace)
        written: list[TapeEntry] = []
        for number in range(each // 2 - 1):
            written += [TapeEntry.message({"role": "user", "content": f"Grüße {number} \u2028 " + "x" * 100})]
            written += [TapeEntry.tool_result([{"id": number, "ok": True, "took": number / 7}], step=number)]
        for start in range(0, len(written), 1_000):
            await tape.append(*written[start : start + 1_000])
    await set_session_setting(Tape(tape_name(workspace, "line:0"), store), "model", "openai:x")
    await DailySpending(store, "default").add(1234)
    store.close()


def fill(home: Path, workspace: Path, entries: int = 100, messages: int = 0) -> None:
    """Keep some of everything that an agent can have."""
    trio.run(fill_inbox, home, workspace, messages)
    trio.run(fill_tapes, home, workspace, entries)


def tapes_in(home: Path) -> dict[str, list[TapeEntry]]:
    """Return all tapes of a folder."""
    store = SqliteTapeStore(home / "tapes" / "tapes.db")
    found = {name: store.fetch_all(TapeQuery(name)) for name in store.list_tapes()}
    store.close()
    return found


class Ended(NamedTuple):
    """How a command has ended, and what it has said."""

    code: int
    out: str
    err: str


def bub(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    """Run `bub` in this process, which takes a tenth of the time."""
    capsys.readouterr()
    code = exit_code(lambda: command_line([*arguments]))
    return Ended(code, *capsys.readouterr())
