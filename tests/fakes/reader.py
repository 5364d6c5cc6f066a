"""Somebody who follows a page to the letter: writes its files, types its commands, compares what they print."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from bub.cli.exits import exit_code
from bub.cli.root import command_line

STEP = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TYPED = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
EXPORTED = re.compile(r"(\w+)=(\S*)")

Answer = Callable[[str], str]


@dataclass
class Reader:
    """One who follows pages in `folder`, and has Bub's own folder at `home`.

    `means` are words of a page, such as the address of a server, with what they are here. `answers` are the commands
    that the reader cannot type here, or does in another way, by how they begin; each returns what it prints.
    """

    folder: Path
    home: Path
    means: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    typed: list[str] = field(default_factory=list)
    """Every command so far."""

    def move(self, folder: Path, home: Path) -> str:
        """Sit down at another machine, where no variable is set."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.home, self.variables = folder, home, {}
        return ""

    def follow(self, page: Path) -> None:
        """Do all that a page says, from its first block to its last."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, language, text in STEP.findall(page.read_text(encoding="utf-8")):
            if name:
                target = self.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self.here(text), encoding="utf-8")
            elif language == "console":
                for command, shown in TYPED.findall(text):
                    self.type(self.here(command), self.here(shown.rstrip("\n")))

    def here(self, text: str) -> str:
        """Return a text of the page with what it means here."""
        for words, instead in self.means.items():
            text = text.replace(words, instead)
        return text

    def type(self, command: str, shown: str = "") -> None:
        """Type a command; it has to succeed, and to print what is shown, if anything is."""
        self.typed.append(command)
        code, printed = self.run(command)
        text = "\n".join(line.rstrip() for line in printed.rstrip().splitlines())
        assert not shown or matches(text, shown), f"$ {command}\n{text}\n--- the page shows\n{shown}"
        assert shown or code == 0, f"$ {command}: exit code {code}\n{text}"

    def run(self, command: str) -> tuple[int, str]:
        """Return the exit code of a command, and what it prints on both of its streams."""
        for beginning, answer in self.answers.items():
            if command.startswith(beginning):
                return 0, answer(command)
        words = shlex.split(command, comments=True)
        match words:
            case ["export", *given]:
                self.variables |= dict(EXPORTED.findall(" ".join(given)))
                return 0, ""
            case ["cd", name]:
                self.folder = self.folder / name
                return 0, ""
            case ["bub", *arguments]:
                return typed_here(arguments, self.folder, self.environment)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout

    def bub(self, *arguments: str, given: str = "") -> str:
        """Return what `bub ARGUMENTS` prints, which has to succeed."""
        code, printed = typed_here([*arguments], self.folder, self.environment, given)
        assert code == 0, printed
        return printed

    @property
    def environment(self) -> dict[str, str]:
        """What is in the environment of each command."""
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": programs, "COLUMNS": "100", "BUB_HOME": str(self.home), **self.variables}


def typed_here(arguments: list[str], folder: Path, environment: Mapping[str, str], given: str = "") -> tuple[int, str]:
    """Return the exit code of `bub ARGUMENTS` in this process, and what it prints; `given` is its standard input."""
    kept = io.BytesIO()
    printed = io.TextIOWrapper(kept, encoding="utf-8")
    with (
        chdir(folder),
        patch.dict(os.environ, environment),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()))),
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        code = exit_code(lambda: command_line(arguments))
        printed.flush()
    return code, kept.getvalue().decode()


def matches(printed: str, shown: str) -> bool:
    """Whether what was printed is what the page shows: `…` is anything on its line, and by itself any lines."""
    return re.fullmatch("".join(_patterns(shown)), f"{printed}\n") is not None


def _patterns(shown: str) -> Iterator[str]:
    for line in shown.splitlines():
        yield r"(?:.*\n)*" if line == "…" else ".*".join(re.escape(part) for part in line.split("…")) + r"\n"
