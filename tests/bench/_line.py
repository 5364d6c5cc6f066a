"""A channel of a gateway that is told by files what to do: let chats talk, and write down how long each reply took.

`order-N.json` in its folder, `BENCH_FOLDER` if it gets no other, has an `Order`; what came of it is `result-N.json`.
`_by_hand.py` obeys the same orders.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter

import msgspec
import trio

from bub.channels import Channel, ChannelMessage

LOOK_EVERY = 0.02
SAID = "hello"

PLUGIN = """
from bub import hookimpl
from tests.bench._line import Line

@hookimpl
def provide_channels(message_handler):
    return [Line(message_handler)]
"""

Say = Callable[[str, str], Awaitable[None]]
"""Hand in what was said in a chat, with the id of the message; it is kept when this returns."""


class Order(msgspec.Struct):
    """So many chats say so many messages each; at `rate` a second in all, or the next one behind each reply if 0.

    No more than `at_once` chats of the latter talk at a time. What is `without` is for who obeys to know.
    """

    chats: int
    messages: int
    rate: float = 0.0
    first_chat: int = 0
    at_once: int = 100
    without: bool = False


class Result(msgspec.Struct):
    """How many seconds it all took, and each reply, in the order they came."""

    seconds: float
    took: list[float]


class Talk:
    """What is said for one order, and who waits for which reply."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._asked: dict[str, float] = {}
        self._replied: dict[str, trio.Event] = {}
        self._took: list[float] = []

    def hear(self, message_id: str) -> None:
        """Note that a message was replied to; one that is known already came again."""
        if (asked := self._asked.pop(message_id, None)) is not None:
            self._took.append(perf_counter() - asked)
            self._replied.pop(message_id).set()

    async def obey(self, order: Order) -> Result:
        began = perf_counter()
        self._took = []
        async with trio.open_nursery() as chatting:
            if order.rate:
                for number in range(order.chats * order.messages):
                    await trio.sleep(max(0.0, began + number / order.rate - perf_counter()))
                    chatting.start_soon(self._ask, order.first_chat + number % order.chats, number)
            else:
                chats = iter(range(order.first_chat, order.first_chat + order.chats))
                for _ in range(order.at_once):
                    chatting.start_soon(self._converse, chats, order.messages)
        return Result(perf_counter() - began, self._took)

    async def _converse(self, chats: Iterator[int], messages: int) -> None:
        for chat in chats:
            for number in range(messages):
                await self._ask(chat, number)

    async def _ask(self, chat: int, number: int) -> None:
        message_id = f"{chat}-{number}-{perf_counter()}"
        replied = self._replied[message_id] = trio.Event()
        self._asked[message_id] = perf_counter()
        await self._say(str(chat), message_id)
        await replied.wait()


async def read_orders(folder: Path) -> AsyncIterator[tuple[Order, Path]]:
    """Each order as it comes, and the file for what came of it."""
    number = 0
    while True:
        number += 1
        order, result = folder / f"order-{number}.json", folder / f"result-{number}.json"
        while not order.exists():  # noqa: ASYNC110 (another process makes it)
            await trio.sleep(LOOK_EVERY)
        if not result.exists():  # the one who obeyed may have been another
            yield msgspec.json.decode(order.read_bytes(), type=Order), result


def write_whole(file: Path, value: msgspec.Struct) -> None:
    """Write a file that nobody sees half written."""
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(value))
    new.rename(file)


class Line(Channel):
    """The channel."""

    name = "line"

    def __init__(self, handler: Callable[[object], Awaitable[None]], folder: Path | None = None) -> None:
        self._handler = handler
        self._folder = folder or Path(os.environ["BENCH_FOLDER"])
        self._talk = Talk(self._say)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async for order, file in read_orders(self._folder):
            self.begin(order)
            write_whole(file, await self._talk.obey(order))

    def begin(self, order: Order) -> None:
        """Do what an order needs before it is obeyed: nothing here."""

    async def _say(self, chat: str, message_id: str) -> None:
        await self._handler({"channel": self.name, "chat_id": chat, "content": SAID, "message_id": message_id})

    async def send(self, message: ChannelMessage) -> None:
        self._talk.hear(message.answers)
