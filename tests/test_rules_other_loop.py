"""Plugins that run on another loop than they are written for: found by a start if it shows, else told in the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.line import opened
from fakes.mistakes import VERSION
from fakes.toys import HELLO, Toy, Workshop

from bub import BubFramework, tool
from bub.channels import Channel
from bub.hooks.loops import NeedsAsyncioError

pytestmark = pytest.mark.anyio

Write = Callable[[str, str], Path]

HOOK = "from bub import hookimpl\n\n"

NEEDS_ASYNCIO = {
    "in the hook itself": "import asyncio\n@hookimpl\nasync def run_model():\n    await asyncio.sleep(1)\n",
    "by its own name": "from asyncio import sleep as wait\n@hookimpl\nasync def run_model():\n    await wait(1)\n",
    "imported in the function": "@hookimpl\nasync def run_model():\n    import asyncio\n    await asyncio.sleep(1)\n",
    "in a function that it calls": (
        "import asyncio\nasync def ask():\n    async with asyncio.timeout(1): pass\n"
        "@hookimpl\nasync def run_model():\n    await ask()\n"
    ),
    "in a function within it": (
        "import asyncio\n@hookimpl\nasync def run_model():\n"
        "    async def ask():\n        await asyncio.Event().wait()\n    await ask()\n"
    ),
    "in a method beside it": (
        "import asyncio\nclass Clock:\n    @hookimpl\n    async def run_model(self):\n        return await self.ask()\n"
        "    async def ask(self):\n        await asyncio.gather()\nplugin = Clock\n"
    ),
    "in a plain hook": "import asyncio\n@hookimpl\ndef load_state():\n    asyncio.create_task(None)\n",
    "in the channel that it brings": (
        "import asyncio\nfrom bub.channels import Channel\nclass Wire(Channel):\n    name = 'wire'\n"
        "    async def run(self, *, task_status):\n        await asyncio.start_server(None)\n"
        "@hookimpl\ndef provide_channels():\n    return [Wire()]\n"
    ),
}

NEEDS_NOTHING = {
    "a loop of its own": "import asyncio\n@hookimpl\ndef load_state():\n    asyncio.run(ask())\n"
    "async def ask():\n    await asyncio.sleep(1)\n",
    "a command": "import asyncio\nasync def ask():\n    await asyncio.sleep(1)\n"
    "@hookimpl\ndef register_cli_commands(app):\n    app.command('ask')(lambda: asyncio.run(ask()))\n"
    "@hookimpl\ndef run_model():\n    return 'x'\n",
    "a question about a function": (
        "import asyncio\n@hookimpl\nasync def run_model():\n    return str(asyncio.iscoroutinefunction(run_model))\n"
    ),
    "trio": "import trio\n@hookimpl\nasync def run_model():\n    await trio.sleep(0)\n",
    "a name that only looks like it": (
        "class asyncio:\n    sleep = str\n@hookimpl\nasync def run_model():\n    return asyncio.sleep(1)\n"
    ),
}


def findings(write: Write, code: str, runtime: str = "") -> list[Any]:
    write("clock.py", HOOK + code)
    said = f", runtime: {runtime}" if runtime else ""
    file = write(
        "pipelines.yaml",
        f"{VERSION}extends: bub:default\nplugins: {{clock: {{path: clock.py{said}}}}}\n"
        "profiles: {default: {plugins: [clock]}}\n",
    )
    framework = BubFramework(file)
    framework.load_hooks()
    return [one for one in framework.findings if one.code == "B250"]


@pytest.mark.parametrize("code", NEEDS_ASYNCIO.values(), ids=NEEDS_ASYNCIO)
def test_a_plugin_that_needs_asyncio_and_does_not_say_so_is_found(write: Write, code: str) -> None:
    [found] = findings(write, code)
    assert found.severity == "warning"
    assert found.message.startswith("plugin `clock` is written for asyncio")
    assert found.help == "say `plugins: {clock: {runtime: asyncio}}`"
    assert str(found.related[0].file).endswith("clock.py")


@pytest.mark.parametrize("code", NEEDS_ASYNCIO.values(), ids=NEEDS_ASYNCIO)
def test_one_that_says_so_is_fine(write: Write, code: str) -> None:
    assert not findings(write, code, "asyncio")


@pytest.mark.parametrize("code", NEEDS_NOTHING.values(), ids=NEEDS_NOTHING)
def test_what_needs_no_loop_of_asyncio_is_not_found(write: Write, code: str) -> None:
    assert not findings(write, code)


def test_one_that_is_written_for_trio_does_not_run_on_asyncio(write: Write) -> None:
    [found] = findings(write, NEEDS_NOTHING["trio"], "asyncio")
    assert found.message == (
        "plugin `clock` is written for trio (it names `trio.sleep`), but the file says `runtime: asyncio`"
    )
    assert (found.range.start.line, found.help) == (3, "take `runtime` of `clock` out")


def test_a_shipped_plugin_says_by_itself_what_it_is_written_for(write: Write) -> None:
    file = write(
        "pipelines.yaml",
        f"{VERSION}extends: bub:default\nplugins: {{telegram: {{runtime: asyncio}}}}\n"
        "profiles: {default: {plugins: [telegram]}, other: {plugins: [telegram]}}\n",
    )
    framework = BubFramework(file)
    framework.load_hooks()
    assert [one.code for one in framework.warnings] == ["B250"]


# In a turn.


async def sleeping() -> str:
    await asyncio.sleep(0.1)
    return "x"


async def gathering() -> None:
    await asyncio.gather(asyncio.Future(loop=asyncio.new_event_loop()))


async def waiting() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("hook", [sleeping, waiting])
async def test_the_error_in_the_turn_says_which_line_to_add(bub: Workshop, hook: Any) -> None:
    framework = bub(clock=Toy(run_model=hook))
    async with framework.running():
        with pytest.raises(NeedsAsyncioError, match="plugin `clock` is written for asyncio") as caught:
            await framework.process_inbound(HELLO)
    assert caught.value.help == "say `plugins: {clock: {runtime: asyncio}}` in the pipeline file"
    assert caught.value.__cause__ is not None


async def test_a_future_of_asyncio_is_recognized_in_trio(bub: Workshop) -> None:
    loop = asyncio.new_event_loop()
    framework = bub(clock=Toy(run_model=lambda: loop.create_future()))
    async with framework.running():
        with pytest.raises(NeedsAsyncioError, match="plugin `clock`"):
            await framework.process_inbound(HELLO)
    loop.close()


async def test_a_tool_and_a_channel_say_it_too(bub: Workshop) -> None:
    @tool(name="clock.wait")
    async def wait() -> str:
        """Wait."""
        return await sleeping()

    class Clock(Channel):
        name = "clock"

        async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            await sleeping()

    framework = bub(clock=Toy(provide_tools=lambda: [wait], provide_channels=lambda: [Clock()]))
    async with framework.running():
        result = await framework.process_inbound({**HELLO, "content": ",clock.wait"})
        assert "`clock.wait` is written for asyncio" in str(result.model_output)
    with pytest.raises(ExceptionGroup) as caught:
        async with opened(framework):
            pass
    assert caught.group_contains(NeedsAsyncioError, match="the channel `clock`", depth=None)


async def test_any_other_error_stays_as_it_is(bub: Workshop) -> None:
    async def fail() -> None:
        raise RuntimeError("no running engine")

    framework = bub(clock=Toy(run_model=fail))
    async with framework.running():
        with pytest.raises(RuntimeError, match="no running engine"):
            await framework.process_inbound(HELLO)
