"""Each page of `docs/how-to/` is followed from top to bottom, with real servers, and does what its title says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from fakes.line import opened
from fakes.reader import Reader
from fakes.scripted import serving
from fakes.telegram import ADA, BOB, TOKEN, BotServer, private, serving_bots

from bub import BubFramework
from bub.channels import ChannelManager
from bub.inbox.mailbox import Mailbox, inbox_file

HOW_TOS = Path(__file__).parent.parent / "docs" / "how-to"
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
