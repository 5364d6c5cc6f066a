"""bub-slack beside Telegram, in a Python that has it: `make beside PACKAGE=bub-slack`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.compat.checkout import check_out
from tests.compat.environments import ROOT, install

TESTS = {"bub-slack": "tests/compat/slack_beside_telegram.py"}


def main() -> int:
    """Install the package with Bub and what its test needs, and run that; its exit code."""
    parser = argparse.ArgumentParser(prog="tests.compat.beside")
    parser.add_argument("package", choices=TESTS)
    package = parser.parse_args().package
    with tempfile.TemporaryDirectory() as folder:
        source = check_out(Path(folder) / "contrib") / package
        groups = [f"--group={ROOT / 'pyproject.toml'}:{name}" for name in ("test", "compat")]
        commands = install(Path(folder) / "env", [str(source), *groups])
        options = ("-o", "faulthandler_timeout=0", "-s")
        return subprocess.run([commands / "python", "-m", "pytest", *options, TESTS[package]], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
