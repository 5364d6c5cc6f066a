"""The MCP server of one connection: its requests, each answered by what knows about it."""

from __future__ import annotations

import os
from typing import Any

import trio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextResourceContents,
)

from bub import __version__
from bub.approval import Answer, CannotAskError
from bub.base.tracing.context import join_trace
from bub.errors import TapeError
from bub.framework import BubFramework
from bub.inbox.started import is_started_by_bub
from bub.log import log_info
from bub.mcp_server.calls import Call, Calls
from bub.mcp_server.content import failed
from bub.mcp_server.offers import TURN
from bub.mcp_server.progress import Progress
from bub.mcp_server.questions import ANSWER, elicit, find_hindrance, read_answer
from bub.mcp_server.tapes import TEMPLATE, Tapes
from bub.mcp_server.work import Workplace

_Context = ServerRequestContext[Any]

_WHAT = (
    f"Bub, an agent in a folder of this machine. `{TURN}` gives it a task in words; the other tools do one thing each. "
    "Its rules apply to both: a call may be refused, and a person may be asked about it."
)
_BY_BUB = "this server was started by Bub, and what an agent starts says no yes"


async def serve(framework: BubFramework, incoming: Any, outgoing: Any, *, every_tape: bool) -> None:
    """Serve the client behind two streams of lines until it is gone.

    `incoming` gives its lines, `outgoing` takes them. It may read the tapes of its own sessions, with `every_tape`
    those of the whole workspace.
    """
    async with framework.running(), trio.open_nursery() as nursery:
        served = Served(framework, Calls(nursery), every_tape=every_tape)
        log_info("mcp.serving", profile=framework.profile, workspace=str(framework.workspace))
        async with stdio_server(incoming, outgoing) as (read, write):
            server = served.as_server()
            await server.run(read, write, server.create_initialization_options())
        log_info("mcp.client_gone")
        nursery.cancel_scope.cancel()


class Served:
    """What a client asks for, and what it gets."""

    def __init__(self, framework: BubFramework, calls: Calls, *, every_tape: bool) -> None:
        self._framework = framework
        self._calls = calls
        self._work = Workplace(framework)
        self._every_tape = every_tape

    def as_server(self) -> Server[Any]:
        """The SDK's server with these answers."""
        return Server(
            "bub",
            version=__version__,
            title="Bub",
            instructions=_WHAT,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_tapes,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_tape,
        )

    # Tools

    async def _list_tools(self, context: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        del context, params
        return ListToolsResult(tools=(await self._work.offers()).listed())

    async def _call_tool(
        self, context: _Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        call = await self._find_call(context, params)
        if isinstance(call, CallToolResult):
            return call
        try:
            return await self._follow(call, context)
        except BaseException:  # mostly a cancellation: the client wants no result any more, or is gone
            call.scope.cancel()
            raise

    async def _find_call(self, context: _Context, params: CallToolRequestParams) -> Call | CallToolResult:
        """The call that a request is about: the one it brings an answer for, or a new one."""
        name, arguments = params.name, params.arguments or {}
        if params.request_state is not None:
            call = self._calls.take(params.request_state, name, arguments)
            if call is None:
                raise MCPError(INVALID_PARAMS, "no such call waits for an answer: call the tool again")
            call.answer(read_answer((params.input_responses or {}).get(ANSWER), _name_of(context)))
            return call
        trace = join_trace(dict(context.meta or {}))
        if name == TURN:
            return self._calls.begin(name, arguments, lambda call: self._work.run_turn(call, arguments), trace)
        tool = (await self._work.offers()).find(name)
        if tool is None:
            return failed(f"error: there is no tool `{name}` here")
        return self._calls.begin(name, arguments, lambda call: self._work.run_tool(call, tool.name, arguments), trace)

    async def _follow(self, call: Call, context: _Context) -> CallToolResult | InputRequiredResult:
        """Follow a call to its end, or to a question that the client has to bring an answer for."""
        progress = Progress(context.session)
        call.hear = progress.hear
        async with trio.open_nursery() as nursery:
            nursery.start_soon(progress.keep_alive)
            result: CallToolResult | InputRequiredResult | None = None
            while result is None:
                said = await call.said()
                if isinstance(said, CallToolResult):
                    result = said
                    break
                asked = elicit(said, self._framework.mask.text)
                hindrance = _find_hindrance(context)
                if hindrance is not None:
                    call.answer(hindrance)
                elif context.session.can_send_request:
                    call.answer(await _ask(context, asked))
                else:
                    self._calls.keep(call)
                    result = InputRequiredResult(input_requests={ANSWER: asked}, request_state=call.id)
            nursery.cancel_scope.cancel()
        return result

    # Tapes

    async def _list_tapes(self, context: _Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        del context, params
        return ListResourcesResult(resources=await self._tapes.listed())

    async def _list_templates(
        self, context: _Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        del context, params
        return ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def _read_tape(self, context: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        del context
        try:
            text = await self._tapes.read(str(params.uri))
        except TapeError as error:
            raise MCPError(INVALID_PARAMS, f"{error} ({error.help})") from None
        text = self._framework.mask.text(text)
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type="text/plain", text=text)])

    @property
    def _tapes(self) -> Tapes:
        return Tapes(self._framework.get_tape_store(), self._framework.workspace, every=self._every_tape)


async def _ask(context: _Context, asked: ElicitRequest) -> Answer | CannotAskError:
    form = asked.params
    assert isinstance(form, ElicitRequestFormParams)
    try:
        said = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
    except MCPError as error:
        return CannotAskError(f"the MCP client failed to ask: {error}")
    return read_answer(said, _name_of(context))


def _find_hindrance(context: _Context) -> CannotAskError | None:
    if is_started_by_bub(os.environ):
        return CannotAskError(_BY_BUB)
    return find_hindrance(context.session.client_capabilities)


def _name_of(context: _Context) -> str:
    client = context.session.client_params
    return f"the MCP client {client.client_info.name}" if client is not None else "the MCP client"
