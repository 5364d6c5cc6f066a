"""Questions on Telegram: shown with buttons, answered by those who may, and by nobody else, however they try.

The Bot API server and, in the attack, the gateway are processes of their own; that one is killed again and again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.line import opened
from fakes.telegram import ADA, BOB, BOT, TOKEN, BotServer, group, serving_bots

from bub import BubFramework
from bub.channels import ChannelManager
from bub.inbox.mailbox import Mailbox, inbox_file

pytestmark = pytest.mark.anyio

CLICKS = int(os.environ.get("CLICKS", "3"))
"""How often the gateway is killed between a click and the end of the call; `make crash` does it 100 times."""

ANONYMOUS = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
FRIENDS = group()

PIPELINE = """
version: 1
extends: bub:default
plugins: {{work: {{path: work.py}}}}
profiles:
  default:
    plugins: [telegram, work]
    tools: {{allow: ["*"], ask: [{ask}]}}
    approvers: {{telegram: [{approvers}]}}
settings:
  telegram: {{token: "{token}", allow_users: ["*"], base_url: "{address}", stream: false}}
  gateway: {{debounce: 50ms, max_wait: 1s}}
"""

# The model is obedient: to each message it calls the tool, and then it says what came of that.
PLUGIN = """
import os
import time
from pathlib import Path

import trio
from bub import hookimpl, tool
from bub.streaming import AsyncStreamEvents, StreamEvent

DONE = Path(__file__).with_name("done.txt")

@tool(name="work.do")
async def do(what: str) -> str:
    \"\"\"Do something that leaves a trace.\"\"\"
    with DONE.open("a") as file:
        file.write(what + "\\n")
        file.flush()
        os.fsync(file.fileno())
    await trio.sleep(0.02)
    return "did " + what

@hookimpl
def provide_tools():
    return [do]

@hookimpl
def call_model(request):
    return AsyncStreamEvents(answer(request["messages"][-1]))

async def answer(last):
    said = str(last["content"])
    if last["role"] == "user":
        what = said.strip().split()[-1]
        call = {"id": f"c{time.time_ns()}", "name": "work.do", "arguments": {"what": what}}
        yield StreamEvent("tool_call", call)
    else:
        yield StreamEvent.text(said)
"""


@pytest.fixture(scope="module")
def bot_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as server:
        yield server


@pytest.fixture
def server(bot_server: BotServer) -> BotServer:
    bot_server.reset()
    return bot_server


class Office:
    """A gateway's channels in this process, with one group on Telegram."""

    def __init__(self, folder: Path, server: BotServer) -> None:
        self.folder = folder
        self.server = server
        (folder / "work.py").write_text(PLUGIN)
        self.write()

    def write(self, *, ask: str = "work.do", approvers: str = '"7"') -> None:
        filled = PIPELINE.format(token=TOKEN, address=self.server.address, ask=ask, approvers=approvers)
        (self.folder / "pipelines.yaml").write_text(filled)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[ChannelManager]:
        framework = BubFramework(self.folder / "pipelines.yaml", workspace=self.folder)
        async with opened(framework, mailbox=Mailbox(inbox_file(self.folder / "home"), self.folder)) as manager:
            yield manager

    @property
    def done(self) -> list[str]:
        file = self.folder / "done.txt"
        return file.read_text().split() if file.exists() else []

    def questions(self, chat: int = FRIENDS["id"]) -> list[dict[str, Any]]:
        """What the bot asks in a chat, with its buttons, as far as it is open."""
        found = [one["message"] for one in self.server.messages(chat) if not one["deleted"]]
        return [one for one in found if one["from"]["id"] == BOT["id"] and one.get("reply_markup")]

    async def asked(self, chat: int = FRIENDS["id"]) -> dict[str, Any]:
        return (await self.server.until(lambda: self.questions(chat)))[-1]

    def press(self, question: dict[str, Any], *, yes: bool, user: dict[str, Any]) -> None:
        buttons = question["reply_markup"]["inline_keyboard"][0]
        self.server.press(
            question["chat"]["id"], question["message_id"], buttons[0 if yes else 1]["callback_data"], user
        )

    async def told(self, count: int = 1) -> str:
        """What the last of so many presses was answered with."""
        calls = await self.server.until(
            lambda: found if len(found := self.server.calls("answerCallbackQuery")) >= count else None
        )
        return str(calls[-1]["params"].get("text"))

    async def said(self, words: str, chat: int = FRIENDS["id"]) -> None:
        await self.server.until(lambda: any(words in one for one in self.server.said(chat)))


