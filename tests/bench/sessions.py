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
from bub.envelope import Envelope
from bub.streaming import StreamEvent
from tests.bench._answers import ROOT, answering

SESSIONS, EVENTS, RATE = 1_000, 100, 50
WAYS = ("bub", "by hand (httpx)")

Talk = Callable[[str, Callable[[], None]], Awaitable[None]]
"""Streams one session's answer, and tells of its first token."""


def measure() -> None:
    """Print seconds until all are done and until the last one's first token, CPU, and the memory of a session."""
    print(f"{SESSIONS:,} sessions at once, {EVENTS} events each, {RATE} a second: {EVENTS / RATE:.1f} s at best")
    print(f"{'':<18}{'all done':>10}{'last first token':>18}{'CPU':>10}{'MB a session':>14}")
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
            done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        took, first, cpu, memory = json.loads(done.stdout)
        print(f"{way:<18}{took:>8.1f} s{first:>16.1f} s{cpu:>8.1f} s{memory:>14.3f}")


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
    """Seconds until all are done, until the last one's first token, and of CPU; the memory of each in megabytes."""
    await talk("warm", lambda: None)
    began, cpu, memory = perf_counter(), process_time(), _memory()
    first = most = 0.0
    waiting = SESSIONS

    def begun() -> None:
        nonlocal first, most, waiting
        first = perf_counter() - began
        waiting -= 1
        if waiting == 0 or most == 0:
            most = max(most, _memory())

    async with trio.open_nursery() as nursery:
        for number in range(SESSIONS):
            nursery.start_soon(talk, str(number), begun)
    most = max(most, _memory())
    return [perf_counter() - began, first, process_time() - cpu, (most - memory) / SESSIONS]


def _memory() -> float:
    """The megabytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    if len(sys.argv) == 1:
        measure()
    else:
        way, folder = sys.argv[1:]
        print(json.dumps(trio.run(_bub if way == WAYS[0] else _by_hand, folder)))
