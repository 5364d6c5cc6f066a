"""A gateway that serves its page: what a browser sees of it, and what it does there."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pexpect
import pytest
from fakes.command_line import SOURCES
from fakes.gateway import FILES, Running, gateway
from fakes.redis_server import RedisServer
from fakes.studio import Browser, bub_studio

from bub.channels.message import ChannelMessage
from bub.inbox.mailbox import inbox_file
from bub.inbox.sqlite import SqliteInbox
from bub.inbox.started import MARK

SECRET = "sk-Zx81yyPq20aBnothing"

LAMP = '''
from bub import hookimpl, tool
from bub.streaming import AsyncStreamEvents, StreamEvent

@tool(name="lamp.on")
async def lamp_on(room: str) -> str:
    """Switch a lamp on."""
    return f"the lamp is on in {room}"

class Lamp:
    @hookimpl
    def provide_tools(self):
        return [lamp_on]

plugin = Lamp
'''

PIPELINE = """
version: 1
extends: bub:default
settings:
  model: openai:gpt-x
  gateway: {shutdown_grace: 1s, listen: "127.0.0.1:0", studio: {listen: "127.0.0.1:0"}}
plugins: {post: {path: post.py}, brain: {path: brain.py}, lamp: {path: lamp.py}}
profiles:
  default: {plugins: [post, lamp], tools: {allow: ["*", lamp.on], ask: [lamp.on]}}
  guest: {description: For guests., plugins: [brain]}
