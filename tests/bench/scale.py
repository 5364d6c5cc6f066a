"""One Redis and several gateways beside one gateway with files, and beside the same work on plain coredis by hand."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.bench._answers import ROOT, answering
from tests.bench._line import PLUGIN, Order, Result, write_whole

sys.path.insert(0, str(ROOT / "tests"))  # the fakes and the plans are found as the tests find them
from cluster.plans import run_takeover
from cluster.stage import Size
from fakes.command_line import SOURCES
from fakes.redis_server import RedisServer, serving_redis

COUNTS = (1, 2, 4, 8)
CHATS, MESSAGES = 100, 5
ROUNDS = 3
WARM = 2
SECONDS = 4.0
"""How long a round at half load takes."""

IDLE = int(os.environ.get("IDLE", "10000"))
FAILOVER = Size(gateways=4, sessions=20, messages=10, rate=10.0, seed="bench")
PATIENCE = 300.0

PIPELINE = """
version: 1
extends: bub:default
plugins: {{line: {{path: line.py}}}}
profiles: {{default: {{plugins: [line]}}}}
settings:
  model: "test:bench"
  providers: {{test: {{api: openai, api_base: "{model}", api_key: no-key}}}}
"""


@dataclass
class Run:
    """Processes that obey orders together, in `folder`."""

    folder: Path
    processes: list[subprocess.Popen[bytes]]
    orders: int = 0

    def order(self, order: Order) -> Result:
        """Let them do something, and wait until it is done."""
        done = self.give(order)
        self.wait_until(done.exists)
        return msgspec.json.decode(done.read_bytes(), type=Result)

    def give(self, order: Order) -> Path:
        """Let them do something; return the file that is there when it is done."""
        self.orders += 1
        write_whole(self.folder / f"order-{self.orders}.json", order)
        return self.folder / f"result-{self.orders}.json"

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            time.sleep(0.02)
            ended = next((one for one in self.processes if one.poll() is not None), None)
            assert ended is None, f"a process has ended\n{self.log}"
            assert time.monotonic() < deadline, f"it takes too long\n{self.log}"

    @property
    def log(self) -> str:
        logs = sorted(self.folder.glob("*/log"))
        return "\n".join(log.read_text(encoding="utf-8", errors="replace")[-2000:] for log in logs)

    @property
    def memory(self) -> float:
        """The MB that all processes hold now."""
        pages = sum(int(Path(f"/proc/{one.pid}/statm").read_text().split()[1]) for one in self.processes)
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def processor(self) -> float:
        """The seconds of processor time that they have had."""
        return sum(_processor_of(one) for one in self.processes)


def _processor_of(process: subprocess.Popen[bytes] | None) -> float:
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _running(model: str, commands: Sequence[Sequence[str]], **environment: str) -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="scale-", ignore_cleanup_errors=True) as name:
        run = Run(Path(name), [])
        try:
            for number, command in enumerate(commands):
                folder = run.folder / str(number)
                folder.mkdir()
                (folder / "pipelines.yaml").write_text(PIPELINE.format(model=model), encoding="utf-8")
                (folder / "line.py").write_text(PLUGIN, encoding="utf-8")
                ours = {"BUB_HOME": str(folder / "home"), "BUB_TRUST_WORKSPACE": "1", "PYTHONPATH": SOURCES}
                variables = {**os.environ, **ours, "BENCH_FOLDER": name, **environment}
                with (folder / "log").open("wb") as log:
                    run.processes.append(subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log))
            yield run
        finally:
            for process in run.processes:
                process.kill()
                process.wait()


GATEWAY = (sys.executable, "-m", "bub", "gateway")


def with_files(model: str) -> AbstractContextManager[Run]:
    """One gateway that keeps files."""
    return _running(model, [GATEWAY])


@contextmanager
def on_redis(model: str, redis: RedisServer, count: int) -> Iterator[Run]:
    """So many gateways on a Redis, each with its share of the partitions."""
    redis.ask("FLUSHALL")
    with _running(model, [GATEWAY] * count, BUB_GATEWAY_STORE=redis.address, BUB_AGENT="bench") as run:
        run.wait_until(lambda: _is_shared_out(redis, count))
        yield run


def _is_shared_out(redis: RedisServer, count: int) -> bool:
    flat = redis.ask("HGETALL", "bub:{bench}:holders")
    holders: Mapping[bytes, bytes] = dict(zip(flat[::2], flat[1::2], strict=True))
    shares = Counter(holder for name, holder in holders.items() if name.startswith(b"partition:"))
    return len(shares) == count and shares.total() == 32 and len(set(shares.values())) == 1


def by_hand(model: str, redis: RedisServer, count: int) -> AbstractContextManager[Run]:
    """So many processes on plain coredis."""
    redis.ask("FLUSHALL")
    command = [sys.executable, "-m", "tests.bench._by_hand"]
    return _running(model, [[*command, str(number), str(count), redis.address, model] for number in range(count)])


@dataclass
class Figures:
    """What came of rounds of one way of doing the work."""

    turns: int = 0
    seconds: float = 0.0
    spent: float = 0.0
    by_redis: float = 0.0
    late: list[float] = field(default_factory=list)

    def add(self, result: Result, spent: float, by_redis: float) -> None:
        self.turns += len(result.took)
        self.seconds += result.seconds
        self.spent += spent
        self.by_redis += by_redis

    @property
    def speed(self) -> float:
        """How many turns there were in a second."""
        return self.turns / self.seconds

    @property
    def median(self) -> float:
        """How many seconds a reply took at half load."""
        return statistics.median(self.late)

    def show(self, name: str, count: int) -> None:
        """Print a line of the table."""
        most = sorted(self.late)[int(len(self.late) * 0.99)]
        print(f"{name:<20}{count:>9}{self.speed:>16.0f}{self.spent / self.turns * 1e3:>13.1f} ms", end="")
        print(f"{self.by_redis / self.turns * 1e3:>9.2f} ms{self.median * 1e3:>10.1f} ms", end="")
        print(f"{most * 1e3:>8.0f} ms", flush=True)


def _find_half_load(run: Run, speed: float) -> float:
    """Return with how many messages a second a gateway is busy half of the time.

    That is less than half of its speed: with much to do, it does more at each look at its connections.
    """
    before = run.processor
    result = run.order(Order(CHATS, 2, rate=speed / 4))
    return len(result.took) / (run.processor - before) / 2


@dataclass
class Bench:
    """All ways of doing the work, with one Redis and one model."""

    redis: RedisServer
    model: str
    rate: float = 0.0
    """With how many messages a second one gateway on Redis is busy half of the time."""

    def measure(self, *ways: tuple[str, int, AbstractContextManager[Run]]) -> list[Figures]:
        """Print what ways of doing the work come to, side by side, round by round."""
        with ExitStack() as stack:
            runs = [stack.enter_context(making) for _, _, making in ways]
            all_figures = [Figures() for _ in ways]
            for run in runs:
                run.order(Order(CHATS, WARM))
            for _ in range(ROUNDS):
                for run, figures in zip(runs, all_figures, strict=True):
                    before, of_redis = run.processor, _processor_of(self.redis.process)
                    result = run.order(Order(CHATS, MESSAGES))
                    figures.add(result, run.processor - before, _processor_of(self.redis.process) - of_redis)
            self.rate = self.rate or _find_half_load(runs[0], all_figures[0].speed)
            for _ in range(ROUNDS):
                for run, figures in zip(runs, all_figures, strict=True):
                    messages = round(self.rate * SECONDS / CHATS) or 1
                    figures.late += run.order(Order(CHATS, messages, rate=self.rate)).took
        for (name, count, _), figures in zip(ways, all_figures, strict=True):
            figures.show(name, count)
        return all_figures

    def measure_idle(self, name: str, making: AbstractContextManager[Run]) -> None:
        """Print what sessions need that had a turn each, and that nobody writes to."""
        with making as run:
            run.order(Order(CHATS, WARM))
            self._forget_writes()
            before, of_redis = run.memory, self.memory
            run.order(Order(IDLE, 1, first_chat=CHATS, at_once=CHATS))
            self._forget_writes()
            here, there = (run.memory - before) / IDLE * 10_000, (self.memory - of_redis) / IDLE * 10_000
            print(f"10,000 idle sessions, {name}: {here:.0f} MB in the gateway, {there:.0f} MB in Redis", flush=True)

    def _forget_writes(self) -> None:
        """Let be over now what Redis forgets two minutes after a tape was written."""
        while keys := self.redis.ask("SCAN", 0, "MATCH", "*}:written:*", "COUNT", 1_000_000)[1]:
            self.redis.ask("DEL", *keys)

    @property
    def memory(self) -> float:
        """The MB that Redis holds now."""
        lines = self.redis.ask("INFO", "memory").decode().splitlines()
        return next(int(line.partition(":")[2]) for line in lines if line.startswith("used_memory:")) / 1e6


def measure() -> None:
    """Print turns a second and what they cost, the time of a reply, a failover's gap, and memory of idle sessions."""
    print(f"{CHATS} chats at once, {ROUNDS} rounds of {MESSAGES} messages each, answered by another process;")
    print(f"{os.cpu_count()} cores for the gateways, Redis, the model and the chats together, of which no more than")
    print(f"that many processes can work at a time; load {os.getloadavg()[0]:.1f}")
    with serving_redis(appendonly=True) as redis, answering() as address:
        model = f"{address}/5/0/v1"
        bench = Bench(redis, model)
        print(f"{'':<20}{'processes':>9}{'turns a second':>16}{'processor/turn':>16}{'Redis':>12}", end="")
        print(f"{'half load':>13}{'99 %':>10}")
        shared, alone = bench.measure(
            ("bub, Redis", 1, on_redis(model, redis, 1)), ("bub, files", 1, with_files(model))
        )
        for count in COUNTS[1:]:
            bench.measure(("bub, Redis", count, on_redis(model, redis, count)))
        for count in COUNTS:
            bench.measure(("by hand, coredis", count, by_hand(model, redis, count)))
        print(
            f"half load is {bench.rate:.0f} messages a second for all: one gateway on Redis is busy half of the time;"
        )
        print(f"there Redis adds {(shared.median - alone.median) * 1e3:.1f} ms to a reply (median)")
        measure_failover()
        bench.measure_idle("files", with_files(model))
        bench.measure_idle("Redis", on_redis(model, redis, 1))


def measure_failover() -> None:
    """Print how long the slowest answer took around a `kill -9` of a gateway, in leases."""
    stage = run_takeover(FAILOVER)
    crowd, lease = stage.crowd, FAILOVER.lease
    gaps = sorted(crowd.slowest_since(at, lease) / lease for at in stage.kills)
    usual = statistics.median(crowd.latencies) / lease
    print(f"{len(gaps)} of {FAILOVER.gateways} gateways were killed, with leases of {lease:g} s: the slowest answer")
    print(f"around a kill took {statistics.median(gaps):.2f} leases (median), {gaps[-1]:.2f} (most), where", end="")
    print(f" any answer takes {usual:.2f}; {len(stage.problems)} problems", flush=True)


if __name__ == "__main__":
    measure()
