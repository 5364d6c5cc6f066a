"""Many files are checked by many processes, and nobody can tell from what is found; a person sees how far it is."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Write

from bub.cli.progress import progress
from bub.errors import UsageError
from bub.pipeline.check.many import AT_ONCE, check_many
from bub.pipeline.check.validate import check_files
from bub.pipeline.source.discovery import PipelineFile

PARENT = """
    version: 1
    extends: bub:default
    stages: {run_model: {timeout: soon}}
    profiles: {wide: {plugins: []}}
"""
CHILDREN = (
    "version: 1\nextends: parent.yaml\n",
    "version: 1\nextends: parent.yaml\nprofiles: {one: {plugins: [gone]}, two: {plugins: [gone]}}\n",
    "version: 1\nextends: bub:default\nroutes: [{match: {channel: cli}, profile: nobody}]\n",
    "version: 1\nstages: [\n",
    "version: 1\nextends: bub:default\nsettings: {modle: x}\n",
    "version: 1\nextends: bub:default\n",
)


@pytest.fixture
def files(write: Write) -> list[PipelineFile]:
    """Some more files than three processes check before they answer for the first time."""
    write("parent.yaml", PARENT)
    paths = []
    for number in range(AT_ONCE * 3 + 5):
        path = write(f"{number:03}.yaml", "version: 1\n")
        path.write_text(CHILDREN[number % len(CHILDREN)], encoding="utf-8")
        paths.append(PipelineFile(path.name, path))
    return paths


def nobody_listens(done: int) -> None:
    """For a check that is not shown."""


@pytest.mark.parametrize("processes", [1, 2, 3, 16])
def test_what_is_found_does_not_tell_how_many_have_looked(files: list[PipelineFile], processes: int) -> None:
    alone = check_files(files, environ={})
    done: list[int] = []
    together = check_many(files, profiles=None, environ={}, tell=done.append, processes=processes)
    assert together.diagnostics == alone.diagnostics
    assert {finding.code for finding in alone.diagnostics} >= {"B160", "B162", "B001"}
    assert list(together.sources.items()) == list(alone.sources.items())
    assert done == list(range(1, len(files) + 1))
    assert multiprocessing.active_children() == []


def test_the_first_file_that_cannot_be_read_is_told(files: list[PipelineFile]) -> None:
    files[30:30] = [PipelineFile("gone.yaml", Path("gone.yaml")), PipelineFile("lost.yaml", Path("lost.yaml"))]
    for check in (
        lambda: check_files(files, environ={}),
        lambda: check_many(files, profiles=None, environ={}, tell=nobody_listens, processes=2),
    ):
        with pytest.raises(UsageError, match=r"gone\.yaml does not exist"):
            check()


def test_what_a_process_that_was_killed_has_not_answered_is_checked_all_the_same(files: list[PipelineFile]) -> None:
    def kill(done: int) -> None:
        for process in multiprocessing.active_children():
            if process.pid is not None:
                os.kill(process.pid, signal.SIGKILL)

    found = check_many(files, profiles=None, environ={}, tell=kill, processes=2)
    assert found.diagnostics == check_files(files, environ={}).diagnostics


PROGRAM = """
import multiprocessing, signal, sys
from pathlib import Path
from bub.pipeline.check.many import check_many
from bub.pipeline.source.discovery import PipelineFile

def tell(done):
    print("begun", flush=True)
    signal.pause()

if __name__ == "__main__":
    files = [PipelineFile(path.name, path) for path in sorted(Path(sys.argv[1]).glob("*.yaml"))]
    try:
        check_many(files, profiles=None, environ={}, tell=tell, processes=2)
    except KeyboardInterrupt:
        print("stopped", multiprocessing.active_children())
"""


@pytest.mark.skipif(not hasattr(signal, "pause"), reason="a terminal of this system stops programs in another way")
def test_ctrl_c_ends_all_of_them_without_a_word(files: list[PipelineFile], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(program), str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody in front of it is told
        said, complained = process.communicate(timeout=30)
    assert (said, complained) == ("stopped []\n", "")


# How far it is


class Terminal(io.StringIO):
    """What is written to a terminal, or to a pipe."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def shown(stream: Terminal, clock: Callable[[], float]) -> str:
    with progress("checked", 1_000, stream, clock) as tell:
        for done in (1, 2, 3):
            tell(done)
    return stream.getvalue()


def ticking(*times: float) -> Callable[[], float]:
    return iter(times).__next__


def test_work_that_lasts_is_shown_on_a_terminal_and_the_line_is_gone_at_the_end() -> None:
    assert shown(Terminal(True), ticking(0, 0.5, 1.0, 1.5)) == (
        "\rchecked 2 of 1,000\x1b[K\rchecked 3 of 1,000\x1b[K\r\x1b[K"
    )


def test_it_is_shown_ten_times_a_second_at_most() -> None:
    assert shown(Terminal(True), ticking(0, 1.0, 1.05, 1.2)).count("checked") == 2


def test_nothing_is_shown_of_short_work_nor_in_a_pipe() -> None:
    assert shown(Terminal(True), ticking(0, 0.1, 0.5, 0.9)) == ""
    assert shown(Terminal(False), ticking(0, 2, 3, 4)) == ""
