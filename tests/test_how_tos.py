"""Each page of `docs/how-to/` is followed from top to bottom, with real servers, and does what its title says."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import trio
from fakes import systemctl
from fakes.command_line import SOURCES
from fakes.gateway import Running, gateway
from fakes.line import opened
from fakes.packages import make_request
from fakes.reader import Reader
from fakes.redis_server import RedisServer, serving_redis
from fakes.scripted import serving
from fakes.telegram import ADA, BOB, TOKEN, BotServer, private, serving_bots
from hatchling.builders.wheel import WheelBuilder

from bub import BubFramework
from bub.channels import ChannelManager
from bub.inbox.mailbox import Mailbox, inbox_file

ROOT = Path(__file__).parent.parent
HOW_TOS = ROOT / "docs" / "how-to"
if not HOW_TOS.is_dir():
    pytest.skip("the how-tos are part of a checkout only", allow_module_level=True)

PAGES = sorted(page.name for page in HOW_TOS.glob("*.md"))
ONE_SCREEN = 60
EVE = {"id": 9, "is_bot": False, "first_name": "Eve"}
WRITE = 'DO {"id": "a", "tool": "fs_write", "arguments": {"path": "notes.txt", "content": "milk"}}'
"""What makes the model of these tests write a file."""


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """Serve a model that does what it is told."""
    with serving(program="obedient_server.py") as address:
        yield address


@pytest.fixture(scope="module")
def bots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as server:
        yield server


@pytest.fixture
def telegram(bots: BotServer, model: str, monkeypatch: pytest.MonkeyPatch) -> BotServer:
    """Let Telegram and a model be at hand, as if the settings named them."""
    bots.reset()
    for name, value in {
        "TELEGRAM_TOKEN": TOKEN,
        "BUB_TELEGRAM_TOKEN": TOKEN,
        "BUB_TELEGRAM_BASE_URL": bots.address,
        "BUB_TELEGRAM_STREAM": "false",
        "BUB_GATEWAY_DEBOUNCE": "50ms",
        "BUB_MODEL": "openai:obedient",
        "BUB_PROVIDERS_OPENAI_API_BASE": f"{model}/v1",
        "OPENAI_API_KEY": "sk-0123456789abcdef",
    }.items():
        monkeypatch.setenv(name, value)
    return bots


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """One who has made a folder and trusts it, as the first page says."""
    found = Reader(tmp_path, tmp_path / "home")
    found.follow(HOW_TOS / "README.md")
    return found


@asynccontextmanager
async def at_work(reader: Reader) -> AsyncIterator[ChannelManager]:
    """Run the channels of the reader's file, as `bub gateway` does."""
    framework = BubFramework(reader.folder / "pipelines.yaml", workspace=reader.folder)
    async with opened(framework, mailbox=Mailbox(inbox_file(reader.home), reader.folder)) as manager:
        yield manager


def while_at_work(reader: Reader, main: Callable[[ChannelManager], Awaitable[None]]) -> None:
    """Do something while the channels run."""

    async def run() -> None:
        async with at_work(reader) as manager:
            await main(manager)

    trio.run(run)


# All of them


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short(name: str) -> None:
    assert len((HOW_TOS / name).read_text(encoding="utf-8").splitlines()) < ONE_SCREEN


def test_each_page_is_listed() -> None:
    listed = (HOW_TOS / "README.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if name != "README.md" and f"]({name})" not in listed] == []


# One by one


def test_something_else_answers_than_the_model(reader: Reader) -> None:
    reader.follow(HOW_TOS / "swap-the-model.md")


