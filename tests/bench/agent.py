"""Whole turns of the agent, with more and more on the tape, beside httpx by hand and beside the reference Bub.

The model server is a process of its own; CPU is what the measured process spends, so the server's time is not in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import httpx
import msgspec
import trio

from bub import BubFramework
from bub.tape import Tape, TapeEntry
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.opening import open_tape_store
from bub.tape.sqlite import SqliteTapeStore
from bub.tape.tape import tape_name
from tests.bench._answers import answering
from tests.bench.tapes import REFERENCE

TURNS, TOKENS, MORE_TOKENS, SKILLS = 150, 20, 2_000, 200
SIZES = (0, 1_000, 10_000, 100_000)
MESSAGE = {"content": "how is the weather in the mountains today", "channel": "bench", "chat_id": "1"}
SESSION = "bench:1"
COLUMNS = f"{'CPU':>10}{'clock':>8}"
SKILL = "---\nname: {name}\ndescription: How work of kind {name} is done.\n---\nDo it.\n"

REFERENCE_PROGRAM = """
import asyncio, json, statistics, sys
from pathlib import Path
from time import perf_counter, process_time
from loguru import logger
logger.remove()
from bub.framework import BubFramework
from bub.tape import TapeEntry

workspace, tape, message, turns = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])

async def started(measure):
    framework = BubFramework()
    framework.workspace = workspace
    framework.load_hooks()
    async with framework.running():
        await measure(framework)

async def turn(framework, chat):
    wall, cpu = perf_counter(), process_time()
    result = await framework.process_inbound({**message, "chat_id": chat})
    assert result.model_output.startswith(" word0"), result
    return (process_time() - cpu) * 1000, (perf_counter() - wall) * 1000

async def warm_up(framework):
    for _ in range(3):
        await turn(framework, "warm")

async def measured(framework):
    took = []
    for _ in range(turns + 1):
        took.append(await turn(framework, message["chat_id"]))
        framework.get_tape_store().append(tape, TapeEntry.anchor("next"))
    first, *rest = took
    print(json.dumps([first, *([statistics.median(each) for each in zip(*rest)],)]))

async def main():
    await started(warm_up)
    await started(measured)

