"""Requests to a model and calls of tools: as Bub's hooks get them, and as those of the reference do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bub_reference.hooks.interception import LlmCallRequest, LlmCallResult, ToolCallResult

_CHANGEABLE = ("model", "messages", "max_tokens")


def plain(value: Any) -> Any:
    """A copy that the plugin may change; what observers get cannot be changed."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def request_of(session_id: str, request: Mapping[str, Any]) -> LlmCallRequest:
    """A request as the reference has it; the session is its run."""
    tools = [plain(tool) for tool in request.get("tools") or ()]
    names = tuple(str((tool.get("function") or tool).get("name")) for tool in tools if isinstance(tool, dict))
    return LlmCallRequest(
        run_id=session_id,
        model=str(request.get("model") or ""),
        messages=plain(request.get("messages") or []),
        tool_names=names,
        max_tokens=request.get("max_tokens"),
    )


def changes_of(before: LlmCallRequest, after: LlmCallRequest) -> dict[str, Any] | None:
    """What a hook has changed of a request."""
    changed = {name: getattr(after, name) for name in _CHANGEABLE if getattr(after, name) != getattr(before, name)}
    return changed or None


def answer_of(session_id: str, response: Mapping[str, Any]) -> LlmCallResult:
    """An answer as the reference has it."""
    calls = [
        {
            "id": call.get("id"),
            "type": "function",
            "function": {"name": call.get("name"), "arguments": call["arguments"]},
        }
        for call in plain(response.get("tool_calls") or [])
    ]
    error = response.get("error")
    return LlmCallResult(
        run_id=session_id,
        text=response.get("text"),
        tool_calls=calls,
        usage=plain(response.get("usage")),
        error=RuntimeError(error) if error else None,
        duration_ms=int(1000 * (response.get("took") or 0)),
    )


def result_of(call_id: str, tool: str, args: Mapping[str, Any], result: Any) -> ToolCallResult:
    """What came of a call, as the reference has it."""
    error = result.get("error") if isinstance(result, Mapping) else None
    failure = RuntimeError(str(error)) if error else None
    return ToolCallResult(call_id, tool, plain(args), None if failure else plain(result), failure)
