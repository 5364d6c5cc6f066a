"""What telemetry costs a turn: off, sent to a collector in a process of its own, and to one that is not there.

`python -m tests.bench.telemetry`. The three take turns one after another, in the same process.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from time import perf_counter, process_time, thread_time

import trio

from bub import BubFramework
from tests.bench.turns import MESSAGE, make_framework

ROUNDS, TURNS, PLUGINS = 150, 10, 8
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
COLLECTOR = Path(__file__).parent.parent / "fakes" / "collector.py"


def measure() -> None:
    """Print microseconds per turn: of the thread that runs it, of all threads, and on the clock."""
    with tempfile.TemporaryDirectory() as folder, _collecting(Path(folder)) as alive:
        trio.run(_measure, Path(folder), {"off": "", "sent": alive, "nobody": _closed_port()})


async def _measure(folder: Path, ways: Mapping[str, str]) -> None:
    took: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    async with AsyncExitStack() as opened:
        frameworks: dict[str, BubFramework] = {}
        for name, endpoint in ways.items():
            os.environ[ENDPOINT] = endpoint
            place = folder / name
            place.mkdir()
            frameworks[name] = make_framework(place, PLUGINS, "async")
            await opened.enter_async_context(frameworks[name].running())
        await trio.sleep(2)  # until the packages are loaded
        for _ in range(ROUNDS):
            for name, framework in frameworks.items():
                took[name].append(await _time(framework))
    print(f"microseconds per turn of {PLUGINS} plugins: best and middle of {ROUNDS} rounds of {TURNS} turns")
    print(f"{'':>8} {'own thread':>16} {'all threads':>16} {'clock':>16}")
    for name, rounds in took.items():
        columns = [f"{min(one):7.1f} {statistics.median(one):8.1f}" for one in zip(*rounds, strict=True)]
        print(f"{name:>8} {' '.join(columns)}")


async def _time(framework: BubFramework) -> tuple[float, float, float]:
    clocks = (thread_time, process_time, perf_counter)
    began = [clock() for clock in clocks]
    for _ in range(TURNS):
        await framework.process_inbound(MESSAGE)
    thread, process, wall = ((clock() - start) / TURNS * 1e6 for clock, start in zip(clocks, began, strict=True))
    return thread, process, wall


@contextmanager
def _collecting(folder: Path) -> Iterator[str]:
    command = [sys.executable, str(COLLECTOR), str(folder / "got.jsonl")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def _closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


if __name__ == "__main__":
    measure()
