"""No surface shows what a stream says before it was judged: terminals, `bub run`, Telegram, channels of one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.command_line import SOURCES, bub
from fakes.line import Line, lines, opened
from fakes.screen import CTRL_C, Sitting
from fakes.telegram import ADA, BOT, TOKEN, BotServer, serving_bots
from fakes.toys import Toy, Workshop, a_stream

from bub.channels import Channel
from bub.envelope import content_of
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub_plugins.telegram.channel import TelegramChannel
from bub_plugins.telegram.settings import TelegramSettings

MODEL = """
import pathlib
import trio
from bub import hookimpl
from bub.envelope import content_of
from bub.streaming import StreamEvent

HERE = pathlib.Path(__file__).parent


@hookimpl
async def run_model_stream(prompt):
    what = "hunter2" if prompt == "tell" else "well kept"
    yield StreamEvent("reasoning", {"delta": f"they want {what}"})
    for word in f"the secret is {what}\\n\\n".split(" "):
        yield StreamEvent.text(f"{word} ")
    (HERE / "said").touch()


async def go():
    while not (HERE / "go").exists():
        await trio.sleep(0.01)


@hookimpl
"""
DENYING = f"""{MODEL}async def judge(model_output):
    await go()
    return {{"deny": "withheld"}} if "hunter2" in model_output else None
"""
CHANGING = f"""{MODEL}async def message_sending(message):
    await go()
    return {{"message": {{"content": content_of(message).replace("hunter2", "[redacted]")}}}}
"""
GATED = """
extends: bub:default
hooks: {judge: {kind: gate, takes: [model_output]}}
stages: {judge: {after: run_model}}
"""
ROOMS = {
    "denied": (GATED, DENYING, "withheld"),
    "changed": ("extends: bub:ethos", CHANGING, "the secret is [redacted]"),
}


@pytest.fixture(params=ROOMS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A folder whose agent may not tell the secret, and what it says instead."""
    pipeline, plugin, said = ROOMS[request.param]
    (tmp_path / "secret.py").write_text(plugin, encoding="utf-8")
    listed = "plugins: {secret: {path: secret.py}}\nprofiles: {default: {plugins: [secret]}}"
    (tmp_path / "pipelines.yaml").write_text(f"version: 1\n{pipeline}\n{listed}\n", encoding="utf-8")
    return tmp_path, said


def sit(folder: Path, **options: Any) -> Sitting:
    return Sitting(folder, "--config", str(folder / "pipelines.yaml"), "chat", **options)


def wait_for(file: Path, chat: Sitting) -> None:
    chat.see(lambda _: file.exists())


def test_a_terminal_shows_that_it_works_and_never_what_was_withheld(room: tuple[Path, str]) -> None:
    folder, said = room
    with sit(folder) as chat:
        chat.see_prompt()
        chat.say("tell")
        wait_for(folder / "said", chat)
        chat.see(lambda _: any("s · Ctrl-C stops" in row for row in chat.rows))
        (folder / "go").touch()
        chat.see(said)
        chat.see_prompt()
        assert chat.text.count(said) == 1
        assert "hunter2" not in chat.raw
        assert "they want" not in chat.raw


def test_a_terminal_shows_an_answer_once_it_was_judged_and_once_only(room: tuple[Path, str]) -> None:
    folder, _ = room
    with sit(folder) as chat:
        chat.see_prompt()
        chat.say("anything else")
        wait_for(folder / "said", chat)
        chat.see("Ctrl-C stops")
        assert "the secret" not in chat.raw
        (folder / "go").touch()
        chat.see("the secret is well kept")
        chat.see_prompt()
        assert chat.text.count("the secret is well kept") == 1
        assert chat.text.count("they want well kept") == 1


def test_what_waits_is_gone_when_a_person_stops_it(room: tuple[Path, str]) -> None:
    folder, _ = room
    with sit(folder) as chat:
        chat.see_prompt()
        chat.say("tell")
        wait_for(folder / "said", chat)
        chat.see("Ctrl-C stops")
        chat.type(CTRL_C)
        chat.see("stopped")
        chat.see_prompt()
        assert "secret" not in chat.text
        chat.say(",quit")
        assert chat.end() == 0
        assert "hunter2" not in chat.raw


def test_a_dumb_terminal_and_a_pipe_show_no_more(room: tuple[Path, str]) -> None:
    folder, said = room
    (folder / "go").touch()
    with sit(folder, TERM="dumb") as chat:
        chat.see(">")
        chat.say("tell")
        chat.see(said)
        assert "hunter2" not in chat.raw
    command = [sys.executable, "-m", "bub", "--config", str(folder / "pipelines.yaml"), "chat"]
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    piped = subprocess.run(command, input="tell", capture_output=True, text=True, cwd=folder, env=environment)
    assert piped.stdout.strip() == said
    assert "hunter2" not in piped.stderr


def test_run_streams_what_is_left(room: tuple[Path, str]) -> None:
    folder, said = room
    (folder / "go").touch()
    done = bub(folder, "--config", str(folder / "pipelines.yaml"), "run", "--stream", "tell")
    assert done.stdout.split() == ["[cli:local]", *said.split()]
    assert "hunter2" not in done.stderr


# Channels


@pytest.fixture(scope="module")
def bots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as server:
        yield server


def talking(*script: str | float | StreamEvent) -> Callable[[], AsyncStreamEvents]:
    return lambda: a_stream(*script)


def redacting(message: Any) -> dict[str, Any]:
    return {"message": {"content": content_of(message).replace("hunter2", "[redacted]")}}


@pytest.mark.anyio
async def test_a_draft_of_telegram_never_holds_what_was_taken_out(workshop: Workshop, bots: BotServer) -> None:
    def provide_channels(message_handler: Any) -> list[Channel]:
        settings = TelegramSettings(token=TOKEN, base_url=bots.address, allow_users=["*"])
        return [TelegramChannel(settings, message_handler)]

    calls = (StreamEvent("tool_call", {"id": "1", "name": "bash"}), 3.0, StreamEvent("tool_result", {"id": "1"}))
    model = talking("the secret is hunter2", *calls, ", I said")
    office = Toy(provide_channels=provide_channels, run_model_stream=model, message_sending=redacting)
    framework = workshop("extends: bub:ethos\nsettings: {gateway: {debounce: 50ms}}", office=office)
    async with opened(framework, ("telegram",)) as manager:
        bots.say("hello")
        await bots.until(lambda: "the secret is [redacted], I said" in bots.said(ADA["id"]), seconds=60)
        await manager.settled()
    mine = [one for one in bots.messages(ADA["id"]) if one["message"]["from"]["id"] == BOT["id"]]
    forms = [form["text"] for one in mine for form in one["history"]]
    assert forms == ["…", "⚙ bash …", "the secret is [redacted], I said"]


@pytest.mark.anyio
@pytest.mark.parametrize(("said", "left"), [("hunter2", "[redacted]"), ("42", "42")])
async def test_a_channel_of_ones_own_is_told_what_is_left(workshop: Workshop, said: str, left: str) -> None:
    line = Line()
    stand = Toy(provide_channels=lines(line), run_model_stream=talking("it is ", said), message_sending=redacting)
    async with opened(workshop("extends: bub:ethos", stand=stand), ("line",)) as manager:
        await line.say("hello")
        await manager.settled()
    assert [(event.kind, event.data["delta"]) for event, _ in line.events] == [("text", f"it is {left}")]
    assert line.said == [f"it is {left}"]
