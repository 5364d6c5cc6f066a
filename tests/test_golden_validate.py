"""`bub validate` on files with mistakes: what a person reads, word for word.

Each `NAME.yaml` in `testdata` has its report beside it, in `NAME.txt`. After a wanted change, write them anew with
`python tests/test_golden_validate.py` and read the difference.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTDATA = Path(__file__).parent / "testdata"
FILES = sorted(TESTDATA.glob("*.yaml"))


def report(file: Path) -> str:
    """What `bub validate` prints about a file, and its exit code."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BUB_TEST_")}
    bub = subprocess.run(
        [sys.executable, "-m", "bub", "validate", file.name],
        cwd=file.parent,
        env={**environment, "NO_COLOR": "1", "COLUMNS": "120", "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    return f"{bub.stdout}{bub.stderr}exit code {bub.returncode}\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_report_on_a_file_is_the_one_that_was_read_and_found_right(file: Path) -> None:
    assert report(file) == file.with_suffix(".txt").read_text(encoding="utf-8")


def test_there_is_a_report_for_every_file_and_a_file_for_every_report() -> None:
    assert len(FILES) >= 15
    assert {file.stem for file in FILES} == {report.stem for report in TESTDATA.glob("*.txt")}


if __name__ == "__main__":
    for each in FILES:
        each.with_suffix(".txt").write_text(report(each), encoding="utf-8")
