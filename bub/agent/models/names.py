"""Dotted tool names in the letters that providers accept, and back; and ids of calls that each of them accepts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from bub.agent.models.request import ChatRequest, calls_in, name_in

LONGEST_NAME = 64
"""How many characters of a tool's name OpenAI and Anthropic accept."""

_NOT_ACCEPTED = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_LENGTH = 9  # all that Mistral takes


class ToolNames:
    """How each tool of one request is called on the wire: `fs.read` is `fs_read` there.

    The tools that are offered choose first, those whose names need no change before the others, so a name is the
    same in every request that offers the same tools. Then come names that only the history mentions.
    """

    __slots__ = ("_own", "_wire")

    def __init__(self, request: ChatRequest) -> None:
        offered = [tool.name for tool in request.tools]
        self._wire: dict[str, str] = {}
        self._own: dict[str, str] = {}
        for name in sorted(offered, key=lambda name: _make_acceptable(name) != name):
            self._give(name)
        self._own = {wire: name for name, wire in self._wire.items()}
        for name in _names_in(request.messages):
            self._give(name)

    @property
    def offered(self) -> Collection[str]:
        """What the model may call, by the names on the wire."""
        return self._own.keys()

    def wire(self, name: str) -> str:
        """Return the name that providers get for a tool."""
        return self._wire.get(name) or _make_acceptable(name)

    def own(self, wire: str) -> str:
        """The tool behind what a model said; what was not offered stays as the model said it."""
        return self._own.get(wire, wire)

    def _give(self, name: str) -> None:
        if name in self._wire:
            return
        taken = set(self._wire.values())
        plain = wire = _make_acceptable(name)
        number = 1
        while wire in taken:
            number += 1
            tail = f"_{number}"
            wire = plain[: LONGEST_NAME - len(tail)] + tail
        self._wire[name] = wire


def fit_id(call_id: object, accepted: re.Pattern[str]) -> str:
    """The id of a call as it is if a provider accepts it, else a short one that is always the same for it.

    A conversation may go on with another provider, and each has rules of its own for ids.
    """
    text = str(call_id)
    if accepted.fullmatch(text):
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]


def _make_acceptable(name: str) -> str:
    plain = _NOT_ACCEPTED.sub("_", name)
    if not plain[:1].isalpha() and plain[:1] != "_":  # Gemini wants a letter first
        plain = f"_{plain}"
    return plain[:LONGEST_NAME]


def _names_in(messages: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for message in messages:
        for call in calls_in(message):
            yield name_in(call)
