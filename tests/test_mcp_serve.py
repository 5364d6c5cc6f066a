"""`bub mcp serve`, used by the official SDK's client: in both forms of the protocol, and as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp
import pytest
import trio
from fakes.mcp_house import PNG, write_house
from mcp.client.context import ClientRequestContext
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, ImageContent, TextContent

from bub import BubFramework
from bub.approval import Question
from bub.errors import BubError
from bub.mcp_server.calls import PATIENCE, Call, Calls
from bub.mcp_server.server import Served
from bub.mcp_server.tapes import Tapes
from bub.runtime.trust import trust
from bub.setup.own_files import find_own_files
from bub.setup.removal import hold_locks

pytestmark = pytest.mark.anyio

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
"""The two forms of the protocol: the server asks with a request, or with the result of a call that is then repeated."""


class Person:
    """Who sits at the client: answers every question alike, and remembers them."""

    def __init__(self, answer: dict[str, Any] | None) -> None:
        self.asked: list[str] = []
        self._answer = answer

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        if self._answer is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=self._answer)


@asynccontextmanager
async def served(
    folder: Path, era: str = "legacy", person: Person | None = None, file: Path | None = None
) -> AsyncIterator[mcp.Client]:
    """A client of the house in a folder, or of a pipeline file of its own, in this process."""
    framework = BubFramework(file or write_house(folder), workspace=folder)
    framework.load_hooks()
    async with framework.running(), trio.open_nursery() as nursery:
        server = Served(framework, Calls(nursery), every_tape=False).as_server()
        async with mcp.Client(server, mode=era, elicitation_callback=person) as client:
            yield client
        nursery.cancel_scope.cancel()


def text_of(result: Any) -> str:
    return "\n".join(one.text for one in result.content if isinstance(one, TextContent))


@ERAS
async def test_a_turn_is_a_tool_and_says_what_it_came_to(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, era) as client:
        first = await client.call_tool("ask-agent", {"message": "hello", "session": "work"})
        other = await client.call_tool("ask-agent", {"message": "hello"})
    assert text_of(first) == "You said: hello"
    assert not first.is_error
    assert first.structured_content == {
        "session_id": "mcp:work",
        "profile": "default",
        "reply": "You said: hello",
        "ended_by": "",
        "cut": "",
    }
    assert other.structured_content is not None
    assert other.structured_content["session_id"] not in ("mcp:work", "mcp:")


async def test_the_tools_of_the_profile_are_offered_with_their_schemas(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
    assert tools["ask-agent"].output_schema
    assert tools["notes_add"].title == "notes.add"
    assert tools["notes_add"].input_schema["required"] == ["text"]
    assert tools["picture_draw"].annotations.read_only_hint is True
    assert {"doors_open", "subagent", "tools_describe"} & set(tools) == set()


async def test_a_tool_gives_text_and_pictures_and_its_failure_is_an_error(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        drawn = await client.call_tool("picture_draw", {"size": 3})
        broken = await client.call_tool("doors_break", {})
        denied = await client.call_tool("doors.open", {})
        wrong = await client.call_tool("picture.draw", {"sise": 3})
        silent = await client.call_tool("silence_keep", {})
    assert text_of(drawn) == "a picture of size 3"
    assert [one.data for one in drawn.content if isinstance(one, ImageContent)] == [PNG]
    assert (broken.is_error, text_of(broken)) == (True, "error: the door holds (knock)")
    assert (denied.is_error, text_of(denied)) == (True, "error: there is no tool `doors.open` here")
    assert (silent.is_error, text_of(silent)) == (False, "")
    assert wrong.is_error
    assert "did you mean `size`?" in text_of(wrong)


@ERAS
async def test_a_tool_that_is_asked_about_asks_the_person_of_the_client(tmp_path: Path, era: str) -> None:
    person = Person({"allow": True})
    async with served(tmp_path, era, person) as client:
        result = await client.call_tool("notes_add", {"text": "buy 'milk' {now}"})
        turn = await client.call_tool("ask-agent", {"message": "note bread"})
    assert (result.is_error, text_of(result)) == (False, "noted buy 'milk' {now}")
    assert text_of(turn) == "You said: noted bread"
    assert (tmp_path / "notes.txt").read_text() == "buy 'milk' {now}\nbread\n"
    assert len(person.asked) == 2
    assert "`notes.add`" in person.asked[0]
    assert "text: buy 'milk' {now}" in person.asked[0]


async def test_the_tools_of_the_profiles_own_servers_are_offered_as_well(tmp_path: Path) -> None:
    write_house(tmp_path)
    server = Path(__file__).parent / "fakes" / "mcp_liar.py"
    child = tmp_path / "office.yaml"
    child.write_text(
        f"version: 1\nextends: ./pipelines.yaml\nmcp: {{office: {{command: [{sys.executable}, -S, -E, {server}]}}}}\n"
        "profiles: {default: {tools: {allow: [mcp.office.ping]}}}\n"
    )
    async with served(tmp_path, file=child) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("mcp_office_ping", {})
    assert names == ["ask-agent", "mcp_office_ping"]
    assert (result.is_error, text_of(result)) == (False, "pong")


async def test_what_a_server_asks_the_client_asks_its_person_if_a_yes_or_no_will_do(tmp_path: Path) -> None:
    write_house(tmp_path)
    server = Path(__file__).parent / "fakes" / "mcp_asker.py"
    child = tmp_path / "office.yaml"
    child.write_text(
        f"version: 1\nextends: ./pipelines.yaml\nmcp: {{docs: {{command: [{sys.executable}, {server}]}}}}\n"
        "profiles: {default: {tools: {allow: [mcp.docs.ask]}}}\n"
    )
    person = Person({"allow": True})
    async with served(tmp_path, "2026-07-28", person, file=child) as client:
        drafts = await client.call_tool("mcp_docs_ask", {"kind": "drafts"})
        trip = await client.call_tool("mcp_docs_ask", {"kind": "trip"})
    assert json.loads(text_of(drafts)) == [{"action": "accept", "content": {"drafts": True}}]
    assert json.loads(text_of(trip)) == [{"action": "decline"}]
    (asked,) = person.asked
    assert "the server `docs` asks, while `mcp.docs.ask` runs:\nSome are drafts.\nDrafts, too?" in asked


async def test_a_plugin_that_ends_the_program_ends_one_call(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        ended = await client.call_tool("ask-agent", {"message": "exit"})
        result = await client.call_tool("ask-agent", {"message": "hello", "session": "other"})
    assert (ended.is_error, text_of(ended)) == (True, "error: SystemExit: 3")
    assert text_of(result) == "You said: hello"


async def test_gates_of_turns_and_of_tools_apply(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        turn = await client.call_tool("ask-agent", {"message": "damn"})
        words = await client.call_tool("letters_send", {"text": "damn"})
        large = await client.call_tool("picture_draw", {"size": 10})
    assert (turn.is_error, text_of(turn)) == (True, "be polite")
    assert turn.structured_content is not None
    assert turn.structured_content["ended_by"] == "denied:moderate"
    assert (words.is_error, text_of(words)) == (True, "be polite")
    assert (large.is_error, text_of(large)) == (True, "error: too large")
    assert not (tmp_path / "sent.txt").exists()


async def test_what_a_client_has_read_counts_if_it_sends_something(tmp_path: Path) -> None:
    person = Person({"allow": False})
    async with served(tmp_path, person=person) as client:
        before = await client.call_tool("letters_send", {"text": "hello"})
        await client.call_tool("diary_read", {})
        after = await client.call_tool("letters_send", {"text": "dear diary"})
    assert (before.is_error, text_of(before)) == (False, "sent")
    assert after.is_error
    assert "Why you are asked" in person.asked[0]
    assert (tmp_path / "sent.txt").read_text() == "hello"


@ERAS
@pytest.mark.parametrize("answer", [None, {"allow": False}, {}])
async def test_what_is_no_clear_yes_is_a_no(tmp_path: Path, era: str, answer: dict[str, Any] | None) -> None:
    async with served(tmp_path, era, Person(answer)) as client:
        result = await client.call_tool("notes_add", {"text": "x"})
    assert result.is_error
    assert "said no to `notes.add`" in text_of(result)
    assert not (tmp_path / "notes.txt").exists()


@ERAS
async def test_a_client_that_cannot_ask_gets_a_refusal_that_says_so(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, era) as client:
        result = await client.call_tool("notes_add", {"text": "x"})
    assert result.is_error
    assert "this MCP client cannot ask its person" in text_of(result)
    assert not (tmp_path / "notes.txt").exists()


async def test_what_bub_started_says_no_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUB_STARTED_BY", "an agent")
    person = Person({"allow": True})
    async with served(tmp_path, person=person) as client:
        result = await client.call_tool("notes_add", {"text": "x"})
    assert "started by Bub" in text_of(result)
    assert not person.asked


async def test_an_answer_counts_for_the_call_that_was_asked_about_alone(tmp_path: Path) -> None:
    async with served(tmp_path, "2026-07-28", Person({"allow": True})) as client:
        call = client.session.call_tool
        asked: Any = await call("notes_add", {"text": "milk"}, allow_input_required=True)
        yes = {"answer": ElicitResult(action="accept", content={"allow": True})}
        with pytest.raises(mcp.MCPError, match="no such call waits"):
            await call("notes_add", {"text": "poison"}, input_responses=yes, request_state=asked.request_state)
        result: Any = await call("notes_add", {"text": "milk"}, input_responses=yes, request_state=asked.request_state)
        with pytest.raises(mcp.MCPError, match="no such call waits"):
            await call("notes_add", {"text": "milk"}, input_responses=yes, request_state=asked.request_state)
    assert text_of(result) == "noted milk"


@pytest.mark.parametrize("name", ["telegram:4711", "cli:local", "a b", "../x", "x" * 65])
async def test_no_client_names_the_session_of_another_channel(tmp_path: Path, name: str) -> None:
    async with served(tmp_path) as client:
        result = await client.call_tool("ask-agent", {"message": "hello", "session": name})
    assert result.is_error
    assert "cannot be the name of a session" in text_of(result)


async def test_a_call_that_the_client_cancels_ends_and_the_next_one_runs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")  # who reads it waits for the tool to write
    async with served(tmp_path) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "paint_dry", {})
            await trio.to_thread.run_sync((tmp_path / "begun").read_text)
            nursery.cancel_scope.cancel()
        result = await client.call_tool("picture_draw", {})
    assert (tmp_path / "stopped").exists()
    assert not result.is_error


async def test_tapes_of_clients_are_resources_and_others_are_not(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.call_tool("ask-agent", {"message": "remember the milk", "session": "work"})
        listed = (await client.list_resources()).resources
        read = await client.read_resource(listed[0].uri)
        with pytest.raises(mcp.MCPError, match="no tape"):
            await client.read_resource("bub://tapes/cli%3Alocal")
    assert [one.name for one in listed] == ["mcp:work"]
    assert "remember the milk" in read.contents[0].text


async def test_with_all_tapes_clients_read_every_tape_of_the_folder_and_none_of_another(tmp_path: Path) -> None:
    framework = BubFramework(write_house(tmp_path), workspace=tmp_path)
    framework.load_hooks()
    async with framework.running():
        await framework.process_inbound({"channel": "cli", "chat_id": "local", "content": "hello"})
        store, elsewhere = framework.get_tape_store(), tmp_path / "elsewhere"
        every = await Tapes(store, tmp_path, every=True).listed()
        own = await Tapes(store, tmp_path, every=False).listed()
        others = await Tapes(store, elsewhere, every=True).listed()
    assert [one.name for one in every] == ["cli:local"]
    assert (own, others) == ([], [])


def request(number: int, method: str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"


HELLO = (
    request(
        1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "by hand", "version": "1"}
    )
    + '{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
)


@pytest.fixture
def process(tmp_path: Path) -> Any:
    """`bub mcp serve` in a trusted folder, with pipes to it."""
    write_house(tmp_path)
    trust(tmp_path, Path(os.environ["BUB_HOME"]))
    command = [sys.executable, "-m", "bub", "mcp", "serve"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as process:  # type: ignore[call-overload]
        yield process
        process.kill()


def test_only_the_protocol_is_on_standard_output_and_the_end_of_its_input_ends_it(process: Any) -> None:
    process.stdin.write(HELLO + request(2, "tools/call", name="noise_make", arguments={}))
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert answers[0]["result"]["serverInfo"]["name"] == "bub"
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "printed"}]
    home = Path(os.environ["BUB_HOME"])
    files = [found for found in find_own_files(home).files if found.path == "chats.lock"]
    with pytest.raises(BubError, match="an MCP server"), hold_locks(home, files):
        pass
    left, said = process.communicate(timeout=20)
    assert left == ""
    assert "noise on standard output" in said
    assert process.returncode == 0


def test_a_signal_ends_it_in_the_middle_of_a_call_and_the_call_is_cleaned_up(process: Any, tmp_path: Path) -> None:
    process.stdin.write(HELLO + request(2, "tools/call", name="paint_dry", arguments={}))
    process.stdin.flush()
    assert "watching\n" in iter(process.stderr.readline, "")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "")
    assert (tmp_path / "stopped").exists()


def test_a_folder_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    write_house(tmp_path)
    command = [sys.executable, "-m", "bub", "mcp", "serve"]
    said = subprocess.run(command, cwd=tmp_path, input=HELLO, capture_output=True, text=True, timeout=20)
    assert (said.returncode, said.stdout) == (2, "")
    assert "trust" in said.stderr


async def test_the_sdks_client_starts_it_and_uses_all_of_it(tmp_path: Path) -> None:
    write_house(tmp_path)
    trust(tmp_path, Path(os.environ["BUB_HOME"]))
    heard: list[str | None] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    started = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "bub", "mcp", "serve"], env=dict(os.environ), cwd=tmp_path
    )
    person = Person({"allow": True})
    async with mcp.Client(mcp.stdio_client(started), elicitation_callback=person) as client:
        result = await client.call_tool("ask-agent", {"message": "note bread"}, progress_callback=hear)
        tapes = (await client.list_resources()).resources
        tape = await client.read_resource(tapes[0].uri)
    assert text_of(result) == "You said: noted bread"
    assert (tmp_path / "notes.txt").read_text() == "bread\n"
    assert 'calls notes.add {"text": "bread"}' in heard
    assert "note bread" in tape.contents[0].text


@pytest.mark.virtual_time
async def test_a_call_whose_answer_nobody_brings_ends_after_a_while() -> None:
    ended = trio.Event()

    async def ask(call: Call) -> CallToolResult:
        try:
            await call.ask(Question("mcp:work", "notes.add"))
        finally:
            ended.set()
        raise AssertionError

    async with trio.open_nursery() as nursery:
        calls = Calls(nursery)
        call = calls.begin("notes_add", {}, ask)
        assert isinstance(await call.said(), Question)
        calls.keep(call)
        await ended.wait()
        assert calls.take(call.id, "notes_add", {}) is None
    assert trio.current_time() == pytest.approx(PATIENCE, abs=1)
