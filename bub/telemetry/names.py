"""The names of what is sent: attributes, operations and metrics.

Those of GenAI and of the Model Context Protocol are in development, and the constants of OpenTelemetry's own package
are deprecated, so they are written here. Their source is the repository `open-telemetry/semantic-conventions-genai`,
in `docs/gen-ai/` the pages `gen-ai-spans.md`, `gen-ai-agent-spans.md`, `gen-ai-metrics.md` and `mcp.md`, as they were
in November 2026. `error.type`, `server.*` and `network.*` are stable: `docs/registry/attributes/` in
`open-telemetry/semantic-conventions`. What begins with `bub.` is Bub's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
NETWORK_TRANSPORT = "network.transport"

OPERATION = "gen_ai.operation.name"
CHAT, EXECUTE_TOOL, INVOKE_AGENT = "chat", "execute_tool", "invoke_agent"

AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"

REQUEST_MODEL = "gen_ai.request.model"
REQUEST_STREAM = "gen_ai.request.stream"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION = "gen_ai.usage.cache_creation.input_tokens"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"

TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
PROMPT_NAME = "gen_ai.prompt.name"

MCP_METHOD = "mcp.method.name"
MCP_VERSION = "mcp.protocol.version"
MCP_SESSION = "mcp.session.id"
MCP_RESOURCE = "mcp.resource.uri"

OPERATION_DURATION = "gen_ai.client.operation.duration"
TOKEN_USAGE = "gen_ai.client.token.usage"
TOKEN_TYPE = "gen_ai.token.type"

DURATION_BOUNDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""In seconds; both lists of bounds are those that the conventions ask for."""
TOKEN_BOUNDS = tuple(4.0**power for power in range(14))

PROVIDERS: Mapping[str, str] = MappingProxyType(
    {"gemini": "gcp.gemini", "mistral": "mistral_ai", "moonshot": "moonshot_ai", "xai": "x_ai"}
)
"""How the conventions call providers that Bub calls otherwise."""

TURN = "bub.turn"
STAGE = "bub.stage"
IMPLEMENTATION = "bub.implementation"
GATE = "bub.gate"
