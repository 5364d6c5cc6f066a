"""The channels that docs/channels.md shows, as they stand there, and its tables of what a channel can know and say."""

from __future__ import annotations

import hmac
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from fakes.command_line import bub
from fakes.gateway import Running, gateway
from fakes.line import opened
from fakes.toys import Toy, Workshop

from bub.approval import Question
from bub.channels import Channel, ChannelMessage, ShownQuestion
from bub.channels.http import HttpChannel, Request

PAGE = Path(__file__).parent.parent / "docs" / "channels.md"

if not PAGE.exists():
    pytest.skip("the pages are not where the tests are", allow_module_level=True)

pytestmark = pytest.mark.anyio

TEXT = PAGE.read_text(encoding="utf-8")
SECRET = "the-secret-of-the-hook"


def shown(language: str, words: str) -> str:
    """The block of the page in this language that has these words."""
    [found] = [
        match[0].partition("\n")[2].removesuffix("```")
        for match in re.finditer(rf"^```{language}\n.*?^```$", TEXT, re.DOTALL | re.MULTILINE)
        if words in match[0]
    ]
    return str(found)


async def test_the_channel_of_the_page_answers_each_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = shown("python", "class Lines(Channel)")
    listening = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listening[0].socket.getsockname()[1]
    await listening[0].aclose()
    (tmp_path / "lines.py").write_text(code.replace("4000", str(port)), encoding="utf-8")
    workshop = Workshop(tmp_path, monkeypatch)
    workshop.plugin("echo", Toy(run_model=lambda prompt: f"you said {prompt}"))
    framework = workshop("""
        extends: bub:default
        plugins: {lines: {path: lines.py}, echo: {path: echo.py}}
        profiles: {default: {plugins: [lines, echo]}}
    """)
    async with opened(framework) as manager:
        async with await trio.open_tcp_stream("127.0.0.1", port) as caller:
            for word in (b"hello", b"again"):
                await caller.send_all(word + b"\n")
                assert await caller.receive_some() == b"you said " + word + b"\n"
        assert manager.names == ("lines",)


# Its tables