@pytest.fixture
def office(tmp_path: Path, server: BotServer) -> Office:
    return Office(tmp_path, server)


async def test_a_click_of_an_approver_runs_the_call_and_the_question_says_who_it_was(office: Office) -> None:
    async with office.opened() as manager:
        office.server.say("/bub tidy", chat=FRIENDS, user=BOB)
        question = await office.asked()
        assert "may I call work.do with\n  what: tidy" in question["text"]
        office.press(question, yes=True, user=ADA)
        assert await office.told() == "q1: 7 said yes to work.do."
        await office.said("did tidy")
        await office.said("what: tidy\n\nq1: 7 said yes to work.do.")
        await manager.settled()
        tape = "".join(str(entry.payload) for entry in await _entries(manager))
        assert "'answer': 'yes', 'by': 'telegram:7'" in tape
    assert office.done == ["tidy"]
    assert office.questions() == []


async def test_somebody_else_and_the_asker_are_refused_with_words(office: Office) -> None:
    async with office.opened() as manager:
        office.server.say("/bub tidy", chat=FRIENDS, user=BOB)
        question = await office.asked()
        for count, somebody in enumerate((BOB, {**ADA, "id": 70}, ANONYMOUS), 1):
            office.press(question, yes=True, user=somebody)
            if not somebody["is_bot"]:
                assert "You may not answer q1" in await office.told(count)
        for text, more in (
            ("/yes q1", {"user": BOB}),
            ("/yes q1", {"user": ANONYMOUS, "sender_chat": FRIENDS}),
            ("/yes q1", {"user": ADA, "sender_chat": FRIENDS}),
            ("/yes q1", {"user": ADA, "forward_origin": {"type": "user", "date": 1, "sender_user": ADA}}),
            ("/yes", {"user": ADA}),
            ("/yes", {"user": BOB, "reply_to": question["message_id"]}),
        ):
            office.server.say(text, chat=FRIENDS, **more)
        await office.said("Which question?")
        await trio.sleep(0.3)
        assert (office.done, len(office.questions())) == ([], 1)
        office.press(question, yes=False, user=ADA)
        await office.said("the person said no")
        await manager.settled()
    assert office.done == []


@pytest.mark.parametrize("how", ["id", "reply"])
async def test_an_approver_can_write_yes(office: Office, how: str) -> None:
    async with office.opened() as manager:
        office.server.say("tidy", user=ADA)
        question = await office.asked(ADA["id"])
        more = {"reply_to": question["message_id"]} if how == "reply" else {}
        office.server.say("/yes" if how == "reply" else "/yes q1", user=ADA, **more)
        await office.said("did tidy", ADA["id"])
        await manager.settled()
    assert office.done == ["tidy"]


async def test_a_stale_click_is_refused_with_words_and_nothing_runs(office: Office) -> None:
    async with office.opened() as manager:
        office.server.say("/bub tidy", chat=FRIENDS, user=BOB)
        question = await office.asked()
        office.write(ask='"work.*", "fs.*"')
        await trio.to_thread.run_sync(manager._framework.reload)  # type: ignore[attr-defined]
        office.press(question, yes=True, user=ADA)
        assert "has changed since it was asked" in await office.told()
        await manager.settled()
        office.press(question, yes=True, user=ADA)
        assert "no question q1 any more" in await office.told(2)
    assert office.done == []


