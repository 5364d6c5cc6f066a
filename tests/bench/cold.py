"""Cold start of the command line, whole processes, against Python doing nothing and the bare imports."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 11
IMPORTS = "import typer, yaml, jsonschema; from jsonschema import Draft202012Validator"
PIPELINE = "version: 1\nextends: bub:default\nstages:\n  run_model: {timeout: 120s}\n"


def measure() -> None:
    """Print the CPU seconds of each command, one run of each in turn, median of all; and their peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipelines.yaml"
        file.write_text(PIPELINE)
        commands = {
            "python -c pass": ["-c", "pass"],
            "import typer, yaml, jsonschema": ["-c", IMPORTS],
            "bub --help": ["-m", "bub", "--help"],
            "bub validate FILE": ["-m", "bub", "validate", str(file)],
            "bub --config FILE hooks": ["-m", "bub", "--config", str(file), "hooks"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        environment = {**os.environ, "BUB_HOME": folder}
        # Byte code is written and read, as on any machine that runs Bub for the second time.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(RUNS + 1):
            for name, arguments in commands.items():
                seconds = _cpu_seconds([sys.executable, *arguments], environment)
                if turn:  # the first one only warms up
                    times[name].append(seconds)
    print(f"cold start: seconds of CPU, {RUNS} runs each in turn")
    for name, seconds_of_each in times.items():
        print(f"  {name:32} median {statistics.median(seconds_of_each):.3f}   best {min(seconds_of_each):.3f}")


def _cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    measure()
