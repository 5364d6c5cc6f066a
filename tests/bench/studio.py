"""A thousand turns that stream at once, with the studio off, on, looked at, and with a browser that stops reading.

What the studio takes is measured while a gateway with it works beside one without it, on the same core, so that other
work on the machine meets both. How long the thousand turns take is the model's pace, whatever the gateway does. So
short turns run beside them, whose model does not wait: now in the one gateway, now in the other. Of two processes that
do the same, one is faster for as long as it lives, by more than what is looked for. So by how much turns are slower is
also measured within one process: for some of the time its studio does nothing for a turn. A core does not carry 1,000
turns at 50 events a second each; how usable the page is then, and what it costs if a browser stops reading, is measured
too.
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
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import ceil
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.bench._answers import ROOT, answering
from tests.bench._line import Order
from tests.bench.scale import GATEWAY, Run

sys.path.insert(0, str(ROOT / "tests"))
from fakes.chromium import Page, chromium, find_chromium
from fakes.command_line import SOURCES
from fakes.studio_gateway import LINK, Visitor

CHATS = int(os.environ.get("CHATS", "1000"))
EVENTS, RATE = 100, 50
"""Of each turn, while views are opened and while a browser has stopped reading: more than a core carries. A short turn
has as many events at once."""
PACES = tuple(float(one) for one in os.environ.get("PACES", "0.05 0.25").split())
"""How many events each turn has in a second, while what the studio takes is measured: 50 of all turns together, then
250; a core carries both well."""
SECONDS, BEGIN = float(os.environ.get("SECONDS", "240")), 40.0
"""How long these turns are, and within what time all have begun."""
PROBES = 40
"""How many short turns follow each other in one gateway, before the other gateway has as many."""
CYCLES = 2
PHASE, SETTLE = 15.0, 3.0
"""How often in a round each way is watched, for how many seconds, and how long it has begun before that."""
ROUNDS = int(os.environ.get("ROUNDS", "10"))
GATEWAYS = max(os.sched_getaffinity(0))
"""The core that the gateways have for themselves."""
MINUTE = float(os.environ.get("SECONDS_STOPPED", "60"))
NOT_AT_WORK = "it does nothing"
VIEWS = ("Turns", "Approvals", "Health", "Plots", "Graph")

PLUGIN = """
import os
from pathlib import Path

from bub import hookimpl
from bub.secrets.redactor import Redactor
from bub.studio.recorder import Recorder
from tests.bench._line import Line

WITH = Recorder.turn_ended, Redactor.text
WITHOUT = (lambda recorder, turn: None), (lambda redactor, text: text)

class Streaming(Line):
    def on_event(self, event, message):
        pass

class Probes(Streaming):
    name = "probes"

    def begin(self, order):  # without: no turn is remembered, and the page's token is looked for in no text
        Recorder.turn_ended, Redactor.text = WITHOUT if order.without else WITH

@hookimpl
def provide_channels(message_handler):
    probes = Path(os.environ["BENCH_FOLDER"]) / "probes"
    return [Streaming(message_handler), Probes(message_handler, probes)]
"""

PIPELINE = """
version: 1
extends: bub:default
plugins: {{line: {{path: line.py}}}}
profiles:
  default: {{plugins: [line]}}
  short: {{extends: default, settings: {{model: "short:bench"}}}}
routes: [{{match: {{channel: probes}}, profile: short}}]
settings:
  model: "test:bench"
  providers:
    test: {{api: openai, api_base: "{model}", api_key: no-key}}
    short: {{api: openai, api_base: "{short}", api_key: no-key}}
  gateway: {{shutdown_grace: 5s{studio}}}
