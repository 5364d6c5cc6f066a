"""A server of the Model Context Protocol, made with the official SDK, whose one tool asks the person something."""

from __future__ import annotations

import json
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    InputRequiredResult,
)

server = MCPServer("asker")


def form(message: str, required: tuple[str, ...] = (), **properties: Any) -> ElicitRequestFormParams:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ElicitRequestFormParams(message=message, requested_schema=schema)


TEXT, TRUTH = {"type": "string"}, {"type": "boolean", "title": "Drafts, too?"}
QUESTIONS: dict[str, ElicitRequestParams] = {
    "trip": form("Where to?", ("city",), city=TEXT, nights={"type": "integer", "minimum": 1}, flight=TRUTH),
    "sure": form("Delete everything?"),
    "drafts": form("Some are drafts.", drafts=TRUTH),
    "password": form("Log in.", userPassword=TEXT),
    "page": ElicitRequestURLParams(message="Log in there.", url="https://example.com/login", elicitation_id="e1"),
}


@server.tool(structured_output=False)
async def ask(context: Context, kind: str, times: int = 1, late: float = 0) -> str | InputRequiredResult:
    """Ask something, and tell what came of it."""
    asked = QUESTIONS[kind]
    if context.request_context.protocol_version >= "2026-07-28":
        if context.input_responses is None or (times > 90 and len(context.input_responses) == 1):
            number = 1 if times > 90 else times
            requests = {f"q{at}": ElicitRequest(params=asked) for at in range(number)}
            return InputRequiredResult(input_requests=requests)
        said = list(context.input_responses.values())
    else:
        session, related = context.request_context.session, context.request_id
        said = []
        for _ in range(times):
            if isinstance(asked, ElicitRequestURLParams):
                said.append(await session.elicit_url(asked.message, asked.url, "e1", related))
            else:
                said.append(await session.elicit_form(asked.message, asked.requested_schema, related))
    await anyio.sleep(late)
    return json.dumps([one.model_dump(include={"action", "content"}, exclude_none=True) for one in said])


if __name__ == "__main__":
    server.run("stdio")
