"""An entry of a tape: one thing that happened in a session, never changed once it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

THOUGHTS = "thoughts"
"""What a message of the model has beside its content: what it thought, and which model that was."""

_MEDIA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")

REPEATED = "repeated"
"""The key of `meta` that is true for what is behind an anchor once more, since it stays in the conversation."""

_WITHIN_A_TURN = ("continued", "steered", REPEATED)
"""What the notes of a message say that did not begin a turn."""


def now() -> str:
    """The moment as ISO 8601 in UTC, to the microsecond, so that dates sort as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True)
class TapeEntry:
    """One entry (BEHAVIOURS P1): `payload` is what happened, `meta` what is said about it, `date` ISO 8601 in UTC.

    `kind` is "message", "system", "anchor", "tool_call", "tool_result", "error" or "event". Other kinds are kept and
    found; the context leaves them out.
    `id` counts 1, 2, 3 … within a tape; the store gives it when the entry is appended, until then it is 0.
    """

    id: int
    kind: str
    payload: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)
    date: str = field(default_factory=now)

    @classmethod
    def message(cls, message: Mapping[str, Any], **meta: Any) -> TapeEntry:
        """What a person or the model said, as providers take it: `{"role", "content"}`."""
        return cls(0, "message", dict(message), meta)

    @classmethod
    def system(cls, content: str, **meta: Any) -> TapeEntry:
        """A system prompt."""
        return cls(0, "system", {"content": content}, meta)

    @classmethod
    def anchor(cls, name: str, state: Mapping[str, Any] | None = None, **meta: Any) -> TapeEntry:
        """A point that the context is rebuilt from; `state` is all of the past that it takes along."""
        return cls(0, "anchor", {"name": name, "state": dict(state or {})}, meta)

    @classmethod
    def tool_call(cls, calls: Sequence[Mapping[str, Any]], *, content: str | None = None, **meta: Any) -> TapeEntry:
        """The calls of one step, each with its `id`, and the text that the model said along with them."""
        payload: dict[str, Any] = {"calls": [dict(call) for call in calls]}
        if content is not None:
            payload["content"] = content
        return cls(0, "tool_call", payload, meta)

    @classmethod
    def tool_result(cls, results: Sequence[Any], **meta: Any) -> TapeEntry:
        """The results of one step, in call order, each with the id of its call."""
        return cls(0, "tool_result", {"results": list(results)}, meta)

    @classmethod
    def error(cls, error: BaseException, **meta: Any) -> TapeEntry:
        """A failure, as its type and its words."""
        return cls(0, "error", {"type": type(error).__name__, "message": str(error)}, meta)

    @classmethod
    def event(cls, name: str, data: Mapping[str, Any] | None = None, **meta: Any) -> TapeEntry:
        """Something that happened around the conversation, such as a command or the end of a step."""
        return cls(0, "event", {"name": name, "data": dict(data or {})}, meta)

    @property
    def anchor_name(self) -> str | None:
        """The name of an anchor; None for every other entry."""
        name = self.payload.get("name")
        return name if self.kind == "anchor" and isinstance(name, str) else None

    @property
    def begins_turn(self) -> bool:
        """Whether this is what a person said to begin a turn, and not a message within one."""
        if self.kind != "message" or self.payload.get("role") != "user":
            return False
        return not any(self.meta.get(note) for note in _WITHIN_A_TURN)


def words_of(payload: Mapping[str, Any]) -> str:
    """Return all text of a payload, one piece a line: what a search looks through. Images and thoughts are left out."""
    said = {name: value for name, value in payload.items() if name != THOUGHTS}
    return "\n".join(_texts(said))


def text_of(content: Any) -> str:
    """The text of what somebody said, as `content` of a message has it: a text, or parts some of which are text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def mend(value: Any) -> Any:
    """Put U+FFFD in place of what no encoding can carry (such as lone surrogates in names of files) in a JSON value."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {mend(key): mend(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mend(item) for item in value]
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if not _MEDIA.match(value):
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