def test_a_tool_waits_for_a_yes_of_who_may_say_it(
    reader: Reader, telegram: BotServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.follow(HOW_TOS / "ask-before-a-tool.md")
    monkeypatch.setenv("BUB_TELEGRAM_ALLOW_USERS", "7,8")
    note = reader.folder / "notes.txt"

    async def main(manager: ChannelManager) -> None:
        telegram.say(WRITE, user=BOB, chat=private(BOB))
        question = await telegram.until(
            lambda: [one["message"] for one in telegram.messages(BOB["id"]) if one["message"].get("reply_markup")]
        )
        listed = await trio.to_thread.run_sync(reader.bub, "inbox", "list")
        assert "q1" in listed and "fs.write" in listed
        button = question[0]["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
        telegram.press(BOB["id"], question[0]["message_id"], button, BOB)
        await telegram.until(lambda: telegram.calls("answerCallbackQuery"))
        assert not note.exists()
        telegram.press(BOB["id"], question[0]["message_id"], button, ADA)
        await telegram.until(lambda: "done" in telegram.said(BOB["id"]))
        await manager.settled()

    while_at_work(reader, main)
    assert note.read_text() == "milk"


def test_friends_are_answered_with_less_and_strangers_are_not(reader: Reader, telegram: BotServer) -> None:
    reader.answers["bub config set telegram.token"] = lambda line: reader.bub(*line.split()[1:], given=TOKEN)
    reader.answers["bub gateway"] = lambda _: ""
    reader.follow(HOW_TOS / "friends-and-strangers.md")
    assert TOKEN in (reader.folder / ".env").read_text(encoding="utf-8")
    note = reader.folder / "notes.txt"

    async def main(manager: ChannelManager) -> None:
        for person in (BOB, EVE):
            telegram.say(WRITE, user=person, chat=private(person))
        await telegram.until(lambda: telegram.said(BOB["id"]) and telegram.said(EVE["id"]))
        await manager.settled()

    while_at_work(reader, main)
    assert telegram.said(BOB["id"]) == ["done"]
    assert telegram.said(EVE["id"]) == ["I may not talk to you. Your Telegram id is 9."]
    assert not note.exists()


@pytest.mark.skipif(find_spec("mcp") is None, reason="needs the extra `mcp`")
def test_a_tool_of_a_server_is_called(reader: Reader) -> None:
    reader.answers["pip install"] = lambda _: ""
    reader.follow(HOW_TOS / "mcp-server.md")


def test_a_schedule_fires_in_its_chat(reader: Reader, telegram: BotServer) -> None:
    reader.answers["bub gateway"] = lambda _: ""  # it runs below, and finds what was to fire
    reader.follow(HOW_TOS / "schedule.md")

    telegram.say("/start")  # no bot begins a chat

    async def main(manager: ChannelManager) -> None:
        await telegram.until(lambda: "done" in telegram.said(ADA["id"]))
        await manager.settled()

    while_at_work(reader, main)


def test_the_cost_of_an_answer_is_told(reader: Reader, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_PROVIDERS_DEEPSEEK_API_BASE", f"{address}/v1")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-0123456789abcdef")
    reader.follow(HOW_TOS / "cost.md")


@pytest.mark.skipif(sys.platform != "linux", reason="units are systemd's")
def test_a_service_runs_and_is_removed(
    reader: Reader, telegram: BotServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs, state = tmp_path / "bin", tmp_path / "state"
    for folder in (programs, state, Path.home()):
        folder.mkdir()
    (programs / "systemctl").write_text(f'#!/bin/sh\nexec {sys.executable} {systemctl.__file__} "$@"\n')
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.setenv("SYSTEMCTL_STATE", str(state))
    reader.variables["PATH"] = f"{programs}:/usr/bin:/bin"
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    reader.means["127.0.0.1:9464"] = listen

    def keep(line: str) -> str:
        printed = reader.bub(*line.split()[1:], given=TOKEN)
        with (reader.folder / ".env").open("a") as file:
            file.write(f"BUB_TELEGRAM_BASE_URL={telegram.address}\n")
        return printed

    reader.answers["bub config set telegram.token"] = keep
    reader.answers["bub gateway --install"] = lambda line: reader.bub(*line.split()[1:], "--yes")
    reader.answers["sudo loginctl"] = lambda _: ""
    try:
        reader.follow(HOW_TOS / "service.md")
        (unit,) = Path.home().glob(".config/systemd/user/*.service")
        assert complaints_about(unit) == ""
    finally:
        gone = reader.bub("gateway", "--uninstall", "--yes")
    assert "is stopped and removed" in gone
    assert not unit.exists()


def complaints_about(unit: Path) -> str:
    """Return what systemd says of a unit; nothing if the machine has no systemd, or likes it."""
    if shutil.which("systemd-analyze") is None:
        return ""
    command = ["systemd-analyze", "verify", "--user", str(unit)]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(unit.parent)}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=20)
    return "\n".join(line for line in done.stderr.splitlines() if unit.stem in line)  # it names the machine's, too


def test_a_package_is_built_installed_and_listed(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = make_request(tmp_path, monkeypatch).environment
    monkeypatch.syspath_prepend(str(environment.site))  # so that `bub` of this process has what was installed there

    def build(_: str) -> str:
        (wheel,) = WheelBuilder(str(reader.folder)).build(directory=str(reader.folder / "dist"), versions=["standard"])
        return str(wheel)

    def install(line: str) -> str:
        command = [environment.python, "-m", *line.split(), "--yes"]
        said = {**os.environ, **reader.environment}
        done = subprocess.run(command, cwd=reader.folder, env=said, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    reader.answers["pipx run build"] = build
    reader.answers["pipx run twine"] = lambda _: ""
    reader.answers["cd ../elsewhere"] = lambda _: reader.move(tmp_path / "elsewhere", reader.home)
    reader.answers["bub plugins add"] = install
    reader.follow(HOW_TOS / "publish-a-plugin.md")


def test_a_plugin_that_was_written_for_the_other_bub_answers(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])  # which finds names of the other Bub for the plugin
    reader.answers["pip install"] = lambda _: ""
    reader.follow(HOW_TOS / "reference-plugin.md")


def test_a_session_goes_on_at_another_machine(
    reader: Reader, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUB_MODEL", "openai:echo")
    monkeypatch.setenv("BUB_PROVIDERS_OPENAI_API_BASE", f"{address}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    reader.bub("run", "Our cat is called Otto.")
    new = tmp_path / "new"

    def carry(_: str) -> str:
        return str(shutil.copytree(reader.folder, new / "agent"))

    reader.answers["rsync"] = carry
    reader.answers["ssh"] = lambda _: reader.move(new, tmp_path / "new-home")
    reader.follow(HOW_TOS / "move-a-session.md")
    assert "You said: What is it called?" in reader.bub("run", "What is it called?")
    assert "Our cat is called Otto." in reader.bub("tape", "show", "cli:local")


def test_a_gateway_goes_on_for_the_other(reader: Reader, telegram: BotServer) -> None:
    gateways: list[Running] = []
    with serving_redis(password="long-and-secret") as redis, ExitStack() as machines:
        reader.means["redis.example:6379"] = f"127.0.0.1:{redis.port}"

        def start(_: str) -> str:
            for name in ("one", "two"):
                folder = shutil.copytree(reader.folder, reader.folder.parent / name)
                gateways.append(machines.enter_context(gateway(folder, **reader.variables)))
            return ""

        def look(*shares: int) -> str:
            """Type it once the partitions are shared out like that, and the channel runs."""
            gateways[-1].until(lambda: shares_in(redis) == [*shares], f"{shares}")
            gateways[-1].until(lambda: redis.ask("KEYS", "*:lease:channel:telegram"), "the channel runs")
            return reader.bub("gateway", "status")

        def look_again_without_one(_: str) -> str:
            if reader.typed.count("bub gateway status") == 1:
                return look(16, 16)
            gateways.pop(0).end()
            telegram.say("hello")
            gateways[0].until(lambda: telegram.said(ADA["id"]) == ["done"], "the other one answers")
            return look(32)

        reader.answers |= dict.fromkeys(("redis-server", "pip install"), lambda _: "")
        reader.answers["bub gateway status"] = look_again_without_one
        reader.answers["bub gateway"] = start
        reader.follow(HOW_TOS / "two-machines.md")


def shares_in(redis: RedisServer) -> list[int]:
    """Return how many partitions each gateway has."""
    keys = [key for key in redis.ask("KEYS", "*:lease:partition:*") if not key.endswith(b":epoch")]
    tokens = [token for key in keys if (token := redis.ask("GET", key))]
    return [*Counter(token.partition(b":")[2] for token in tokens).values()]
