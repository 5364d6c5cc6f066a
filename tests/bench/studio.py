"""A thousand turns that stream at once, with the studio off, on, looked at, and with a browser that stops reading.

A core does not carry 1,000 turns at 50 events a second each: the gateway is busy all the time, and how many events it
reads at once differs from round to round, and with that its work. So less busy gateways are measured too. A gateway
with the studio works beside one without it, on the same core and at the same time, so that other work on the machine
meets both. Turns begin one after another: if all begin at once, which gateway's turns come first is chance.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench._answers import ROOT, answering
from tests.bench._line import Order
from tests.bench.scale import GATEWAY, Run

sys.path.insert(0, str(ROOT / "tests"))
from fakes.chromium import Page, chromium, find_chromium
from fakes.studio_gateway import LINK, Visitor

CHATS = int(os.environ.get("CHATS", "1000"))
EVENTS, RATE = 100, 50
"""Of each turn, while views are opened and while a browser has stopped reading: more than a core carries."""
PACES = tuple(float(one) for one in os.environ.get("PACES", "0.05 0.25 50").split())
"""How many events each turn has in a second, while what the studio takes is measured: 50 of all turns together, then
250, which a core carries well, and then more than it does."""
SECONDS = float(os.environ.get("SECONDS", "40"))
BEGIN = float(os.environ.get("BEGIN", "40"))
"""Over how many seconds the turns begin, while what the studio takes is measured."""
ROUNDS = int(os.environ.get("ROUNDS", "5"))
MINUTE = float(os.environ.get("SECONDS_STOPPED", "60"))
VIEWS = ("Turns", "Approvals", "Health", "Plots", "Graph")

PLUGIN = """
from bub import hookimpl
from tests.bench._line import Line

class Streaming(Line):
    def on_event(self, event, message):
        pass

@hookimpl
def provide_channels(message_handler):
    return [Streaming(message_handler)]
"""

PIPELINE = """
version: 1
extends: bub:default
plugins: {{line: {{path: line.py}}}}
profiles: {{default: {{plugins: [line]}}}}
settings:
  model: "test:bench"
  providers: {{test: {{api: openai, api_base: "{model}", api_key: no-key}}}}
  gateway: {{shutdown_grace: 5s{studio}}}
