"""What hooks around a request to a model and around a tool call are given, and what they may say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class LlmCallRequest:
    """A request to a model; a hook may return a changed copy."""

    run_id: str
    model: str
    messages: list[dict[str, Any]]
    tool_names: tuple[str, ...] = ()
    max_tokens: int | None = None


@dataclass(frozen=True)
class LlmCallResult:
    """What came of a request; `error` is why nothing did."""

    run_id: str
    text: str | None = None
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    error: Exception | None = None
    duration_ms: int = 0


@dataclass(frozen=True)
class LlmCallDecision:
    """An answer in the model's stead."""

    action: Literal["finish"] = "finish"
    text: str = ""

    @classmethod
    def finish(cls, text: str) -> LlmCallDecision:
        """Answer with `text`; no model is asked."""
        return cls(text=text)


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool that is about to run."""

    run_id: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class ToolCallDecision:
    """What becomes of a call: it runs, with other arguments perhaps; or it has this result; or it is refused."""

    action: Literal["proceed", "replace", "deny"] = "proceed"
    arguments: dict[str, Any] | None = None
    result: Any = None
    message: str | None = None

    @classmethod
    def proceed(cls, arguments: dict[str, Any] | None = None) -> ToolCallDecision:
        """Let it run."""
        return cls(arguments=arguments)

    @classmethod
    def replace(cls, result: Any) -> ToolCallDecision:
        """Give this result; the tool does not run."""
        return cls("replace", result=result)

    @classmethod
    def deny(cls, message: str) -> ToolCallDecision:
        """Refuse it; the model reads the message."""
        return cls("deny", message=message)


@dataclass
class ToolCallResult:
    """What came of a call; a hook may put another `result` in its place."""

    run_id: str
    tool: str
    arguments: dict[str, Any]
    result: Any = None
    error: Exception | None = None
    duration_ms: int = 0
