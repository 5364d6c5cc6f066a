"""Install Bub as README says and ask the small local model, for real and timed: `make installs`.

Each line of README that installs Bub is tried with a checkout and with a wheel, on each Python, with a home folder
of its own: the line, `bub local install`, `bub run`, `bub chat` at a terminal, then the same line once more, after
which the model has to be there still. `uvx`, an installation without pip and without uv, and `make run` are tried, too.
Figures are seconds; "silent" is the longest time in which `bub local install`, or make, said nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fakes import screen
from fakes.screen import Sitting

ROOT = Path(__file__).parent.parent
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
MOST_SILENT = 2.0
"""Seconds; more than that is a failure."""

STEPS = ("install", "local install", "silent", "MB", "run", "chat", "again", "run again")
AGAIN = {
    "uv tool install": "uv tool install --reinstall",
    "pipx install": "pipx install --force",
    "pip install": "pip install --force-reinstall",
}


class Place(NamedTuple):
    """Where one line is tried: a home of its own, what is on the PATH, and the source as the line names it."""

    home: Path
    tools: str
    python: Path
    source: str
    cwd: Path

    @property
    def environment(self) -> dict[str, str]:
        """That of a person who has never used Bub."""
        others = ("BUB_", "PYTHON", "VIRTUAL", "XDG", "MAKE", "MFLAGS")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        path = os.pathsep.join([str(self.home / "venv" / "bin"), str(self.home / ".local" / "bin"), self.tools, SYSTEM])
        pythons = {
            "UV_PYTHON": str(self.python),
            "PIPX_DEFAULT_PYTHON": str(self.python),
            "UV_PYTHON_DOWNLOADS": "never",
        }
        return {**kept, **pythons, "HOME": str(self.home), "PATH": path}

    def run(self, command: str, **more: str) -> tuple[float, float, str]:
        """Run a command line; return how long it took, how long it was silent at most, and what it printed.

        Raises RuntimeError if it fails.
        """
        begun = last = time.monotonic()
        silent, printed = 0.0, []
        with subprocess.Popen(
            command,
            shell=True,
            cwd=self.cwd,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                silent, last = max(silent, time.monotonic() - last), time.monotonic()
                printed.append(line)
        text = "".join(printed)
        if process.returncode != 0:
            raise RuntimeError(f"`{command}` ended with {process.returncode}:\n{text}")
        return time.monotonic() - begun, max(silent, time.monotonic() - last), text


def lines_of_readme() -> list[str]:
    """The lines that install Bub, as one types them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.partition("<!-- installs -->\n```console\n")[2].partition("```")[0]
    return [line.removeprefix("$ ").partition("#")[0].strip() for line in block.splitlines()]


def check_answer(text: str) -> None:
    """Raise RuntimeError unless there is an answer below the heading of `bub run`."""
    heading, _, answer = text.partition("[cli:local]\n")
    said = [line for line in heading.splitlines() if "the answer is cut" not in line]  # it may go on and on
    if any(said) or not answer.strip():
        raise RuntimeError(f"no answer: {text!r}")


def chat(place: Place, bub: Sequence[str]) -> float:
    """Say hello in `bub chat` at a terminal, and leave; return how long it took to the end of the answer."""
    begun = time.monotonic()
    environment = {**place.environment, "PYTHONPATH": ""}
    with Sitting(place.cwd, "chat", program=bub, **environment) as sitting:
        sitting.see_prompt()
        sitting.say("hello")
        sitting.see(lambda shown: bool(re.search("[a-z]{2}", shown.partition("> hello")[2])))
        sitting.see_prompt()
        if not re.search("[a-z]{2}", sitting.text.partition("> hello")[2]):
            raise RuntimeError(f"no answer in the chat:\n{sitting.text}")
        took = time.monotonic() - begun
        if sitting.leave() != 0:
            raise RuntimeError(f"the chat did not end well:\n{sitting.text}")
    return took


