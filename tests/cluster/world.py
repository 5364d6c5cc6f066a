"""The world of a plan: a Bot API, a model, a Redis and some gateways, all in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fakes.command_line import ROOT, SOURCES
from fakes.redis_server import RedisServer, serving_redis
from fakes.telegram import TOKEN, BotServer, serving_bots

from cluster.gateways import Gateway
from cluster.network import Network

CLOCK = Path(__file__).parent / "clock"
"""The folder of the module that sets the clock of a process ahead."""

PIPELINE = """
version: 1
extends: bub:default
profiles: {{default: {{plugins: [telegram]}}}}
settings:
  model: "test:cluster"
  providers: {{test: {{api: openai, api_base: "{model}/v1", api_key: no-key}}}}
  telegram: {{token: "{token}", allow_users: ["*"], base_url: "{bots}", stream: {stream}}}
  gateway: {{debounce: 50ms, max_wait: 300ms, shutdown_grace: 10s}}
"""


@dataclass
class World:
    """Everything that a plan can do something to; `redis` is None if the one gateway keeps its files."""

    folder: Path
    bots: BotServer
    model: str
    redis: RedisServer | None
    network: Network | None = None
    stream: bool = False
    lease: float = 2.0
    gateways: list[Gateway] = field(default_factory=list)

    def add(self, *, clock: float = 0, is_apart: bool = False) -> Gateway:
        """Add a gateway, whose clock is so many seconds ahead, and that is on a machine apart if so; it is started."""
        name = f"g{len(self.gateways) + 1}"
        folder = self.folder / name
        folder.mkdir()
        model, bots = self.model, self.bots.address
        environment = {"BUB_AGENT": "crowd"} if self.redis is not None else {}
        if clock:
            environment |= {"CLUSTER_CLOCK": str(clock), "PYTHONPATH": os.pathsep.join((str(CLOCK), SOURCES))}
        within: tuple[str, ...] = ()
        if is_apart:
            assert self.network is not None
            assert self.redis is not None
            model, bots = (one.replace("127.0.0.1", self.network.rest) for one in (model, bots))
            environment["BUB_GATEWAY_STORE"] = f"{self.redis.address_at(self.network.redis)}?lease={self.lease}s"
            within = self.network.within
        elif self.redis is not None:
            environment["BUB_GATEWAY_STORE"] = f"{self.redis.address}?lease={self.lease}s"
        text = PIPELINE.format(model=model, token=TOKEN, bots=bots, stream=str(self.stream).lower())
        (folder / "pipelines.yaml").write_text(text, encoding="utf-8")
        gateway = Gateway(name, folder, environment, within=within)
        self.gateways.append(gateway)
        gateway.start()
        return gateway

    def count_left(self) -> dict[str, int]:
        """How much is left in Redis, once all gateways have ended: messages, replies, and what was set aside."""
        first = self.gateways[0]
        command = [sys.executable, "-m", "bub", "gateway", "status", "--json"]
        done = subprocess.run(
            command, cwd=first.folder, env=first.whole_environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        said = json.loads(done.stdout)
        return {what: said[what] for what in ("messages", "replies", "dead")}

    def read_tapes(self) -> dict[str, list[dict[str, object]]]:
        """Every tape, by its session."""
        first = self.gateways[0]
        command = [sys.executable, str(Path(__file__).parent / "tapes.py"), "pipelines.yaml"]
        done = subprocess.run(
            command, cwd=first.folder, env=first.whole_environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        tapes: dict[str, list[dict[str, object]]] = json.loads(done.stdout.splitlines()[-1])
        return tapes


@contextmanager
def world(
    folder: Path,
    *,
    is_shared: bool,
    lease: float = 2.0,
    appendfsync: str = "always",
    network: Network | None = None,
    stream: bool = False,
) -> Iterator[World]:
    """Make a world without gateways, which lasts as long as the block."""
    host = "0.0.0.0" if network is not None else "127.0.0.1"
    with ExitStack() as stack:
        bots = stack.enter_context(serving_bots(folder / "telegram.db", host))
        redis = None
        if is_shared:
            bind = network.redis if network is not None else ""
            redis = stack.enter_context(serving_redis(appendonly=True, appendfsync=appendfsync, bind=bind))
        model = stack.enter_context(_serving_model(host))
        made = World(folder, bots, model, redis, network, stream, lease)
        try:
            yield made
        finally:
            for gateway in made.gateways:
                gateway.stop()


@contextmanager
def _serving_model(host: str) -> Iterator[str]:
    command = [sys.executable, str(ROOT / "tests" / "cluster" / "model.py"), host]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()
