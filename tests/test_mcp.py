"""Servers of the Model Context Protocol: their tools in a turn, and what a server can do to Bub."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
import trio
from fakes.desk import Desk, Write
from fakes.scripted import OPENAI, Called
from fakes.talk import Talk
from test_architecture import loaded_by

from bub.agent.mcp import connection as connection_module
from bub.agent.mcp import program as program_module
from bub.agent.mcp import traffic as traffic_module
from bub.agent.mcp.connection import Connection
from bub.agent.mcp.offered import MOST_TOOLS, offer
from bub.agent.mcp.servers import open_servers
from bub.base.locate import lock_of
from bub.base.surfaces import Surface
from bub.pipeline.source.merge import load_document
from bub.plugins.servers import ServerSpec
from bub.setup.locking.proposing import look
from bub.setup.locking.toml import as_toml
from bub.studio.endpoints.health import describe_servers
from bub.tools import ToolError, ToolPolicy, ToolResult

pytestmark = pytest.mark.anyio

FAKES = Path(__file__).parent / "fakes"
OFFICE = f"  office: {{command: [{sys.executable}, {FAKES / 'mcp_server.py'}], env: {{COLOUR: blue}}}}"


def call(tool: str, **arguments: Any) -> Called:
    return Called(f"mcp_office_{tool}", json.dumps(arguments), f"call_{tool}")


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits to be noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def wait_until(condition: Callable[[], bool], seconds: float = 10) -> bool:
    with trio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 (of a process that is gone nobody hears)
            await trio.sleep(0.02)
    return condition()


# In a turn.


async def test_a_turn_uses_the_tools_of_a_server_that_nobody_started_before(talk: Talk) -> None:
    async with talk.open(tools='{allow: ["*", "mcp.office.*"], deny: [mcp.office.die]}', more=f"mcp:\n{OFFICE}"):
        await talk.say(
            OPENAI.answer(calls=[call("add", a=2, b=40), call("picture"), call("surroundings"), call("spawn")]),
            OPENAI.answer(calls=[call("learn", description="Say what was learned.")]),
            OPENAI.answer(calls=[call("learned")]),
            OPENAI.answer("It is 42."),
        )
        first, second, third, _ = await talk.asked()
        offered = {tool["function"]["name"]: tool["function"] for tool in first["tools"]}
        assert offered["mcp_office_add"]["description"] == "Add two numbers."
        assert offered["mcp_office_add"]["parameters"]["required"] == ["a", "b"]
        assert {"mcp_office_say_hello", "mcp_office_add"} <= offered.keys()
        assert not {"mcp_office_die", "mcp_office_learned"} & offered.keys()
        added, pictured, surroundings, spawned = [event["content"] for event in talk.of_kind("tool_result")][:4]
        assert added == "42"
        assert pictured == "[image from the server: image/png, 70 bytes]"
        assert "data:image/png;base64," in json.dumps(second["messages"])
        told, child = json.loads(surroundings), int(spawned)
        assert told["env"]["COLOUR"] == "blue"
        assert set(told["env"]) <= {
            "PATH",
            "HOME",
            "LANG",
            "TMPDIR",
            "COLOUR",
            "BUB_COMMAND",
            "BUB_STARTED_BY",
            "LC_CTYPE",
        }
        assert told["cwd"] == str(talk.framework.workspace)
        # What the server brought meanwhile is offered with the very next request, and can be called.
        assert "mcp_office_learned" in {tool["function"]["name"] for tool in third["tools"]}
        assert "learned" in [event["content"] for event in talk.of_kind("tool_result")][-1]
        # A command uses the same server; what the profile denies, it cannot.
        result = await talk.say(",mcp.office.say_hello name=Ada", surface=Surface.TERMINAL)
        assert result.model_output == "hello, Ada"
        result = await talk.say(",mcp.office.die", surface=Surface.TERMINAL)
        assert "not allowed" in str(result.model_output)
        assert "mcp.office.add" in str((await talk.say(",help", surface=Surface.TERMINAL)).model_output)
        assert not has_ended(child)
    assert await wait_until(lambda: has_ended(child) and has_ended(told["pid"]))


async def test_a_server_is_not_started_for_a_profile_that_allows_none_of_its_tools(talk: Talk) -> None:
    server = f"  office: {{command: [{sys.executable}, {FAKES / 'mcp_liar.py'}]}}"
    async with talk.open(tools='{allow: ["*", bash]}', more=f"mcp:\n{server}"):
        await talk.say(OPENAI.answer("hello"))
        assert "mcp.office.ping" not in talk.framework.tools.tools
    assert not (talk.framework.workspace / "pids").exists()


async def test_a_turn_goes_on_without_a_server_that_cannot_be_used_and_says_so(talk: Talk) -> None:
    more = "mcp:\n  gone: {command: [/no/such/program]}\n"
    async with talk.open(tools='{allow: ["*", "mcp.gone.*"]}', more=more):
        result = await talk.say(OPENAI.answer("hello"))
    assert result.model_output == "hello"
    assert [event["text"] for event in talk.of_kind("notice")] == [
        "the server `gone`: `/no/such/program` cannot be started: no such file or directory"
    ]


async def test_who_watches_sees_which_servers_run_and_why_one_does_not(talk: Talk) -> None:
    more = f"mcp:\n{OFFICE}\n  gone: {{command: [/no/such/program]}}\n  idle: {{command: [/no/such/program]}}\n"
    async with talk.open(tools='{allow: ["*", "mcp.gone.*", "mcp.office.*"]}', more=more):
        framework = talk.framework
        assert list(describe_servers(framework)) == [
            {"name": name, "state": "not started", "tools": 0, "problem": ""} for name in ("office", "gone", "idle")
        ]
        await talk.say(OPENAI.answer("hello"))
        office, gone, idle = describe_servers(framework)
    assert (office["state"], office["problem"], office["tools"] > 5) == ("ready", "", True)
    problem = "`/no/such/program` cannot be started: no such file or directory"
    assert gone == {"name": "gone", "state": "failed", "tools": 0, "problem": problem}
    assert idle["state"] == "not started"


# Which tools are allowed.


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        (["mcp.time.*"], True),
        (["mcp.time.now"], True),
        (["mcp.time.n*"], True),
        (["*"], False),
        (["mcp.*"], False),
        (["mcp.*.now"], False),
        (["mcp.t*.now"], False),
        (["mcp.[t]ime.now"], False),
        (["mcp.other.*"], False),
        (None, False),
    ],
)
def test_a_tool_of_a_server_is_allowed_only_by_an_entry_that_names_the_server(
    allow: list[str] | None, expected: bool
) -> None:
    (tool,) = offer(ServerSpec("time"), [Described("now")], nothing).tools.values()
    policy = ToolPolicy.of({"allow": allow} if allow is not None else None)
    assert policy.permits(tool) is expected
    assert policy.narrow(None).permits(tool) is expected
    assert policy.wants("time") is expected
    assert not ToolPolicy.of({"allow": allow, "deny": ["*"]}).permits(tool)


# What a server says of its tools.


class Described:
    input_schema: Mapping[str, Any]
    description: str | None = "Do it."

    def __init__(self, name: str, **schema: Any) -> None:
        self.name = name
        self.input_schema = {"type": "object", **schema}


async def nothing(name: str, known: object, /, **arguments: Any) -> ToolResult:
    return ToolResult(json.dumps([name, arguments]))


def test_arguments_are_checked_as_far_as_the_types_go_and_numbers_may_come_as_text() -> None:
    properties = {"a": {"type": "integer"}, "context": {"type": "string"}, "x-y": {"type": "boolean"}, "any": {}}
    (tool,) = offer(
        ServerSpec("time"), [Described("now", properties=properties, required=["a"])], nothing
    ).tools.values()
    given = {"a": "5", "context": "c", "x-y": "true", "any": [1]}
    assert tool.check(given) == {"a": 5, "context": "c", "x-y": True, "any": [1]}
    for wrong in ({}, {"a": "x"}, {"a": 1, "b": 2}, {"a": 1, "context": 3}):
        with pytest.raises(ToolError):
            tool.check(wrong)


# Servers that are up to no good.


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give servers less time to end than they have elsewhere."""
    monkeypatch.setattr(program_module, "GRACE", 0.2)