"""
STUDIO = ', studio: {listen: "127.0.0.1:0"}'


@contextmanager
def running(address: str, model: str, studio: str) -> Iterator[Run]:
    """Run a gateway whose channel obeys orders, with the studio or without."""
    with tempfile.TemporaryDirectory(prefix="studio-", ignore_cleanup_errors=True) as name:
        folder = Path(name) / "0"
        folder.mkdir()
        (Path(name) / "probes").mkdir()
        models = {"model": f"{address}/{model}/v1", "short": f"{address}/{EVENTS}/0/v1"}
        (folder / "pipelines.yaml").write_text(PIPELINE.format(studio=studio, **models), encoding="utf-8")
        (folder / "line.py").write_text(PLUGIN, encoding="utf-8")
        ours = {"BUB_HOME": str(folder / "home"), "BUB_TRUST_WORKSPACE": "1", "PYTHONPATH": SOURCES}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                GATEWAY, cwd=folder, env={**os.environ, **ours, "BENCH_FOLDER": name}, stdout=log, stderr=log
            )
        os.sched_setaffinity(process.pid, {GATEWAYS})
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


class Seen(NamedTuple):
    """What was seen of a gateway with the studio, and of the one without it beside it: in this order, if in pairs."""

    seconds: float
    spent: tuple[float, float]
    took: tuple[list[float], list[float]]

    @property
    def share(self) -> float:
        """How much more of a core the one with the studio used."""
        return (self.spent[0] - self.spent[1]) / self.seconds

    def slower(self, middle: Callable[[list[float]], float]) -> float:
        """By how much its turns were slower, by their mean or their median."""
        return middle(self.took[0]) / middle(self.took[1]) - 1

    def join(self, other: Seen) -> Seen:
        """Return what was seen at both times."""
        spent = self.spent[0] + other.spent[0], self.spent[1] + other.spent[1]
        return Seen(self.seconds + other.seconds, spent, (self.took[0] + other.took[0], self.took[1] + other.took[1]))


class Pair:
    """A gateway with the studio and one without, on one core, each with all long turns under way."""

    def __init__(self, on: Run, off: Run) -> None:
        self._gateways = on, off
        self._probes = [Run(run.folder / "probes", run.processes) for run in self._gateways]
        self._began = time.monotonic()
        for run in self._gateways:
            run.give(Order(CHATS, 1, rate=CHATS / BEGIN))
        time.sleep(BEGIN + SETTLE)  # so long the turns take to begin, in processes that say nothing of it

    def watch(self, *, without: bool) -> Seen:
        """Let short turns run in the two in turn, never at once, and note what both gateways spend meanwhile.

        If it is `without`, the studio does nothing for a turn.
        """
        time.sleep(SETTLE)  # what a browser asks for when it comes is not what it costs while it looks
        began, before = time.monotonic(), [run.processor for run in self._gateways]
        took: tuple[list[float], list[float]] = [], []
        while time.monotonic() < began + PHASE:
            for number in (0, 1, 1, 0):
                probe = self._probes[number]
                order = Order(PROBES, 1, first_chat=probe.orders * PROBES, at_once=1, without=without)
                took[number].extend(probe.order(order).took)
        spent, of_other = (run.processor - its for run, its in zip(self._gateways, before, strict=True))
        assert time.monotonic() < self._began + SECONDS, "the first of the long turns are over: let them take longer"
        return Seen(time.monotonic() - began, (spent, of_other), took)


def measure_ways(address: str, model: str) -> None:
    """Print what the studio takes of the gateway's core, and by how much turns are slower: means, and their errors.

    Each round has new gateways: of two processes that do the same, one is faster for as long as it lives. Within a
    round the ways follow each other several times, so that what they differ by is seen of the same processes: the last
    column is by how much turns are slower than while the studio of the same process does nothing for them.
    """
    rounds = [watch_round(address, model) for _ in range(ROUNDS)]
    heads = ("turns", "a turn", "core without", "more with it", "slower (means)", "slower (medians)", "than without")
    print(f"{'':<20}" + "".join(f"{head:>18}" for head in heads))
    for name in rounds[0]:
        seen = [ways[name] for ways in rounds]
        took = [seconds for one in seen for seconds in one.took[1]]
        none = [ways[NOT_AT_WORK].slower(statistics.median) for ways in rounds]
        medians = [one.slower(statistics.median) for one in seen]
        cells = [
            f"{len(took):,}",
            f"{statistics.median(took) * 1e3:.2f} ms",
            f"{statistics.mean(one.spent[1] / one.seconds for one in seen):.1%}",
            mean_of([one.share for one in seen]),
            mean_of([one.slower(statistics.mean) for one in seen]),
            mean_of(medians),
            mean_of([its - before for its, before in zip(medians, none, strict=True)]),
        ]
        print(f"{name:<20}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


def watch_round(address: str, model: str) -> dict[str, Seen]:
    """Return what is seen of two new gateways, by who looks."""
    found: dict[str, Seen] = {}
    with running(address, model, STUDIO) as on, running(address, model, "") as off:
        pair, link = Pair(on, off), link_of(on)
        ways: dict[str, Callable[[], AbstractContextManager[object]]] = {NOT_AT_WORK: nullcontext}
        ways["nobody looks"] = nullcontext
        ways["one reads the feed"] = lambda: reading(*link)
        if find_chromium() is not None:
            ways["a browser looks"] = lambda: looking(*link)
        for cycle in range(CYCLES):
            for name, look in list(ways.items())[:: -1 if cycle % 2 else 1]:
                with look():
                    seen = pair.watch(without=name == NOT_AT_WORK)
                found[name] = found[name].join(seen) if name in found else seen
        for run in (on, off):
            log = (run.folder / "0" / "log").read_text(encoding="utf-8")
            assert "turn.failed" not in log, f"turns have failed\n{log[-2000:]}"
    return found


def mean_of(shares: Sequence[float]) -> str:
    """Return the mean of the rounds, and its standard error."""
    error = statistics.stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else float("nan")
    return f"{statistics.mean(shares):.2%} ±{error:.2%}"


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
    print(f"{ROUNDS} rounds, a gateway with the studio beside one without, on one core; load {load:.1f}")
    parts = os.environ.get("PARTS", "ways use stopped").split()
    os.sched_setaffinity(0, os.sched_getaffinity(0) - {GATEWAYS} or {GATEWAYS})
    with answering() as address:
        for pace in PACES if "ways" in parts else ():
            print(f"{pace:g} a second in each turn, {pace * CHATS:,.0f} in all:")
            measure_ways(address, f"{ceil(pace * SECONDS)}/{pace}")
        if set(parts) == {"ways"}:
            return
        with running(address, f"{EVENTS}/{RATE}", STUDIO) as on:
            measure_rest(on, link_of(on), parts)


def measure_rest(on: Run, link: tuple[str, str], parts: Sequence[str]) -> None:
    """Print how usable the page is while all turns run, and what a browser costs that has stopped reading."""
    if "use" in parts and find_chromium() is not None:
        measure_use(on, link)
    if "stopped" in parts:
        measure_stopped(on, link)


if __name__ == "__main__":
    measure()