"""
STUDIO = ', studio: {listen: "127.0.0.1:0"}'


@contextmanager
def running(model: str, studio: str) -> Iterator[Run]:
    """Run a gateway whose channel obeys orders, with the studio or without."""
    with tempfile.TemporaryDirectory(prefix="studio-", ignore_cleanup_errors=True) as name:
        folder = Path(name) / "0"
        folder.mkdir()
        (folder / "pipelines.yaml").write_text(PIPELINE.format(model=model, studio=studio), encoding="utf-8")
        (folder / "line.py").write_text(PLUGIN, encoding="utf-8")
        ours = {"BUB_HOME": str(folder / "home"), "BUB_TRUST_WORKSPACE": "1", "PYTHONPATH": str(ROOT)}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                GATEWAY, cwd=folder, env={**os.environ, **ours, "BENCH_FOLDER": name}, stdout=log, stderr=log
            )
        try:
            yield Run(Path(name), [process])
        finally:
            process.kill()
            process.wait()


def link_of(run: Run) -> tuple[str, str]:
    """Return the address of the page, and the token."""
    pages = run.folder / "0" / "home" / "pages"
    run.wait_until(lambda: any(LINK.search(file.read_text(encoding="utf-8")) for file in pages.glob("*")))
    [file] = pages.iterdir()
    found = LINK.search(file.read_text(encoding="utf-8"))
    assert found is not None
    return found[1], found[2]


@contextmanager
def reading(address: str, token: str, *, stops: bool = False) -> Iterator[list[int]]:
    """Read the feed for as long as the block, or stop reading when it has begun; how much has come."""
    with Visitor(address) as visitor:
        mark = visitor.post("enter", {"token": token}).headers["X-Bub"]
        cookie = "; ".join(f"{name}={value}" for name, value in dict(visitor.cookies).items())
    split = urlsplit(address)
    with socket.socket() as line:
        if stops:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect((split.hostname, split.port))
        line.sendall(f"GET /api/feed?mark={mark} HTTP/1.1\r\nHost: {split.netloc}\r\nCookie: {cookie}\r\n\r\n".encode())
        came = [len(line.recv(1000))]

        def read() -> None:
            with suppress(ConnectionError):
                while data := line.recv(1 << 16):
                    came[0] += len(data)

        thread = threading.Thread(target=read, daemon=True)
        if not stops:
            thread.start()
        try:
            yield came
        finally:
            line.shutdown(socket.SHUT_RDWR)
            if not stops:
                thread.join()


@contextmanager
def looking(address: str, token: str) -> Iterator[Page]:
    """Let a browser look at the graph for as long as the block."""
    with chromium() as browser:
        page = browser.open()
        page.go(f"{address}/#{token}")
        page.see("svg .stage")
        yield page


@dataclass
class Figures:
    """What came of the rounds of one way: of the gateway with the studio, and of the one without it beside it."""

    seconds: list[float] = field(default_factory=list)
    took: list[tuple[float, float]] = field(default_factory=list)
    spent: list[tuple[float, float]] = field(default_factory=list)


def work_beside(on: Run, off: Run, figures: Figures) -> None:
    """Let both gateways do the same work at the same time, and note what each has spent on it."""
    before = on.processor, off.processor
    with ThreadPoolExecutor() as threads:
        with_it, without = threads.map(lambda run: run.order(Order(CHATS, 1, rate=CHATS / BEGIN)), (on, off))
    figures.seconds.append(with_it.seconds)
    figures.took.append((statistics.median(with_it.took), statistics.median(without.took)))
    figures.spent.append((on.processor - before[0], off.processor - before[1]))


def measure_ways(off: Run, on: Run, link: tuple[str, str]) -> None:
    """Print what the studio takes of the gateway's core, and by how much turns are slower.

    Both gateways have the same core, so that whatever else slows this machine down, they are slowed down alike.
    """
    ways: dict[str, Callable[[], Any]] = {"nobody looks": nullcontext, "one reads the feed": lambda: reading(*link)}
    if find_chromium() is not None:
        ways["a browser looks"] = lambda: looking(*link)
    for run in (off, on):
        for process in run.processes:
            os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        run.order(Order(CHATS, 1, at_once=CHATS))
    heads = f"{'a turn':>10}{'processor':>12}{'share of a core':>18}{'more CPU':>11}{'(the rounds)':>22}{'slower':>9}"
    print(f"{'':<20}{heads}")
    for name, look in ways.items():
        figures = Figures()
        with look():
            for _ in range(ROUNDS):
                work_beside(on, off, figures)
        more = [with_it / without - 1 for with_it, without in figures.spent]
        gaps = [with_it - its for with_it, its in figures.spent]
        share = statistics.median(gap / seconds for gap, seconds in zip(gaps, figures.seconds, strict=True))
        slower = statistics.median(with_it / without - 1 for with_it, without in figures.took)
        took, spent = (statistics.median(one for one, _ in pairs) for pairs in (figures.took, figures.spent))
        rounds = f"({min(more):.1%} to {max(more):.1%})"
        line = f"{share:>17.1%}{statistics.median(more):>11.1%}{rounds:>22}{slower:>9.1%}"
        print(f"{name:<20}{took:>8.1f} s{spent:>10.2f} s{line}", flush=True)


def measure_use(on: Run, link: tuple[str, str]) -> None:
    """Print how long it takes, while all turns run, from a click until a view is there."""
    with looking(*link) as page, working(on):
        times = []
        for name in VIEWS * 4:
            began = time.perf_counter()
            page.turn_to(name)
            times.append(time.perf_counter() - began)
            time.sleep(0.2)
        usual, most = statistics.median(times) * 1e3, max(times) * 1e3
        print(f"from a click until a view is there, while all turns run: {usual:.0f} ms (median of {len(times)}),")
        print(f"{most:.0f} ms at most; what the page complained of: {page.problems or 'nothing'}")


@contextmanager
def working(run: Run) -> Iterator[None]:
    """Let all turns run again and again for as long as the block."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            run.order(Order(CHATS, 1, at_once=CHATS))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        time.sleep(2)
        yield
    finally:
        over.set()
        thread.join()


def measure_stopped(on: Run, link: tuple[str, str]) -> None:
    """Print what the gateway holds while a browser has stopped reading, for a minute at work."""
    sizes: dict[str, tuple[float, float]] = {}
    for name, look in (("nobody looks", nullcontext), ("one has stopped reading", lambda: reading(*link, stops=True))):
        with look(), working(on):
            time.sleep(5)
            held = [on.memory]
            end = time.monotonic() + MINUTE
            while time.monotonic() < end:
                time.sleep(0.5)
                held.append(on.memory)
            sizes[name] = (held[0], max(held))
    for name, (first, most) in sizes.items():
        print(f"{name:<26}{first:>8.0f} MB at first, {most:.0f} MB at most in {MINUTE:.0f} s")


def measure() -> None:
    """Print all of it."""
    print(f"{CHATS:,} turns at once; {os.cpu_count()} cores for all;")
    load = os.getloadavg()[0]
    print(f"medians of {ROUNDS} rounds, a gateway with the studio beside one without, on one core; load {load:.1f}")
    parts = os.environ.get("PARTS", "ways use stopped").split()
    with answering() as address:
        for pace in PACES if "ways" in parts else ():
            events = min(EVENTS, round(pace * SECONDS))
            print(f"{pace:g} a second in each turn, {pace * CHATS:,.0f} in all:")
            with ExitStack() as stack:
                model = f"{address}/{events}/{pace}/v1"
                off, on = (stack.enter_context(running(model, said)) for said in ("", STUDIO))
                measure_ways(off, on, link_of(on))
        if set(parts) == {"ways"}:
            return
        with running(f"{address}/{EVENTS}/{RATE}/v1", STUDIO) as on:
            measure_rest(on, link_of(on), parts)


def measure_rest(on: Run, link: tuple[str, str], parts: Sequence[str]) -> None:
    """Print how usable the page is while all turns run, and what a browser costs that has stopped reading."""
    if "use" in parts and find_chromium() is not None:
        measure_use(on, link)
    if "stopped" in parts:
        measure_stopped(on, link)


if __name__ == "__main__":
    measure()