def names_in(heading: str) -> list[str]:
    """The names in the first column of the first table under a heading."""
    rows = re.search(r"(?:^\|.*\n)+", TEXT.partition(f"# {heading}\n")[2], re.MULTILINE)
    assert rows is not None
    cells = [row.split(" | ")[0] for row in rows[0].splitlines()[2:]]
    return [name.partition("(")[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_field_of_a_message_and_of_a_question_is_told() -> None:
    assert names_in("What a message holds") == [field.name for field in fields(ChannelMessage)]
    assert names_in("What a question holds") == list(Question.__struct_fields__)
    assert names_in("A question that people answer later") == list(ShownQuestion.__struct_fields__)


def public_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_every_name_of_a_channel_is_told() -> None:
    told = set(re.findall(r"^\| (.*?) \| ", TEXT, re.MULTILINE))
    names = {name.partition("(")[0] for cell in told for name in re.findall(r"`([^`]+)`", cell)}
    assert public_names(Channel) - {"name", "run", "send"} - names == set()
    own = public_names(HttpChannel) - public_names(Channel) - {"address", "settings"}
    assert own == set(names_in("The methods and attributes of an HttpChannel"))
    assert {*public_names(Request)} - names == set()


# Its webhooks, as processes

WEBHOOK, SIGNED = shown("python", "[Hook(message_handler, 8080)]"), shown("python", 'section="hook"')
CURL, SIGNING = shown("text", "$ curl -d"), shown("text", "$ hmac=")
OPEN_FILE = shown("yaml", "  default: {plugins: [hook]}\n```")
SIGNED_FILE = shown("yaml", "HOOK_SECRET")
ANYWHERE = """
settings: {hook: {listen: "127.0.0.1:0"}}
"""
ECHO = """
import trio
from bub import hookimpl

@hookimpl
async def run_model(prompt, workspace):
    (workspace / f"{prompt}.begun").touch()
    while prompt.startswith("wait") and not (workspace / prompt).exists():
        await trio.sleep(0.01)
    return f"you said {prompt}"
"""
ECHOED = """
version: 1
extends: pipelines.yaml
plugins: {echo: {path: echo.py}}
profiles: {default: {plugins: [echo, hook]}}
"""


@contextmanager
def hooked(folder: Path, code: str, pipeline: str, more: str = "") -> Iterator[tuple[Running, str]]:
    """A gateway with a channel of the page, and a model that says what it is told; with where it listens."""
    files = {"hook.py": code, "pipelines.yaml": pipeline, "echo.py": ECHO, "echo.yaml": ECHOED + more}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    with gateway(folder, "--config", "echo.yaml", HOOK_SECRET=SECRET) as running:
        yield running, f"http://{running.wait_for_log('hook.listening').rpartition('=')[2]}/"


def answers_as_shown(session: str, url: str) -> bool:
    """Whether the commands of a session of the page print what stands below them, up to what `…` stands for."""
    lines = session.replace("http://127.0.0.1:8080/", url).splitlines()
    done = subprocess.run(
        ["bash", "-c", "\n".join(line[2:] for line in lines if line.startswith("$ "))],
        env={**os.environ, "HOOK_SECRET": SECRET},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    printed = "\n".join(line for line in lines if not line.startswith("$ "))
    return re.fullmatch(re.escape(printed).replace("…", ".*"), done.stdout.rstrip("\n")) is not None


def signed(said: Any, *, secret: str = SECRET, age: int = 0) -> dict[str, Any]:
    body, at = json.dumps(said).encode(), str(int(time.time()) - age)
    right = hmac.new(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()
    return {"content": body, "headers": {"x-timestamp": at, "x-signature": right}, "timeout": 30}


def hello(text: str, name: str, chat: str = "ada") -> dict[str, str]:
    return {"id": name, "chat": chat, "text": text}


def said(came: httpx.Response) -> list[str]:
    assert came.status_code == 200, came.text
    return [reply["content"] for reply in came.json()["replies"]]


def test_the_webhooks_of_the_page_are_short() -> None:
    assert len(WEBHOOK.splitlines()) <= 16
    assert len([line for line in SIGNED.splitlines() if line]) <= 25


needs_curl = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="there is no curl here")


@needs_curl
def test_the_webhook_answers_curl(tmp_path: Path) -> None:
    with hooked(tmp_path, WEBHOOK.replace("8080", "0"), OPEN_FILE) as (running, url):
        assert answers_as_shown(CURL, url)
        assert running.end() == 0


@needs_curl
def test_the_signed_webhook_answers_curl_as_the_page_signs(tmp_path: Path) -> None:
    with hooked(tmp_path, SIGNED, SIGNED_FILE, ANYWHERE) as (running, url):
        assert answers_as_shown(SIGNING, url)
        assert running.end() == 0


def test_only_who_knows_the_secret_reaches_the_agent(tmp_path: Path) -> None:
    with hooked(tmp_path, SIGNED, SIGNED_FILE, ANYWHERE) as (running, url):
        right = signed(hello("hello", "1"))
        assert said(httpx.post(url, **right)) == ["you said hello"]
        for wrong in (
            {"content": right["content"]},
            {**right, "content": right["content"] + b" "},
            signed(hello("wrong", "2"), secret="another"),
            signed(hello("wrong", "3"), age=400),
        ):
            assert httpx.post(url, **wrong).status_code == 401
        assert httpx.post(url, **signed("x" * 1_100_000)).status_code == 413
        assert httpx.post(url, **signed({"id": "4"})).status_code == 400
        assert not (tmp_path / "wrong.begun").exists()
        assert SECRET not in running.log


def test_requests_are_answered_side_by_side_while_others_dawdle(tmp_path: Path) -> None:
    with hooked(tmp_path, SIGNED, SIGNED_FILE, ANYWHERE) as (_, url), ThreadPoolExecutor(16) as threads:
        host, port = url.removeprefix("http://").rstrip("/").split(":")
        with ExitStack() as slow:
            for _each in range(20):
                one = slow.enter_context(socket.create_connection((host, int(port)), 30))
                one.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
            asked = [signed(hello(f"word {n}", str(n), chat=f"chat {n % 8}")) for n in range(48)]
            came = threads.map(lambda how: said(httpx.post(url, **how)), asked)
            assert list(came) == [[f"you said word {n}"] for n in range(48)]


def test_who_is_under_way_at_the_end_is_answered_and_nobody_comes_in(tmp_path: Path) -> None:
    with hooked(tmp_path, SIGNED, SIGNED_FILE, ANYWHERE) as (running, url), ThreadPoolExecutor(2) as threads:
        first = threads.submit(httpx.post, url, **signed(hello("wait1", "1")))
        running.until((tmp_path / "wait1.begun").exists)
        second = threads.submit(httpx.post, url, **signed(hello("later", "2")))
        running.until(lambda: "later" in bub(tmp_path, "inbox", "list", "--all").stdout, "the second one is kept")
        running.send(signal.SIGTERM)
        running.until(lambda: is_refused(url), "nobody comes in")
        (tmp_path / "wait1").touch()
        assert said(first.result(30)) == ["you said wait1"]
        assert (second.result(30).status_code, second.result().json()) == (202, {"message_id": "2"})
        assert running.process.wait(20) == 0
    with hooked(tmp_path, SIGNED, SIGNED_FILE, ANYWHERE) as (running, url):
        running.until((tmp_path / "later.begun").exists)  # what was accepted is answered after the next start
        assert running.wait_for_log("outbound.undeliverable")


def is_refused(url: str) -> bool:
    try:
        httpx.get(url)
    except httpx.ConnectError:
        return True
    return False


def test_what_is_told_to_be_accepted_outlives_a_kill(tmp_path: Path) -> None:
    code = SIGNED.replace('    name = "hook"', '    name = "hook"\n    answer_within = 0')
    with hooked(tmp_path, code, SIGNED_FILE, ANYWHERE) as (running, url):
        for number in range(10):
            came = httpx.post(url, **signed(hello("wait for it", str(number), chat=str(number))))
            assert (came.status_code, came.json()) == (202, {"message_id": str(number)})
        running.send(signal.SIGKILL)
        running.process.wait(20)
    (tmp_path / "wait for it").touch()
    with hooked(tmp_path, code, SIGNED_FILE, ANYWHERE) as (running, url):
        running.until(lambda: bub(tmp_path, "inbox", "list").stdout.count("you said wait for it") == 10, "all answered")
        came = httpx.post(url, **signed(hello("wait for it", "3", chat="3")))  # sent again: it is taken once
        assert came.status_code == 202
        assert running.end() == 0
    assert bub(tmp_path, "inbox", "list").stdout.count("you said wait for it") == 10
