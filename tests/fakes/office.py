"""A gateway whose agent does what it is told, in one group on Telegram: Bob asks for something, Ada may say yes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fakes.line import opened
from fakes.telegram import BOT, TOKEN, BotServer, group

from bub import BubFramework
from bub.channels import ChannelManager
from bub.inbox.mailbox import Mailbox, inbox_file

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
from bub.agent.calls.asking import current_call
from bub.asking import Form
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

@tool(name="work.poll", reaches=None)
async def poll() -> str:
    \"\"\"Ask something for somebody else, as a server does.\"\"\"
    answer = await current_call.get().fill(Form("the server `docs`", "Drafts, too?"))
    return "it goes on" if answer.content is not None else "it ends"

@hookimpl
def provide_tools():
    return [do, poll]

@hookimpl
def call_model(request):
    return AsyncStreamEvents(answer(request["messages"][-1]))

async def answer(last):
    said = str(last["content"])
    if last["role"] == "user":
        what = said.strip().split()[-1]
        call = {"id": f"c{time.time_ns()}", "name": "work.do", "arguments": {"what": what}}
        if what == "poll":
            call |= {"name": "work.poll", "arguments": {}}
        yield StreamEvent("tool_call", call)
    else:
        yield StreamEvent.text(said)
"""


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
