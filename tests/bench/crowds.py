"""Many chats that write at once, with turns of one second that wait: what bounds how many are answered side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

import trio

from bub import BubFramework
from bub.channels import ChannelManager
from bub.gateway.garbage import looking_less_often
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.runtime.capacity import allow_open_files, count_turns_that_fit
from tests.bench._answers import ROOT
from tests.bench._crowd import CROWD, PLUGIN

SIZES = (100, 1_000, 10_000)
SECONDS = 1.0
MODEL = f"""
import trio

@hookimpl
async def run_model(prompt):
    await trio.sleep({SECONDS})
    return "hi"
"""


def measure() -> None:
    """Print seconds until all chats are answered, CPU and memory for each, for more and more chats."""
    allow_open_files()
    print(f"chats at once, turns of {SECONDS:g} s; {count_turns_that_fit():,} turns fit; load {os.getloadavg()[0]:.1f}")
    print(f"{'chats':>8}{'all answered':>15}{'CPU a chat':>13}{'memory a chat':>16}")
    for chats in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.bench.crowds", str(chats), folder]
            environment = {**os.environ, "BUB_HOME": folder}
            done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        took, cpu, memory = json.loads(done.stdout)
        print(f"{chats:>8,}{took:>13.1f} s{cpu * 1e3:>10.2f} ms{memory:>12.1f} KiB")


async def answer_all(folder: Path, chats: int) -> Sequence[float]:
    """Seconds until so many chats are answered; seconds of CPU, and KiB, for each."""
    (folder / "crowd.py").write_text(PLUGIN + MODEL, encoding="utf-8")
    file = folder / "pipelines.yaml"
    file.write_text(
        "version: 1\nextends: bub:default\n"
        "plugins: {crowd: {path: crowd.py}}\nprofiles: {default: {plugins: [crowd]}}\n",
        encoding="utf-8",
    )
    framework = BubFramework(file, workspace=folder)
    with looking_less_often():  # as the gateway does
        return await _answer(framework, folder, chats)


async def _answer(framework: BubFramework, folder: Path, chats: int) -> Sequence[float]:
    async with framework.running():
        manager = ChannelManager(framework, mailbox=Mailbox(inbox_file(folder), folder))
        async with trio.open_nursery() as nursery:
            await nursery.start(manager.run)
            memory, began, cpu = _memory(), perf_counter(), process_time()
            async with trio.open_nursery() as chatting:
                for number in range(chats):
                    chatting.start_soon(CROWD.talk, str(number))
                await trio.sleep(SECONDS)
                most = _memory()
            took, spent = perf_counter() - began, process_time() - cpu
            nursery.cancel_scope.cancel()
    return took, spent / chats, (most - memory) / chats


def _memory() -> float:
    """The KiB that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


if __name__ == "__main__":
    if len(sys.argv) == 1:
        measure()
    else:
        allow_open_files()
        print(json.dumps(trio.run(answer_all, Path(sys.argv[2]), int(sys.argv[1]))))