async def test_without_approvers_it_waits_for_the_operator(office: Office) -> None:
    office.write(approvers="")
    async with office.opened() as manager:
        office.server.say("tidy", user=ADA)
        await office.said("It waits for the operator: bub inbox approve q1", ADA["id"])
        office.server.say("/yes q1", user=ADA)
        await office.said("You may not answer q1", ADA["id"])
        assert await manager._mailbox.answer("q1", True, "operator")
        await office.said("did tidy", ADA["id"])
        await office.said("the operator said yes", ADA["id"])
    assert office.done == ["tidy"]


async def _entries(manager: ChannelManager) -> list[Any]:
    from bub.tape.query import TapeQuery

    store = manager._framework.get_tape_store()  # type: ignore[attr-defined]
    names = await trio.to_thread.run_sync(store.list_tapes)
    return [entry for name in names for entry in await trio.to_thread.run_sync(store.fetch_all, TapeQuery(name))]


# The attack: the gateway is killed between the click and the end of the call, while others click, too.


@pytest.mark.timeout(60 + 15 * CLICKS)
def test_nothing_runs_twice_or_without_a_yes_whenever_kill_9_comes(tmp_path: Path, server: BotServer) -> None:
    chance = random.Random(os.environ.get("SEED", "18"))
    office = Office(tmp_path, server)
    ran = unknown = 0
    gateway = _start(tmp_path)
    try:
        for number in range(CLICKS):
            what = f"job{number}"
            server.say(f"/bub {what}", chat=FRIENDS, user=BOB)
            asked = f"what: {what}\n"  # the buttons of an earlier one may be left by the kill
            question = _until(lambda: [one for one in office.questions() if asked in one["text"]])[-1]  # noqa: B023
            office.press(question, yes=True, user=BOB)
            office.press(question, yes=True, user=ADA)
            time.sleep(chance.random() ** 2 * 0.15)
            gateway.send_signal(signal.SIGKILL)
            gateway.wait()
            before = office.done.count(what)
            gateway = _start(tmp_path)
            if chance.random() < 0.5:
                office.press(question, yes=True, user=BOB)
            # Ada said yes once: she says no to whatever is asked again.
            deadline = time.monotonic() + 40
            while not any(f"did {what}" in one or "said no" in one for one in _replies(server, number)):
                assert time.monotonic() < deadline, (tmp_path / "gateway.log").read_text()[-3000:]
                for again in office.questions():
                    if "whether that took effect is not known" in again["text"]:
                        office.press(again, yes=False, user=ADA)
                time.sleep(0.1)
            assert office.done.count(what) <= 1, what
            ran += office.done.count(what)
            unknown += before
            server.say(f"round {number} is over", chat=FRIENDS, user=BOB)
        # Without Ada's click nothing runs, whoever else clicks.
        server.say("/bub never", chat=FRIENDS, user=BOB)
        question = _until(lambda: [one for one in office.questions() if "never" in one["text"]])[-1]
        office.press(question, yes=True, user=BOB)
        time.sleep(0.5)
    finally:
        gateway.kill()
        gateway.wait()
    assert "never" not in office.done
    assert sorted(set(office.done)) == sorted(office.done)
    print(f"{CLICKS} clicks with kill -9: {ran} calls ran once, {unknown} of them before the kill, none twice")


def _start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bub", "--config", str(folder / "pipelines.yaml"), "gateway"]
    root = str(Path(__file__).parent.parent)
    env = {**os.environ, "BUB_HOME": str(folder / "home"), "PYTHONPATH": f"{root}:{root}/plugins"}
    with (folder / "gateway.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=env)


def _until(found: Any) -> Any:
    deadline = time.monotonic() + 40
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value


def _replies(server: BotServer, rounds: int) -> list[str]:
    """What the bot has said since so many rounds are over, other than questions."""
    told, over = [], 0
    for one in server.messages(FRIENDS["id"]):
        message = one["message"]
        over += str(message.get("text")).startswith("round ")
        if over == rounds and message["from"]["id"] == BOT["id"] and "may I call" not in str(message.get("text")):
            told.append(str(message.get("text")))
    return told
