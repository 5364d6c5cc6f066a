"""Who may talk to a bot is as the file says from the moment it is loaded anew: a real gateway, a server of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from fakes.command_line import bub
from fakes.gateway import Running, gateway
from fakes.telegram import ADA, BOB, TOKEN, BotServer, serving_bots

pytestmark = pytest.mark.anyio

PIPELINE = """
version: 1
extends: bub:default
plugins: {{echo: {{path: echo.py}}}}
profiles: {{default: {{plugins: [telegram, echo]}}}}
settings:
  telegram: {{token: "{token}", allow_users: {users}, base_url: "{address}"{more}}}
  gateway: {{debounce: 50ms}}
"""

ECHO = """
from pathlib import Path

import trio
from bub import hookimpl

@hookimpl
async def run_model(prompt):
    while "wait" in prompt and not Path("go").exists():
        Path("waits").touch()
        await trio.sleep(0.01)
    return f"you said {prompt.splitlines()[-1]}"
"""


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as server:
        yield server


class House:
    """A folder with a pipeline file that lists who may talk to the bot."""

    def __init__(self, folder: Path, server: BotServer) -> None:
        self.folder, self.server = folder, server
        (folder / "echo.py").write_text(ECHO)

    def admit(self, users: str, more: str = "") -> None:
        text = PIPELINE.format(token=TOKEN, users=users, address=self.server.address, more=more)
        (self.folder / "pipelines.yaml").write_text(text)

    def reload(self, running: Running, number: int) -> None:
        running.process.send_signal(1)
        running.wait_for_log("channel.renewed", number)

    async def hear(self, user: dict[str, object], number: int) -> str:
        said = await self.server.until(lambda: self.server.said(int(str(user["id"])))[number - 1 :])
        return said[0]


async def test_who_is_taken_off_the_list_is_refused_at_once_and_who_is_put_on_it_is_let_in(
    tmp_path: Path, server: BotServer
) -> None:
    house = House(tmp_path, server)
    house.admit(f'["{ADA["id"]}"]')
    with gateway(tmp_path, BUB_HOME=str(tmp_path / "home")) as running:
        server.say("one", user=ADA)
        assert "you said" in await house.hear(ADA, 1)
        house.admit(f'["{BOB["id"]}"]')
        await trio.to_thread.run_sync(house.reload, running, 1)
        server.say("two", user=ADA)
        assert (await house.hear(ADA, 2)).startswith("I may not talk to you.")
        server.say("three", user=BOB)
        assert "you said" in await house.hear(BOB, 1)
        assert "restart_needed" not in running.log
        house.admit("[]", ', proxy: "http://127.0.0.1:9"')
        await trio.to_thread.run_sync(house.reload, running, 2)
        server.say("four", user=BOB)
        assert (await house.hear(BOB, 2)).startswith("I may not talk to you.")
        running.wait_for_log("pipeline.restart_needed settings=telegram.proxy")
        assert running.end() == 0


async def test_what_waits_from_somebody_who_was_taken_off_the_list_is_set_aside(
    tmp_path: Path, server: BotServer
) -> None:
    server.reset()
    house = House(tmp_path, server)
    house.admit('["ada"]')
    with gateway(tmp_path, BUB_HOME=str(tmp_path / "home")) as running:
        server.say("wait for me", user=ADA)
        await trio.to_thread.run_sync(running.until, (tmp_path / "waits").exists)
        server.say("behind it", user=ADA)
        await server.until(lambda: not server.pending())
        house.admit(f'["{BOB["id"]}"]')
        await trio.to_thread.run_sync(house.reload, running, 1)
        (tmp_path / "go").touch()
        assert await house.hear(ADA, 1) == "you said wait for me"
        running.wait_for_log("inbound.not_admitted channel=telegram chat=7")
        house.admit('["ada"]')
        await trio.to_thread.run_sync(house.reload, running, 2)
        assert bub(tmp_path, "inbox", "retry", "--all", BUB_HOME=str(tmp_path / "home")).returncode == 0
        assert await house.hear(ADA, 2) == "you said behind it"