routes: [{match: {channel: post}, profile: guest}]
"""


def write(folder: Path, pipeline: str = PIPELINE) -> Path:
    for name, text in {**FILES, "lamp.py": LAMP, "pipelines.yaml": pipeline}.items():
        (folder / name).write_text(text)
    return folder


def url_of(running: Running) -> str:
    return running.page()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write(tmp_path_factory.mktemp("gateway"))
    with gateway(folder, BUB_HOME=str(folder / "home"), OPENAI_API_KEY=SECRET, longest=120) as running:
        yield running


@pytest.fixture
def browser(running: Running) -> Iterator[Browser]:
    with Browser(url_of(running)) as browser:
        yield browser.enter()


def test_a_turn_is_seen_moving(running: Running, browser: Browser) -> None:
    file = running.folder / "go-on"
    with browser.feed() as feed:
        running.say(f"wait {file} {SECRET}", chat_id="moving")

        def find(batch: dict[str, Any]) -> dict[str, Any] | None:
            rows = [row for row in batch["turns"]["changed"] if row["chat"] == "moving"]
            return next((row for row in rows if row["stages_now"] == ["run_model"] or row["outcome"]), None)

        row = feed.until(find)
        assert (row["phase"], row["profile"], row["channel"]) == ("answering", "guest", "post")
        assert row["session"] == "post:moving"
        assert feed.batches[-1]["running"] == {"guest": {"run_model": 1}}
        assert feed.batches[-1]["live"] == 1
        assert browser.get("turns", state="running")["turns"][0]["id"] == row["id"]
        assert browser.get("stage", profile="guest", stage="run_model")["numbers"]["running"] == 1
        stages = browser.get(f"turns/{row['id']}")["stages"]
        assert [stage["id"] for stage in stages] == ["resolve_session", "load_state", "build_prompt"]
        file.touch()
        assert feed.until(find)["outcome"] == "ok"
        assert feed.batches[-1]["numbers"]["guest"]["run_model"][0] >= 1
    turn = browser.get(f"turns/{row['id']}")
    assert [stage["outcome"] for stage in turn["stages"]].count("failed") == 0
    assert SECRET not in str(turn)
    assert "***" in turn["text"]
    assert browser.get("turns", query="wait", outcome="ok", channel="post")["turns"][0]["id"] == row["id"]
    assert browser.get("turns", outcome="failed")["turns"] == []
    plots = browser.get("plots")
    assert sum(plots["turns"]["ok"]) >= 1
    assert browser.ask("turns/0000000000000000").status_code == 404


def test_what_is_typed_on_the_page_is_asked_about_and_answered_there(running: Running, browser: Browser) -> None:
    with browser.feed() as feed, Browser(url_of(running)).enter() as other:
        told = browser.post("chat", chat="main", profile="default", content=',lamp.on {"room": "the hall"}')
        assert feed.until(lambda batch: batch["approvals"]) == 1
        (asked,) = browser.get("approvals")["open"]
        assert (asked["tool"], asked["session"], asked["channel"]) == ("lamp.on", "studio:main", "studio")
        assert "room: the hall" in asked["arguments"]
        assert browser.get("chat", chat="main")["running"]
        first = browser.post(f"approvals/{asked['id']}", yes=True)
        second = other.post(f"approvals/{asked['id']}", yes=False)
        assert first == {"words": f"{asked['id']}: the operator said yes to lamp.on.", "counts": True, "over": True}
        assert not second["counts"]
        assert second["over"]
        events = feed.events("main", told["message_id"])
        assert any(kind == "message" and "the lamp is on in the hall" in data["content"] for kind, data in events)
        assert browser.get("approvals")["open"] == []
        (turn,) = browser.get("turns", session="studio:main")["turns"]
        (call,) = browser.get(f"turns/{turn['id']}")["activities"]
        assert (call["kind"], call["name"], call["stage"], call["outcome"]) == ("tool", "lamp.on", "run_model", "ok")
    assert not browser.post("approvals/q4711", yes=True)["counts"]
    assert browser.send("approvals/q4711", yes="yes").status_code == 400


def test_a_chat_has_sessions_and_profiles_of_its_own(running: Running, browser: Browser) -> None:
    with browser.feed() as feed, Browser(url_of(running)).enter() as other, other.feed() as others:
        body = {"chat": "post:1", "session_id": "post:1", "channel": "post", "profile": "guest", "content": "hello"}
        said = browser.post("chat", **body)["message_id"]
        for one in (feed, others):
            assert ("text", {"delta": "one hello"}) in one.events("post:1", said)
    (turn,) = browser.get("turns", session="studio:post:1")["turns"]
    assert (turn["profile"], turn["channel"], turn["outcome"]) == ("guest", "studio", "ok")
    assert not browser.get("chat", chat="post:1")["running"]
    assert browser.send("chat", chat="x", profile="nobody", content="hello").status_code == 404
    for chat, content in (("", "x"), ("a\nb", "x"), ("x" * 61, "x"), ("x", " "), ("x", "y" * 200_001)):
        assert browser.send("chat", chat=chat, profile="default", content=content).status_code == 400


def test_what_runs_in_a_chat_is_stopped(running: Running, browser: Browser) -> None:
    with browser.feed() as feed:
        said = browser.post("chat", chat="slow", profile="guest", content=f"wait {running.folder / 'never'}")
        feed.until(lambda batch: any(row["chat"] == "slow" and row["stages_now"] for row in batch["turns"]["changed"]))
        assert browser.post("chat/stop", chat="slow") == {"stopped": True}
        assert feed.events("slow", said["message_id"])[-1] == ("over", {})
    assert browser.post("chat/stop", chat="slow") == {"stopped": False}


def test_what_was_set_aside_is_tried_again_or_dropped(running: Running, browser: Browser) -> None:
    inbox = SqliteInbox(inbox_file(running.folder / "home"), running.folder)
    inbox.open()
    for content in ("try me", "drop me"):
        body, message = inbox.texts.write(ChannelMessage("post", "9", content))
        received = inbox.alone(lambda: inbox.receive(body, message))  # noqa: B023 (it is called at once)
        inbox.alone(lambda: inbox.set_aside("message", [received.id], "it was too much"))  # noqa: B023
    inbox.close()
    one, two = browser.get("inbox")["dead"]
    assert (one["text"], one["reason"], one["channel"], one["chat"]) == ("try me", "it was too much", "post", "9")
    before = len(running.replies)
    assert browser.post(f"inbox/{one['id']}/retry") == {"done": True}
    assert browser.post(f"inbox/{two['id']}/drop") == {"done": True}
    assert running.reply(before + 1) == "one try me"
    assert browser.get("inbox")["dead"] == []
    assert browser.send(f"inbox/{two['id']}/retry").status_code == 404


def test_a_reload_is_seen_with_its_findings_and_takes_away_what_was_asked(running: Running, browser: Browser) -> None:
    file = running.folder / "pipelines.yaml"
    with browser.feed() as feed:
        browser.post("chat", chat="late", profile="default", content=',lamp.on {"room": "x"}')
        feed.until(lambda batch: batch["approvals"])
        (asked,) = browser.get("approvals")["open"]
        before = feed.batches[-1]["reload"]
        file.write_text(PIPELINE + "stages: {run_model: {needs: [prompd]}}\n")
        running.send(signal.SIGHUP)
        feed.until(lambda batch: batch["reload"] > before)
        health = browser.get("health")
        assert health["reloads"][0]["outcome"] == "refused"
        assert "{needs: [prompd]}" in health["reloads"][0]["findings"][0]
        assert "^^^^^^" in health["reloads"][0]["findings"][0]
        assert health["channels"] == {"post": "running"}
        assert health["status"] == "ok"
        file.write_text(PIPELINE.replace("ask: [lamp.on]", "ask: [lamp.on, bash]"))
        running.send(signal.SIGHUP)
        feed.until(lambda batch: batch["reload"] > before + 1)
        assert browser.get("health")["reloads"][0]["outcome"] == "ok"
    said = browser.post(f"approvals/{asked['id']}", yes=True)
    assert not said["counts"]
    assert "has changed since Bub asked" in said["words"]
    file.write_text(PIPELINE)
    running.send(signal.SIGHUP)


def test_the_page_beside_a_gateway_answers_its_questions(running: Running, browser: Browser, tmp_path: Path) -> None:
    browser.post("chat", chat="beside", profile="default", content=',lamp.on {"room": "beside"}')
    home = {"BUB_HOME": str(running.folder / "home"), "BUB_TRUST_WORKSPACE": "1"}
    with bub_studio(tmp_path, "--workspace", str(running.folder), environ=home) as beside, beside.browser() as page:
        assert page.get("state")["gateway"] is False
        running.until(lambda: page.get("approvals")["open"])
        (asked,) = page.get("approvals")["open"]
        assert asked["chat"] == "beside"
        page.post("chat", chat="own", profile="default", content=',lamp.on {"room": "own"}')
        running.until(lambda: len(page.get("approvals")["open"]) == 2)
        own = next(one for one in page.get("approvals")["open"] if one["chat"] == "own")
        assert own["id"].startswith("chat-q")
        assert page.post(f"approvals/{asked['id']}", yes=True)["counts"]
        assert page.post(f"approvals/{own['id']}", yes=False)["counts"]
        running.until(lambda: not browser.get("turns", state="running")["turns"])
    texts = [entry["text"] for entry in browser.get("chat", chat="beside")["entries"]]
    assert any("the lamp is on in beside" in text for text in texts)


def test_a_shared_page_tells_nothing_to_the_log(running: Running, browser: Browser) -> None:
    (cookie,) = browser.http.cookies.values()
    home = running.folder / "home"
    for file in home.rglob("*"):
        if file.is_file():
            assert (browser.token.encode() in file.read_bytes()) is (file.parent == home / "pages"), file
            assert cookie.encode() not in file.read_bytes(), file
    assert browser.token not in running.log


def test_the_address_of_a_service_is_in_a_file_for_its_owner_as_long_as_it_runs(tmp_path: Path) -> None:
    folder = write(tmp_path)
    with gateway(folder, BUB_HOME=str(folder / "home")) as running:
        token = url_of(running).rpartition("#")[2]
        (file,) = (folder / "home" / "pages").iterdir()
        assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
        assert running.end() == 0
    assert not file.exists()
    assert token not in running.log


def test_at_a_terminal_the_address_is_printed_and_written_nowhere(tmp_path: Path) -> None:
    folder = write(tmp_path)
    environment = {**os.environ, "BUB_HOME": str(folder / "home"), "BUB_TRUST_WORKSPACE": "1", "PYTHONPATH": SOURCES}
    terminal = pexpect.spawn(
        sys.executable, ["-m", "bub", "gateway"], cwd=str(folder), env=environment, encoding="utf-8", timeout=30
    )
    terminal.expect(r"bub: the page is at http://127\.0\.0\.1:\d+/#\S+")
    assert not (folder / "home" / "pages").exists()
    terminal.sendintr()
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 130


def test_a_gateway_ends_in_time_whatever_browsers_do(tmp_path: Path) -> None:
    folder = write(tmp_path, PIPELINE.replace("default: {plugins", "default: {channels: [], plugins"))
    said = {"BUB_HOME": str(folder / "home"), "OPENAI_API_KEY": SECRET}
    with gateway(folder, **said) as running, Browser(url_of(running)).enter() as browser:
        health = browser.get("health")
        assert (health["status"], health["channels"]) == ("ok", {})  # the page alone is reason enough to run
        (cookie,) = browser.http.cookies.items()
        port = int(re.findall(r":(\d+)", browser.origin)[0])
        silent = socket.create_connection(("127.0.0.1", port))
        silent.sendall(
            f"GET /api/feed?mark={browser.http.headers['X-Bub']} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
            f"cookie: {'='.join(cookie)}\r\n\r\n".encode()
        )
        with browser.feed() as feed:
            feed.until(lambda batch: batch["health"])
            began = time.monotonic()
            assert running.end() == 0
            assert time.monotonic() - began < 8
        silent.close()


def test_a_gateway_that_bub_started_opens_no_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bub", "gateway"],
        cwd=write(tmp_path),
        env={
            **os.environ,
            "PYTHONPATH": SOURCES,
            "BUB_TRUST_WORKSPACE": "1",
            "BUB_HOME": str(tmp_path / "home"),
            MARK: "1",
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "only a person may open a page that says yes" in done.stderr


def test_healthz_knows_nothing_of_the_page(running: Running) -> None:
    assert running.health["channels"] == {"post": "running"}
    assert httpx.get(running.ask("/healthz").url.copy_with(path="/api/state")).status_code == 404


def test_on_a_shared_store_each_gateway_has_chats_of_its_own(tmp_path: Path, redis: RedisServer) -> None:
    folder = write(tmp_path)
    store = f"{redis.address}?partitions=4&lease=2s"
    said = {"BUB_GATEWAY_STORE": store, "BUB_WORKER": "kiwi", "OPENAI_API_KEY": SECRET}
    with (
        gateway(folder, BUB_HOME=str(folder / "home"), **said) as running,
        Browser(url_of(running)).enter() as browser,
        browser.feed() as feed,
    ):
        told = browser.post("chat", chat="main", profile="guest", content="hello")
        assert ("text", {"delta": "one hello"}) in feed.events("main", told["message_id"])
        browser.post("chat", chat="lamp", profile="default", content=',lamp.on {"room": "x"}')
        assert feed.until(lambda batch: batch["approvals"]) == 1
        (asked,) = browser.get("approvals")["open"]
        assert asked["id"] == "chat-q1"
        assert browser.post("approvals/chat-q1", yes=True)["counts"]
        (worker,) = browser.get("health")["workers"]
        assert (worker["name"], worker["state"], worker["channels"]) == ("kiwi", "running", ["post"])
        assert browser.get("inbox") == {"waiting": [], "outgoing": [], "dead": []}
        assert running.end() == 0
