"""The HTTP channel in a gateway that is killed, ended and loaded anew, and what is imported without it."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes.command_line import bub
from fakes.gateway import BRAIN, Running, gateway
from fakes.web_channel import SECRET, TOKEN
from test_architecture import loaded_by

from bub.inbox.sqlite import SqliteInbox

PIPELINE = """
version: 1
extends: bub:default
settings:
  gateway: {shutdown_grace: 4s}
  http:
    listen: 127.0.0.1:0
    clients:
      ada: {token: "${env:ADA_TOKEN}", profiles: [default]}
    webhooks:
      later:
        clients: [ada]
        text: "{text}"
        session: "{s}"
        answer_within: 0s
        callback: {url: "URL", secret: "${env:HOOK_SECRET}"}
      now: {clients: [ada], text: "{text}", session: "{s}", answer_within: 20s}
plugins: {brain: {path: brain.py}}
profiles: {default: {plugins: [http, brain]}}
"""

LAST_LINE = BRAIN.replace("        if prompt", "        prompt = prompt.splitlines()[-1]\n        if prompt", 1)
"""A brain that leaves out what the prompt says of the context."""

KEYS = {"ADA_TOKEN": TOKEN, "HOOK_SECRET": SECRET}


class Replies:
    """Where replies are called back to: a server in a thread, which outlives the gateway."""

    def __init__(self) -> None:
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

        came = self.came = list[str]()

        class Take(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["content-length"])))
                came.append(said["content"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)


@pytest.fixture
def replies() -> Iterator[Replies]:
    made = Replies()
    yield made
    made.close()


@contextmanager
def running(folder: Path, replies: Replies) -> Iterator[tuple[Running, str]]:
    (folder / "brain.py").write_text(LAST_LINE)
    (folder / "pipelines.yaml").write_text(PIPELINE.replace("URL", replies.url))
    with gateway(folder, **KEYS) as found:
        address = re.search(r"http\.listening address=(127\.0\.0\.1:\d+)", found.log)
        assert address is not None
        yield found, f"http://{address[1]}/hooks"


def post(url: str, text: str, key: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {TOKEN}", "idempotency-key": key}
    return httpx.post(url, json={"text": text, "s": key}, headers=headers, timeout=30)


def test_what_was_accepted_outlives_a_kill_and_is_answered_once(tmp_path: Path, replies: Replies) -> None:
    with running(tmp_path, replies) as (found, url):
        for number in range(10):
            assert post(f"{url}/later", "wait go", f"k{number}").status_code == 202
        found.until((tmp_path / "go.begun").exists)
        found.send(signal.SIGKILL)
        found.process.wait(20)
    (tmp_path / "go").touch()
    with running(tmp_path, replies) as (found, url):
        found.until(lambda: len(replies.came) >= 10, "all are called back")
        for number in range(10):  # sent again by who does not know what became of them
            came = post(f"{url}/later", "wait go", f"k{number}")
            assert (came.status_code, came.json()["replies"][0]["content"]) == (200, "one wait go")
        assert post(f"{url}/later", "another", "k1").status_code == 409
        assert found.end() == 0
    assert replies.came == ["one wait go"] * 10
    inbox = SqliteInbox(tmp_path / "home" / "tapes" / "inbox.db", tmp_path)
    inbox.open()
    assert inbox.alone(inbox.list_entries) == []
    inbox.close()


def test_who_waits_at_the_end_is_answered_or_learns_that_it_is_kept(tmp_path: Path, replies: Replies) -> None:
    with running(tmp_path, replies) as (found, url), ThreadPoolExecutor(2) as threads:
        first = threads.submit(post, f"{url}/now", "wait one", "k1")
        found.until((tmp_path / "one.begun").exists)
        second = threads.submit(post, f"{url}/now", "wait never", "k2")
        found.until((tmp_path / "never.begun").exists)
        found.send(signal.SIGTERM)
        (tmp_path / "one").touch()
        assert first.result(30).json()["replies"] == [{"kind": "normal", "content": "one wait one"}]
        assert second.result(30).status_code == 202
        assert found.process.wait(20) == 0
    assert TOKEN not in found.log and SECRET not in found.log


def test_a_reload_takes_a_token_away_at_once(tmp_path: Path, replies: Replies) -> None:
    with running(tmp_path, replies) as (found, url):
        assert post(f"{url}/now", "hi", "k1").status_code == 200
        text = (tmp_path / "pipelines.yaml").read_text()
        (tmp_path / "pipelines.yaml").write_text(text.replace("${env:ADA_TOKEN}", "${env:HOOK_SECRET}"))
        found.send(signal.SIGHUP)
        found.wait_for_log("channel.renewed")
        assert post(f"{url}/now", "hi", "k2").status_code == 401
        (tmp_path / "pipelines.yaml").write_text(text.replace("profiles: [default]}", "profiles: [gone]}"))
        found.send(signal.SIGHUP)
        found.wait_for_log("pipeline.reload_refused")
        assert post(f"{url}/now", "hi", "k3").status_code == 401


SERVER = {"hypercorn", "starlette", "anyio", "bub_plugins.http.serving", "bub.channels.web"}
"""What only a channel that listens loads."""


@pytest.mark.parametrize("command", ["validate", "hooks", "run hello"])
def test_a_command_that_does_not_listen_loads_no_server(tmp_path: Path, replies: Replies, command: str) -> None:
    (tmp_path / "brain.py").write_text(LAST_LINE)
    (tmp_path / "pipelines.yaml").write_text(PIPELINE.replace("URL", replies.url))
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in KEYS.items()))
    loaded = loaded_by(tmp_path, "--config", "pipelines.yaml", *command.split())
    assert loaded & SERVER == set()
    assert ("bub_plugins.http" in loaded) == (command != "validate")


def test_a_reload_that_names_no_profile_is_told_by_validate(tmp_path: Path, replies: Replies) -> None:
    (tmp_path / "brain.py").write_text(LAST_LINE)
    text = PIPELINE.replace("URL", replies.url)
    (tmp_path / "pipelines.yaml").write_text(text.replace("profiles: [default]}", "profiles: [defualt]}"))
    done = bub(tmp_path, "validate", **KEYS)
    assert done.returncode == 1
    assert "`settings.http.clients.ada.profiles[0]` is for profile `defualt`, which does not exist" in done.stdout
    assert "did you mean `default`?" in done.stdout
