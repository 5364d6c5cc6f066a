"""`bub schedules`: what fires when, fired now, and removed; beside a gateway that runs, or none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
import trio
from fakes.line import Line, an_office, opened
from fakes.toys import Workshop

from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.schedules.firing import Firing
from bub.inbox.schedules.own import OwnSchedule
from bub.inbox.sqlite import SqliteInbox

PIPELINE = """
version: 1
extends: bub:default
schedules:
  morning: {cron: "0 8 * * *", timezone: Europe/Berlin, message: good morning, session: "line:${env:CHAT:-7}"}
  never_mind: {cron: "0 9 * * *", message: x, session: "line:7", enabled: false}
profiles: {default: {plugins: []}}
"""

OWN = OwnSchedule("", "30 9 1 * *", "pay the rent", "line:8", "UTC", "default", session_id="line:8", sender_id="4711")

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "pipelines.yaml").write_text(PIPELINE, encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """What `bub schedules ARGUMENTS` prints, on standard output and on standard error."""

    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        assert exit_code(lambda: command_line(["schedules", *arguments])) == code
        printed = capsys.readouterr()
        return printed.out, printed.err

    return run


@contextmanager
def store(folder: Path) -> Iterator[SqliteInbox]:
    inbox = SqliteInbox(inbox_file(folder.parent / "home"), folder)
    inbox.open()
    try:
        yield inbox
    finally:
        inbox.close()


def test_where_nothing_ever_fired_the_next_moments_are_shown_and_no_file_is_made(run: Run, folder: Path) -> None:
    out, err = run()
    head, line = out.splitlines()
    assert head.split()[:4] == ["name", "cron", "time", "zone"]
    words = line.split()
    assert (words[0], words[6:8]) == ("morning", ["Europe/Berlin", "line:7"])
    coming = datetime.fromisoformat(words[8])
    assert (coming.hour, coming.minute) == (8, 0)
    assert words[9:] == ["-", "0", "the", "file"]
    assert err == ""
    assert not inbox_file(folder.parent / "home").exists()


def test_a_program_gets_what_fired_last_and_was_missed(run: Run, folder: Path) -> None:
    with store(folder) as inbox:
        inbox.alone(lambda: inbox.schedules.follow("morning", "0 8 * * * Europe/Berlin", 0.0))
        inbox.alone(lambda: inbox.schedules.claim(Firing("morning", 28_800.0), 28_801.0, 2))
        inbox.alone(lambda: inbox.schedules.add(OWN, 10))
    told = json.loads(run("--json")[0])
    morning, own = told["schedules"]
    assert (told["version"], told["errors"]) == (1, 0)
    assert (morning["last"], morning["missed"], morning["own"]) == ("1970-01-01T09:00+01:00", 2, False)
    assert (own["name"], own["own"], own["session"], own["profile"]) == ("1", True, "line:8", "default")
    assert "sender_id" not in own


def test_one_of_the_agent_is_removed_and_one_of_the_file_is_not(run: Run, folder: Path) -> None:
    with store(folder) as inbox:
        inbox.alone(lambda: inbox.schedules.add(OWN, 10))
    assert "take it out there" in run("remove", "morning", code=2)[1]
    assert "did you mean `morning`?" in run("remove", "mornin", code=2)[1]
    assert run("remove", "1")[0] == "1 is removed\n"
    with store(folder) as inbox:
        assert inbox.alone(inbox.schedules.own) == []


def test_what_bub_started_lets_nothing_fire(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_STARTED_BY", "an agent")
    assert "only a person may do it" in run("run", "morning", code=2)[1]
    assert not inbox_file(folder.parent / "home").exists()


def test_a_schedule_that_is_run_now_waits_for_the_next_gateway(run: Run, folder: Path) -> None:
    assert run("run", "morning")[0] == "morning fires in line:7\n"
    with store(folder) as inbox:
        (waiting,) = inbox.alone(inbox.waiting)
    assert waiting.message.content == "good morning"
    assert waiting.firing is not None
    assert waiting.firing.schedule == "morning"


@pytest.mark.anyio
async def test_a_gateway_that_runs_answers_what_is_run_now(workshop: Workshop, run: Run, folder: Path) -> None:
    line = Line()
    framework = an_office(workshop, line, run_model=lambda prompt: prompt.splitlines()[-1])
    mailbox = Mailbox(inbox_file(folder.parent / "home"), folder)
    async with opened(framework, mailbox=mailbox):
        run("run", "morning")
        with trio.fail_after(10):
            while not line.said:  # noqa: ASYNC110 (it is said when it is said)
                await trio.sleep(0.02)
    assert (line.sent[0].chat_id, line.said) == ("7", ["good morning"])