@asynccontextmanager
async def liar(folder: Path, *lies: str, **more: Any) -> AsyncIterator[Connection]:
    """A server by hand that starts at once; everything of it is over with the block."""
    spec = ServerSpec("liar", (sys.executable, "-S", "-E", str(FAKES / "mcp_liar.py"), *lies), **more)
    async with open_servers() as servers:
        yield await servers.find(spec, folder)
    pids = [int(line) for line in (folder / "pids").read_text().split()] if (folder / "pids").exists() else []
    assert await wait_until(lambda: all(map(has_ended, pids)))


def starts(folder: Path) -> int:
    return len((folder / "pids").read_text().split())


async def failure(connection: Connection, **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        await connection.call("ping", None, **arguments)
    return str(caught.value)


@pytest.mark.parametrize("lies", [("wrong-ids",), ("junk",), ("stderr",)])
async def test_what_nobody_asked_for_changes_no_answer(tmp_path: Path, lies: tuple[str, ...], log: list[str]) -> None:
    async with liar(tmp_path, *lies) as connection:
        assert (await connection.call("ping", None)).text == "pong"
        assert (await connection.call("ping", None)).text == "pong"
    assert starts(tmp_path) == 1
    assert len([line for line in log if "complaint" in line]) <= 200


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ("die-at-start", "cannot be used: it ended with exit code 4: no database"),
        ("list-is-none", "cannot be used: it does not speak the protocol"),
        ("huge-line", "has ended during the call: it has sent a message of more than 16 MB"),
        ("flood", "has ended during the call: it has sent 500 messages that nobody asked for"),
        ("no-result", "has sent an answer that breaks the protocol"),
        ("error", "answers: out of order"),
    ],
)
async def test_a_server_that_breaks_the_protocol_fails_the_call_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str, told: str
) -> None:
    monkeypatch.setattr(traffic_module, "MOST_UNASKED", 500)
    with trio.fail_after(30):
        async with liar(tmp_path, lie) as connection:
            assert told in await failure(connection)


