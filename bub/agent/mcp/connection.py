"""One server: opened when it is needed, by one task that owns it from its first word to its last."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
import trio
import trio.lowlevel
from mcp import Client
from mcp.client import InputRequiredRoundsExceededError
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, SubscriptionLost, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    Implementation,
    ListToolsResult,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bub.agent.mcp.asking import Interviews
from bub.agent.mcp.errors import ServerError
from bub.agent.mcp.links import talk_to, talk_to_address
from bub.agent.mcp.offered import MOST_TOOLS, Offered, clean, offer, safe_name
from bub.agent.mcp.program import Program
from bub.agent.mcp.resources import PROMPT, RESOURCES, About, Ask, find_beside, offer_beside
from bub.agent.mcp.results import as_result
from bub.agent.mcp.traffic import Traffic, trace_meta
from bub.agent.tools.guard import Guard
from bub.base.backoff import Backoff
from bub.base.failures import flatten_error
from bub.base.tracing.activity import doing
from bub.log import log_info, log_warning
from bub.plugins.lock.facts import ToolFacts
from bub.plugins.servers import ServerSpec
from bub.tools import ToolError, ToolResult

OPENING = 60.0
"""How long, in seconds, a server may take until its tools are known: some are downloaded first."""

PATIENCE = 10.0
"""How long, in seconds, a turn waits for a server whose tools nobody knows yet; then it goes on without them."""

CLOSING = 8.0
"""How long, in seconds, a server may take to close."""

LONG_ENOUGH = 60.0
"""A server that has run for so many seconds may be started again at once."""

_PAUSES = Backoff(1.0, 60.0)
_MOST_PAGES = 50
_PATIENCE_AFTER_FAILURE = 1.0
_SETTLING = 5.0
_REST = 0.2
_LONGEST_ANSWER = 2_000
_MODE = "auto"
_PORTS = {"http": 80, "https": 443}
_CLOSED, _FORGOTTEN = "Connection closed", "Session terminated"
"""What the SDK says of a call whose server is gone; the number that it has for that may be a server's own."""


class _Life(msgspec.Struct, eq=False):
    """A server from its start to its end: what there is of it as long as it is open, and why it is over."""

    opened: trio.Event = msgspec.field(default_factory=trio.Event)
    over: trio.Event = msgspec.field(default_factory=trio.Event)
    ended: trio.Event = msgspec.field(default_factory=trio.Event)
    changed: trio.Event = msgspec.field(default_factory=trio.Event)
    listed: trio.Event = msgspec.field(default_factory=trio.Event)
    scope: trio.CancelScope = msgspec.field(default_factory=trio.CancelScope)
    traffic: Traffic = msgspec.field(default_factory=Traffic)
    client: Client | None = None
    why: str = ""
    changes: int = 0
    """How often the server has said that its tools are others now."""
    began: float = msgspec.field(default_factory=trio.current_time)
    listed_changes: int = 0
    """How many of these `offered` knows."""

    @property
    def facts(self) -> dict[str, Any]:
        """What a trace says of the connection: the version of the protocol, and the session if it has one."""
        version = self.client.protocol_version if self.client is not None else None
        return {"version": version, "session": self.traffic.session}

    def note_change(self) -> None:
        """Have the tools listed again."""
        self.changes += 1
        self.changed.set()

    def end(self, why: str = "") -> None:
        """Let it come to its end; the first reason counts."""
        self.why = self.why or why
        self.over.set()


class Surroundings(msgspec.Struct, frozen=True):
    """What a server is started with beside its own description."""

    folder: Path
    environ: Any
    guard: Guard


