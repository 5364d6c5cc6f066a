"""Cold start of the command line, whole processes, against Python doing nothing and the bare imports."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pexpect

from tests.bench._answers import answering
from tests.bench.tapes import REFERENCE

RUNS = 15
IMPORTS = "import typer, yaml, jsonschema; from jsonschema import Draft202012Validator"
BY_HAND = """
import httpx
import trio

async def main():
    async with httpx.AsyncClient(verify=False) as client, client.stream("POST", "{url}", json={{}}) as response:
        async for line in response.aiter_lines():
            pass

trio.run(main)
"""
PIPELINE = "version: 1\nextends: bub:default\nstages:\n  run_model: {timeout: 120s}\n"


def measure() -> None:
    """Print the CPU seconds of each command, one run of each in turn, median of all; and their peak memory."""
    with answering() as address, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pipelines.yaml"
        file.write_text(PIPELINE)
        commands = {
            "python -c pass": ["-c", "pass"],
            "import typer, yaml, jsonschema": ["-c", IMPORTS],
            "bub --help": ["-m", "bub", "--help"],
            "bub validate FILE": ["-m", "bub", "validate", str(file)],
            "bub --config FILE hooks": ["-m", "bub", "--config", str(file), "hooks"],
            'bub run ",help"': ["-m", "bub", "run", ",help"],
            "post 20 tokens by hand (httpx)": ["-c", BY_HAND.format(url=f"{address}/20/0/v1/chat/completions")],
            "bub run hello (20 tokens)": ["-m", "bub", "run", "hello"],
            "bub chat hello, piped (20 tokens)": ["-m", "bub", "chat", "hello"],
        }
        # The reference takes fifteen times as long: fewer runs, in turn with the others.
        of_reference = {"reference --help": ["--help"], 'reference run ",help"': ["run", ",help"]}
        if not Path(REFERENCE).exists():
            of_reference = {}
        times: dict[str, list[float]] = {name: [] for name in (*commands, *of_reference)}
        environment = {
            **os.environ,
            "BUB_HOME": folder,
            "BUB_MODEL": "openai:any",
            "BUB_API_KEY": "no-key-at-all",
            "BUB_API_BASE": f"{address}/20/0/v1",
        }
        # Byte code is written and read, as on any machine that runs Bub for the second time.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(RUNS + 1):
            for name, arguments in commands.items():
                seconds = _cpu_seconds([sys.executable, *arguments], folder, environment)
                if turn:  # the first one only warms up
                    times[name].append(seconds)
            for name, arguments in of_reference.items() if turn < 4 else ():
                seconds = _cpu_seconds([str(Path(REFERENCE).with_name("bub")), *arguments], folder, environment)
                if turn:
                    times[name].append(seconds)
        waits = [_seconds_to_line(folder, environment) for _ in range(RUNS)]
    print(f"cold start: seconds of CPU, {RUNS} runs each in turn (the reference 3)")
    for name, seconds_of_each in times.items():
        print(f"  {name:32} median {statistics.median(seconds_of_each):.3f}   best {min(seconds_of_each):.3f}")
    waited = f"median {statistics.median(waits):.3f}   best {min(waits):.3f}"
    print(f"until there is a line to write on in bub chat: seconds on the clock, {waited} (meant: within 0.6)")


def _seconds_to_line(folder: str, environment: dict[str, str]) -> float:
    """How long, on the clock, somebody who starts `bub chat` waits for the line to write on."""
    began = time.monotonic()
    chat = pexpect.spawn(sys.executable, ["-m", "bub", "chat"], cwd=folder, env={**environment, "TERM": "xterm"})
    chat.expect_exact("1m>")  # the bold sign before the line
    took = time.monotonic() - began
    chat.sendcontrol("d")
    chat.expect(pexpect.EOF)
    chat.close()
    return took


def _cpu_seconds(command: list[str], folder: str, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    measure()