async def test_a_server_that_hangs_in_a_call_is_given_up_and_started_anew(tmp_path: Path) -> None:
    async with liar(tmp_path, "hang-in-call", timeout=0.8) as connection:
        await connection.open()
        assert "did not answer within 0.8 s" in await failure(connection)
        assert await wait_until(lambda: not connection.is_open)
        assert "it did not answer; Bub starts it again in 1 s" in await failure(connection)
    assert starts(tmp_path) == 1


@pytest.mark.parametrize("lie", ["hang-at-start", "hang-in-list"])
async def test_a_server_that_hangs_while_it_is_opened_is_ended(
    tmp_path: Path, lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "OPENING", 0.6)
    async with liar(tmp_path, lie) as connection:
        assert "it was not ready after 1 s" in await failure(connection)


async def test_a_server_that_fails_is_started_again_only_after_a_pause(tmp_path: Path) -> None:
    async with liar(tmp_path, "die-at-start") as connection:
        first, second = await failure(connection), await failure(connection)
        assert "starts it again in" not in first
        assert "no database; Bub starts it again in" in second
    assert starts(tmp_path) == 1


async def test_a_turn_waits_for_a_slow_server_in_bounded_time_and_not_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "PATIENCE", 0.4)
    async with liar(tmp_path, "hang-at-start") as connection:
        with suppress(trio.TooSlowError), trio.fail_after(0.1):
            await connection.open()
        assert 0 < connection.patience <= 0.4
        assert await wait_until(lambda: connection.patience <= 0)


async def test_a_server_that_has_run_for_long_is_waited_for_as_any_other(tmp_path: Path) -> None:
    async with liar(tmp_path) as connection:
        await connection.open()
        assert connection._life is not None
        connection._life.began -= 3600
        assert connection.patience == connection_module.PATIENCE


async def test_a_call_that_is_cancelled_leaves_the_server_usable(tmp_path: Path) -> None:
    async with liar(tmp_path) as connection:
        await connection.open()
        with trio.CancelScope() as scope:
            scope.cancel()
            await connection.call("ping", None)
        assert scope.cancelled_caught
        assert (await connection.call("ping", None)).text == "pong"
    assert starts(tmp_path) == 1


async def test_a_server_that_stays_when_it_is_to_end_is_ended(tmp_path: Path) -> None:
    with trio.fail_after(8):
        async with liar(tmp_path, "stay") as connection:
            await connection.open()


