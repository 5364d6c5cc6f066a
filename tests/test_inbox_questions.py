"""`bub inbox approve` and `deny`: a person at a terminal answers, and nothing that Bub started does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
import trio
from fakes.command_line import SOURCES, bub

from bub.approval import Approval
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.questions import AskedQuestion
from bub.inbox.started import MARK, is_started_by_bub


@pytest.fixture
def mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    """The inbox of a gateway that runs, with one question in it."""
    monkeypatch.chdir(tmp_path)
    mailbox = Mailbox(inbox_file(tmp_path / "home"), tmp_path)
    approval = Approval("telegram:-100", "bash", "schema", "arguments", "default", "rules", until=4e9)
    question = AskedQuestion(approval, 1, "call1", "  command: touch this\x1b[2J", "telegram", "-100", 1.0)

    async def fill() -> None:
        await mailbox.open()
        await mailbox.ask(question)

    trio.run(fill)
    yield mailbox
    trio.run(mailbox.close)


def state_of(mailbox: Mailbox) -> tuple[str, str]:
    found = trio.run(mailbox.find_question, "q1")
    assert found is not None
    return found.state, found.by


def at_a_terminal(*words: str, **environ: str) -> pexpect.spawn[str]:
    env = {**os.environ, "PYTHONPATH": SOURCES, "TERM": "xterm", **environ}
    return pexpect.spawn(sys.executable, ["-m", "bub", *words], env=env, encoding="utf-8", timeout=20)  # type: ignore[arg-type]


@pytest.mark.parametrize(("key", "state"), [("y", ("yes", "operator")), ("n", ("open", ""))])
def test_a_person_at_a_terminal_sees_the_call_and_says_yes(mailbox: Mailbox, key: str, state: tuple[str, str]) -> None:
    terminal = at_a_terminal("inbox", "approve", "q1")
    terminal.expect("command: touch this")
    terminal.expect("Allow it")
    assert "touch this\x1b" not in (terminal.before or "")
    terminal.send(key)
    terminal.expect(pexpect.EOF)
    assert state_of(mailbox) == state


def test_without_a_terminal_nobody_says_yes_but_anybody_says_no(mailbox: Mailbox) -> None:
    refused = bub(Path.cwd(), "inbox", "approve", "q1")
    assert refused.returncode == 2
    assert "needs a terminal" in refused.stderr
    assert state_of(mailbox) == ("open", "")
    assert bub(Path.cwd(), "inbox", "deny", "q1").returncode == 0
    assert state_of(mailbox) == ("no", "operator")
    again = bub(Path.cwd(), "inbox", "deny", "q1")
    assert "`q1` waits for no answer" in again.stderr


def test_the_list_shows_what_waits(mailbox: Mailbox) -> None:
    listed = bub(Path.cwd(), "inbox", "list").stdout
    assert listed.startswith("q1  telegram:-100")
    assert "command: touch this" in listed
    assert "\x1b" not in listed


@pytest.mark.parametrize(
    "words",
    [("inbox", "approve", "q1"), ("trust", "."), ("config", "set", "model", "x:y"), ("config", "unset", "model")],
)
def test_nothing_that_bub_started_says_yes_for_a_person(mailbox: Mailbox, words: tuple[str, ...]) -> None:
    terminal = at_a_terminal(*words, **{MARK: "1"})
    terminal.expect("only a person may do it")
    terminal.expect(pexpect.EOF)
    assert state_of(mailbox) == ("open", "")


CHILD = "from bub.inbox.started import is_started_by_bub; print(is_started_by_bub({}))"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads what Linux says of processes")
def test_a_process_below_bub_is_known_by_its_parents_too(tmp_path: Path) -> None:
    assert not is_started_by_bub({})
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}], check=True)"
    (tmp_path / "bub").write_text(below)
    shell = ["/bin/sh", "-c", f"unset {MARK}; {sys.executable} -c '{CHILD}'; true"]
    for command, environ, is_known in (
        ([sys.executable, str(tmp_path / "bub")], {}, True),
        (shell, {MARK: "1"}, True),
        (shell, {}, False),
    ):
        env = {**os.environ, "PYTHONPATH": SOURCES, **environ}
        said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()
        assert said == str(is_known), command
