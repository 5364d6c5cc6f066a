"""A Python for each package, with Bub and its extra `reference`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
UV = shutil.which("uv", path=str(Path(sys.prefix) / "bin")) or "uv"


class InstallError(AssertionError):
    """A package could not be installed."""


def install(folder: Path, wanted: list[str], other: Path | None = None) -> Path:
    """Make an environment of Bub, or an `other` one, and of what is `wanted`; return where its commands are."""
    shutil.rmtree(folder, ignore_errors=True)
    run(UV, "venv", "--quiet", "--python", sys.executable, str(folder))
    named = folder / "other.txt"  # some packages ask for the other Bub by its name; two must not both be `bub`
    named.write_text(f"bub @ {other.as_uri()}\n" if other else "bub; python_version < '3'\n")
    target = ["--quiet", "--python", str(folder / "bin" / "python"), "--override", str(named)]
    run(UV, "pip", "install", *target, str(other) if other else f"{ROOT}[reference]", *wanted)
    return folder / "bin"


@cache
def uv_cache() -> str:
    """Where uv keeps what it has fetched; a trial has a home of its own, and need not fetch it again."""
    return subprocess.run([UV, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(f"{' '.join(command[1:3])}: {done.stderr.strip()[-600:]}")
