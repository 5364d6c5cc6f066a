"""Telegram on a bad day: it answers late, cuts connections, refuses, and says again what it had said before.

The Bot API server is a process of its own; the channel, the inbox and the outbox are the real ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from time import monotonic
from typing import Any
from urllib.parse import urlencode

import pytest
from fakes.telegram import TOKEN, BotServer, serving_bots

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def bot_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BotServer]:
    with serving_bots(tmp_path_factory.mktemp("bots") / "state.db") as server:
        yield server


@pytest.fixture
def server(bot_server: BotServer) -> BotServer:
    bot_server.reset()
    return bot_server


# The server itself.


def call(server: BotServer, method: str, **params: Any) -> tuple[int, Any]:
    """Call a method as any client would; the status of the answer and its result, or 0 and None."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("GET", f"/bot{TOKEN}/{method}?{urlencode(params)}")
        answer = connection.getresponse()
        return answer.status, json.load(answer).get("result")
    except (HTTPException, OSError):
        return 0, None
    finally:
        connection.close()


def test_the_server_of_the_tests_fails_as_it_is_told(server: BotServer) -> None:
    server.say("hi")
    server.fault("sendMessage", cut="before")
    server.fault("sendMessage", cut="after")
    server.fault("sendMessage", status=401, description="Unauthorized")
    server.fault("sendMessage", status=400, description="can't parse entities", given="entities")
    texts = ["lost", "cut", "refused", "plain", "styled"]
    entities = '[{"type": "bold", "offset": 0, "length": 1}]'
    given = [{"text": text} | ({"entities": entities} if text == "styled" else {}) for text in texts]
    assert [call(server, "sendMessage", chat_id=7, **each)[0] for each in given] == [0, 0, 401, 200, 400]
    assert server.said(7) == ["cut", "plain"]
    server.fault("sendMessage", late=0.3)
    began = monotonic()
    assert call(server, "sendMessage", chat_id=7, text="late")[0] == 200
    assert monotonic() - began >= 0.3


def test_the_server_of_the_tests_has_bad_weather_and_says_again_what_was_confirmed(server: BotServer) -> None:
    update = server.say("hi")
    server.weather(0.5, seed=1, sendMessage=[{"status": 500}, {"cut": "after"}])
    came = [call(server, "sendMessage", chat_id=7, text=str(number))[0] for number in range(40)]
    assert {0, 200, 500} == set(came)
    assert len(server.said(7)) == 40 - came.count(500)
    server.weather(0)
    after = update["update_id"] + 1
    assert call(server, "getUpdates", offset=after) == (200, [])
    assert server.pending() == []
    server.redeliver(1)
    assert call(server, "getUpdates", offset=after) == (200, [update])
