"""The first hour with Bub, typed into a shell at a real terminal: `make journey`; a cheap one runs with the tests.

The journey: onboard, an answer, a chat, a second folder with a file of its own and the same model, README's gate, a
profile, a route, CI. Each command has to end as a person expects, and whatever command Bub tells a person to type has
to be typed in the end: one that was forgotten is a dead end.

As a program it tries each line of README that installs Bub, with the small local model, at 80 columns and at 38.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

import installs
from fakes import screen
from fakes.screen import CTRL_C, CTRL_D, ENTER, Sitting

ESC, SHIFT_TAB = "\x1b", "\x1b[Z"
WIDTHS = (80, 38)

_STEERING = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[=>])")
_ADVICE = re.compile(r"`(bub [^`]+)`|= (bub explain \w+)|; (bub validate --fix)")
_TO_FILL_IN = re.compile(r"…|\b[A-Z]{3,}\b|--help")
"""What says of a command that it is no command yet, or no step of a journey."""

_PROMPT = "«{}:"
BLOCK = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Traveller(Sitting):
    """A person in front of a shell that finds `bub` on its PATH; `typed` and `told` are the commands so far."""

    def __init__(self, folder: Path, columns: int, **environment: str) -> None:
        shell = {"PS1": r"«\#:$?» ", "PROMPT_TOOLKIT_NO_CPR": "1", "PYTHONPATH": "", **environment}
        super().__init__(folder, columns=columns, rows=40, in_shell=True, program=["true"], **shell)
        self.typed: list[str] = []
        self.told: list[str] = []
        self._number, self._begun, self._at = 2, 0, 0
        self._wait_for(_PROMPT.format(self._number))

    @property
    def dead_ends(self) -> list[str]:
        """What Bub told its person to type, and nobody did."""
        return sorted({told for told in self.told if not _TO_FILL_IN.search(told)} - set(self.typed))

    def goes(self, command: str, *answers: tuple[str, str], code: int = 0) -> str:
        """Type a command, and to each question its answer; return what was to be seen until it ended with a code."""
        self.begins(command)
        for question, keys in answers:
            self._wait_for(question)
            self.type(keys)
        return self.ends(code)

    def begins(self, command: str) -> None:
        """Type a command."""
        self._begun, self._at = len(self.raw), len(self._letters)
        self.typed.append(command)
        self.say(command)

    def ends(self, code: int = 0) -> str:
        """Wait until the last command has ended with a code, and return what was to be seen of it."""
        self._number += 1
        self._wait_for(_PROMPT.format(self._number))
        self._wait_for("»")
        seen = _STEERING.sub("", self.raw[self._begun :]).replace("\r", "")
        ended = re.search(rf"«{self._number}:(\d+)»", seen)
        if ended is None or int(ended[1]) != code:
            raise AssertionError(f"`{self.typed[-1]}` did not end with {code}:\n{seen}")
        self.told += [" ".join("".join(found).split()) for found in _ADVICE.findall(seen)]
        return seen

    def sees(self, command: str, *texts: str, code: int = 0) -> None:
        """Type a command, and find these texts in what it prints, however they are broken into lines."""
        seen = "".join(self.goes(command, code=code).split())
        for text in texts:
            if "".join(text.split()) not in seen:
                raise AssertionError(f"{text!r} is not to be seen after `{command}`:\n{self.text}")

    @property
    def _letters(self) -> str:
        """All that was shown, without what breaks lines and moves the cursor."""
        return "".join(_STEERING.sub("", self.raw).split())

    def _wait_for(self, text: str) -> None:
        wanted, end = "".join(text.split()), time.monotonic() + screen.PATIENCE
        while (found := self._letters.find(wanted, self._at)) < 0:
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"{text!r} is not to be seen:\n{self.text}")
        self._at = found + len(wanted)


def travel(home: Path, columns: int, model: str | None, **environment: str) -> None:
    """Go the whole way in a new home folder; `model` is the address of a server, else the small local one is chosen.

    Raises AssertionError with what is on the screen where it ends.
    """
    with Traveller(home, columns, **{**environment, "HOME": str(home)}) as person:
        _set_up(person, model)
        _talk(person, model)
        project = home / "project"
        project.mkdir()
        person.goes("cd project")
        _guard(person, project)
        _choose(person, project)
        _check(person, project)
        _look_around(person)
        if person.dead_ends:
            raise AssertionError(f"nobody typed {person.dead_ends}")


def _set_up(person: Traveller, model: str | None) -> None:
    if model is None:
        person.sees("bub run hello", "no model is chosen", "`bub onboard`", code=1)
        chosen = [("narrow the list", ENTER), ("Install it now (", "y"), ("MB", "")]
    else:
        chosen = [
            ("narrow the list", "cus" + ENTER),
            ("The address of custom?", "http://127.0.0.1:9" + ENTER),
            ("The API key of custom?", SHIFT_TAB),
            ("The address of custom?", f"{model}/v1{ENTER}"),
            ("The API key of custom?", f"sk-of-a-traveller{ENTER}"),
            ("Which model?", f"small{ENTER}"),
        ]
    answers = [
        *chosen,
        ("Ask it for a word now", "y"),
        (f"{'local:smollm2' if model is None else 'custom:small'} answers: ", ""),
        ("Which plugins may run?", ENTER),
        ("Which channels", ENTER),
        ("without asking you first?", SHIFT_TAB),
        ("Which channels", ENTER),
        ("without asking you first?", ENTER),
        ("Write this to", "y"),
        ("talk to it with `bub chat`", ""),
    ]
    person.goes("bub onboard", *answers)
    if model is None:
        person.sees("bub local install", "the small local model is ready")


def _talk(person: Traveller, model: str | None) -> None:
    person.begins("bub chat")
    person.see("Ctrl-D leaves")
    person.see_prompt()
    person.say("hello")
    person.see(lambda shown: bool(re.search("[A-Za-z]{2}", shown.rpartition("> hello")[2])))
    person.see_prompt()
    person.type(CTRL_D)
    person.ends()
    person.sees("bub run hello", "[cli:local]", *(["You said: hello"] if model is not None else []))
    person.sees("bub tape list", "cli:local")


def _guard(person: Traveller, project: Path) -> None:
    """The gate of README, in a folder with a file of its own: the model is the person's."""
    readme = (installs.ROOT / "README.md").read_text(encoding="utf-8")
    files = {name: text for name, text in BLOCK.findall(readme) if "/" not in name}
    for name in ("pipelines.yaml", "house_rules.py"):
        (project / name).write_text(files[name], encoding="utf-8")
    person.goes("bub run hello", ("from now on", "n"), ("run `bub trust ", ""), code=2)
    person.sees("bub validate", "1 file is fine")
    person.goes(f"bub trust {project}")
    person.sees('bub run "what is my password?"', "passwords stay here", code=1)
    person.sees("bub run hello", "[cli:local]")
    person.sees("bub explain settings.model", "your own file")
    good = (project / "pipelines.yaml").read_text(encoding="utf-8")
    (project / "pipelines.yaml").write_text(good.replace("before: run_model", "before: run_modle"), encoding="utf-8")
    person.sees("bub run hello", "did you mean `run_model`?", code=1)
    person.sees("bub explain B120", "B120")
    person.goes("bub validate --fix")
    person.sees("bub run hello", "[cli:local]")


