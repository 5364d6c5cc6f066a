"""What is left of the agent's turns when the processes that take them are killed, and what a long tape costs one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from fakes.command_line import SOURCES
from fakes.scripted import OPENAI, Called, serving

from bub import BubFramework
from bub.tape import TapeEntry, TapeQuery
from bub.tape.jsonl import JsonlTapeStore
from bub.tape.opening import open_tape_store
from bub.tape.tape import tape_name

CRASHES = int(os.environ.get("CRASHES", "2"))
"""How often two processes are killed; `make crash` does it more often."""

CRASHES_FOR_EACH_SERVER = 20
"""A server keeps all it was asked, so it is exchanged from time to time."""

STORES = ("sqlite", "jsonl")

PIPELINE = """
version: 1
extends: bub:default
settings: {{model: "test:{model}", api_base: "{address}/v1", api_key: no-key-at-all, tapes: {{store: {store}}}}}
plugins: {{work: {{path: work.py}}}}
profiles: {{default: {{plugins: [work], tools: {{allow: [work.do]}}}}}}
"""

PLUGIN = """
import os
import random
from pathlib import Path

import trio
from bub import hookimpl, tool

DONE = Path(__file__).with_name("done.txt")

@tool(name="work.do")
async def do(what: str) -> str:
    \"\"\"Do something that leaves a trace.\"\"\"
    await trio.sleep(random.random() * 0.004)
    trace = os.open(DONE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(trace, f"{what}\\n".encode())
    os.close(trace)
    if what == "hang":
        await trio.sleep_forever()
    await trio.sleep(random.random() * 0.004)
    return f"did {what}"

@hookimpl
def provide_tools():
    return [do]
"""

WORKER = """
import json
import sys

import trio
from bub import BubFramework

file, said, name = sys.argv[1:]

async def work():
    framework = BubFramework(file)
    async with framework.running():
        print("ready", flush=True)
        for turn in range(10_000):
            await framework.process_inbound(json.loads(said.replace("TURN", f"{name}:{turn}")))
            print(turn, flush=True)

trio.run(work)
"""


def message(session: str, turn: str) -> dict[str, str]:
    """A message that makes the model call two tools at once, then one, then answer; `turn` names it everywhere."""

    def call(number: int) -> Called:
        return Called("work_do", json.dumps({"what": f"{turn}:{number}"}), f"{turn}:{number}")

    steps = [
        OPENAI.answer(f"First {turn}.", calls=[call(1), call(2)], at_once=100),
        OPENAI.answer(calls=[call(3)], at_once=100),
        OPENAI.answer(f"Done {turn}.", at_once=100),
    ]
    return {"content": json.dumps(steps), "channel": "cli", "chat_id": "1", "session_id": session}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.timeout(60 + 20 * CRASHES)  # `make crash` has 200
def test_P14_a_finished_turn_survives_kill_9_and_an_interrupted_call_is_never_run_again(
    store: str, tmp_path: Path
) -> None:
    """Two processes take turns of the agent in one session; both are killed, at moments nobody chose."""
    chance = random.Random(store)
    (tmp_path / "work.py").write_text(PLUGIN)
    finished: list[tuple[str, str]] = []
    for first in range(0, CRASHES, CRASHES_FOR_EACH_SERVER):
        with serving() as address:
            for attempt in range(first, min(CRASHES, first + CRASHES_FOR_EACH_SERVER)):
                session, model = f"s{attempt}", f"m{attempt}"
                file = tmp_path / "pipelines.yaml"
                file.write_text(PIPELINE.format(model=model, address=address, store=store))
                finished += [(session, turn) for turn in _killed(file, session, chance.random() * 0.4)]
                _next_turn_works(file, session, address, model)
                finished.append((session, f"{session}-c:0"))

    done = Counter((tmp_path / "done.txt").read_text().splitlines())
    assert set(done.values()) == {1}, "a call was run again"
    told = interrupted = 0
    with open_tape_store(tmp_path / "home", {"tapes": {"store": store}}) as tapes:
        for attempt in range(CRASHES):
            name = tape_name(tmp_path, f"s{attempt}")
            entries = tapes.fetch_all(TapeQuery(name))
            told += len(entries)
            ids = [entry.id for entry in entries]
            assert ids == list(range(1, len(ids) + 1)) if store == "sqlite" else ids == sorted(set(ids))
            for session, turn in finished:
                if session == f"s{attempt}":
                    assert _told_of(entries, turn) == _all_of(turn)
                    assert [done[f"{turn}:{number}"] for number in (1, 2, 3)] == [1, 1, 1]
            called = {call["id"] for entry in entries for call in entry.payload.get("calls", ())}
            answered = {result["id"] for entry in entries for result in entry.payload.get("results", ())}
            interrupted += len(called - answered)
            ran = {what for what in done if what.startswith(f"s{attempt}-")}
            assert ran <= called, "a tool ran whose call is not on the tape"
            if isinstance(tapes, JsonlTapeStore):
                assert tapes.bad_lines(name) <= 2, "each of two who are killed may tear a line"
    print(
        f"{store}: {CRASHES} crashes of two, {len(finished)} finished turns, {told} entries, "
        f"{len(done)} calls ran once, {interrupted} interrupted"
    )


def test_the_turn_after_a_bub_run_that_was_killed_reads_what_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(PLUGIN)
    file, done = tmp_path / "pipelines.yaml", tmp_path / "done.txt"
    call = Called("work_do", json.dumps({"what": "hang"}), "c1")
    command = [sys.executable, "-m", "bub", "--config", str(file), "run", "--session-id", "s"]
    env = {**os.environ, "PYTHONPATH": SOURCES}
    with serving() as address:
        file.write_text(PIPELINE.format(model="m", address=address, store="sqlite"))
        first = subprocess.Popen([*command, json.dumps([OPENAI.answer(calls=[call])])], cwd=tmp_path, env=env)
        until = time.monotonic() + 60
        while not done.exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        first.kill()
        first.wait()
        # Without a terminal nobody can say yes, and that is what the model reads.
        file.write_text(file.read_text().replace("tools: {", "tools: {ask: [work.do], "))
        again = json.dumps([OPENAI.answer(calls=[Called("work_do", '{"what": "more"}', "c2")]), OPENAI.answer("Over.")])
        said = subprocess.run([*command, again], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        bodies = [entry["body"] for entry in httpx.get(f"{address}/log", params={"model": "m"}).json()]
    results = [one["content"] for one in bodies[-1]["messages"] if one["role"] == "tool"]
    assert results[0].startswith("outcome unknown: the process ended during it")
    assert "`work.do` needs a person's yes, and nobody can be asked here" in results[1]
    assert "Over." in said.stdout
    assert done.read_text().split() == ["hang"]


def _killed(file: Path, session: str, seconds: float) -> list[str]:
    """The turns that two processes finished before they were killed, so many seconds after both had begun."""
    said = json.dumps(message(session, "TURN"))
    workers = {
        f"{session}-{letter}": subprocess.Popen(
            [sys.executable, "-c", WORKER, str(file), said, f"{session}-{letter}"],
            stdout=subprocess.PIPE,
            bufsize=0,  # else what was read ahead with the first line would not be counted
            cwd=file.parent,
            env={**os.environ, "PYTHONPATH": SOURCES},
        )
        for letter in "ab"
    }
    try:
        for worker in workers.values():
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
        time.sleep(seconds)
    finally:
        for worker in workers.values():
            worker.send_signal(signal.SIGKILL)
    finished = []
    for name, worker in workers.items():
        out, _ = worker.communicate(timeout=30)
        assert worker.returncode == -signal.SIGKILL, "it ended by itself"
        finished += [f"{name}:{turn.decode()}" for turn in out.split()]
    return finished


def _next_turn_works(file: Path, session: str, address: str, model: str) -> None:
    """A new process takes a turn, and sends a conversation that a provider accepts."""
    turn = f"{session}-c:0"
    framework = BubFramework(file, workspace=file.parent)

    async def take() -> str | None:
        async with framework.running():
            return (await framework.process_inbound(message(session, turn))).model_output

    assert trio.run(take) == f"First {turn}.\n\nDone {turn}."
    asked: list[dict[str, Any]] = httpx.get(f"{address}/log", params={"model": model}).json()
    sent = asked[-1]["body"]["messages"]
    waiting: list[str] = []
    for said in sent:
        if said["role"] == "tool":
            assert said["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting, "a call is left without a result"
        waiting = [call["id"] for call in said.get("tool_calls", ())]
    assert not waiting


def _told_of(entries: Sequence[TapeEntry], turn: str) -> list[tuple[str, list[str]]]:
    """What a tape tells of one turn: the kind of each entry, and the calls that it is about."""
    told = []
    for index, entry in enumerate(entries):
        about = [item["id"] for key in ("calls", "results") for item in entry.payload.get(key, ())]
        if entry.kind == "message" and f"{turn}:1" in entry.payload["content"]:
            told.append(("user", []))
        elif entry.kind == "message" and entry.payload["content"] == f"Done {turn}.":
            told.append(("assistant", []))
            # Written with it, so nobody else's entries stand between.
            behind = [later.payload["name"] for later in entries[index + 1 : index + 3]]
            told += [(name, []) for name in behind]
        elif about and about[0].startswith(f"{turn}:"):
            told.append((entry.kind, about))
    return told


def _all_of(turn: str) -> list[tuple[str, list[str]]]:
    first, second = [f"{turn}:1", f"{turn}:2"], [f"{turn}:3"]
    return [
        ("user", []),
        ("tool_call", first),
        ("tool_result", first),
        ("tool_call", second),
        ("tool_result", second),
        ("assistant", []),
        ("loop.step", []),
        ("run", []),
    ]


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts what Linux says was read")
@pytest.mark.parametrize("store", STORES)
def test_a_turn_reads_as_much_of_a_long_tape_as_of_a_short_one(store: str, tmp_path: Path) -> None:
    """Also when the system prompt, kept once, was written long ago; each turn is taken by a runtime just started."""
    (tmp_path / "work.py").write_text(PLUGIN)
    file = tmp_path / "pipelines.yaml"
    with serving() as address:
        file.write_text(PIPELINE.format(model="any", address=address, store=store))
        trio.run(_bytes_read_by_a_turn, file)
        _lengthen(tmp_path, store, 10)
        short = trio.run(_bytes_read_by_a_turn, file)
        _lengthen(tmp_path, store, 20_000)
        trio.run(_bytes_read_by_a_turn, file)
        long = trio.run(_bytes_read_by_a_turn, file)
    assert long < short + 500_000, "the tape has more than 3,000,000"


async def _bytes_read_by_a_turn(file: Path) -> int:
    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    framework = BubFramework(file, workspace=file.parent)
    async with framework.running():
        before = read()
        await framework.process_inbound({"content": "hello", "channel": "cli", "chat_id": "1", "session_id": "s"})
        return read() - before


def _lengthen(folder: Path, store: str, entries: int) -> None:
    said = {"role": "user", "content": "how is the weather in the mountains today"}
    with open_tape_store(folder / "home", {"tapes": {"store": store}}) as tapes:
        tape = tape_name(folder, "s")
        tapes.extend(tape, [TapeEntry.message(said) for _ in range(entries)])
        tapes.append(tape, TapeEntry.anchor("next"))
