"""How costs grow with what is merely there: 1, 10, 100 and 1,000 of a thing, and the exponent that this comes to.

`python -m tests.bench.growth profiles routes` measures these alone.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import process_time, thread_time
from types import MappingProxyType

import trio

from bub import BubFramework
from bub.agent.skills import Root, Skills
from bub.gateway.garbage import look_through, looking_later
from bub.pipeline.check.validate import check_files
from bub.pipeline.source.discovery import PipelineFile
from bub.tape import TapeQuery
from bub.tape.sqlite import SqliteTapeStore
from tests.bench.crowds import answer_all
from tests.bench.skills import write_skills
from tests.bench.tapes import NAME as TAPE
from tests.bench.tapes import fill_tape, take_turns
from tests.bench.validate import file_number

SIZES = (1, 10, 100, 1_000)
TOO_LONG = 60
"""Seconds that no measurement is expected to take; one that would is left out."""

PLUGIN = """
from bub import hookimpl

@hookimpl
def load_state(session_id):
    return {{"k{n}": {n}}}

@hookimpl
def save_state(session_id, state, model_output):
    return None
"""

Measurement = Callable[[Path, int], float]
"""Does something with so many of a thing, in an empty folder; returns the seconds of CPU that it took."""


def exponent(took: dict[int, float]) -> float:
    """The power of the size that costs grow with, by least squares of logarithms.

    What the smallest size takes is the fixed cost, and only what is above that counts.
    """
    smallest = min(took)
    points = [
        (math.log(size - smallest), math.log(max(seconds - took[smallest], 1e-9)))
        for size, seconds in took.items()
        if size > smallest
    ]
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def measure(names: list[str]) -> None:
    """Print a row for each of the named subjects, or for all."""
    print(f"milliseconds of CPU; load {os.getloadavg()[0]:.1f}")
    print(f"{'':<26}" + "".join(f"{size:>11,}" for size in SIZES) + f"{'exponent':>10}")
    for name in names or SUBJECTS:
        took: dict[int, float] = {}
        print(f"{name:<26}", end="", flush=True)
        for size in SIZES:
            if took and _expected(took, size) > TOO_LONG:
                print(f"{'-':>11}", end="")
                continue
            took[size] = _best(SUBJECTS[name], size)
            print(f"{took[size] * 1e3:11.2f}", end="", flush=True)
        print(f"{exponent(took):10.2f}")


def _expected(took: dict[int, float], size: int) -> float:
    largest = max(took)
    power = max(exponent(took), 1) if len(took) > 2 else 1
    return took[largest] * (size / largest) ** power


def _best(measurement: Measurement, size: int) -> float:
    """The least that some runs take, more of them where one is short."""
    took: list[float] = []
    while not took or (len(took) < 7 and sum(took) < 2):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["BUB_HOME"] = folder
            took.append(measurement(Path(folder), size))
    return min(took)


def _spent(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


# Files of so many things.


def with_plugins(folder: Path, size: int) -> Path:
    """A pipeline with so many plugins."""
    names = [f"p{n}" for n in range(size)]
    for n, name in enumerate(names):
        (folder / f"{name}.py").write_text(PLUGIN.format(n=n))
    declared = "".join(f"  {name}: {{path: {name}.py}}\n" for name in names)
    return _write(folder, f"plugins:\n{declared}profiles:\n  default:\n    plugins: [{', '.join(names)}]\n")


def with_profiles(folder: Path, size: int) -> Path:
    """A pipeline with so many profiles, each with settings of its own and a route that leads to it."""
    profiles = "".join(
        f"  p{n}:\n    plugins: []\n    settings: {{model: 'openai:m{n}'}}\n    budget: {{steps: {n + 1}}}\n"
        for n in range(size)
    )
    routes = "".join(f"  - match: {{channel: telegram, chat_id: '{n}'}}\n    profile: p{n}\n" for n in range(size))
    return _write(folder, f"profiles:\n{profiles}routes:\n{routes}")


def with_routes(folder: Path, size: int) -> Path:
    """A pipeline with so many routes to a few profiles, each tenth with a glob."""
    routes = "".join(
        f"  - match: {{channel: telegram, chat_id: '{n}{'-*' if n % 10 == 9 else ''}'}}\n    profile: p{n % 3}\n"
        for n in range(size)
    )
    profiles = "".join(f"  p{n}: {{plugins: []}}\n" for n in range(3))
    return _write(folder, f"profiles:\n{profiles}routes:\n{routes}")


def with_stages(folder: Path, size: int) -> Path:
    """A pipeline with so many stages of its own, or as many as there may be, each of which takes what one made."""
    stages = ""
    for n in range(min(size, 990)):
        beside, before = (f"after: s{n - 1}", f"v{n - 1}") if n else ("before: run_model", "prompt")
        made = f"into: v{n}, default: {{before: '{{{before}}}'}}"
        stages += f"  s{n}: {{kind: broadcast, combine: merge, hook: load_state, {beside}, {made}}}\n"
    return _write(folder, f"stages:\n{stages}")


def _write(folder: Path, text: str) -> Path:
    file = folder / "pipelines.yaml"
    file.write_text(f"version: 1\nextends: bub:default\n{text}")
    return file


# Measurements.


def loading(written: Callable[[Path, int], Path]) -> Measurement:
    """What it takes to load a file."""

    def measurement(folder: Path, size: int) -> float:
        framework = BubFramework(written(folder, size), workspace=folder)
        return _spent(framework.load_hooks)

    return measurement


def _validate_one(written: Callable[[Path, int], Path]) -> Measurement:
    def measurement(folder: Path, size: int) -> float:
        file = written(folder, size)
        return _spent(lambda: check_files([PipelineFile(str(file), file)], environ=os.environ))

    return measurement


def _validate_files(folder: Path, size: int) -> float:
    files = []
    for n in range(size):
        file = folder / f"{n:04}.yaml"
        file.write_text(file_number(n))
        files.append(PipelineFile(str(file), file))
    return _spent(lambda: check_files(files, environ=os.environ))


def _match(folder: Path, size: int) -> float:
    """A thousand messages, for which route after route is asked."""
    framework = BubFramework(with_routes(folder, size), workspace=folder)
    framework.load_hooks()
    snapshot = framework._snapshot()
    messages = [{"channel": "telegram", "chat_id": str(n * 7 % (size + 1)), "content": "hello"} for n in range(1_000)]
    return _spent(lambda: [snapshot.profile_for(message) for message in messages])


def _answer_chats(folder: Path, size: int) -> float:
    """So many chats that write at once, through the channels."""
    _, each, _ = trio.run(answer_all, folder, size)
    return each * size


# What lies on a session's tape, and its skills.


def _with_entries(work: Callable[[SqliteTapeStore], object]) -> Measurement:
    """What `work` takes with a hundred times so many entries on the tape before its last anchor."""

    def measurement(folder: Path, size: int) -> float:
        with closing(SqliteTapeStore(folder / "tapes.db")) as store:
            fill_tape(store, 100 * size)
            began = thread_time()  # what the thread of the index does is told apart
            work(store)
            return thread_time() - began

    return measurement


def _search(text: str) -> Callable[[SqliteTapeStore], object]:
    """A text that nobody said is looked for before anything is indexed."""
    return lambda store: store.fetch_all(TapeQuery(TAPE, text, most=20, backwards=True))


def _look_at_skills(folder: Path, size: int) -> float:
    root = folder / "skills"
    write_skills(root, size)
    skills = Skills([Root(root, root)])
    skills.fragment()
    return _spent(lambda: [skills.fragment() for _ in range(100)])


SUBJECTS: MappingProxyType[str, Measurement] = MappingProxyType(
    {
        "load plugins": loading(with_plugins),
        "load profiles with routes": loading(with_profiles),
        "load routes": loading(with_routes),
        "load stages": loading(with_stages),
        "validate profiles": _validate_one(with_profiles),
        "validate routes": _validate_one(with_routes),
        "validate stages": _validate_one(with_stages),
        "validate files": _validate_files,
        "1,000 messages by routes": _match,
        "chats at once": _answer_chats,
        "200 turns, 100 x entries": _with_entries(lambda store: trio.run(take_turns, store)),
        "1st search, 100 x entries": _with_entries(_search("a text that nobody ever said")),
        "2 letters, 100 x entries": _with_entries(_search("zq")),
        "100 looks at skills": _look_at_skills,
    }
)


# A reload beside turns.


def longest_stop(folder: Path, size: int) -> tuple[float, float]:
    """Load a file of so many profiles anew beside a task that always has a step to take.

    Returns the seconds that the reload takes, and the longest that the task had to wait for its next step.
    """
    framework = BubFramework(with_profiles(folder, size), workspace=folder)
    framework.load_hooks()
    look_through()
    return trio.run(_reload_beside, framework)


async def _reload_beside(framework: BubFramework) -> tuple[float, float]:
    longest = 0.0
    async with trio.open_nursery() as nursery:

        async def step() -> None:
            nonlocal longest
            while True:
                before = trio.current_time()
                await trio.sleep(0.001)
                longest = max(longest, trio.current_time() - before)

        nursery.start_soon(step)
        began = trio.current_time()
        with looking_later():  # as the gateway does
            await trio.to_thread.run_sync(framework.reload)
        took = trio.current_time() - began
        nursery.cancel_scope.cancel()
    return took, longest


def _stops() -> Iterator[str]:
    for size in (1, 10, 100, 200):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["BUB_HOME"] = folder
            took, longest = longest_stop(Path(folder), size)
        yield f"reload of {size} profiles beside turns: {took * 1e3:.0f} ms, stops them for {longest * 1e3:.1f} at most"


if __name__ == "__main__":
    measure(sys.argv[1:])
    if not sys.argv[1:]:
        for said in _stops():
            print(said, flush=True)
