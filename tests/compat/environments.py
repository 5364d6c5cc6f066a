"""A Python for each package: Bub, the extra `reference`, and the package out of a folder."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
UV = shutil.which("uv", path=str(Path(sys.prefix) / "bin")) or "uv"


class InstallError(AssertionError):
    """A package could not be installed."""


def install(folder: Path, wanted: list[str], other: Path | None = None) -> Path:
    """Make an environment of what is `wanted` and of Bub, or an `other` one; return where its commands are."""
    shutil.rmtree(folder, ignore_errors=True)
    run(UV, "venv", "--quiet", "--python", sys.executable, str(folder))
    refused = folder / "refused.txt"
    # Some packages ask for the other Bub by its name; two distributions must not both be `bub`.
    refused.write_text(f"bub @ {other.as_uri()}\n" if other else "bub; python_version < '3'\n")
    target = ("--quiet", "--python", str(folder / "bin" / "python"), "--override", str(refused))
    bub = str(other) if other else f"{ROOT}[reference]"
    run(UV, "pip", "install", *target, bub, *wanted)
    return folder / "bin"


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise InstallError(f"{' '.join(command[1:3])}: {done.stderr.strip()[-600:]}")
