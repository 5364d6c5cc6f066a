"""What plugins with `runtime: asyncio` bring: channels, tools, stores, buses; and what they ask the framework for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from fakes.islands import loops, on_asyncio, thread_here
from fakes.line import opened
from fakes.toys import HELLO, Toy, Workshop

from bub import BubFramework, tool
from bub.channels import Channel, ChannelMessage
from bub.streaming import StreamEvent
from bub.tape import Tape, TapeEntry, TapeQuery
from bub.tools import ToolContext

pytestmark = pytest.mark.anyio


# A channel.


class Lines(Channel):
    """Each line of a TCP connection is a message; written for asyncio from end to end."""

    name = "lines"

    def __init__(self, message_handler: Any) -> None:
        self.hand_over = message_handler
        self.writers: dict[str, asyncio.StreamWriter] = {}
        self.port = 0
        self.seen: list[str] = []

    async def run(self, *, task_status: Any) -> None:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        task_status.started()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            self.seen.append("ended")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chat = str(writer.get_extra_info("peername")[1])
        self.writers[chat] = writer
        with contextlib.suppress(asyncio.CancelledError):  # the server ends
            async for line in reader:
                text = line.decode().strip()
                await self.hand_over(
                    ChannelMessage(channel="lines", chat_id=chat, content=text, lifespan=self.noted(text))
                )
        writer.close()

    @asynccontextmanager
    async def noted(self, text: str) -> AsyncIterator[None]:
        async with asyncio.timeout(60):
            self.seen.append(f"begin {text}")
            yield
            self.seen.append(f"end {text}")

    async def send(self, message: ChannelMessage) -> None:
        writer = self.writers[message.chat_id]
        writer.write(f"{message.content}\n".encode())
        await writer.drain()

    @asynccontextmanager
    async def typing(self) -> AsyncIterator[None]:
        async with asyncio.timeout(60):
            self.seen.append(f"typing in {threading.current_thread().name}")
            yield

    def attending(self, message: ChannelMessage) -> Any:
        return self.typing()

    async def on_event(self, event: StreamEvent, message: ChannelMessage) -> None:
        await asyncio.sleep(0)
        self.seen.append(event.kind)

    def admits(self, message: ChannelMessage) -> bool:
        assert asyncio.get_running_loop().is_running()
        return message.content != "from a stranger"

    def on_answered(self, message: ChannelMessage, replies: Any) -> None:
        assert asyncio.get_running_loop().is_running()
        self.seen.append(f"answered {message.content}")


async def test_a_channel_written_for_asyncio_answers_each_line(bub: Workshop) -> None:
    made: list[Lines] = []

    def provide_channels(message_handler: Any) -> list[Channel]:
        assert asyncio.get_running_loop().is_running()
        made.append(Lines(message_handler))
        return list(made)

    framework = on_asyncio(
        bub,
        "extends: bub:default",
        "echo",
        echo=Toy(run_model=lambda prompt: f"you said {prompt}"),
        wire=Toy(provide_channels=provide_channels),
    )
    with trio.fail_after(10):
        async with opened(framework) as manager:
            channel = made[-1]
            assert manager.states == {"lines": "running"}
            async with await trio.open_tcp_stream("127.0.0.1", channel.port) as caller:
                for word in (b"hello", b"again"):
                    await caller.send_all(word + b"\n")
                    assert await caller.receive_some() == b"you said " + word + b"\n"
    assert channel.seen.count("typing in bub island wire") == 2
    assert {"begin hello", "end hello", "answered hello", "text", "ended"} <= {*channel.seen}
    assert not loops()


async def test_a_channel_written_for_asyncio_learns_whether_a_turn_follows(bub: Workshop) -> None:
    class Knowing(Lines):
        async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.CancelledError):  # the server ends
                async for _ in reader:
                    follows = await self.hand_over(ChannelMessage("lines", "1", "hello", once="7"))
                    writer.write(b"a turn\n" if follows else b"no turn\n")
            writer.close()

        async def send(self, message: ChannelMessage) -> None: ...

    made: list[Lines] = []

    def provide_channels(message_handler: Any) -> list[Channel]:
        made.append(Knowing(message_handler))
        return list(made)

    toys = {"echo": Toy(run_model=lambda prompt: prompt), "wire": Toy(provide_channels=provide_channels)}
    framework = on_asyncio(bub, "extends: bub:default", "echo", **toys)
    with trio.fail_after(10):
        async with opened(framework) as manager, await trio.open_tcp_stream("127.0.0.1", made[-1].port) as caller:
            for said in (b"a turn\n", b"no turn\n"):
                await caller.send_all(b"\n")
                assert await caller.receive_some() == said
                await manager.settled()


class Silent(Channel):
    """A channel that overrides nothing but its name."""

    name = "silent"


async def test_what_a_channel_does_not_override_is_as_for_any_channel(bub: Workshop) -> None:
    framework = on_asyncio(bub, "extends: bub:default", wire=Toy(provide_channels=lambda: [Silent()]))
    async with opened(framework) as manager:
        channel = manager.channel("silent")
        message = ChannelMessage(channel="silent")
        assert manager.states == {"silent": "running"}
        assert channel.admits(message)
        assert channel.attending(message) is None
        assert await channel.prepare(message) is message


# Tools.


@pytest.mark.parametrize("is_plain", [True, False])
async def test_a_tool_runs_on_the_loop_and_its_context_crosses_back(bub: Workshop, is_plain: bool) -> None:
    @tool(name="where.plain")
    def plain(word: str) -> str:
        """Say where it runs."""
        assert asyncio.get_running_loop().is_running()
        return f"{word} in {threading.current_thread().name}"

    @tool(name="where.waits")
    async def waits(word: str, context: ToolContext) -> str:
        """Say where it runs, and what the tape has."""
        assert context.tape is not None
        await context.tape.append(TapeEntry.event("noted", {"word": word}))
        entries = await context.tape.fetch(context.tape.query())
        return f"{entries[-1].payload['data']['word']} in {await thread_here()}"

    profiles = "profiles: {default: {plugins: [one], tools: {allow: ['*']}}}"
    toy = Toy(provide_tools=lambda: [plain, waits])
    framework = on_asyncio(bub, f"extends: bub:default\n{profiles}", one=toy)
    async with framework.running():
        command = f",{(plain if is_plain else waits).name} word=hello"
        result = await framework.process_inbound({**HELLO, "content": command})
    assert result.model_output == "hello in bub island one"


# Stores.


class Slow:
    """A tape store in memory whose methods wait for asyncio."""

    def __init__(self) -> None:
        self.tapes: dict[str, list[TapeEntry]] = {}
        self.threads: set[str] = set()

    async def list_tapes(self) -> list[str]:
        self.threads.add(await thread_here())
        return sorted(self.tapes)

    async def append(self, tape: str, entry: TapeEntry) -> None:
        self.threads.add(await thread_here())
        entries = self.tapes.setdefault(tape, [])
        entries.append(TapeEntry(len(entries) + 1, entry.kind, entry.payload, entry.meta, entry.date))

    async def fetch_all(self, query: TapeQuery) -> Any:
        self.threads.add(await thread_here())
        return iter(self.tapes.get(query.tape, []))

    async def reset(self, tape: str) -> None:
        self.tapes.pop(tape, None)


@pytest.mark.parametrize("is_opened", [True, False])
async def test_a_tape_store_lives_on_the_loop_and_is_closed_before_it(bub: Workshop, is_opened: bool) -> None:
    store, seen = Slow(), list[str]()

    @asynccontextmanager
    async def open_store() -> AsyncIterator[Slow]:
        async with asyncio.timeout(60):
            yield store
        seen.append("closed")

    framework = on_asyncio(
        bub,
        "extends: bub:default",
        one=Toy(provide_tape_store=open_store if is_opened else lambda: store, run_model=lambda: "x"),
    )
    async with framework.running():
        tape = Tape("t", framework.get_tape_store())
        await tape.append(TapeEntry.event("one"), TapeEntry.event("two"))
        entries = await tape.fetch(tape.query())
        assert [entry.payload["name"] for entry in entries] == ["one", "two"]
    assert store.threads == {"bub island one"}
    assert seen == (["closed"] if is_opened else [])
    assert not loops()


class Queue:
    """A bus on queues of asyncio."""

    def __init__(self) -> None:
        self.inbound: asyncio.Queue[Any] = asyncio.Queue()
        self.outbound: asyncio.Queue[Any] = asyncio.Queue()

    async def publish_inbound(self, message: Any) -> None:
        await self.inbound.put(message)

    async def publish_outbound(self, message: Any) -> None:
        await self.outbound.put(message)

    async def next_inbound(self, timeout_seconds: float | None = None) -> Any:
        return await asyncio.wait_for(self.inbound.get(), timeout_seconds)

    async def next_outbound(self, timeout_seconds: float | None = None) -> Any:
        return await asyncio.wait_for(self.outbound.get(), timeout_seconds)


async def test_a_bus_lives_on_the_loop(bub: Workshop) -> None:
    framework = on_asyncio(bub, "extends: bub:default", one=Toy(provide_bus=Queue, run_model=lambda prompt: prompt))
    async with framework.running():
        bus = framework.create_bus()
        await bus.publish_inbound(HELLO)
        await framework.handle_bus_once(bus, 5)
        assert (await bus.next_outbound(5))["content"] == "hello"


# The framework, as such a plugin sees it.


class Curious:
    """A plugin that keeps the framework it is made with."""

    def __init__(self, framework: Any) -> None:
        self.framework = framework


async def in_plugin(bub: Workshop, ask: Any) -> Any:
    """What a function comes to that the plugin awaits in its hook."""

    class Asking(Curious):
        async def run_model(self, prompt: str) -> str:
            return str(await ask(self.framework) if prompt == "hello" else f"<{prompt}>")

    Asking.run_model.bub_impl = {}  # type: ignore[attr-defined]
    framework = on_asyncio(bub, "extends: bub:default", one=Asking)
    async with framework.running():
        return (await framework.process_inbound(HELLO)).model_output


async def test_a_turn_that_a_plugin_starts_runs_in_trio_and_tells_the_plugin_on_its_loop(bub: Workshop) -> None:
    told: list[str] = []

    async def on_event(event: StreamEvent, message: Any) -> None:
        told.append(await thread_here())

    async def start(framework: BubFramework) -> Any:
        message = {"channel": "other", "chat_id": "2", "content": "again"}
        return (await framework.process_inbound(message, on_event=on_event)).model_output

    assert await in_plugin(bub, start) == "<again>"
    assert told == ["bub island one"]


async def test_what_plugins_share_is_opened_and_closed_on_the_loop(bub: Workshop) -> None:
    tasks: list[Any] = []

    @asynccontextmanager
    async def session() -> AsyncIterator[object]:
        async with asyncio.timeout(60):
            tasks.append(asyncio.current_task())
            yield tasks
            tasks.append(asyncio.current_task())

    async def share(framework: BubFramework) -> Any:
        return await framework.shared(session) is await framework.shared(session) is tasks

    assert await in_plugin(bub, share) == "True"
    assert len(tasks) == 2
    assert tasks[0] is tasks[1]


async def test_handlers_that_a_plugin_registers_are_called_on_its_loop(bub: Workshop) -> None:
    async def register(framework: BubFramework) -> Any:
        async def prefix(payload: Any) -> dict[str, Any]:
            return {"where": await thread_here()}

        framework.registry.register_modifying("before_prompt_build", prefix)
        return (await framework.registry.fire_modifying("before_prompt_build", {}))["where"]

    assert await in_plugin(bub, register) == "bub island one"


async def test_the_framework_answers_as_it_answers_any_plugin(bub: Workshop) -> None:
    plugin: list[Any] = []

    class Keeping(Curious):
        def run_model(self) -> str:
            plugin.append(self.framework)
            return "x"

    Keeping.run_model.bub_impl = {}  # type: ignore[attr-defined]
    framework = on_asyncio(bub, "extends: bub:default", one=Keeping)
    async with framework.running():
        await framework.process_inbound(HELLO)
    assert plugin[0].workspace == framework.workspace
    assert plugin[0].settings == framework.settings