async def test_of_too_many_tools_the_first_are_offered_and_the_rest_is_told(tmp_path: Path) -> None:
    async with liar(tmp_path, "many-tools") as connection:
        await connection.open()
        assert len(connection.offered.tools) == MOST_TOOLS
        assert connection.offered.problems == (f"it has more than {MOST_TOOLS} tools: Bub offers only the first ones",)


async def test_a_tool_whose_schema_no_provider_would_take_is_left_out_and_told(tmp_path: Path) -> None:
    async with liar(tmp_path, "schemas") as connection:
        await connection.open()
        assert list(connection.offered.tools) == ["mcp.liar.good"]
        assert [problem.partition(": ")[2] for problem in connection.offered.problems] == [
            "its schema refers to something that is not in it",
            "its schema refers to something that is not in it",
            "its schema is nested too deep",
            "its schema names an unknown type",
            "its schema is no JSON Schema",
            "its arguments are no JSON object",
            "its schema has more than 32,000 characters",
            "its schema is no JSON Schema",
        ]


async def test_names_are_made_safe_and_two_that_become_one_are_both_left_out_and_told(tmp_path: Path) -> None:
    async with liar(tmp_path, "names") as connection:
        await connection.open()
        offered = connection.offered
        assert list(offered.tools) == ["mcp.liar.line_break", "mcp.liar._1st", "mcp.liar.camelcase"]
        assert offered.tools["mcp.liar.camelcase"].description == "evil"
        assert offered.problems == (
            "its tools 'Get Time' and 'get-time' would both be `get_time` here, so Bub offers neither",
            "Bub does not offer its tool '!!!': the name has no letter",
        )


# In the tests of a file.


def test_a_mock_stands_for_a_tool_of_a_server_that_is_never_started(write: Write) -> None:
    pipeline = f"""
    version: 1
    extends: bub:default
    mcp: {{liar: {{command: [{sys.executable}, {FAKES / "mcp_liar.py"}]}}}}
    profiles: {{default: {{tools: {{allow: ["mcp.liar.*"]}}}}}}
    """
    tests = """
    it answers:
      message: {content: hi}
      mock:
        call_model:
          answers:
            - tool_calls: [{name: mcp.liar.ping, arguments: {a: 1}}, {name: mcp.liar.other}]
            - {return: done}
      mock_tools: {mcp.liar.ping: {return: mocked}}
      expect:
        model_output: done
        tool_calls: [{result: mocked}, {result: {contains: there is no tool}}]
    """
    desk = Desk(write)
    assert desk.failures_of(tests, pipeline) == {"it answers": []}
    assert not list(Path(desk.file(tests, pipeline)).parent.glob("pids"))


# Servers that run elsewhere.


class Elsewhere(BaseHTTPRequestHandler):
    """An address that speaks the protocol to whoever has the token."""

    asked: ClassVar[list[str]] = []
    size = 4
    chunked = False
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(request["method"])
        if self.headers["authorization"] != "Bearer tok-Zx81yyPq20":
            self._say(401, {})
        elif "id" not in request:
            self._say(202, {})
        elif request["method"] == "server/discover":
            self._say(200, {"error": {"code": -32601, "message": "Method not found"}}, request["id"])
        else:
            told = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            answers = {
                "initialize": {**told, "serverInfo": {"name": "elsewhere", "version": "1"}},
                "tools/list": {"tools": [{"name": "ping", "inputSchema": {"type": "object"}}]},
                "tools/call": {"content": [{"type": "text", "text": "p" * self.size}]},
            }
            self._say(200, {"result": answers[request["method"]]}, request["id"])

    def do_GET(self) -> None:
        self._say(405, {})

    def _say(self, status: int, answer: dict[str, Any], number: Any = None) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, **answer}).encode() if number is not None else b""
        self.send_response(status)
        self.send_header("content-type", "application/json")
        chunked = self.chunked and len(body) > 2**20
        self.send_header(*(("transfer-encoding", "chunked") if chunked else ("content-length", str(len(body)))))
        self.end_headers()
        with suppress(OSError):
            for start in range(0, len(body), 2**20):
                part = body[start : start + 2**20]
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            self.wfile.write(b"0\r\n\r\n" if chunked else b"")