def try_line(line: str, place: Place, *, without_tools: bool = False) -> Iterator[tuple[str, float]]:
    """Go the whole way of one line, and yield how long each step took."""
    words = line.removesuffix(" .")
    uvx = words.startswith("uvx")
    bub = f"uvx --from '{place.source}' bub" if uvx else "bub"
    if words == "pip install":
        place.run(f"'{place.python}' -m venv '{place.home / 'venv'}'")
    if not uvx:
        yield "install", place.run(f"{words} '{place.source}'")[0]
    poor = {"PATH": f"{place.home / '.local' / 'bin'}:{SYSTEM}"} if without_tools else {}
    took, silent, _ = place.run(f"{bub} local install", **poor)
    yield "local install", took
    yield "silent", silent
    files = (place.home / ".bub" / "local").rglob("*")
    yield "MB", sum(file.lstat().st_blocks * 512 for file in files) / 2**20  # as `du -m` counts
    took, _, text = place.run(f"{bub} run hello")
    check_answer(text)
    yield "run", took
    found = shutil.which("uvx" if uvx else "bub", path=place.environment["PATH"])
    assert found is not None
    yield "chat", chat(place, [found, "--from", place.source, "bub"] if uvx else [found])
    if not uvx:
        yield "again", place.run(f"{AGAIN[words]} '{place.source}'")[0]
        took, _, text = place.run(f"{bub} run hello")
        check_answer(text)
        yield "run again", took


def try_make(place: Place) -> Iterator[tuple[str, float]]:
    """Go the way of the clone: `make run`, twice, and the chat of its environment."""
    took, silent, text = place.run(f"make run PYTHON='{place.python}' VENV=.venv")
    check_answer(text[text.index("[cli:local]") :])
    yield "install", took
    yield "silent", silent
    took, _, text = place.run(f"make run PYTHON='{place.python}' VENV=.venv")
    check_answer(text)
    yield "run", took
    yield "chat", chat(place, [str(place.cwd / ".venv" / "bin" / "bub")])


def find_python(version: str) -> Path | None:
    """The Python of a version, on the PATH or among those of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for candidate in (shutil.which(f"python{version}"), *sorted(root.glob(f"versions/{version}.*/bin/python"))):
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return Path(candidate)
    return None


def copy_checkout(folder: Path) -> Path:
    """Copy what git has of the checkout, changes included, to a new folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def get_tools(folder: Path) -> str:
    """The folders with uv and pipx, as a PATH: those that are there, else an environment of their own."""
    here = [shutil.which(name) for name in ("uv", "pipx")]
    missing = [name for name, found in zip(("uv", "pipx"), here, strict=True) if found is None]
    if missing:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *missing], check=True)
    return os.pathsep.join([*(str(Path(found).parent) for found in here if found), str(folder / "bin")])


def main() -> int:
    """Try everything, print a row for each, and return 1 if anything failed."""
    failed = []
    screen.PATIENCE = 120.0  # many machines that this runs on do other things, too
    with tempfile.TemporaryDirectory(prefix="bub-installs-") as temporary:
        base = Path(temporary)
        (wheel,) = build_wheel(base / "wheel")
        tools = get_tools(base / "tools")
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors; seconds, but for MB")
        print(f"{'Python':8}{'line':28}{'from':10}" + "".join(f"{step:>15}" for step in STEPS))
        for version in sys.argv[1:]:
            python = find_python(version)
            if python is None:
                print(f"{version:8}is not here")
                continue
            trials = [(line, source, False) for line in lines_of_readme() for source in ("checkout", "wheel")]
            trials += [("uvx", "wheel", False), ("uv tool install .", "wheel", True), ("make run", "checkout", False)]
            for line, source, poor in trials:
                home = Path(tempfile.mkdtemp(prefix="home-", dir=base))
                checkout = copy_checkout(home / "sources" / "bub")
                elsewhere = home / "work"
                elsewhere.mkdir()
                source_of = str(checkout) if source == "checkout" else str(wheel)
                cwd = checkout if line == "make run" else elsewhere
                place = Place(home, tools, python, source_of, cwd)
                way = try_make(place) if line == "make run" else try_line(line, place, without_tools=poor)
                name = f"{line.removesuffix(' .')}{', then no uv' if poor else ''}"
                took: dict[str, float] = {}
                try:
                    took.update(way)
                    if took["silent"] > MOST_SILENT:
                        raise RuntimeError(f"silent for {took['silent']:.1f} s")
                except (RuntimeError, AssertionError, OSError):
                    failed.append(f"{version} {name} {source}\n{traceback.format_exc(limit=1)}")
                print(f"{version:8}{name:28}{source:10}{row(took)}", flush=True)
                shutil.rmtree(home)
        print(f"load {os.getloadavg()[0]:.1f}")
    print("\n".join(failed) or "all is well")
    return 1 if failed else 0


def build_wheel(folder: Path) -> list[Path]:
    """Build the wheel of the checkout."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(folder), "."]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return list(folder.glob("*.whl"))


def row(took: Mapping[str, float]) -> str:
    """The figures of one trial below their headings."""
    return "".join(f"{took[step]:15.1f}" if step in took else f"{'':>15}" for step in STEPS)


if __name__ == "__main__":
    sys.exit(main())
