"""Who sets Bub up in tests: a script, a plugin with questions, and a person at a terminal."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pexpect
import pytest
from conftest import Write
from fakes.command_line import SOURCES

from bub.asking import Query
from bub.cli.exits import exit_code
from bub.cli.root import command_line
from bub.pipeline.source.merge import load_text

KEY = "sk-very-secret-000"


def onboard(*arguments: str | Path) -> int:
    """`bub onboard` as far as it can be had without a process of its own: no person, and no signals."""
    return exit_code(lambda: command_line(list(map(str, arguments))))


def scripted(*arguments: str | Path) -> int:
    return onboard("onboard", "--non-interactive", *arguments)


class Toys:
    """A pipeline file whose plugins are files beside it, listed lowest priority first."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def file(self, *, settings: str = "{}", **plugins: str) -> Path:
        """The file, and each plugin with the body of its `onboard_config`."""
        for name, code in plugins.items():
            body = code if code.startswith("def") else f"def onboard_config(self, current_config, ask): {code}"
            self._write(
                f"{name}.py", f"from bub import hookimpl\nclass Toy:\n    @hookimpl\n    {body}\nplugin = Toy()\n"
            )
        paths = ", ".join(f"{name}: {{path: {name}.py}}" for name in plugins)
        return self._write(
            "toys.yaml",
            f"version: 1\nextends: bub:default\nplugins: {{{paths}}}\n"
            f"profiles: {{default: {{plugins: [{', '.join(plugins)}]}}}}\nsettings: {settings}\n",
        )

    @staticmethod
    def settings(file: Path) -> object:
        return load_text(file.read_text(encoding="utf-8")).root.plain().get("settings")


# A person at a terminal.


class Person:
    """Somebody at a terminal, who reads what is asked and answers."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        own = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        self.terminal: pexpect.spawn[str] = pexpect.spawn(
            sys.executable,
            ["-m", "bub", *arguments],
            cwd=str(folder),
            env={**own, "PYTHONPATH": SOURCES, "TERM": "xterm", "NO_COLOR": "1", **QUICK, **environment},
            dimensions=(40, 100),
            timeout=20,
            encoding="utf-8",
        )
        self.terminal.delaybeforesend = None

    def answers(self, question: str, *keys: str) -> None:
        self.terminal.expect(question)
        for key in keys:
            self.terminal.send(key)

    def end(self) -> tuple[int | None, str]:
        """The exit code, and what was shown since the last question, without what steers a terminal."""
        self.terminal.expect(pexpect.EOF)
        self.terminal.close()
        return self.terminal.exitstatus, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(self.terminal.before))


ENTER, ESC, CTRL_C, SHIFT_TAB = "\r", "\x1b", "\x03", "\x1b[Z"


QUICK = {"PROMPT_TOOLKIT_NO_CPR": "1"}


def limited(folder: Path, limit: Callable[[], None], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`bub --config pipelines.yaml onboard --non-interactive` in a process that is held to a limit."""
    return subprocess.run(
        [sys.executable, "-m", "bub", "--config", "pipelines.yaml", "onboard", "--non-interactive", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )


def heed_modes() -> None:
    """Let root be held to the modes of files, as everybody else is."""
    drop_capability, overriding_modes = 24, 1
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(drop_capability, overriding_modes)


# The model's questions.


def model_answers(**answers: str) -> dict[str, str]:
    return {f"BUB_ONBOARD_MODEL_{name.upper()}": value for name, value in answers.items()}


def answer(monkeypatch: pytest.MonkeyPatch, **answers: str) -> int:
    with monkeypatch.context() as patched:
        for name, value in model_answers(**answers).items():
            patched.setenv(name, value)
        return scripted()


def set_up(monkeypatch: pytest.MonkeyPatch, file: Path, *arguments: str, **answers: str) -> int:
    with monkeypatch.context() as patched:
        for name, value in told_of(**answers).items():
            if not (arguments and name.startswith("BUB_ONBOARD_MODEL_")):
                patched.setenv(name, value)
        return onboard("--config", file, "onboard", "--non-interactive", *arguments)


class Somebody:
    """A person who knows what to answer to each question, the next time perhaps something else, and keeps the rest."""

    def __init__(self, **answers: list[object]) -> None:
        self.answers = {f"model.{name}": iter(values) for name, values in answers.items()}
        self.offered: dict[str, list[str]] = {}
        self.heard: list[str] = []

    def put(self, query: Query) -> object:
        self.offered[query.name] = [option.value for option in query.options()]
        given = next(self.answers.get(query.name, iter(())), query.default)
        assert given is not None and (query.check is None or not given or query.check(str(given)) is None)
        return given

    def knows(self, prefix: str) -> bool:
        return False

    def say(self, text: str) -> None:
        self.heard.append(text)

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        return nullcontext(self.say)


TOKEN_OF_A_BOT = "4242:token-of-a-bot-of-nobody"


def told_of(**answers: str) -> dict[str, str]:
    return {f"BUB_ONBOARD_{name.upper()}": value for name, value in {**UNASKED, **answers}.items()}


UNASKED = {"model_provider": "local", "model_check": "no"}
