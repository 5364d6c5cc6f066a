"""`bub validate` beside check-jsonschema on the same files and schema, and beside what its libraries cost to import."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
SCHEMA = ROOT / "schemas" / "pipeline.schema.json"
IMPORTS = "import typer, yaml; from jsonschema import Draft202012Validator"
MANY, RUNS, RUNS_OF_MANY = 1_000, 11, 3
RIVAL = "check-jsonschema"


class Took(NamedTuple):
    """What a process took: seconds on the clock, and of CPU."""

    clock: float
    cpu: float


def file_number(number: int) -> str:
    """A pipeline file as people write them, unlike the one with any other number."""
    return f"""\
# yaml-language-server: $schema=pipeline.schema.json
version: 1
extends: bub:default
description: Assistant number {number}, for a house with {number % 9 + 1} rooms.

hooks:
  moderate_{number}:
    kind: gate
    takes: [prompt, session_id]
    description: Keeps rule {number} of the house.

stages:
  moderate_{number}:
    before: run_model
    timeout: {number % 50 + 1}s
  run_model:
    timeout: {number % 300 + 30}s
    retry: {{times: {number % 9 + 1}, backoff: 500ms}}
  save_state:
    timeout: 20s

profiles:
  default:
    plugins: [local_model]
    tools:
      allow: ["*", bash]
      ask: [bash, fs.write]
    budget: {{steps: {number + 1}}}
  reviewer_{number}:
    extends: default
    description: Reads, and does no more.
    tools: {{allow: [fs.read, "tape.*"]}}
    settings: {{model: "openrouter:openrouter/free", temperature: 0.{number % 10}}}

routes:
  - match: {{channel: telegram, chat_id: "-100{number}*"}}
    profile: reviewer_{number}

settings:
  model: "openrouter:openrouter/free"
  timeout: {number % 60 + 1}s
"""


def measure() -> None:
    """Print what one file and many take, whole processes, each command in turn, so that all have the same weather."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number:04}.yaml" for number in range(MANY)]
        for number, file in enumerate(files):
            file.write_text(file_number(number), encoding="utf-8")
        _table("cold, one file", [str(files[0])], RUNS, folder)
        _table(f"cold, {MANY:,} files", [str(file) for file in files], RUNS_OF_MANY, folder)


def _table(title: str, files: list[str], runs: int, home: str) -> None:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import typer, yaml, jsonschema": [sys.executable, "-c", IMPORTS],
        "bub validate": [sys.executable, "-m", "bub", "validate", *files],
    }
    rival = _rival()
    if rival is not None:
        commands[RIVAL] = [rival, "--schemafile", str(SCHEMA), *files]
    # Byte code is written and read, as on any machine that runs a program for the second time.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["BUB_HOME"] = home
    took: dict[str, list[Took]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            one = _run(command, environment)
            if turn:  # the first one only warms up
                took[name].append(one)
    print(f"{title}: seconds, {runs} runs of each in turn")
    for name, each in took.items():
        clock, cpu = (sorted(column) for column in zip(*each, strict=True))
        print(
            f"  {name:32} clock {statistics.median(clock):6.3f} (best {clock[0]:.3f})"
            f"   cpu {statistics.median(cpu):6.3f} (best {cpu[0]:.3f})"
        )
    if rival is None:
        print(f"  {RIVAL} is not there: `make bench` installs it")


def _rival() -> str | None:
    """check-jsonschema in an environment of its own, so that what it needs is not in Bub's."""
    beside = Path(sys.prefix) / "rival" / "bin" / RIVAL
    return str(beside) if beside.exists() else shutil.which(RIVAL)


def _run(command: list[str], environment: dict[str, str]) -> Took:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    clock, after = perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    measure()
