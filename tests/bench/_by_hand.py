"""The same work on plain coredis, as somebody would write it who needs no more than this one case.

Run it as `python -m tests.bench._by_hand NUMBER OF ADDRESS MODEL`: worker NUMBER, from 0 on, of so many. The first one
is the channel, too. Each has its partitions for good, under a lease that each write proves.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

import httpx
import trio
from coredis import Redis

from tests.bench._line import SAID, Talk, read_orders, write_whole

PARTITIONS = 32
FINISH = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED') end
redis.call('RPUSH', KEYS[4], ARGV[5], ARGV[4])
redis.call('HDEL', KEYS[5], ARGV[2])
redis.call('XACK', KEYS[2], 'g', ARGV[2])
redis.call('XDEL', KEYS[2], ARGV[2])
return redis.call('XADD', KEYS[3], '*', 'answers', ARGV[3], 'text', ARGV[4])
"""


class Worker:
    """One of several processes."""

    def __init__(self, redis: Redis[str], web: httpx.AsyncClient, model: str, number: int, count: int) -> None:
        self.redis = redis
        self.web = web
        self.model = model
        self.finish = redis.register_script(FINISH)
        self.token = f"1:worker-{number}"
        self.partitions = [one for one in range(PARTITIONS) if one % count == number]

    async def work(self) -> None:
        """Answer what comes into its partitions."""
        streams = {f"inbox:{one}": ">" for one in self.partitions}
        for one in self.partitions:
            await self.redis.set(f"lease:{one}", self.token)
            await self._make_group(f"inbox:{one}")
        async with trio.open_nursery() as turns:
            while True:
                found = await self.redis.xreadgroup("g", "owner", streams, count=100, block=1000)
                for stream, entries in (found or {}).items():
                    for entry in entries:
                        turns.start_soon(self._answer, stream, entry.identifier, entry.field_values)

    async def _answer(self, stream: str, number: str, message: dict[str, str]) -> None:
        partition = stream.partition(":")[2]
        tape, attempts = f"tape:{partition}:{message['chat']}", f"attempts:{partition}"
        await self.redis.hincrby(attempts, number, 1)
        said = await self.redis.lrange(tape, 0, -1)
        text = await self._ask_model([*said, message["text"]])
        keys = [f"lease:{partition}", stream, "replies", tape, attempts]
        await self.finish.execute(keys=keys, args=[self.token, number, message["id"], text, message["text"]])

    async def _ask_model(self, said: list[str]) -> str:
        roles = ("user", "assistant")
        messages = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
        asked = {"model": "bench", "messages": messages, "stream": True}
        pieces: list[str] = []
        async with self.web.stream("POST", f"{self.model}/chat/completions", json=asked) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    pieces += [choice["delta"].get("content", "") for choice in choices]
        return "".join(pieces)

    async def run_channel(self, folder: Path) -> None:
        """Say what is ordered, and hear the replies."""
        talk = Talk(self._say)
        await self._make_group("replies")
        async with trio.open_nursery() as beside:
            beside.start_soon(self._deliver, talk)
            async for order, file in read_orders(folder):
                write_whole(file, await talk.obey(order))

    async def _say(self, chat: str, message_id: str) -> None:
        partition = crc32(chat.encode()) % PARTITIONS
        await self.redis.xadd(f"inbox:{partition}", {"chat": chat, "id": message_id, "text": SAID})

    async def _deliver(self, talk: Talk) -> None:
        while True:
            found = await self.redis.xreadgroup("g", "owner", {"replies": ">"}, count=100, block=1000)
            for entry in (found or {}).get("replies", ()):
                talk.hear(entry.field_values["answers"])
                await self.redis.xack("replies", "g", [entry.identifier])
                await self.redis.xdel("replies", [entry.identifier])

    async def _make_group(self, stream: str) -> None:
        # From the beginning: the channel may have said something before this one was there.
        await self.redis.xgroup_create(stream, "g", "0", mkstream=True)


async def main(number: int, count: int, address: str, model: str) -> None:
    parts = urlsplit(address)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=200)
    async with (
        Redis(host=str(parts.hostname), port=parts.port, decode_responses=True) as redis,
        httpx.AsyncClient(limits=limits, timeout=60) as web,
    ):
        worker = Worker(redis, web, model, number, count)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.work)
            if number == 0:
                nursery.start_soon(worker.run_channel, Path(os.environ["BENCH_FOLDER"]))


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
