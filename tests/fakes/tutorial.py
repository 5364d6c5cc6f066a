"""A reader of the tutorial who follows it word for word: writes its files, types its commands, and compares.

A comment above a block says what its reader does with it, where the language of the block does not:

    <!-- file: NAME -->      writes it to a file
    <!-- append: NAME -->    adds it, below an empty line, to a file
    <!-- install -->         types it; not here, where Bub is installed
    <!-- terminal -->        talks at a terminal: types the command and what follows `>`, and presses Ctrl-D
    <!-- questions -->       answers questions at a terminal, each with what follows its question mark
    <!-- gateway -->         leaves it running until the page ends
    <!-- telegram -->        writes to the bot what follows `you`, and reads what follows `bot`

A command ends with exit code 0, or with that of the comment behind it: `# exit code 1`.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest.mock import patch

from fakes.gateway import Running, gateway
from fakes.screen import CTRL_D, ENTER, PATIENCE, Sitting
from fakes.telegram import TOKEN, BotServer, Json

from bub.cli.exits import exit_code
from bub.cli.root import command_line

READER: Json = {"id": 815, "is_bot": False, "first_name": "Rita"}

_BLOCK = re.compile(r"^(?:<!-- (\w+)(?:: (\S+))? -->\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_CODE = re.compile(r" # exit code (\d+)$")
_QUESTION = re.compile(r"\? (.*\?(?: \(Enter .*?\))?)(?: (.*))?")


@dataclass(frozen=True)
class Block:
    """A block of a page: what its reader does with it, and the name of the file if it is one."""

    page: Path
    line: int
    does: str
    name: str
    text: str

    @property
    def commands(self) -> Iterator[tuple[str, int, str]]:
        """Each command, the code that it ends with, and what it prints."""
        for command, printed in _COMMAND.findall(self.text):
            code = _CODE.search(command)
            yield _CODE.sub("", command).strip(), int(code[1]) if code else 0, printed.rstrip("\n")


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page that its reader does something with."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        does = found[1] or {"console": "type"}.get(found[3], "")
        assert does, f"{page.name}: nothing says what a reader does with a block of {found[3]}"
        yield Block(page, text.count("\n", 0, found.start(4)) + 1, does, found[2] or "", found[4])


def is_shown(printed: str, shown: str) -> bool:
    """Whether what was printed is what the page shows: `…` is anything on its line, and by itself any lines."""
    lines = (
        r"(?:.*\n)*" if line == "…" else ".*".join(re.escape(part) for part in line.split("…")) + r"\n"
        for line in shown.splitlines()
    )
    have = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch("".join(lines), have) is not None


@dataclass
class Reader:
    """Somebody with a new home folder, who begins in it; `bots` is where Telegram is for them."""

    home: Path
    bots: BotServer
    folder: Path = field(init=False)
    typed: list[str] = field(default_factory=list)
    _running: Running | None = field(default=None, init=False)
    _page: ExitStack = field(default_factory=ExitStack, init=False)

    def __post_init__(self) -> None:
        self.folder = self.home

    def follow(self, page: Path) -> None:
        """Do all that a page says. Raises AssertionError with the line at which it is wrong."""
        with ExitStack() as self._page:
            for block in blocks_of(page):
                try:
                    getattr(self, f"_{block.does}")(block)
                except AssertionError as error:
                    raise AssertionError(f"{page.name}:{block.line}: {error}") from None

    # What blocks ask for.

    def _file(self, block: Block) -> None:
        target = self.folder / block.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.text, encoding="utf-8")

    def _append(self, block: Block) -> None:
        with (self.folder / block.name).open("a", encoding="utf-8") as file:
            file.write(f"\n{block.text}")

    def _install(self, block: Block) -> None:
        self.typed += [command for command, _, _ in block.commands]

    def _type(self, block: Block) -> None:
        for command, code, shown in block.commands:
            self.typed.append(command)
            if command.startswith("cd "):
                self.folder = Path(command.removeprefix("cd ").replace("~", str(self.home)))
                continue
            ended, printed = self._run(command)
            assert ended == code, f"`{command}` ends with {ended}\n{printed}"
            assert is_shown(printed, shown), f"`{command}` prints\n{printed}"

    def _terminal(self, block: Block) -> None:
        [(command, _, shown)] = block.commands
        with self._sit_down(command) as terminal:
            terminal.see_prompt()
            for said, answer in re.findall(r"^> (.*)\n\n(.*)$", shown, re.MULTILINE):
                terminal.say(said)
                terminal.see(f"> {said}\n\n{answer}")
                terminal.see_prompt()
            assert terminal.leave(CTRL_D) == 0
            assert is_shown(terminal.text, shown), terminal.text

    def _questions(self, block: Block) -> None:
        [(command, _, shown)] = block.commands
        with self._sit_down(command) as terminal:
            for line in shown.splitlines():
                if asked := _QUESTION.fullmatch(line):
                    terminal.see(asked[1])
                    answer = asked[2] or ""
                    hidden = TOKEN if answer.startswith("**") else answer
                    terminal.type((hidden if hidden in (TOKEN, "*") else "") + ENTER)
            assert terminal.end() == 0
            assert is_shown(terminal.text, shown), terminal.text

    def _gateway(self, block: Block) -> None:
        [(command, _, shown)] = block.commands
        running = gateway(
            self.folder,
            *shlex.split(command)[2:],
            HOME=str(self.home),
            BUB_TELEGRAM_BASE_URL=self.bots.address,
            BUB_TRUST_WORKSPACE="",  # only what `bub trust` did counts
        )
        self._running = self._page.enter_context(running)
        begun = self._running
        begun.until(lambda: any(is_shown(line, shown) for line in begun.log.splitlines()), shown)

    def _telegram(self, block: Block) -> None:
        assert self._running is not None
        heard = len(self.bots.said(READER["id"]))
        for who, words in _talk(block.text):
            if who == "bot":
                self._running.until(partial(self._has_said, heard, words), words)
                heard += 1
            elif words.startswith("press "):
                self._press(words.removeprefix("press "))
            else:
                self.bots.say(words, user=READER)

    # How it is done.

    def _has_said(self, number: int, words: str) -> bool:
        """Whether this message of the bot has these words by now; what is being made has others."""
        return self.bots.said(READER["id"])[number : number + 1] == [words]

    def _press(self, name: str) -> None:
        message: Json = self.bots.messages(READER["id"])[-1]["message"]
        [button] = [one for row in message["reply_markup"]["inline_keyboard"] for one in row if one["text"] == name]
        self.bots.press(READER["id"], message["message_id"], button["callback_data"], user=READER)

    def _sit_down(self, command: str) -> Sitting:
        return Sitting(self.folder, *shlex.split(command)[1:], columns=160, rows=60, HOME=str(self.home))

    def _run(self, command: str) -> tuple[int, str]:
        """How a command ends, and what it prints on both of its streams; `bub` runs in this process."""
        if self._running is not None and command.startswith("sed"):  # the gateway notices, as the page says
            ended = _run_in_shell(command, self.folder)
            self._running.wait_for_log("pipeline.reloaded")
            return ended
        if command.startswith("bub "):
            return _run_here(shlex.split(command, comments=True)[1:], self.folder)
        return _run_in_shell(command.replace("~", str(self.home)), self.folder)


def _talk(text: str) -> list[tuple[str, str]]:
    """Who says what in a chat; the further lines of a message are set below its first one."""
    said: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(("you  ", "bot  ")):
            said.append((line[:3], []))
        said[-1][1].append(line[5:])
    return [(who, "\n".join(lines)) for who, lines in said]


def _run_here(arguments: list[str], folder: Path) -> tuple[int, str]:
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with (
        chdir(folder),
        patch.dict(os.environ, {"COLUMNS": "100"}),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())),
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        code = exit_code(lambda: command_line(arguments))
        printed.flush()
    return code, printed.buffer.getvalue().decode()  # type: ignore[attr-defined]


def _run_in_shell(command: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=PATIENCE,
    )
    return done.returncode, done.stdout
