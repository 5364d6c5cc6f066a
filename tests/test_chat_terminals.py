"""`bub chat` on other terminals, and behind pipes."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from fakes.chat_room import Room, begun, calling, make_room
from fakes.screen import (
    CTRL_C,
    CTRL_D,
    CTRL_Z,
    PATIENCE,
)
from fakes.scripted import OPENAI

from bub.channels.terminal.resizing import breaks_rows
from bub.channels.terminal.rows import greet


@pytest.fixture
def room(tmp_path: Path, address: str) -> Room:
    return make_room(tmp_path / "room", address)


# Other terminals.


@pytest.mark.parametrize(
    ("width", "rows"),
    [
        (60, ["Bub · openai:gpt-5 · ,help lists commands, Ctrl-D leaves"]),
        (40, ["Bub · openai:gpt-5", ",help lists commands, Ctrl-D leaves"]),
        (20, ["Bub · openai:gpt-5", ",help lists", "commands, Ctrl-D", "leaves"]),
        (10, ["Bub", "openai:gpt", "-5", ",help", "lists", "commands,", "Ctrl-D", "leaves"]),
    ],
)
def test_the_greeting_is_whole_at_any_width(width: int, rows: list[str]) -> None:
    assert greet(("Bub", "openai:gpt-5", ",help lists commands, Ctrl-D leaves"), width) == rows


def test_a_window_can_be_made_narrow_while_an_answer_comes(room: Room) -> None:
    room.script("go", [*OPENAI.beginning("word " * 30), {"pause": 1.0}, *OPENAI.answer("end.\n\n" + "tail " * 12)])
    with room.sit(columns=80) as chat:
        chat.see_prompt()
        chat.say("go")
        chat.see("word word")
        chat.resize(40, 12)
        chat.see("tail")
        chat.see_prompt()
        chat.say("again")
        chat.see("You said: again")
        chat.see_prompt()
        assert chat.rows[-1] == ">"
        shown = chat.text[chat.text.index("word word word word word word word word\n") :]
        assert max(map(len, shown.splitlines())) <= 40


@pytest.mark.parametrize(
    "terminal", [{}, {"TMUX": "/tmp/t,1,0"}, {"XTERM_VERSION": "XTerm(390)"}], ids=["breaks rows", "tmux", "cuts rows"]
)
def test_a_resize_repeats_nothing_and_takes_nothing_away(room: Room, terminal: dict[str, str]) -> None:
    words = [f"word{number:03}" for number in range(150)]
    room.script("go", [*OPENAI.beginning(" ".join(words)), {"hold": True}])
    with room.sit(columns=80, **terminal) as chat:
        chat.see_prompt()
        chat.say("hello")
        chat.see("You said: hello")
        chat.see_prompt()
        chat.say("go")
        chat.see("word149")
        draft = "a draft of a line that is longer than the window will be in a moment"
        chat.type(draft)
        chat.see(f"> {draft}")
        for columns in (60, 40, 72, 50):
            before = len(chat.raw)
            chat.resize(columns, 24)
            chat.see(lambda _, before=before: draft[-9:] in chat.raw[before:])  # it is drawn anew
        chat.type(CTRL_C)
        chat.see("stopped")
        chat.see(lambda text: text.endswith("will be in a moment"))
        assert re.findall(r"word\d+", chat.text) == words
        assert "".join(chat.text.split()).count("".join(draft.split())) == 1
        assert chat.text.count("> hello\n\nYou said: hello\n\n> go\n") == 1
        assert chat.text.count("Bub · ") == 1


@pytest.mark.parametrize(
    ("environment", "breaks"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "screen-256color", "STY": "1.pts", "TMUX": "/tmp/t,1,0"}, True),
        ({"TERM": "screen", "STY": "1.pts"}, False),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "linux"}, False),
    ],
)
def test_which_terminals_break_rows_that_have_become_too_long(environment: dict[str, str], breaks: bool) -> None:
    assert breaks_rows(environment) is breaks


def test_a_terminal_with_few_letters_and_no_colours_gets_plainer_signs(room: Room) -> None:
    text = "- a … b\n\n`code`\n\n```python\nprint('x')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nhé"
    room.script("plan", calling("exit 3"), OPENAI.answer(text))
    with room.sit(NO_COLOR="1", PYTHONIOENCODING="ascii", PYTHONUTF8="0") as chat:
        chat.see_prompt()
        chat.say("plan")
        chat.see("[s]ession")
        chat.type("y")
        chat.see("h?\n")
        chat.see_prompt()
        assert chat.raw.isascii()
        assert re.search(r"x bash exit 3 - \d\.\d s - error", chat.text)
        assert " * a ... b\n" in chat.text
        assert re.findall(r"\x1b\[(?:\d+;)*(?:[349]\d|10[0-7]|[34]8;[\d;]+)m", chat.raw) == []
        assert "\x1b[1m" in chat.raw  # bold stays


def test_a_dumb_terminal_gets_lines(room: Room) -> None:
    room.script("work", calling("touch done"), OPENAI.answer("**Done.**"))
    with room.sit(TERM="dumb") as chat:
        chat.see(">")
        chat.say("work")
        chat.see("Allow bash? [y/N/session/always]")
        chat.say("y")
        chat.see("**Done.**\n>")
        chat.type(CTRL_C)
        chat.see("(Ctrl-D leaves)")
        assert "\x1b" not in chat.raw
        assert (room.folder / "done").exists()
        assert chat.leave(CTRL_D) == 0


def test_on_a_dumb_terminal_only_a_whole_word_is_a_yes(room: Room) -> None:
    room.script("work", calling("touch one"), calling("touch two", id="2"), OPENAI.answer("Over."))
    with room.sit(TERM="dumb") as chat:
        chat.see(">")
        chat.say("work")
        chat.see("[y/N/session/always]")
        chat.say("and another thing")
        chat.see(lambda text: text.count("[y/N/session/always]") == 2)
        chat.say("yesterday")
        chat.see("Over.")
        assert not list(room.folder.glob("[ot][nw][eo]"))


def test_ctrl_z_has_the_shell_take_over_until_fg(room: Room) -> None:
    with room.sit(in_shell=True) as chat:
        chat.see_prompt()
        chat.type("half a" + CTRL_Z)
        chat.see(lambda _: chat.rows[-1] == "$")
        chat.say("fg")
        chat.see("\n> half a")
        chat.say(" line")
        chat.see("You said: half a line")
        chat.see_prompt()
        chat.type(CTRL_D)
        chat.see(lambda _: chat.rows[-1] == "$")


def test_what_runs_ends_when_the_window_is_closed(room: Room) -> None:
    with room.sit() as chat:
        chat.see_prompt()
        chat.say(",echo $$ > new && mv new pid; exec sleep 60")
        chat.see(lambda _: (room.folder / "pid").exists())
        os.kill(chat.process.pid, signal.SIGHUP)
        assert chat.end() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((room.folder / "pid").read_text()), 0)


@pytest.mark.parametrize(
    "command",
    [
        ",sleep 60 & echo $$ $! > new && mv new pids; exec sleep 60",
        ",sleep 60 & echo $$ $! > new && mv new pids; trap '' TERM HUP; sleep 60; sleep 60",
        ",bash 'sleep 60 & echo $$ $! > new && mv new pids; wait' background=true",
    ],
)
def test_no_command_lives_on_when_the_program_is_killed(room: Room, command: str) -> None:
    with room.sit() as chat:
        chat.see_prompt()
        chat.say(command)
        chat.see(lambda _: (room.folder / "pids").exists())
        os.kill(chat.process.pid, signal.SIGKILL)
        chat.process.wait()
        numbers = [int(number) for number in (room.folder / "pids").read_text().split()]
        assert len(numbers) == 2
        end = time.monotonic() + PATIENCE
        while any(map(is_alive, numbers)):
            assert time.monotonic() < end
            time.sleep(0.01)  # other processes set no event


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked about yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_the_terminal_is_given_back_when_the_program_is_ended(room: Room) -> None:
    room.script("go", begun("It goes on"))
    with room.sit() as chat:
        chat.see_prompt()
        chat.say("go")
        chat.see("It goes on")
        os.kill(chat.process.pid, signal.SIGTERM)
        assert chat.end() == 130
        assert chat.raw.rindex("\x1b[?2004l") > chat.raw.rindex("\x1b[?2004h")


# Pipes.


def test_O6_what_is_piped_in_is_one_message_and_only_its_answer_is_printed(room: Room) -> None:
    room.script("plan", OPENAI.answer("# Plan\n\n- **one**", thinks="hm"))
    done = room.pipe("plan\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "# Plan\n\n- **one**\n", "")
    done = room.pipe("first\nsecond \xff\n".encode("latin-1"), "say this:")
    assert done.stdout == "You said: say this:\n\nfirst\nsecond \ufffd\n"


def test_O6_a_failure_of_what_is_piped_in_is_told_on_stderr(room: Room) -> None:
    room.script("break", [{"status": 500, "body": "{}"}])
    done = room.pipe("break")
    assert (done.returncode, done.stdout) == (1, "")
    assert "(error " in done.stderr
    done = room.pipe(",fs.read path=nowhere")
    assert (done.returncode, done.stdout) == (1, "error: nowhere does not exist (fs.list shows what there is)\n")
    done = room.pipe(" \n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the message is empty" in done.stderr


def test_O6_an_answer_that_cannot_be_printed_is_a_failure(room: Room) -> None:
    with Path("/dev/full").open("wb") as full:
        done = room.run("chat", input=b"hi", stdout=full)
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr


def test_through_a_pipe_nobody_can_be_asked(room: Room) -> None:
    room.script("work", calling("touch done"), OPENAI.answer("Not done."))
    assert room.pipe("work").stdout == "Not done.\n"
    assert not (room.folder / "done").exists()
