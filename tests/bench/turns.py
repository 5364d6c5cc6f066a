"""Framework time per turn with trivial hooks: without and with time-outs on every stage, and written by hand."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time
from typing import Any

import trio

from bub import BubFramework

ROUNDS, TURNS = 300, 20
MESSAGE = {"content": "hello", "channel": "bench", "chat_id": "1"}

SYNC = """
from bub import hookimpl

@hookimpl
def load_state(session_id):
    return {{"k{n}": {n}}}

@hookimpl
def save_state(session_id, state, model_output):
    return None
"""
ASYNC = SYNC.replace("def load", "async def load").replace("def save", "async def save")
MODEL = """
from bub import hookimpl

@hookimpl
{word} run_model(prompt, session_id, state):
    return "hi"
"""

STAGES = (
    "resolve_session",
    "load_state",
    "build_prompt",
    "run_model",
    "save_state",
    "render_outbound",
    "dispatch_outbound",
)

Turn = Callable[[], Awaitable[object]]


def measure() -> None:
    """Print microseconds per turn for 1, 8 and 64 plugins, plain and async.

    Ours without and with a time-out on each of the seven stages and what those cost, then by hand, and the ratio of
    ours without time-outs to it.
    """
    print(f"framework time per turn, trivial hooks: microseconds of CPU, best of {ROUNDS} rounds of {TURNS} turns")
    print(f"{'plugins':>8} {'hooks':>6} {'bub':>8} {'timed':>8} {'cost':>6} {'by hand':>8} {'ratio':>6}")
    for word in ("sync", "async"):
        for plugins in (1, 8, 64):
            ours, timed, floor = trio.run(_side_by_side, plugins, word)
            cost = f"{timed / ours - 1:+.0%}"
            print(f"{plugins:>8} {word:>6} {ours:8.1f} {timed:8.1f} {cost:>6} {floor:8.1f} {ours / floor:6.2f}")


async def _side_by_side(plugins: int, word: str) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        plain = make_framework(Path(one), plugins, word)
        bounded = make_framework(Path(other), plugins, word, timeouts=True)
        by_hand = _by_hand(plain, word)
        async with plain.running(), bounded.running():
            ours, timed, floor = [], [], []
            for _ in range(ROUNDS):
                ours.append(await _time(functools.partial(plain.process_inbound, MESSAGE)))
                timed.append(await _time(functools.partial(bounded.process_inbound, MESSAGE)))
                floor.append(await _time(by_hand))
    return min(ours), min(timed), min(floor)


async def _time(turn: Turn) -> float:
    began = process_time()
    for _ in range(TURNS):
        await turn()
    return (process_time() - began) / TURNS * 1e6


def make_framework(folder: Path, plugins: int, word: str, *, timeouts: bool = False) -> BubFramework:
    """A framework whose plugins do next to nothing; their files go to a folder."""
    source = SYNC if word == "sync" else ASYNC
    names = [f"p{n}" for n in range(plugins)]
    for n, name in enumerate(names):
        text = source.format(n=n)
        if n == 0:
            text += MODEL.format(word="def" if word == "sync" else "async def").replace(
                "from bub import hookimpl\n", ""
            )
        (folder / f"{name}.py").write_text(text)
    listed = ", ".join(names)
    paths = ", ".join(f"{name}: {{path: {name}.py}}" for name in names)
    stages = ", ".join(f"{name}: {{timeout: 60s}}" for name in STAGES) if timeouts else ""
    file = folder / "pipelines.yaml"
    file.write_text(f"""
version: 1
extends: bub:default
stages: {{{stages}}}
plugins: {{{paths}}}
profiles: {{default: {{plugins: [{listed}]}}}}
""")
    framework = BubFramework(file)
    framework.load_hooks()
    return framework


def _by_hand(framework: BubFramework, word: str) -> Turn:
    """The same functions called in the same order, with one checkpoint a turn."""
    calls = {step.id: [call.function for call in step.calls.items] for step in framework.graph.steps}
    load, save, [run_model, *_] = calls["load_state"], calls["save_state"], calls["run_model"]
    workspace = framework.workspace

    async def plain() -> object:
        await trio.lowlevel.checkpoint()
        message = dict(MESSAGE)
        session_id = f"{message['channel']}:{message['chat_id']}"
        state: dict[str, Any] = load[-1](workspace)
        for function in reversed(load[:-1]):
            state.update(function(session_id))
        output = run_model(message["content"], session_id, state)
        for function in save:
            function(session_id, state, output)
        return {"content": output, "session_id": session_id}

    async def waiting() -> object:
        await trio.lowlevel.checkpoint()
        message = dict(MESSAGE)
        session_id = f"{message['channel']}:{message['chat_id']}"
        state: dict[str, Any] = load[-1](workspace)
        for function in reversed(load[:-1]):
            state.update(await function(session_id))
        output = await run_model(message["content"], session_id, state)
        for function in save:
            await function(session_id, state, output)
        return {"content": output, "session_id": session_id}

    return plain if word == "sync" else waiting


if __name__ == "__main__":
    measure()
