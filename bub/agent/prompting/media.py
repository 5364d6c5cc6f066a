"""Pictures and files in a conversation: they stay in it as long as they fit, and leave at an anchor, named in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bub.agent.models.parts import name_part, text_part
from bub.tape.media import first_that_stays, size_of


def fit_media(messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The messages, with a line for each of the oldest pictures and files if a request cannot hold all of them.

    Without a need, they are the same object.
    """
    places = [(at, place) for at, message in enumerate(messages) for place in _media_in(message.get("content"))]
    leaving = first_that_stays([size_of(messages[at]["content"][place]) for at, place in places])
    if not leaving:
        return messages
    fitting = list(messages)
    for at, place in places[:leaving]:
        content = fitting[at]["content"]
        named = [*content[:place], text_part(name_part(content[place])), *content[place + 1 :]]
        fitting[at] = {**fitting[at], "content": named}
    return [_gather(message) if message.get("role") == "tool" else message for message in fitting]


def split_result(message: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The text of a result, and what it shows."""
    content = message.get("content")
    if not isinstance(content, list):
        return str(content), []
    return "\n".join(part["text"] for part in content if part.get("type") == "text"), _parts(content)


def _gather(message: dict[str, Any]) -> dict[str, Any]:
    """A result with its text in front, as a tape gives it back."""
    text, parts = split_result(message)
    return {**message, "content": [text_part(text), *parts] if parts else text}


def left_behind(messages: Iterable[Mapping[str, Any]], prompts: Iterable[Any]) -> list[str]:
    """Name the pictures and files that an anchor leaves behind: those of the messages that no prompt repeats."""
    repeated = [part for prompt in prompts for part in _parts(prompt)]
    parts = (part for message in messages for part in _parts(message.get("content")))
    return [name_part(part) for part in parts if part not in repeated]


def _parts(content: Any) -> list[Any]:
    return [content[place] for place in _media_in(content)]


def _media_in(content: Any) -> list[int]:
    if not isinstance(content, list):
        return []
    return [place for place, part in enumerate(content) if isinstance(part, Mapping) and part.get("type") != "text"]
