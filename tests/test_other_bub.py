"""Two programs called Bub in one environment: each start recognises it, and says in two lines how to mend it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Write

ROOT = Path(__file__).parent.parent
THEIRS = {
    "_version.py": "__version__ = '9.9'",
    "__init__.py": "from bub.framework import BubFramework",
    "__main__.py": "import sys\nfrom bub.framework import BubFramework\nsys.exit('the other Bub runs')",
    "errors.py": "class OtherError(Exception): ...",
    "framework.py": "from bub.store import TapeStore\n\nclass BubFramework: ...",
    "store.py": "from bub.tape import TapeEntry\n\nclass TapeStore: ...",
    "tape.py": "class TapeEntry: ...",
}
"""Modules laid out as those of the distribution `bub`: some of names that Bub has too, `tape.py` of a package's."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder that holds Bub as an installation does."""
    folder = tmp_path / "site"
    shutil.copytree(ROOT / "bub", folder / "bub", ignore=shutil.ignore_patterns("__pycache__"))
    for data in ("pipelines", "schemas"):
        shutil.copytree(ROOT / data, folder / data)
    return folder


def bring(site: Path, *names: str) -> None:
    """Install the other Bub over what is there: the files `names`, or all."""
    for name in names or THEIRS:
        (site / "bub" / name).write_text(THEIRS[name] + "\n", encoding="utf-8")


def python(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=site.parent, env=environment, capture_output=True, text=True, timeout=60
    )


def assert_two_lines(text: str) -> None:
    what, remedy = text.splitlines()
    assert what.startswith(
        "bub: the distribution `bub` of PyPI, another program of this name, is in the same environment"
    )
    assert "uninstall" in remedy
    assert " bub bub-pipelines`, then install `bub-pipelines` again" in remedy


def test_alone_it_says_nothing(site: Path) -> None:
    done = python(site, "-m", "bub", "pipelines")
    assert (done.returncode, done.stderr) == (0, "")


def test_installed_over_the_other_one_it_works_and_says_so_at_each_start(site: Path) -> None:
    bring(site, "_version.py", "store.py", "tape.py")  # what the other one leaves once Bub was written over it
    done = python(site, "-m", "bub", "pipelines")
    assert done.returncode == 0
    assert "bub:default" in done.stdout
    assert_two_lines(done.stderr)


def test_with_the_other_one_over_it_the_command_ends_with_the_same_two_lines(site: Path) -> None:
    bring(site)
    done = python(site, "-m", "bub", "pipelines")
    assert (done.returncode, done.stdout) == (1, "")
    assert_two_lines(done.stderr)


def test_a_program_that_imports_it_gets_an_error_to_catch(site: Path) -> None:
    bring(site)
    code = "try:\n    import bub\nexcept ImportError as error:\n    print(error)"
    assert "another program of this name" in python(site, "-c", code).stdout


def test_a_module_that_is_gone_is_named_if_there_is_one_bub_only(site: Path) -> None:
    (site / "bub" / "cli" / "root.py").unlink()
    done = python(site, "-m", "bub", "pipelines")
    assert done.returncode == 1
    assert "No module named 'bub.cli.root'" in done.stderr
    assert "PyPI" not in done.stderr


def test_doctor_looks_closer(site: Path) -> None:
    bring(site, "_version.py")
    done = python(site, "-m", "bub", "doctor", "--offline", "--config", "bub:default")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("broken  other bub")]
    assert "another program of this name" in line


def test_a_plugin_for_the_other_one_is_named_and_its_package_is_not_advised(site: Path, write: Write) -> None:
    write("theirs.py", "from bub.turn import TurnState\n")
    file = write(
        "pipelines.yaml",
        """
        version: 1
        extends: bub:default
        plugins: {theirs: {path: theirs.py}}
        profiles: {default: {plugins: [theirs]}}
        """,
    )
    done = python(site, "-m", "bub", "validate", "--plugins", str(file))
    assert "B200" in done.stdout
    said = " ".join(done.stdout.replace("|", " ").split())
    assert "it is written for the Bub on PyPI: say `plugins: {theirs: {runtime: asyncio}}`" in said
    assert "install the package that brings" not in done.stdout
