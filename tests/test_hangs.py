"""Whatever way a test hangs, the run is over soon after its time is up, is red, and says which test it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.timeout(180)  # each starts pytest, one of them in several processes

Suite = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parent.parent

CONFTEST = """
pytest_plugins = ["hangs"]

def pytest_configure():
    import hangs

    hangs.GRACE = 1
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """Run a file of tests, each of which may take a second."""

    def run(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(dedent(text))
        ours = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *ours, "--timeout", "1", *arguments, str(tmp_path)],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT / "tests"), "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
        )

    return run


WAITS = """
    import pytest
    import trio
    from trio.testing import MockClock

    async def never():
        await trio.sleep_forever()

    @pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})], ids=["jumping"])
    @pytest.mark.anyio
    async def test_waits(anyio_backend):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(never)
"""


def test_a_task_that_waits_for_ever_is_shown_where_it_waits(suite: Suite) -> None:
    done = suite(WAITS)
    assert done.returncode == 1
    assert "test_it.py::test_waits[jumping] hangs: it did not end within 1 s" in done.stderr
    assert "Task test_it.never" in done.stderr and 'test_it.py", line 7 in never' in done.stderr


def test_a_process_of_several_ends_the_run_at_its_first_test_that_hangs(suite: Suite) -> None:
    done = suite(WAITS, "-n", "2", "--dist", "loadfile")
    assert done.returncode == 1
    assert "crashed while running 'test_it.py::test_waits[jumping]'" in done.stdout
    assert "1 failed" in done.stdout
    assert done.stderr.count("hangs: it did not end") == 1


def test_a_fixture_that_never_ends_hangs_its_test_also_when_that_has_failed(suite: Suite) -> None:
    done = suite(
        """
        import threading
        import pytest

        @pytest.fixture
        def stuck():
            yield
            threading.Event().wait()

        def test_fails(stuck):
            assert False
        """
    )
    assert done.returncode == 1
    assert "test_it.py::test_fails hangs" in done.stderr
    assert 'test_it.py", line 8 in stuck' in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="has no alarm clock")
def test_what_lets_no_other_thread_run_is_killed_by_the_system(suite: Suite) -> None:
    done = suite(
        """
        import re

        def test_backtracks():
            re.match("(a*)*b", "a" * 100)
        """,
        "-o",
        "faulthandler_timeout=1.5",
    )
    assert done.returncode == -signal.SIGALRM
    assert 'test_it.py", line 5 in test_backtracks' in done.stderr


def test_a_mark_gives_a_test_longer(suite: Suite) -> None:
    done = suite(
        """
        import time
        import pytest

        @pytest.mark.timeout(30)
        def test_slow():
            time.sleep(1.2)
        """
    )
    assert done.returncode == 0, done.stderr


def test_one_that_works_for_ever_hangs_too(suite: Suite) -> None:
    done = suite(
        """
        def test_spins():
            while True:
                pass
        """
    )
    assert done.returncode == 1
    assert "test_it.py::test_spins hangs" in done.stderr


def test_one_that_works_on_a_busy_machine_is_given_its_limit_again(suite: Suite) -> None:
    done = suite(
        """
        import time

        def test_slow():
            until = time.monotonic() + 2.2
            while time.monotonic() < until:
                used = time.thread_time()
                while time.thread_time() < used + 0.01:
                    pass
                time.sleep(0.04)  # others have their turn
        """
    )
    assert done.returncode == 0, done.stderr
