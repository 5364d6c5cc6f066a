"""`docs/troubleshooting.md`: each symptom is provoked, and each command prints what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import trio
from fakes.command_line import ROOT
from fakes.reader import STEP, TYPED, Reader, matches

from bub.channels.message import ChannelMessage
from bub.inbox.mailbox import Mailbox, inbox_file

PAGE = ROOT / "docs" / "troubleshooting.md"
if not PAGE.is_file():
    pytest.skip("the source archive carries no docs/ but one page", allow_module_level=True)

TEXT = PAGE.read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^##+ ", TEXT, flags=re.MULTILINE)[1:]}
PROVOKED = {name: part for name, part in SECTIONS.items() if "```console" in part}
UNSET = ("BUB_MODEL", "BUB_API_KEY", "BUB_API_BASE", "TEAM_KEY", "TELEGRAM_TOKEN")


class Refusing(BaseHTTPRequestHandler):
    """A provider to which every key is a wrong one."""

    def do_POST(self) -> None:
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "Incorrect API key provided: sk-a-wrong-one."}}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def a_wrong_key(reader: Reader) -> Iterator[None]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/v1"
        reader.variables |= {"BUB_MODEL": "openai:gpt-5-mini", "BUB_API_KEY": "sk-a-wrong-one", "BUB_API_BASE": address}
        yield
        server.shutdown()


@contextmanager
def a_message_set_aside(reader: Reader) -> Iterator[None]:
    async def set_aside() -> None:
        box = Mailbox(inbox_file(reader.home), reader.folder)
        await box.open()
        one = await box.receive(ChannelMessage(channel="telegram", chat_id="-100", content="look at the build"))
        for _ in range(3):
            await box.begin([one.id])
        await box.set_aside([one.id], "cut short three times")
        await box.close()

    trio.run(set_aside)
    yield


@contextmanager
def a_file_that_nobody_trusts(reader: Reader) -> Iterator[None]:
    reader.bub("trust", "--revoke", ".")
    yield


@contextmanager
def nothing(_: Reader) -> Iterator[None]:
    yield


SET_UP: dict[str, Callable[[Reader], AbstractContextManager[None]]] = {
    "The folder is not trusted": a_file_that_nobody_trusts,
    "The key is refused": a_wrong_key,
    "A message was set aside": a_message_set_aside,
}


@pytest.mark.parametrize("name", PROVOKED)
def test_a_command_prints_what_the_page_says_of_its_symptom(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in UNSET:
        monkeypatch.delenv(variable, raising=False)
    reader = Reader(tmp_path / "work", tmp_path / "home")
    reader.folder.mkdir()
    steps = STEP.findall(PROVOKED[name])
    begin = {"pipelines.yaml": "version: 1\nextends: bub:default\n"}
    begin |= {file: text for file, _, text in reversed(steps) if file}
    for file, text in begin.items():
        (reader.folder / file).write_text(text, encoding="utf-8")
    reader.bub("trust")
    with SET_UP.get(name, nothing)(reader):
        for file, language, text in steps:
            if file:  # a second version of it
                (reader.folder / file).write_text(text, encoding="utf-8")
            for command, shown in TYPED.findall(text) if language == "console" else ():
                _, printed = reader.run(command)
                seen = "\n".join(line.rstrip() for line in printed.rstrip().splitlines())
                assert not shown.strip() or matches(seen, shown.rstrip("\n")), f"$ {command}\n{printed}"


def test_what_the_page_quotes_of_pages_and_exits_is_what_bub_says() -> None:
    """Symptoms that take an installation, a browser or a request from outside: their words are those of the code."""
    for words, file in {
        "another program of this name": "bub/base/other_bub.py",
        "Open that address, or put the token in here.": "bub/studio/page/app.js",
        "this needs a token": "plugins/bub_plugins/http/refusal.py",
        "the signature does not match": "plugins/bub_plugins/http/hooks/signing.py",
        "studio.address": "bub/cli/page_address.py",
        "schedule.no_channel": "bub/inbox/schedules/scheduler.py",
        "channels.running": "bub/inbox/manager.py",
        "model.paused": "bub/agent/models/asking.py",
    }.items():
        assert words in TEXT
        assert words in (ROOT / file).read_text(encoding="utf-8"), words


def test_each_exit_code_is_that_of_the_command_line() -> None:
    code = re.compile(r"^\| (\d+) \| ([^|]*?) \|", re.MULTILINE)
    cli = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").partition("## Exit codes")[2]
    assert dict(code.findall(SECTIONS["Exit codes"])).keys() == dict(code.findall(cli.partition("\n## ")[0])).keys()
