"""What commands print at a terminal about one small agent, and what a person sees who sets Bub up or is asked."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import sqlite3
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import trio
from fakes.chat_room import calling, make_room
from fakes.screen import ENTER, Sitting
from fakes.scripted import OPENAI, serving

from bub.channels.message import ChannelMessage
from bub.cli.exits import exit_code
from bub.cli.gateway_status import describe_overview
from bub.cli.output import show
from bub.cli.root import command_line
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.inbox.shared.overview import Overview
from bub.inbox.shared.store import Worker

from .runs import RULES, SOUND
from .terminal import draw_lines, draw_terminal, read_screen

COLUMNS = 100
NIGHT = """
stages:
  moderate: {before: run_model, timeout: 5s}
  run_model: {timeout: 120s}
"""
LAYERED = SOUND.replace("\nstages:\n  moderate: {before: run_model, timeout: 5s}\n", NIGHT).replace(
    "\nplugins:", "  night:\n    extends: default\n    stages: {run_model: {timeout: 10m}}\n\nplugins:"
)
TESTED = f"""{SOUND}
tests:
  a greeting gets a reply:
    message: {{content: hello}}
    mock: {{run_model: {{return: "hi there"}}}}
    expect: {{outbounds: [{{content: "hi there"}}]}}
  a password stays here:
    message: {{content: "my password is 1234"}}
    mock: {{run_model: {{return: "thank you"}}}}
    expect: {{ended_by: "denied:moderate"}}
"""
HOLE = RULES.replace('"password" in str(prompt)', 'prompt == "password"')
GIVING_WAY = """\
import json
from pathlib import Path

from bub import hookimpl


@hookimpl
def moderate(prompt):
    try:
        words = json.loads(Path("words.json").read_text())
    except OSError:
        return None
    return {"deny": "this stays here"} if any(word in prompt for word in words) else None
"""
KEYLESS = SOUND.replace("[local_model, house_rules]", "[house_rules, telegram]") + "\nsettings: {model: openai:gpt-5}\n"
SEEN = ("file", "trust", "plugins", "http, local_model", "model", "channels", "→", "--person", "broken", "workspace")
"""How the lines of `bub doctor` begin that say the same on every machine."""


@contextmanager
def agent(pipeline: str, rules: str = RULES) -> Iterator[Path]:
    """A folder with a pipeline file and a plugin, in which one is, with a home of its own that trusts it."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "agent"
        folder.mkdir()
        (folder / "pipelines.yaml").write_text(pipeline, encoding="utf-8")
        (folder / "house_rules.py").write_text(rules, encoding="utf-8")
        own = {name: value for name, value in os.environ.items() if not name.startswith(("BUB_", "OPENAI_"))}
        told = {"BUB_HOME": f"{temporary}/home", "BUB_TRUST_WORKSPACE": "1", "TERM": "xterm", "COLUMNS": str(COLUMNS)}
        shown = {name: value for name, value in {**own, **told}.items() if name != "NO_COLOR"}
        with chdir(folder), patch.dict(os.environ, shown, clear=True):
            yield folder


