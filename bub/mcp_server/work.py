"""What a call does: a turn, whose result is given in the words of MCP. No failure of it leaves this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from mcp.types import CallToolResult
from msgspec.structs import replace

from bub.agent import late
from bub.base.failures import flatten_error, is_ordinary
from bub.base.surfaces import Surface
from bub.channels.commands import prefix_of, write_command
from bub.envelope import Envelope, content_of
from bub.errors import BubError, UsageError
from bub.framework import BubFramework, TurnResult
from bub.log import log_exception, log_warning
from bub.mcp_server.calls import Call
from bub.mcp_server.content import contents_of, failed, text_of
from bub.mcp_server.offers import Offers, TurnInput, TurnOutput
from bub.mcp_server.sessions import message_in, new_name, read_name
from bub.runtime.view import RuntimeView
from bub.streaming import StreamEvent


class Workplace:
    """Does the calls of one connection: in sessions that they name, else in one of the connection's own."""

    def __init__(self, framework: BubFramework) -> None:
        self._framework = framework
        self._session = new_name()

    async def offers(self) -> Offers:
        """What the profile that messages of the connection are routed to offers now, the tools of its servers too."""
        view = self._profile
        box = view.tools
        if any(box.policy.wants(spec.name) for spec in view.served.specs):
            for trouble in await (await view.shared(late.open_servers)).offer(view, box.policy):
                log_warning("mcp.server_in_trouble", trouble=trouble)
            box = replace(box, tools={**box.tools, **view.served.tools})
        return Offers(box)

    async def run_turn(self, call: Call, arguments: Mapping[str, Any]) -> CallToolResult:
        """Carry a client's message through the pipeline."""
        try:
            given = msgspec.convert(dict(arguments), TurnInput)
            name = read_name(given.session) if given.session else self._session
        except msgspec.ValidationError as error:
            return failed(f"error: {error}")
        except UsageError as error:
            return failed(_words(error))
        if not given.message.strip():
            return failed("error: the message is empty")

        def told(result: TurnResult, end: StreamEvent) -> CallToolResult:
            output = TurnOutput(
                str(result.session_id),
                result.profile,
                "\n\n".join(filter(None, map(content_of, result.outbounds or ()))),
                result.ended_by or "",
                end.explain_cut() or "",
            )
            said = _result(result, end)
            said.structured_content = msgspec.to_builtins(output)
            if output.cut:
                said.content.append(text_of(output.cut))
            return said

        return await self._carry(call, message_in(name, given.message), told)

    async def run_tool(self, call: Call, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool of the profile: that is a turn, too, whose message is a command, so that all rules apply."""
        prefix = prefix_of(self._profile.settings)

        def told(result: TurnResult, end: StreamEvent) -> CallToolResult:
            if result.ended_by is None and end.data.get("steps") != 0:
                return failed(f"error: `{name}` did not run: something other than Bub answers commands here")
            return _result(result, end)

        return await self._carry(call, message_in(self._session, write_command(prefix, name, arguments)), told)

    @property
    def _profile(self) -> RuntimeView:
        return self._framework.seen_by(self._framework.profile_of(message_in(self._session, "")))

    async def _carry(
        self, call: Call, message: Envelope, told: Callable[[TurnResult, StreamEvent], CallToolResult]
    ) -> CallToolResult:
        end, message = StreamEvent("final"), {**message, "trace": call.trace} if call.trace else message

        async def hear(event: StreamEvent, heard: Envelope) -> None:
            nonlocal end
            if event.kind == "final":
                end = event
            await call.tell(event, heard)

        try:
            result = await self._framework.process_inbound(message, on_event=hear, ask=call.ask, surface=Surface.MCP)
        except BaseException as error:  # a client learns of each failure of what was called, and the server goes on
            if not is_ordinary(error):
                raise
            log_exception("mcp.call_failed", error)
            return failed(self._framework.mask.text("; ".join(map(_words, flatten_error(error)))))
        return told(result, end)


def _result(result: TurnResult, end: StreamEvent) -> CallToolResult:
    denied = str(result.ended_by or "").startswith("denied")
    parts = () if result.is_withheld else end.data.get("media", ())
    content = contents_of(result.outbounds or (), parts)
    if not content:
        silent = f"the turn ended without a reply ({result.ended_by or 'no stage made one'})"
        content.append(text_of("" if result.outbounds else silent))
    return CallToolResult(content=content, is_error=denied or end.data.get("ok") is False)


def _words(error: BaseException) -> str:
    if isinstance(error, BubError):
        return f"error: {error} ({error.help})" if error.help else f"error: {error}"
    return f"error: {type(error).__name__}: {error}"