def _choose(person: Traveller, project: Path) -> None:
    """A profile, and a route to another one."""
    file = project / "pipelines.yaml"
    more = (
        "  brief: {extends: default, settings: {max_tokens: 20}}\nroutes: [{match: {channel: lobby}, profile: brief}]\n"
    )
    file.write_text(file.read_text(encoding="utf-8").rstrip("\n") + "\n" + more, encoding="utf-8")
    person.sees('bub run --profile brief "what is my password?"', "passwords stay here", code=1)
    person.sees("bub run --profile nobody hello", "profiles are `brief`, `default`", code=1)
    person.goes("bub explain B162")
    person.sees("bub profiles", "brief", "channel: lobby")
    message = json.dumps({"channel": "lobby", "content": "hello"})
    person.sees(f"bub route --message '{message}'", "brief")


def _check(person: Traveller, project: Path) -> None:
    """What CI runs, and how it ends."""
    file = project / "pipelines.yaml"
    person.sees("bub validate --strict .", "1 file is fine")
    person.sees("bub test", "there are no tests", code=2)
    cases = 'tests:\n  passwords stay: {message: {content: a password}, expect: {ended_by: "denied:moderate"}}\n'
    file.write_text(file.read_text(encoding="utf-8") + cases, encoding="utf-8")
    person.sees("bub test", "1 passed")
    person.sees("bub diff bub:default pipelines.yaml", "dangerous", code=1)
    good = file.read_text(encoding="utf-8")
    file.write_text(good.replace("timeout: 5s", "timeout: soon"), encoding="utf-8")
    person.goes("bub validate --strict .", code=1)
    person.goes("bub explain B104")
    person.sees("bub validate --strict --format github .", "::error", code=1)
    file.write_text(good, encoding="utf-8")
    person.sees("bub validate --strict nowhere", "nowhere does not exist", code=2)
    person.goes("mkdir empty")
    for command in ("validate", "test", "prove"):
        person.sees(f"bub {command} empty", "there is no pipeline file in empty", code=2)