@pytest.fixture
def elsewhere() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


async def test_a_server_that_runs_elsewhere_gets_the_headers_and_no_endless_answer(
    elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_servers() as servers:
        right = ServerSpec("web", url=elsewhere, headers={"Authorization": "Bearer tok-Zx81yyPq20"})
        connection = await servers.find(right, tmp_path)
        assert (await connection.call("ping", None)).text == "pppp"
        monkeypatch.setattr(Elsewhere, "size", 17_000_000)
        for chunked in (False, True):  # with its length said beforehand, and without
            monkeypatch.setattr(Elsewhere, "chunked", chunked)
            large = await servers.find(msgspec.structs.replace(right, name=f"large{chunked}"), tmp_path)
            assert "has ended during the call: the answer has more than 16 MB" in await failure(large)
        wrong = await servers.find(ServerSpec("other", url=elsewhere), tmp_path)
        assert "cannot be used: it refuses access: 401 Unauthorized" in await failure(wrong)
        nobody = await servers.find(ServerSpec("nobody", url="http://127.0.0.1:9/mcp"), tmp_path)
        assert "cannot be used: it cannot be reached" in await failure(nobody)


# What was locked, and what has changed since.


async def test_a_tool_that_changed_after_the_lock_is_not_offered_and_the_turn_says_so(talk: Talk) -> None:
    lies = talk.workshop.folder / "lies"
    lies.write_text("")
    server = f"  liar: {{command: [{sys.executable}, -S, -E, {FAKES / 'mcp_liar.py'}, from-file]}}"
    tools = '{allow: ["mcp.liar.*"]}'
    async with talk.open(tools=tools, more=f"mcp:\n{server}"):
        pass
    file = talk.workshop.folder / "pipelines.yaml"
    found = await trio.to_thread.run_sync(look, load_document(file), talk.workshop.folder, dict(os.environ), int)
    assert [(one.name, list(one.tools)) for one in found.lock.servers] == [("liar", ["ping"])]
    lock_of(file).write_text(as_toml([], found.lock, ">=3.11"))
    async with talk.open(tools=tools, more=f"mcp:\n{server}"):
        await talk.say(OPENAI.answer("hello"))
        assert talk.of_kind("notice") == []
        assert list(talk.framework.served.tools) == ["mcp.liar.ping"]
    lies.write_text("rug-pull")
    async with talk.open(tools=tools, more=f"mcp:\n{server}"):
        await talk.say(OPENAI.answer("hello"))
        assert list(talk.framework.served.tools) == []
        assert [event["text"] for event in talk.of_kind("notice")] == [
            "the server `liar`: it differs from the lock, so Bub does not offer this: ~ description of tool `ping`",
            "the server `liar`: it differs from the lock, so Bub does not offer this: + tool `steal`",
        ]


async def test_a_call_reaches_only_a_tool_that_is_as_the_model_was_told(tmp_path: Path) -> None:
    (tmp_path / "lies").write_text("")
    async with liar(tmp_path, "from-file") as connection:
        await connection.open()
        (ping,) = connection.offered.tools.values()
        assert (await ping.function()).text == "pong"
        await connection.close()
        (tmp_path / "lies").write_text("rug-pull")
        with pytest.raises(ToolError, match="has changed the description of this tool since you got it"):
            await ping.function()


# What it costs whoever has no use for it.


@pytest.mark.parametrize(
    "command",
    [("validate", "pipelines.yaml"), ("run", ",help")],
    ids=["a check", "a command that needs no server"],
)
def test_what_uses_no_server_loads_nothing_that_talks_to_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BUB_TRUST_WORKSPACE", "1")
    server = "mcp: {gone: {command: [touch, started]}}\n"
    tools = 'help, "mcp.gone.*"'
    text = f"version: 1\nextends: bub:default\n{server}profiles: {{default: {{tools: {{allow: [{tools}]}}}}}}\n"
    (tmp_path / "pipelines.yaml").write_text(text)
    loaded = loaded_by(tmp_path, *command)
    assert loaded & {"mcp", "mcp_types", "pydantic", "anyio", "httpx2"} == set()
    assert not [name for name in loaded if name.startswith("bub.agent.mcp")]
    assert not (tmp_path / "started").exists()
