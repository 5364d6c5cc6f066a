"""bub-slack, as it is, beside Telegram in one gateway, which is killed, reloaded, and whose island is blocked.

bub-slack acknowledges a message to Slack before it hands it to Bub. What is between the two when the process is killed
is lost, whoever runs the plugin; all else is answered. `make beside PACKAGE=bub-slack` runs it where it is installed.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes.beside import LONGEST_TEST, check, live_beside
from fakes.command_line import ROOT
from fakes.telegram import serving_bots

from tests.compat.names import Names
from tests.compat.services.slack import Slack

TRAP = """
import time
from pathlib import Path
from slack_sdk.web.async_client import AsyncWebClient

_react = AsyncWebClient.reactions_add

async def _react_slowly(*arguments, **named):
    # bub-slack calls it on its loop, when it has acknowledged a message and has not handed it to Bub.
    while Path("blocked").exists():
        Path("begun").touch()
        time.sleep(0.01)
    return await _react(*arguments, **named)

AsyncWebClient.reactions_add = _react_slowly
"""


class SlackBeside:
    """The fake of Slack in a thread of its own."""

    name = "slack"
    plugin = "{runtime: asyncio}"
    settings = "{bot_token: xoxb-1, app_token: xapp-1}"
    files = {"brain.py": TRAP}  # noqa: RUF012 (nobody changes it)

    def __init__(self, folder: Path) -> None:
        self._slack = Slack()
        self._names = Names(folder)
        self._loop = asyncio.new_event_loop()
        self._stamps = itertools.count(1)

    @property
    def environment(self) -> dict[str, str]:
        variables = self._names.variables
        return {**variables, "PYTHONPATH": f"{variables['PYTHONPATH']}:{ROOT}"}

    def say(self, text: str, chat: str) -> None:
        self._do(self._slack.say(text, channel=f"D{chat}", user=f"U{chat}", ts=f"{next(self._stamps)}.1"))

    @property
    def is_connected(self) -> bool:
        return bool(self._slack.connections)

    @property
    def unconfirmed(self) -> list[str]:
        return [envelope.body["payload"]["event"]["text"] for envelope in list(self._slack.waiting.values())]

    @property
    def repeated(self) -> list[str]:
        return self._slack.repeated

    @property
    def posts(self) -> list[str]:
        return list(self._slack.posts)

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        runner = self._do(self._names.open(self._slack))
        sending = asyncio.run_coroutine_threadsafe(self._slack.keep_sending(), self._loop)
        try:
            yield
        finally:
            sending.cancel()
            self._do(runner.cleanup())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(5)

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


@pytest.mark.timeout(LONGEST_TEST)
def test_bub_slack_loses_nothing_that_bub_has_and_telegram_waits_for_nobody(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    slack = SlackBeside(tmp_path)
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as bots, slack.serving():
        beside = live_beside(bots, slack, folder)
        check(beside)