asyncio.run(main())
"""

Turn = Callable[[], Awaitable[object]]


class Took(NamedTuple):
    """Milliseconds: the CPU of this process, and what the clock says."""

    cpu: float
    wall: float

    def __str__(self) -> str:
        return f"{self.cpu:10.2f}{self.wall:8.2f}"


def measure() -> None:
    """Print what turns take: with both stores and all sizes, for each token more, and with many skills."""
    with answering() as address, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {
            "BUB_MODEL": "openai:any",
            "BUB_API_KEY": "no-key-at-all",
            "BUB_API_BASE": f"{address}/{TOKENS}/0/v1",
        }
        print(f"an agent turn of {TOKENS} tokens in milliseconds, median of {TURNS}; the first one after start: once")
        print(f"{'':<25}{'each turn':>18}{'first turn':>18}{'by hand (httpx)':>18}")
        print(f"{'':<10}{'entries before':>15}{COLUMNS * 3}{'ratio':>7}")
        trio.run(_measured, folder / "warm", "sqlite", 0)
        for store in ("sqlite", "jsonl"):
            for size in SIZES:
                first, ours, floor = trio.run(_measured, folder / f"{store}{size}", store, size)
                print(f"{store:<10}{size:>15,}{ours}{first}{floor}{ours.cpu / floor.cpu:7.1f}")
        for size in SIZES:
            _measure_reference(folder / f"reference{size}", size)
        trio.run(_measure_tokens, folder / "tokens", address)
        trio.run(_measure_skills, folder / "skills")


async def _measured(folder: Path, store: str, size: int) -> tuple[Took, Took, Took]:
    """The first turn of a process that has done others, the turns behind it, and the same by hand beside them."""
    async with _runtime(folder, store, size) as (turn, begin_anew), _floor() as by_hand:
        first = await _time(turn)
        ours, floor = [], []
        for _ in range(TURNS):
            await begin_anew()
            ours.append(await _time(turn))
            floor.append(await _time(by_hand))
    return first, _median(ours), _median(floor)


async def _measure_tokens(folder: Path, address: str) -> None:
    """What each token costs: a long answer less a short one."""
    took: dict[str, dict[int, list[float]]] = {"bub": {}, "by hand": {}}
    for tokens in (TOKENS, TOKENS + MORE_TOKENS):
        os.environ["BUB_API_BASE"] = f"{address}/{tokens}/0/v1"
        async with _runtime(folder / str(tokens), "sqlite", 0) as (turn, begin_anew), _floor() as by_hand:
            for name, run in (("bub", turn), ("by hand", by_hand)) * 30:
                await begin_anew()
                took[name].setdefault(tokens, []).append((await _time(run)).cpu)
    os.environ["BUB_API_BASE"] = f"{address}/{TOKENS}/0/v1"
    each = {
        name: (statistics.median(of[TOKENS + MORE_TOKENS]) - statistics.median(of[TOKENS])) / MORE_TOKENS * 1000
        for name, of in took.items()
    }
    print(f"CPU for each streamed token, whole turn: {each['bub']:.1f} microseconds, by hand {each['by hand']:.1f}")


async def _measure_skills(folder: Path) -> None:
    """A turn in a workspace with many skills, and one in a workspace without, in turn."""
    for number in range(SKILLS):
        file = folder / "with" / "workspace" / ".agents" / "skills" / f"skill-{number}" / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(SKILL.format(name=f"skill-{number}"), encoding="utf-8")
    async with (
        _runtime(folder / "without", "sqlite", 0) as (plain, begin_plain),
        _runtime(folder / "with", "sqlite", 0) as (skilled, begin_skilled),
    ):
        without, with_skills = [], []
        for _ in range(TURNS):
            await begin_plain()
            without.append(await _time(plain))
            await begin_skilled()
            with_skills.append(await _time(skilled))
    more = _median(with_skills).cpu - _median(without).cpu
    print(
        f"{SKILLS} skills in the workspace: {more:+.2f} milliseconds of CPU a turn, their list in the request included"
    )


@asynccontextmanager
async def _runtime(folder: Path, store: str, size: int) -> AsyncIterator[tuple[Turn, Turn]]:
    """A turn in a runtime just started, and what is to be done behind each, so that the conversation stays short."""
    workspace, home = folder / "workspace", folder / "home"
    workspace.mkdir(parents=True, exist_ok=True)
    os.environ["BUB_HOME"] = str(home)
    pipeline = folder / "pipelines.yaml"
    pipeline.write_text(
        f"version: 1\nextends: bub:default\nsettings: {{tapes: {{store: {store}}}}}\n", encoding="utf-8"
    )
    name = tape_name(workspace, SESSION)
    with open_tape_store(home, {"tapes": {"store": store}}) as tapes:
        _fill(tapes, name, size)
    framework = BubFramework(pipeline, workspace=workspace)

    async def turn() -> None:
        result = await framework.process_inbound(MESSAGE)
        assert (result.model_output or "").startswith(" word0"), result

    async def begin_anew() -> None:
        await Tape(name, framework.get_tape_store()).handoff("next")

    async with framework.running():
        yield turn, begin_anew


@asynccontextmanager
async def _floor() -> AsyncIterator[Turn]:
    """The same request and answer by hand: nothing is kept, nobody is asked, and no tool is told of."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    body = {"model": "any", "stream": True, "messages": [{"role": "user", "content": MESSAGE["content"]}]}
    url = f"{os.environ['BUB_API_BASE']}/chat/completions"
    async with httpx.AsyncClient(verify=False) as client:

        async def turn() -> None:
            said = []
            async with client.stream("POST", url, json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        choices = decode(line[6:])["choices"]
                        if choices:
                            said.append(choices[0]["delta"].get("content") or "")
            assert "".join(said).startswith(" word0")

        await turn()
        yield turn


def _measure_reference(folder: Path, size: int) -> None:
    if not Path(REFERENCE).exists():
        if size == SIZES[0]:
            print("reference  left out: it needs Python 3.12, see the Makefile")
        return
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    name = "__".join(hashlib.md5(text.encode()).hexdigest()[:16] for text in (str(workspace.resolve()), SESSION))
    _fill(JsonlTapeStore(folder / "home" / "tapes"), name, size)
    turns = "10" if size > 10_000 else "30"
    environment = {**os.environ, "BUB_HOME": str(folder / "home"), "HOME": str(folder), "PYTHONWARNINGS": "ignore"}
    command = [REFERENCE, "-I", "-c", REFERENCE_PROGRAM, str(workspace), name, json.dumps(MESSAGE), turns]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=workspace)
    if done.returncode:
        print(f"reference  failed: {done.stderr.strip().splitlines()[-1]}")
        return
    first, rest = (Took(*took) for took in json.loads(done.stdout.splitlines()[-1]))
    print(f"{'reference':<10}{size:>15,}{rest}{first}")


def _fill(store: SqliteTapeStore | JsonlTapeStore, name: str, size: int) -> None:
    """So many entries, and an anchor behind them."""
    said = {"role": "user", "content": "how is the weather in the mountains today"}
    for _ in range(0, size, 1_000):
        store.extend(name, [TapeEntry.message(said) for _ in range(1_000)])
    store.append(name, TapeEntry.anchor("last"))


async def _time(turn: Turn) -> Took:
    wall, cpu = perf_counter(), process_time()
    await turn()
    return Took((process_time() - cpu) * 1000, (perf_counter() - wall) * 1000)


def _median(took: list[Took]) -> Took:
    return Took(*(statistics.median(each) for each in zip(*took, strict=True)))


if __name__ == "__main__":
    measure()
