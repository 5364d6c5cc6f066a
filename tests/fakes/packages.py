"""An environment to install packages in, and a person who answers what is asked about them."""

from __future__ import annotations

import os
import sys
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.command_line import ROOT

from bub.setup.packages.agreeing import Request
from bub.setup.packages.environment import Environment

POINTS = "[bub]\ncalm = bub_calm\n"
HOOK = "from bub import hookimpl\n\n@hookimpl\ndef system_prompt(prompt):\n    return 'calm'\n"

needs_time = pytest.mark.skipif(
    os.environ.get("PACKAGES") != "all", reason="installs for seconds: `make packages` runs it"
)


class Person:
    """Answers questions in turn, and remembers what was asked and said."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.heard: list[str] = []

    def confirm(self, name: str, title: str) -> bool:
        self.asked.append(title)
        return self.answers.pop(0)

    def say(self, text: str) -> None:
        self.heard += text.splitlines()

    @contextmanager
    def progress(self, text: str) -> Iterator[object]:
        yield lambda shown: None


def make_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """Make an environment in which Bub and what it needs can be imported, and leave no network to pip."""
    prefix = tmp_path / "environment"
    venv.create(prefix, with_pip=False, symlinks=True)
    site = next(prefix.glob("lib/python*/site-packages"))
    places = [str(ROOT), str(ROOT / "plugins"), *(place for place in sys.path if place.endswith("site-packages"))]
    (site / "around.pth").write_text("\n".join(places))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return Request(tmp_path / "home", Environment(str(prefix / "bin" / "python"), prefix, site), "run it again")


def put(wheel: Path, prefix: Path) -> None:
    """Unpack a wheel into an environment as installers do."""
    with zipfile.ZipFile(wheel) as files:
        files.extractall(next(prefix.glob("lib/python*/site-packages")))


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with what it holds, but for what Python compiled."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
