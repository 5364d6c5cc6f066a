"""A thousand sessions that stream at once, 50 events a second each: how late they get, and what each one takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import httpx
import msgspec
import trio

from bub import BubFramework
from bub.channels import ChannelManager
from bub.envelope import Envelope
from bub.inbox.mailbox import Mailbox, inbox_file
from bub.streaming import StreamEvent
from tests.bench._answers import ROOT, answering
from tests.bench._crowd import CROWD, PLUGIN

SESSIONS, EVENTS, RATE = 1_000, 100, 50
WAYS = ("bub, its channels", "bub, process_inbound", "by hand (httpx)")

Talk = Callable[[str, Callable[[], None]], Awaitable[None]]
"""Streams one session's answer, and tells of its first token."""


def measure() -> None:
    """Print seconds until all are done and until first tokens (p99, the last), CPU, and the memory of a session."""
    print(
        f"{SESSIONS:,} sessions at once, {EVENTS} events each, {RATE} a second: {EVENTS / RATE:.1f} s at best;"
        f" load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    heads = f"{'all done':>10}{'first token p99':>17}{'the last':>10}{'CPU':>8}{'CPU an event':>14}{'MB a session':>14}"
    print(f"{'':<22}{heads}")
    for way in WAYS:
        with answering() as address, tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "BUB_HOME": folder,
                "BUB_MODEL": "openai:any",
                "BUB_API_KEY": "no-key-at-all",
                "BUB_API_BASE": f"{address}/{EVENTS}/{RATE}/v1",
            }
            # A process of its own, so that its memory is its own too.
            command = [sys.executable, "-m", "tests.bench.sessions", way, folder]
            done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        took, most, last, cpu, memory = json.loads(done.stdout)
        event = cpu / SESSIONS / EVENTS * 1e6
        print(f"{way:<22}{took:>8.1f} s{most:>15.1f} s{last:>8.1f} s{cpu:>6.1f} s{event:>11.0f} µs{memory:>14.3f}")


async def _through_channels(folder: str) -> list[float]:
    file = Path(folder) / "pipelines.yaml"
    (Path(folder) / "crowd.py").write_text(PLUGIN, encoding="utf-8")
    file.write_text(
        "version: 1\nextends: bub:default\n"
        "plugins: {crowd: {path: crowd.py}}\nprofiles: {default: {plugins: [crowd]}}\n",
        encoding="utf-8",
    )
    framework = BubFramework(file, workspace=folder)

    async def talk(name: str, begun: Callable[[], None]) -> None:
        await CROWD.talk(name)
        assert CROWD.heard[name] == EVENTS

    async def talk_at_first(name: str, begun: Callable[[], None]) -> None:
        begin[name] = begun
        await talk(name, begun)

    begin: dict[str, Callable[[], None]] = {}
    CROWD.begun = lambda chat: begin[chat]()
    async with framework.running():
        manager = ChannelManager(framework, mailbox=Mailbox(inbox_file(Path(folder)), Path(folder)))
        async with trio.open_nursery() as nursery:
            await nursery.start(manager.run)
            figures = await _all_at_once(talk_at_first)
            nursery.cancel_scope.cancel()
    return figures


async def _bub(folder: str) -> list[float]:
    framework = BubFramework("bub:default", workspace=folder)

    async def talk(name: str, begun: Callable[[], None]) -> None:
        heard = 0

        def hear(event: StreamEvent, message: Envelope) -> None:
            nonlocal heard
            heard += event.kind == "text"
            if heard == 1 and event.kind == "text":
                begun()

        await framework.process_inbound({"content": "hello", "channel": "bench", "chat_id": name}, on_event=hear)
        assert heard == EVENTS

    async with framework.running():
        return await _all_at_once(talk)


async def _by_hand(folder: str) -> list[float]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    body = {"model": "any", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    url = f"{os.environ['BUB_API_BASE']}/chat/completions"
    # httpx gives a connection that it kept to all requests that begin at once, which then wait for it one by one.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(verify=False, limits=limits, timeout=60) as client:

        async def talk(name: str, begun: Callable[[], None]) -> None:
            heard = 0
            async with client.stream("POST", url, json=body) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: {"):
                        choices = decode(line[6:])["choices"]
                        heard += bool(choices and "content" in choices[0]["delta"])
                        if heard == 1:
                            begun()
            assert heard == EVENTS

        return await _all_at_once(talk)


async def _all_at_once(talk: Talk) -> list[float]:
    """Seconds until all are done, until first tokens (99 of 100, the last) and of CPU; megabytes of each session."""
    await talk("warm", lambda: None)
    began, cpu, memory = perf_counter(), process_time(), _memory()
    firsts: list[float] = []
    most = 0.0

    def begun() -> None:
        nonlocal most
        firsts.append(perf_counter() - began)
        if len(firsts) in (1, SESSIONS):
            most = max(most, _memory())

    async with trio.open_nursery() as nursery:
        for number in range(SESSIONS):
            nursery.start_soon(talk, str(number), begun)
    most = max(most, _memory())
    firsts.sort()
    took, spent = perf_counter() - began, process_time() - cpu
    return [took, firsts[int(len(firsts) * 0.99)], firsts[-1], spent, (most - memory) / SESSIONS]


def _memory() -> float:
    """The megabytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    if len(sys.argv) == 1:
        measure()
    else:
        way, folder = sys.argv[1:]
        run = dict(zip(WAYS, (_through_channels, _bub, _by_hand), strict=True))[way]
        print(json.dumps(trio.run(run, folder)))