def print_at_terminal(work: Callable[[], object]) -> str:
    """Do something whose output goes to a terminal, and return that; it costs no process."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    heard: list[bytes] = []

    def listen() -> None:
        try:
            while data := os.read(near, 65_536):
                heard.append(data)
        except OSError:
            return  # the other end is closed

    listener = threading.Thread(target=listen)
    listener.start()
    with (
        os.fdopen(far, "w", encoding="utf-8") as terminal,
        Path(os.devnull).open(encoding="utf-8") as nobody,
        redirect_stdout(terminal),
        redirect_stderr(terminal),
        patch.object(sys, "stdin", nobody),
    ):
        work()
    listener.join()
    os.close(near)
    return b"".join(heard).decode()


def run(pipeline: str, *arguments: str, rules: str = RULES, keep: Callable[[str], bool] = lambda _: True) -> str:
    """Draw what `bub ARGUMENTS` prints about an agent."""
    with agent(pipeline, rules):
        printed = print_at_terminal(lambda: exit_code(lambda: command_line(list(arguments))))
        printed = printed.replace(str(Path.cwd().parent), "/home/ada")
    return draw_terminal(f"bub {' '.join(arguments)}", printed, keep=keep)


def status() -> str:
    """Draw what `bub gateway status` prints of two gateways that share a store."""
    first = Worker("kiwi-12", version="0.1.0", roles=("turns", "channels"), turns=3)
    second = Worker("plum-7", version="0.1.0", roles=("turns",), is_draining=True)
    held = {f"partition:{one}": "kiwi-12" for one in (0, 1, 2, 3, 5)}
    holders = {**held, "partition:4": "plum-7", "channel:telegram": "kiwi-12"}
    overview = Overview("front-desk", 6, [first, second], holders, 12, 1, 2, 3.24)
    with agent(SOUND):
        printed = print_at_terminal(lambda: show(describe_overview("redis://redis.example:6379", overview)))
    return draw_terminal("bub gateway status", printed)


def inbox() -> str:
    """Draw what `bub inbox list` prints of a message and a reply that were set aside."""
    with agent(SOUND) as folder:
        trio.run(_set_aside, Mailbox(inbox_file(folder.parent / "home"), folder))
        with closing(sqlite3.connect(inbox_file(folder.parent / "home"))) as db, db:
            for table in ("messages", "replies"):
                db.execute(f"update {table} set at = at - 330")
        printed = print_at_terminal(lambda: exit_code(lambda: command_line(["inbox", "list"])))
    return draw_terminal("bub inbox list", printed)


async def _set_aside(box: Mailbox) -> None:
    await box.open()
    one = await box.receive(ChannelMessage("telegram", "-100", "look at the build, please"))
    await box.receive(ChannelMessage("telegram", "-100", "hello"))
    for _ in range(3):
        await box.begin([one.id])
    await box.set_aside([one.id], "cut short three times")
    (blocked,) = await box.finish((), [ChannelMessage("telegram", "-100", "the build is green")])
    await box.put_off(blocked.id, not_before=12.0)
    await box.undeliverable(blocked.id, "the bot was blocked")
    await box.close()


def question() -> str:
    """Draw `bub chat` while a person is asked before a command runs."""
    with TemporaryDirectory() as temporary, serving() as address:
        room = make_room(Path(temporary) / "room", address)
        room.script("which tests fail?", calling("make test"), OPENAI.answer("None."))
        with room.sit(columns=80, rows=16, BUB_HOME=f"{temporary}/home") as person:
            person.see_prompt()
            person.say("which tests fail?")
            person.see("Allow bash?  [y]es  [n]o  [s]ession")
            lines = read_screen(person.letters, still)
    return draw_lines("bub chat asks before a command runs", lines)


def still(text: str) -> str:
    """Return a text of `bub chat` without what moves and what only a test has."""
    text = re.sub(r"\d+\.\d s", "0.4 s", re.sub("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠴", text))
    return text.replace("test:m ", "openai:gpt-5 ")


def wizard() -> str:
    """Draw `bub onboard` up to the question whether to write the file."""
    with TemporaryDirectory() as temporary, serving() as address:
        folder = Path(temporary).resolve() / "work"
        folder.mkdir()
        told = {"BUB_HOME": f"{folder.parent}/home", "PROMPT_TOOLKIT_NO_CPR": "1"}
        with Sitting(folder, "onboard", columns=COLUMNS, rows=50, **told) as person:
            for text, *keys in (
                ("type to narrow", "cus", ENTER),
                ("The address of custom", f"{address}/v1{ENTER}"),
                ("The API key of custom", f"sk-a-key-of-nobody{ENTER}"),
                ("Which model", f"small{ENTER}"),
                ("Ask it for a word now", "n"),
                ("Which plugins may run", ENTER),
                ("Which channels", ENTER),
                ("without asking you first", ENTER),
            ):
                person.see(text)
                for key in keys:
                    person.type(key)
            person.see("Write this to")
            home = f"{folder.parent}/home"
            lines = read_screen(
                person.letters,
                lambda text: text.replace(address, "http://localhost:8080").replace(home, "/home/ada/.bub"),
            )
    return draw_lines("bub onboard asks its questions", lines)


def _says_everywhere(line: str) -> bool:
    return any(line.lstrip().startswith(begin) or line.split("  ")[1:2] == [begin] for begin in SEEN)


COMMANDS = {
    "test.svg": partial(run, TESTED, "test", rules=HOLE),
    "prove.svg": partial(run, SOUND, "prove", rules=GIVING_WAY),
    "hooks.svg": partial(run, SOUND, "hooks"),
    "explain.svg": partial(run, LAYERED, "explain", "stages.run_model.timeout", "--profile", "night"),
    "doctor.svg": partial(run, KEYLESS, "doctor", keep=_says_everywhere),
    "status.svg": status,
    "inbox.svg": inbox,
    "chat.svg": question,
    "onboard.svg": wizard,
}
"""What draws each picture of a command."""
