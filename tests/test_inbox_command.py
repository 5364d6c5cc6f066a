"""`bub inbox`: what was set aside is looked through, tried again or dropped, beside a gateway that runs."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pexpect
import pytest
import trio
from fakes.command_line import SOURCES, bub

from bub.base.layout import cells
from bub.channels.message import ChannelMessage
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.sqlite import SqliteInbox


@dataclass
class Box:
    """A mailbox that holds two messages and two replies, one of each set aside; all came five minutes ago.

    It stays open, as a gateway's does.
    """

    mailbox: Mailbox
    workspace: Path

    def ask(self, name: str, *given: Any, **named: Any) -> Any:
        async def asked() -> Any:
            return await getattr(self.mailbox, name)(*given, **named)

        return trio.run(asked)


def said(content: str, **more: Any) -> ChannelMessage:
    return ChannelMessage(channel="telegram", chat_id="-100", content=content, **more)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    box = Box(Mailbox(inbox_file(tmp_path / "home"), workspace), workspace)
    box.ask("open")
    one = box.ask("receive", said("look at\nthe build, please"))
    box.ask("receive", said("hello"))
    for _ in range(3):
        box.ask("begin", [one.id])
    box.ask("set_aside", [one.id], "cut short three times")
    (blocked,) = box.ask("finish", (), [said("the build is green")])
    box.ask("finish", (), [said("hello to you")])
    box.ask("put_off", blocked.id, not_before=12.0)
    box.ask("undeliverable", blocked.id, "the bot was blocked\x1b[2J")
    with closing(sqlite3.connect(inbox_file(tmp_path / "home"))) as db, db:
        for table in ("messages", "replies"):
            db.execute(f"update {table} set at = at - 330")
    yield box
    box.ask("close")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """What `bub inbox ARGUMENTS` prints, on standard output and on standard error."""

    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert exit_code(lambda: command_line(["inbox", *arguments])) == code
        printed = capsys.readouterr()
        return printed.out, printed.err

    return run


Run = Callable[..., tuple[str, str]]


def test_what_was_set_aside_is_listed_with_the_reason(box: Box, run: Run) -> None:
    out, err = run("list")
    head, message, reply = out.splitlines()
    assert head.split() == ["id", "chat", "age", "tries", "set", "aside", "because", "begins"]
    parts = [[part.strip() for part in line.split("  ") if part.strip()] for line in (message, reply)]
    assert parts == [
        ["m1", "telegram:-100", "5m", "3", "cut short three times", "look at the build, please"],
        ["r1", "telegram:-100", "5m", "1", "the bot was blocked\\x1b[2J", "the build is green"],
    ]
    assert err == ""


def test_all_shows_what_waits_too(box: Box, run: Run) -> None:
    out, _ = run("list", "--all")
    rows = [[part.strip() for part in line.split("  ") if part.strip()] for line in out.splitlines()]
    assert [(row[0], row[4]) for row in rows] == [
        ("id", "state"),
        ("m1", "set aside: cut short three times"),
        ("m2", "waits for its turn"),
        ("r1", "set aside: the bot was blocked\\x1b[2J"),
        ("r2", "waits for its delivery"),
    ]


def test_all_is_as_the_list_without_it_if_nothing_waits(box: Box, run: Run) -> None:
    box.ask("finish", [2])
    box.ask("mark_delivered", 2)
    assert run("list", "--all") == run("list")


def test_a_program_gets_everything_as_json(box: Box, run: Run) -> None:
    message, reply = json.loads(run("list", "--json")[0])
    at = message.pop("at")
    assert at.endswith("+00:00")
    assert message == {
        "id": "m1",
        "kind": "message",
        "channel": "telegram",
        "chat_id": "-100",
        "attempts": 3,
        "reason": "cut short three times",
        "message": said("look at\nthe build, please").as_dict(),
    }
    assert (reply["id"], reply["kind"], reply["reason"]) == ("r1", "reply", "the bot was blocked\x1b[2J")
    assert [one["id"] for one in json.loads(run("list", "--all", "--json")[0])] == ["m1", "m2", "r1", "r2"]


def test_an_inbox_with_nothing_set_aside_says_so_and_where_there_is_something(
    box: Box, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    out, err = run("list")
    assert out == ""
    assert err.splitlines() == [
        f"nothing was set aside in {elsewhere}",
        f"2 in {box.workspace} (see them with --workspace)",
    ]
    assert json.loads(run("list", "--json")[0]) == []
    assert run("retry", "--all") == ("", "nothing was set aside\n")
    assert run("drop", "--all") == ("", "nothing was set aside\n")
    assert "m1" in run("list", "--workspace", str(box.workspace))[0]


def test_without_an_inbox_nothing_is_made(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("list") == ("", f"nothing was set aside in {tmp_path}\n")
    _, err = run("drop", "m1", "--yes", code=1)
    assert err == "bub: there is no `m1` in the inbox (nothing was set aside)\n"
    assert not inbox_file(tmp_path / "home").exists()


def test_what_is_tried_again_waits_as_if_nothing_had_been_tried_and_a_gateway_learns_of_it(box: Box, run: Run) -> None:
    assert run("retry", "m1", "m1") == ("", "1 message will be tried again\n")
    assert [(one.message.content, one.attempts) for one in box.ask("waiting")] == [
        ("look at\nthe build, please", 0),
        ("hello", 0),
    ]
    assert box.ask("was_requeued")
    assert run("retry", "--all") == ("", "1 reply will be tried again\n")
    assert [(one.message.content, one.attempts, one.not_before) for one in box.ask("outgoing")] == [
        ("the build is green", 0, 0),
        ("hello to you", 0, 0),
    ]
    assert run("list")[1] == f"nothing was set aside in {box.workspace}; 4 waiting (--all shows them)\n"


def test_what_is_dropped_is_gone(box: Box, run: Run) -> None:
    assert run("drop", "r1", "m1", "--yes") == ("", "1 message and 1 reply were dropped\n")
    assert [line.split()[0] for line in run("list", "--all")[0].splitlines()] == ["id", "m2", "r2"]
    assert box.ask("was_requeued")


def test_without_a_person_nothing_is_dropped_unasked(box: Box, run: Run) -> None:
    _, err = run("drop", "--all", code=2)
    assert err == "bub: there is no terminal to ask whether to drop 1 message and 1 reply (say --yes)\n"
    assert len(json.loads(run("list", "--json")[0])) == 2


@pytest.mark.parametrize(("answer", "left"), [("y", []), ("\r", ["m1"])])
def test_a_person_is_asked_before_anything_is_dropped(box: Box, run: Run, answer: str, left: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": SOURCES, "TERM": "xterm"}
    child = pexpect.spawn(
        sys.executable, ["-m", "bub", "inbox", "drop", "m1"], cwd=str(box.workspace), env=environment, timeout=30
    )
    child.expect("Drop 1 message for good")
    child.send(answer)
    child.expect("dropped")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert [one["id"] for one in json.loads(run("list", "--json")[0]) if one["kind"] == "message"] == left


@pytest.mark.parametrize("command", [("retry",), ("drop", "--yes")])
def test_what_is_not_there_or_not_set_aside_is_an_error_and_nothing_is_done(
    box: Box, run: Run, command: tuple[str, ...]
) -> None:
    for wrong, told in {
        "m9": "there is no `m9` in the inbox (set aside: m1, r1)",
        "1": "there is no `1` in the inbox (set aside: m1, r1)",
        "m2": "`m2` was not set aside: it waits for its turn (set aside: m1, r1)",
        "r2": "`r2` was not set aside: it waits for its delivery (set aside: m1, r1)",
    }.items():
        assert run(*command, "m1", wrong, code=1) == ("", f"bub: {told}\n")
    for nothing in ((), ("m1", "--all")):
        assert "say which: IDs, or --all" in run(*command, *nothing, code=2)[1]
    assert [one["id"] for one in json.loads(run("list", "--json")[0])] == ["m1", "r1"]


def test_where_many_were_set_aside_the_nearest_name_is_told(box: Box, run: Run) -> None:
    for _ in range(20):
        one = box.ask("receive", said("x"))
        box.ask("set_aside", [one.id], "why not")
    assert run("retry", "m111", code=1)[1] == "bub: there is no `m111` in the inbox (did you mean `m11`?)\n"


def test_a_row_that_somebody_spoilt_is_listed_and_can_be_dropped(box: Box, run: Run) -> None:
    box.ask("close")
    with closing(sqlite3.connect(inbox_file(box.workspace.parent / "home"))) as db, db:
        db.execute("update messages set body = '{', at = 9e300, attempts = 'x', channel = x'ff' where id = 1")
        db.execute("update replies set reason = 7, at = 'noon' where id = 1")
    first, second = json.loads(run("list", "--json")[0])
    assert (first["message"], first["attempts"], first["at"]) == (None, 0, "1970-01-01T00:00:00.000+00:00")
    assert second["reason"] == "7"
    assert "(cannot be read)" in run("list")[0]
    run("drop", "--all", "--yes")
    assert json.loads(run("list", "--json")[0]) == []
    box.ask("open")


def test_a_message_without_words_says_what_came(box: Box, run: Run) -> None:
    one = box.ask("receive", said("", media=[{"kind": "image"}, {"kind": "audio"}]))
    box.ask("set_aside", [one.id], "why not")
    assert run("list")[0].splitlines()[2].endswith("[image] [audio]")


def test_in_a_narrow_window_a_letter_has_several_lines(box: Box) -> None:
    long = box.ask("receive", said("漢字 " * 50))
    box.ask("set_aside", [long.id], "it took " + "very " * 30 + "long")
    child = pexpect.spawn(
        sys.executable,
        ["-m", "bub", "inbox", "list"],
        cwd=str(box.workspace),
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONIOENCODING": "utf-8"},
        dimensions=(24, 40),
        timeout=30,
        encoding="utf-8",
    )
    child.expect(pexpect.EOF)
    lines = child.before.splitlines()
    assert max(cells(line) for line in lines) <= 40
    assert lines[:3] == ["m1  telegram:-100  5m  3 tries", "  cut short three times", "  look at the build, please"]


def test_the_age_is_told_in_the_largest_unit(box: Box, run: Run) -> None:
    with closing(sqlite3.connect(inbox_file(box.workspace.parent / "home"))) as db:
        for seconds, age in {90: "1m", 7300: "2h", 3 * 86_400 + 5: "3d", -100: "0s"}.items():
            db.execute("update messages set at = ? where id = 1", (time.time() - seconds,))
            db.commit()
            assert run("list")[0].splitlines()[1].split()[2] == age


def test_it_works_beside_a_gateway_in_another_process_and_tells_a_file_that_it_cannot_use(box: Box) -> None:
    done = bub(box.workspace, "inbox", "retry", "--all")
    assert (done.returncode, done.stderr) == (0, "1 message and 1 reply will be tried again\n")
    assert box.ask("was_requeued")
    box.ask("close")
    inbox_file(box.workspace.parent / "home").write_text("no database " * 100)
    done = bub(box.workspace, "inbox", "list")
    assert done.returncode == 1
    assert "cannot be used" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "move the file away" in done.stderr


def test_one_that_was_taken_up_meanwhile_is_not_dropped(box: Box, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else tries a message again while a person is still being asked."""

    def meanwhile(question: str) -> bool:
        other = SqliteInbox(inbox_file(box.workspace.parent / "home"), box.workspace)
        other.open()
        other.alone(lambda: other.retry("message", [1]))
        other.close()
        return True

    monkeypatch.setattr("bub.cli.inbox.can_ask", lambda: True)
    monkeypatch.setattr("bub.cli.inbox.confirm", meanwhile)
    assert "`m1` was not set aside" in run("drop", "--all", code=1)[1]
    assert [one["id"] for one in json.loads(run("list", "--all", "--json")[0])] == ["m1", "m2", "r1", "r2"]
