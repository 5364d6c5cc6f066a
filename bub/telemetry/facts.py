"""What a span says of one thing that a turn did: its name, and its attributes by the conventions in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from bub.base.tracing.activity import Activity
from bub.telemetry import names
from bub.telemetry.ended import EndedTurn
from bub.telemetry.said import as_input, as_output, as_system


def attributes_of(activity: Activity, turn: EndedTurn) -> tuple[str, dict[str, Any]]:
    """Return the name of the span of an activity, and its attributes; those that are None or "" are none."""
    facts = plain_facts(activity)
    match activity.kind:
        case "model":
            facts[names.CONVERSATION] = activity.data.get("session") or turn.session
            name = f"{names.CHAT} {facts[names.REQUEST_MODEL]}"
        case "tool":
            name = f"{names.EXECUTE_TOOL} {activity.name}"
        case "server":
            target = activity.data.get("target")
            name = f"{activity.name} {target}" if target else activity.name
        case "gate":
            name = f"{names.GATE} {activity.name}"
        case _:
            name = f"{names.IMPLEMENTATION} {activity.name}"
    return name, facts


def plain_facts(activity: Activity) -> dict[str, Any]:
    """Return what is known of an activity by itself."""
    data = activity.data
    facts: dict[str, Any] = {}
    match activity.kind:
        case "model":
            facts = _facts_of_model(activity.name, data)
        case "tool":
            facts = {
                names.OPERATION: names.EXECUTE_TOOL,
                names.TOOL_NAME: activity.name,
                names.TOOL_TYPE: "function",
                names.TOOL_CALL: data.get("call_id"),
                "bub.tool.denied": True if activity.outcome == "denied" else None,
                "bub.tool.seconds": data.get("took"),
            }
        case "server":
            facts = _facts_of_server(activity.name, data)
        case "gate":
            facts = {
                "bub.gate.point": activity.name,
                "bub.gate.verdict": activity.outcome,
                "bub.gate.reason": data.get("reason"),
                names.TOOL_NAME: data.get("tool"),
                names.TOOL_CALL: data.get("call_id"),
            }
        case "implementation":
            facts = {"bub.hook": data.get("hook"), "bub.plugin": data.get("plugin")}
    if activity.outcome == "failed":
        facts[names.ERROR_TYPE] = data.get("error") or "_OTHER"
    elif activity.outcome in ("cancelled", ""):
        facts["bub.outcome"] = activity.outcome or "not ended"
    return facts | {_SAID[key]: value for key, value in _shape(activity.said)}


_SAID: Mapping[str, str] = MappingProxyType(
    {
        "system": names.SYSTEM_INSTRUCTIONS,
        "messages": names.INPUT_MESSAGES,
        "answer": names.OUTPUT_MESSAGES,
        "arguments": names.TOOL_ARGUMENTS,
        "result": names.TOOL_RESULT,
        "resource": names.MCP_RESOURCE,
    }
)
"""The attributes of what an activity keeps of what was said, if somebody wants it."""


def _shape(said: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give what was said the shape that its attribute has."""
    for key, value in said.items():
        if key == "messages":
            yield "system", as_system(value)
            yield "messages", as_input(value)
        elif key == "answer":
            yield "answer", as_output(*value)
        elif key in _SAID:
            yield key, value


def _facts_of_model(model: str, data: Mapping[str, Any]) -> dict[str, Any]:
    provider = str(data.get("provider") or "")
    reason = data.get("finish_reason")
    return {
        names.OPERATION: names.CHAT,
        names.PROVIDER: names.PROVIDERS.get(provider, provider) or "_OTHER",
        names.REQUEST_MODEL: model,
        names.REQUEST_STREAM: True,
        names.RESPONSE_MODEL: data.get("answered_by"),
        names.FINISH_REASONS: (reason,) if reason else None,
        names.FIRST_CHUNK: data.get("first"),
        names.INPUT_TOKENS: data.get("input"),
        names.OUTPUT_TOKENS: data.get("output"),
        names.CACHE_READ: data.get("cache_read") or None,
        names.CACHE_CREATION: data.get("cache_written") or None,
        names.SERVER_ADDRESS: data.get("address"),
        names.SERVER_PORT: data.get("port"),
        "bub.model.purpose": data.get("purpose"),
        "bub.model.pauses": data.get("pauses") or None,
    }


def _facts_of_server(method: str, data: Mapping[str, Any]) -> dict[str, Any]:
    is_call, is_prompt = method == "tools/call", method == "prompts/get"
    return {
        names.MCP_METHOD: method,
        names.MCP_VERSION: data.get("version"),
        names.MCP_SESSION: data.get("session"),
        names.OPERATION: names.EXECUTE_TOOL if is_call else None,
        names.TOOL_NAME: data.get("target") if is_call else None,
        names.PROMPT_NAME: data.get("target") if is_prompt else None,
        names.NETWORK_TRANSPORT: data.get("transport"),
        names.SERVER_ADDRESS: data.get("address"),
        names.SERVER_PORT: data.get("port"),
        "bub.server": data.get("server"),
    }