def _look_around(person: Traveller) -> None:
    """Go after what is still to be typed, as far as one can here; then tidy up."""
    person.goes("bub doctor")
    person.sees("bub gateway", "there is no channel", code=1)
    person.goes("bub onboard telegram", ("The token of the bot", ESC), code=130)
    person.goes("bub config set telegram.token --secret", ("? settings.telegram.token", CTRL_C), code=130)
    person.goes("bub uninstall", ("for good?", "y"), ("To remove the program", ""))


# With real installations


def _try_line(line: str, home: Path, tools: str, columns: int) -> float:
    """Install Bub by a line of README, go the whole way, and return how long that took."""
    python = Path(sys.executable).resolve()
    place = installs.Place(home, tools, python, str(installs.copy_checkout(home / "sources" / "bub")), home)
    begun = time.monotonic()
    words = line.removesuffix(" .")
    if words == "pip install":
        place.run(f"'{python}' -m venv '{home / 'venv'}'")
    place.run(f"{words} '{place.source}'")
    travel(home, columns, None, **place.environment)
    return time.monotonic() - begun


def main(lines: Iterable[str]) -> int:
    """Try each line of README at each width; return 1 if one of them led to a dead end."""
    failed = []
    screen.PATIENCE = 300.0  # for the download of the model
    for name in [name for name in os.environ if name.startswith(("BUB_", "PYTHON", "VIRTUAL", "XDG"))]:
        del os.environ[name]
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors; seconds")
    with tempfile.TemporaryDirectory(prefix="bub-journey-") as temporary:
        tools = installs.get_tools(Path(temporary) / "tools")
        for line in lines:
            for columns in WIDTHS:
                home = Path(tempfile.mkdtemp(prefix="home-", dir=temporary))
                try:
                    took = f"{_try_line(line, home, tools, columns):8.1f}"
                except (AssertionError, RuntimeError, OSError, subprocess.SubprocessError):
                    failed.append(f"{line}, {columns} columns\n{traceback.format_exc(limit=3)}")
                    took = "  failed"
                print(f"{line:24}{columns:4} columns{took}", flush=True)
                shutil.rmtree(home)
    print("\n".join(failed) or "all is well")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(installs.lines_of_readme()))
