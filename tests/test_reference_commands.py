"""What a plugin of the reference adds and gives runs with the settings of its profile: commands, streams, contexts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from bub.errors import BubError
from bub_reference.bridge.beside import Beside
from bub_reference.bridge.commands import hand_over
from bub_reference.bridge.hooks import Adopted, AdoptedHooks
from bub_reference.bridge.tools import to_bub
from bub_reference.streaming import AsyncStreamEvents, StreamEvent
from bub_reference.surroundings import PROCESS, Surroundings, here, within
from bub_reference.tape import TapeContext
from bub_reference.tools import Tool

PLACE = Surroundings({"volume": 11})


class Own:
    """As much of an adoption as these need."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @contextmanager
    def within(self) -> Iterator[Surroundings]:
        with within(PLACE) as place:
            yield place

    def is_command(self, prompt: str) -> bool:
        return False

    def show(self, session_id: str, state: dict[str, Any]) -> dict[str, Any]:
        return state

    async def first(self, hook: str, **given: Any) -> Any:
        return self.answer

    def first_now(self, hook: str, **given: Any) -> Any:
        return self.answer


def adopted(answer: Any) -> Any:
    """A plugin that has hooks, made as Bub makes one: it has nothing else of the class that has them all."""
    hooks = {name: function for name, function in vars(AdoptedHooks).items() if not name.startswith("_")}
    return type("Plugin", (Adopted,), hooks)(Own(answer))


def test_a_command_finds_the_framework_and_the_settings_of_the_profile() -> None:
    theirs, group, app = typer.Typer(), typer.Typer(), typer.Typer()

    @theirs.command("export")
    def export(context: typer.Context, what: str = "all") -> None:
        typer.echo(f"{what} of {context.obj} at {here().settings['volume']}")

    @group.command("list")
    def list_all(context: typer.Context) -> None:
        typer.echo(f"{context.obj} at {here().settings['volume']}")

    group.command("other")(lambda: None)
    theirs.add_typer(group, name="things")
    app.command("own")(lambda: None)
    hand_over(theirs, app, "the framework", lambda: within(PLACE))
    runner = CliRunner()
    assert runner.invoke(app, ["export", "--what", "tapes"]).output == "tapes of the framework at 11\n"
    assert runner.invoke(app, ["things", "list"]).output == "the framework at 11\n"
    assert here() is PROCESS


def test_a_stream_is_made_with_the_settings_of_the_profile() -> None:
    async def produce() -> AsyncIterator[StreamEvent]:
        yield StreamEvent.text(str(here().settings.get("volume")))

    async def collect() -> list[str]:
        hooks = adopted(AsyncStreamEvents(produce()))
        stream = await hooks.run_model_stream("hello", "s", {})
        return [event.data["delta"] async for event in stream]

    assert asyncio.run(collect()) == ["11"]


def test_a_choice_of_messages_may_be_a_coroutine_that_waits_for_nothing() -> None:
    async def choose(entries: Any, context: TapeContext) -> list[dict[str, Any]]:
        return [{"role": "user", "content": f"volume {here().settings['volume']}"}]

    async def wait(entries: Any, context: TapeContext) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return []

    chosen = adopted(TapeContext(select=choose)).build_tape_context()
    assert chosen is not None and chosen.messages([]) == [{"role": "user", "content": "volume 11"}]
    waiting = adopted(TapeContext(select=wait)).build_tape_context()
    assert waiting is not None
    with pytest.raises(TypeError, match="waits for something"):
        waiting.messages([])


def test_a_command_has_turns_of_its_own_though_no_runtime_is_open(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(
        "from bub import hookimpl\n\n@hookimpl\ndef run_model(prompt):\n    return f'heard {prompt}'\n"
    )
    file = tmp_path / "pipelines.yaml"
    file.write_text(
        "version: 1\nextends: bub:default\nplugins: {echo: {path: echo.py}}\nprofiles: {p: {plugins: [echo]}}\n"
    )
    view = SimpleNamespace(pipeline_file=file, profile="p", workspace=tmp_path)
    sent: list[tuple[str, bool]] = []

    async def dispatch(reply: Any) -> bool:
        sent.append((reply["content"], asyncio.get_running_loop() is loops[0]))
        return True

    async def command() -> str:
        loops.append(asyncio.get_running_loop())
        async with Beside(view) as runtime:
            result = await runtime.process_inbound({"content": "hello", "channel": "c"}, False, dispatch=dispatch)
            return str(result.model_output)

    loops: list[asyncio.AbstractEventLoop] = []
    assert asyncio.run(command()) == "heard hello"
    assert sent == [("heard hello", True)]


def test_a_file_that_does_not_load_ends_the_command_with_its_error(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text("version: 1\nextends: bub:nothing\n")

    async def command() -> None:
        async with Beside(SimpleNamespace(pipeline_file=file, profile="default", workspace=tmp_path)):
            pass

    with pytest.raises(BubError):
        asyncio.run(command())


def test_a_tool_that_is_called_as_one_of_bubs_own_has_another_name() -> None:
    async def list_all() -> str:
        """List them."""
        return "none"

    def name_of(name: str) -> str:
        return to_bub(Tool.from_callable(list_all, name=name), lambda: within(PLACE), lambda _: {}).name

    assert (name_of("schedule.list"), name_of("calm.list")) == ("schedule.list_plugin", "calm.list")
