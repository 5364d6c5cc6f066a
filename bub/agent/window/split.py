"""Which part of a conversation is summed up, and which stays as it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from bub.agent.models.request import calls_in
from bub.agent.window.measure import tokens_of_messages

Message = dict[str, Any]


class Split(msgspec.Struct, frozen=True):
    """The `older` messages, which are summed up, and those that are `kept`, both in their order."""

    older: list[Message]
    kept: list[Message]


def split(messages: Sequence[Message], words: Collection[int], room: int, *, keeps_step: bool = True) -> Split:
    """Split a conversation: what is newest stays, as much as fits into `room` tokens, and never a call without results.

    `words` are the places of what a person said in the turn under way: that stays, however old. The last step stays
    with its results, too, which the model has not read yet, unless `keeps_step` is False.
    """
    begins = min(words, default=len(messages))
    first, left, has_step = len(messages), room, False
    for start, end in reversed(_groups(messages)):
        size = tokens_of_messages(messages[start:end])
        must_stay = start in words or (keeps_step and start > begins and not has_step)
        if size > left and not must_stay:
            break
        has_step = has_step or messages[start].get("role") == "assistant"
        left -= 0 if start in words else size
        first = start
    while first < begins and messages[first].get("role") != "user":
        first += 1  # what is kept of earlier turns begins with what somebody asked
    older = [message for place, message in enumerate(messages[:first]) if place not in words]
    kept = [message for place, message in enumerate(messages[:first]) if place in words]
    return Split(older, [*kept, *messages[first:]])


def shorten_results(messages: Sequence[Message], room: int) -> list[Message]:
    """The messages with results that fit into `room` tokens together, each cut to the same length if need be."""
    results = [message for message in messages if message.get("role") == "tool"]
    over = tokens_of_messages(messages) - room
    if over <= 0 or not results:
        return list(messages)
    each = max((tokens_of_messages(results) - over) // len(results), 50) * 4
    return [_shorten(message, each) if message.get("role") == "tool" else message for message in messages]


def _shorten(message: Message, longest: int) -> Message:
    content = message.get("content")
    if not isinstance(content, str) or len(content) <= longest:
        return message
    left = len(content) - longest
    return {**message, "content": f"{content[:longest]}\n[… {left:,} characters left out: too long for the window …]"}


def _groups(messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """The places of what belongs together: a message alone, or one with calls and the results behind it."""
    groups: list[tuple[int, int]] = []
    for place, message in enumerate(messages):
        if groups and message.get("role") == "tool" and calls_in(messages[groups[-1][0]]):
            groups[-1] = (groups[-1][0], place + 1)
        else:
            groups.append((place, place + 1))
    return groups