class Connection:
    """A server and its tools. `offered` is what it listed last, also while it is not open."""

    def __init__(self, spec: ServerSpec, surroundings: Surroundings) -> None:
        self.spec = spec
        self.offered = Offered()
        self.failure = ""
        """Why it could not be opened, or why it is over, if it did not close by itself."""
        self._surroundings = surroundings
        self._interviews = Interviews(spec.name)
        self._life: _Life | None = None
        self._failures = 0
        self._not_before = -math.inf

    @property
    def is_open(self) -> bool:
        """Whether it can be called now."""
        return self._life is not None and self._life.client is not None

    @property
    def patience(self) -> float:
        """How long, in seconds, somebody should still wait for it who can go on without it."""
        if self._failures:
            return _PATIENCE_AFTER_FAILURE
        if self._life is None or self.is_open:
            return PATIENCE
        return PATIENCE - (trio.current_time() - self._life.began)

    async def open(self) -> Client:
        """Open the server if it is not open, and wait until its tools are known. Raises `ServerError`."""
        while self._life is not None and self._life.over.is_set():
            await self._life.ended.wait()
        life = self._life
        if life is None:
            pause = self._not_before - trio.current_time()
            if pause > 0:
                raise ServerError(f"{self.failure}; Bub starts it again in {math.ceil(pause)} s at the earliest")
            life = self._life = _Life()
            trio.lowlevel.spawn_system_task(self._live, life, name=f"mcp server {self.spec.name}")
        await life.opened.wait()
        with trio.move_on_after(_SETTLING):
            while life.client is not None and life.listed_changes != life.changes:
                await life.listed.wait()
        if life.client is None:
            raise ServerError(life.why or "it is closed")
        return life.client

    async def call(self, tool: str, known: ToolFacts | None, /, **arguments: Any) -> ToolResult:
        """Call a tool by the name that the server knows; it has to be as it is `known`. Raises `ToolError`."""

        async def ask(client: Client) -> ToolResult:
            return as_result(await client.call_tool(tool, arguments, meta=trace_meta()))

        return await self.use(safe_name(tool), known, ask, About("tools/call", tool))

    async def use(self, tool: str, known: ToolFacts | None, ask: Ask, about: About) -> ToolResult:
        """Ask the server something for a tool of a short name, which has to be as it is `known`. Raises `ToolError`.

        Whoever watches the turn sees what it is `about`.
        """
        with doing("server", about.method, server=self.spec.name, target=about.target, **self._way) as activity:
            activity.keep(resource=about.resource)
            try:
                return await self._use(tool, known, ask)
            except ToolError as error:
                activity.end("failed", error=error.kind)
                raise
            finally:
                if self._life is not None:
                    activity.data |= self._life.facts

    @property
    def _way(self) -> dict[str, Any]:
        """How the server is reached."""
        if not self.spec.url:
            return {"transport": "pipe"}
        parts = urlsplit(self.spec.url)
        return {"transport": "tcp", "address": parts.hostname, "port": parts.port or _PORTS.get(parts.scheme)}

    async def _use(self, tool: str, known: ToolFacts | None, ask: Ask) -> ToolResult:
        name = f"the server `{self.spec.name}`"
        life: _Life | None = None
        with trio.move_on_after(self.spec.timeout) as scope:
            try:
                client = await self.open()
            except ServerError as error:
                raise ToolError(f"{name} cannot be used: {error}") from None
            if known is not None and self.offered.facts.get(tool) != known:
                problem = f"{name} has changed the description of this tool since you got it"
                raise ToolError(problem, help="read the new description", kind="unknown")
            life = self._life
            heard = life.traffic.heard if life is not None else 0
            try:
                return await self._interviews.accompany(scope, partial(ask, client))
            except MCPError as error:
                if str(error) == _FORGOTTEN and life is not None:
                    life.end("it has forgotten this session")
                raise await self._explain(life, error) from None
            except InputRequiredRoundsExceededError:
                raise ToolError(f"{name} asks for something again and again") from None
            except (ValueError, RuntimeError) as error:  # a result that is none, says the SDK
                raise ToolError(f"{name} has sent an answer that breaks the protocol: {_short(str(error))}") from None
        assert scope.cancelled_caught
        if life is not None and life.traffic.heard == heard:
            life.end("it did not answer")  # it hangs, so the next call starts it again
        raise ToolError(f"{name} did not answer within {self.spec.timeout:g} s", kind="timeout")

    async def close(self) -> None:
        """Close the server, in bounded time."""
        life = self._life
        if life is None:
            return
        life.end()
        if life.client is None:
            life.scope.cancel()
        life.scope.deadline = trio.current_time() + CLOSING
        with trio.CancelScope(shield=True):
            await life.ended.wait()

    async def _explain(self, life: _Life | None, error: MCPError) -> ToolError:
        """The error about a call that came to nothing, for an answer of the server or for its end."""
        if life is not None and (life.over.is_set() or str(error) == _CLOSED):
            with trio.move_on_after(1):  # until it is known how it has ended
                await life.ended.wait()
            return ToolError(f"the server `{self.spec.name}` has ended during the call: {life.why or 'it has closed'}")
        return ToolError(f"the server `{self.spec.name}` answers: {_short(str(error))}")

    # The task that owns the server.

    async def _live(self, life: _Life) -> None:
        """Open the server, keep it open and close it. Every failure is known afterwards, and none leaves this."""
        life.scope.deadline = life.began + OPENING
        try:
            with life.scope:
                await self._serve(life)
        except* Exception as group:  # noqa: BLE001 (what breaks a server is its end, and no task hears of it)
            failures = [_explain(error) for error in flatten_error(group)]
            refusal = f"it refuses access: {life.traffic.refusal}" if life.traffic.refusal else ""
            life.why = life.why or refusal or next(filter(None, failures), "it failed")
        finally:
            life.client = None
            if life.scope.cancelled_caught and not life.opened.is_set():
                life.why = life.why or f"it was not ready after {OPENING:.0f} s"
            self._note_end(life, trio.current_time() - life.began)
            self._life = None
            for event in (life.over, life.opened, life.listed, life.ended):
                event.set()

    def _note_end(self, life: _Life, lasted: float) -> None:
        self.failure = life.why
        if not life.why:
            log_info("mcp.closed", server=self.spec.name)
            return
        log_warning("mcp.ended", server=self.spec.name, why=life.why)
        self._failures = 1 if lasted >= LONG_ENOUGH else self._failures + 1
        pause = 0.0 if lasted >= LONG_ENOUGH else _PAUSES.pause_after(self._failures)
        self._not_before = trio.current_time() + pause

    async def _serve(self, life: _Life) -> None:
        if self.spec.url:
            async with trio.open_nursery() as nursery:
                await self._talk(life, talk_to_address(self.spec, life.traffic, life.end), nursery)
                nursery.cancel_scope.cancel()
            return
        surroundings = self._surroundings
        program = await Program.start(self.spec, surroundings.folder, surroundings.environ, surroundings.guard)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(program.hear_complaints)
                try:
                    await self._talk(life, talk_to(program, life.traffic, life.end), nursery)
                finally:
                    with trio.CancelScope(shield=True), trio.move_on_after(0.2):
                        await program.process.wait()  # what it says of its end
                    life.why = life.why or program.ended
                    nursery.cancel_scope.cancel()
        finally:
            await program.end()

    async def _talk(self, life: _Life, link: Any, nursery: trio.Nursery) -> None:
        async def hear(message: Any) -> None:
            if self._concerns_tools(message):
                life.note_change()

        client = Client(
            link,
            mode=_MODE,
            message_handler=hear,
            elicitation_callback=self._interviews.put,
            client_info=Implementation(name="bub", version="1"),
        )
        async with client:
            await self._list(life, client)
            life.scope.deadline = math.inf
            life.client = client
            self.failure = ""
            life.opened.set()
            log_info("mcp.opened", server=self.spec.name, tools=len(self.offered.tools))
            nursery.start_soon(self._keep_up, life, client)
            nursery.start_soon(self._listen, life, client)
            await life.over.wait()
            life.client = None

    def _concerns_tools(self, message: Any) -> bool:
        """Whether other tools may be offered after what a server announces: also if it has its first resources."""
        match message:
            case ToolListChangedNotification() | ToolsListChanged():
                return True
            case ResourceListChangedNotification() | ResourcesListChanged():
                return RESOURCES not in self.offered.facts
            case PromptListChangedNotification() | PromptsListChanged():
                return PROMPT not in self.offered.facts
            case _:
                return False

    async def _keep_up(self, life: _Life, client: Client) -> None:
        """List the tools again each time that the server says they have changed."""
        while True:
            await life.changed.wait()
            life.changed, changes = trio.Event(), life.changes
            await self._list(life, client)
            told, life.listed = life.listed, trio.Event()
            life.listed_changes = changes
            told.set()
            await trio.sleep(_REST)  # whoever announces changes without an end is not asked without an end

    async def _listen(self, life: _Life, client: Client) -> None:
        """Ask a server of the newer protocol to say when its tools change; older ones do so unasked."""
        can = client.server_capabilities
        told = [one is not None and one.list_changed is True for one in (can.tools, can.resources, can.prompts)]
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not any(told):
            return
        tools, resources, prompts = told
        with suppress(MCPError, SubscriptionLost, TimeoutError):
            async with client.listen(
                tools_list_changed=tools, resources_list_changed=resources, prompts_list_changed=prompts
            ) as changes:
                async for change in changes:
                    if self._concerns_tools(change):
                        life.note_change()

    async def _list(self, life: _Life, client: Client) -> None:
        """Learn which tools there are."""
        found: list[Any] = []
        life.traffic.left_out.clear()
        if client.server_capabilities.tools is not None:
            cursor: str | None = None
            for _ in range(_MOST_PAGES):
                page: ListToolsResult = await client.list_tools(cursor=cursor, cache_mode="bypass")
                found += page.tools
                cursor = page.next_cursor
                if cursor is None or len(found) > MOST_TOOLS:
                    break
        offered = offer(self.spec, found, self.call, life.traffic.left_out)
        self.offered = offer_beside(offered, self.spec, await find_beside(client), self.use)
        for problem in self.offered.problems:
            log_warning("mcp.tool_left_out", server=self.spec.name, why=problem)


def _explain(error: BaseException) -> str:
    """Say why a server is over, as a clause."""
    if isinstance(error, ServerError):
        return str(error)
    if isinstance(error, MCPError):
        return f"it answers: {_short(str(error))}" if str(error) != _CLOSED else ""
    if isinstance(error, httpx2.TransportError):
        return f"it cannot be reached: {_short(str(error) or type(error).__name__)}"
    return f"it does not speak the protocol: {_short(str(error) or type(error).__name__)}"


def _short(text: str) -> str:
    return " ".join(clean(text).split())[:_LONGEST_ANSWER]
