"""What goes over the wire, for every API: JSON that may hold half a character, and text made whole again."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")


def read_json(text: str | bytes, decoder: msgspec.json.Decoder[_T]) -> _T:
    """What a server sent, in the decoder's type. Raises ValueError when it is not JSON, or not of this shape."""
    try:
        return decoder.decode(text)
    except (UnicodeError, msgspec.ValidationError):
        raise
    except msgspec.DecodeError:
        # A delta can end inside a surrogate pair, which only the lenient parser of the standard library reads.
        return msgspec.convert(json.loads(text), decoder.type)


def write_body(body: dict[str, Any]) -> bytes:
    """A request as JSON; text that no encoding can carry (lone surrogates) is mended first."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(mend_all(body))


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


def mend_all(value: Any) -> Any:
    """The value with every text in it mended, however deep."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, dict):
        return {mend(str(key)): mend_all(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mend_all(item) for item in value]
    return value


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
