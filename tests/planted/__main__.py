"""Plants one fault after another in a copy of the engine, and counts how many of them `bub prove` finds there.

`python -m tests.planted [--once] [WORDS]`: only those faults whose description has the words; `--once` trusts that
nothing is found without them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.planted.plants import PLANTS, Plant

ROOT = Path(__file__).parent.parent.parent
FILES = ("pipelines.yaml", "beside.yaml")


def main(words: str, *, once: bool) -> int:
    plants = [plant for plant in PLANTS if words in plant.what]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("bub", "plugins", "pipelines", "schemas", "docs"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for file in (*FILES, "house.py"):
            shutil.copy(Path(__file__).parent / file, copy)
        sound = [] if once else [told for file in FILES if (told := broken_by(copy, file)) is not None]
        if sound:
            print("\n".join(["a sound engine breaks a law:", *sound]))
            return 1
        missed = [plant for plant in plants if not is_found(copy, plant)]
    print(f"{len(plants) - len(missed)} of {len(plants)} planted faults were found")
    return 1 if missed else 0


def is_found(copy: Path, plant: Plant) -> bool:
    """Whether the engine with a fault breaks a law; says how."""
    module = copy / "bub" / plant.module
    text = module.read_text(encoding="utf-8")
    assert text.count(plant.old) == 1, f"{plant.what}: {plant.module} has changed"
    module.write_text(text.replace(plant.old, plant.new), encoding="utf-8")
    try:
        tries = ((file, pairs) for pairs in ("none", "guards") for file in FILES)
        told = next((told for file, pairs in tries if (told := broken_by(copy, file, pairs)) is not None), None)
    finally:
        module.write_text(text, encoding="utf-8")
    print(f"{'missed' if told is None else 'found '}  {plant.what}{f': {told}' if told else ''}", flush=True)
    return told is not None


def broken_by(copy: Path, file: str, pairs: str = "guards") -> str | None:
    """Return what `bub prove` finds in the copy of the engine; None if all is proved."""
    command = [sys.executable, "-m", "bub", "prove", file, "--mocked", "--pairs", pairs, "--format", "json"]
    own = {"PYTHONPATH": f"{copy}:{copy / 'plugins'}", "HOME": str(copy), "BUB_HOME": str(copy / ".bub")}
    done = subprocess.run(
        command, cwd=copy, env={**os.environ, **own}, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode == 0:
        return None
    if not done.stdout:
        return f"`bub prove` itself ended: {done.stderr.strip()[-300:]}"
    report = json.loads(done.stdout)
    errors = [one["message"] for one in report["diagnostics"] if one["severity"] == "error"]
    tests = report["proof"]["counterexamples"]
    failing = sum(one["fails"] for one in tests)
    return f"{errors[0]} ({len(errors)} laws broken; {failing} of {len(tests)} tests fail)"


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--once"]
    sys.exit(main(" ".join(words), once="--once" in sys.argv))
