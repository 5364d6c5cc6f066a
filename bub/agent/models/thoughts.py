"""What a model thinks: told from what it says, kept with it, and given back to the provider it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bub.tape.entry import THOUGHTS

Blocks = list[dict[str, Any]]

_OPEN, _CLOSE = "<think>", "</think>"


def thoughts_of(by: str, text: str, blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a message is given beside its content: the thoughts of the model `by`, or nothing if it had none.

    `blocks` are those that have to go back as they are, each as a `block` with the place `at` which it was: how many
    of the text and the calls of the message came before it.
    """
    if not text and not blocks:
        return {}
    kept = {"by": by, "text": text, **({"blocks": list(blocks)} if blocks else {})}
    return {THOUGHTS: kept}


def own_thoughts(message: Mapping[str, Any], provider: str) -> Mapping[str, Any]:
    """The thoughts of a message if they came from this provider; else nothing."""
    thoughts = message.get(THOUGHTS)
    if not isinstance(thoughts, Mapping) or str(thoughts.get("by")).partition(":")[0] != provider:
        return {}
    return thoughts


def own_blocks(message: Mapping[str, Any], provider: str, model: str) -> Sequence[Mapping[str, Any]]:
    """The blocks that go back with a message: another model does not take what this one has signed."""
    thoughts = own_thoughts(message, provider)
    return thoughts.get("blocks") or () if thoughts.get("by") == f"{provider}:{model}" else ()


def put_in_place(others: list[dict[str, Any]], blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a message says and calls, with the blocks of its thoughts in the places that they had among it."""
    placed: list[dict[str, Any]] = []
    waiting = list(blocks)
    for index, other in enumerate(others):
        while waiting and waiting[0]["at"] <= index:
            placed.append(dict(waiting.pop(0)["block"]))
        placed.append(other)
    return [*placed, *(dict(block["block"]) for block in waiting)]


class ThoughtSplitter:
    """Tells thoughts from words in a text that begins with `<think>`, as servers send it that do not tell them apart.

    Only what is at the beginning is a thought: a model may speak of such a tag anywhere else.
    """

    __slots__ = ("_held", "_is_thinking", "_is_trimming", "is_settled")

    def __init__(self) -> None:
        self._held = ""
        self._is_thinking = False
        self._is_trimming = False
        self.is_settled = False
        """Whether all that comes is words."""

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield what is certain of a piece, each part with what it is: "reasoning" or "text"."""
        if self.is_settled:
            yield "text", text
            return
        self._held += text
        if not self._is_thinking and not self._is_trimming:
            begun = self._held.lstrip()
            if begun.startswith(_OPEN):
                self._is_thinking, self._held = True, begun[len(_OPEN) :]
            elif not _OPEN.startswith(begun):
                yield from self._settle()
        if self._is_thinking:
            thought, close, rest = self._held.partition(_CLOSE)
            if close:
                self._is_thinking, self._is_trimming, self._held = False, True, rest
            else:
                sure = len(thought) - _begun_at_end(thought)
                thought, self._held = thought[:sure], thought[sure:]
            if thought:
                yield "reasoning", thought
        if self._is_trimming:
            self._held = self._held.lstrip()
            if self._held:
                yield from self._settle()

    def rest(self) -> Iterator[tuple[str, str]]:
        """Yield what is left when nothing more comes."""
        held, self._held = self._held, ""
        if held:
            yield ("reasoning" if self._is_thinking else "text"), held

    def _settle(self) -> Iterator[tuple[str, str]]:
        self.is_settled, held = True, self._held
        self._held = ""
        yield "text", held


def _begun_at_end(thought: str) -> int:
    """How many characters at the end of a thought may be the beginning of its closing tag."""
    return next((size for size in range(len(_CLOSE) - 1, 0, -1) if thought.endswith(_CLOSE[:size])), 0)
