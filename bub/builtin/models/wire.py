"""Chat completions on the wire: the parts of OpenAI's format that are read, and text made whole again."""

from __future__ import annotations

import json
from typing import Any

import msgspec


class Message(msgspec.Struct, frozen=True):
    """A message or a piece of one. Nothing in it is certain: servers differ, and what is unknown is skipped."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    tool_calls: Any = None


class Choice(msgspec.Struct, frozen=True):
    """One answer: a `delta` in a stream, the whole `message` in a plain completion."""

    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None


class Completion(msgspec.Struct, frozen=True):
    """A chunk of a stream, or a plain completion."""

    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(Completion)


def read_completion(text: str | bytes) -> Completion:
    """One chunk or completion. Raises ValueError when it is not JSON, or not of this shape."""
    try:
        return _decoder.decode(text)
    except UnicodeError:
        raise
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # A delta can end inside a surrogate pair, which only the lenient parser of the standard library reads.
        return msgspec.convert(json.loads(text), Completion)


def write_body(body: dict[str, Any]) -> bytes:
    """A request as JSON; text that no encoding can carry (lone surrogates) is mended first."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mend_all(body))


def plain_text(content: Any) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""


def mend(text: str) -> str:
    """The text with surrogate pairs joined, and a lone surrogate replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Joiner:
    """Makes text whole whose surrogate pairs were split over deltas."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """What of the text is complete now; half a character at the end is held until the next delta."""
        if self._held:
            delta, self._held = self._held + delta, ""
        elif delta.isascii():
            return delta
        if "\ud800" <= delta[-1] <= "\udbff":
            delta, self._held = delta[:-1], delta[-1]
        return mend(delta)

    def rest(self) -> str:
        """What is left when no more deltas come."""
        held, self._held = self._held, ""
        return mend(held)


def _mend_all(value: Any) -> Any:
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, dict):
        return {mend(str(key)): _mend_all(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mend_all(item) for item in value]
    return value
