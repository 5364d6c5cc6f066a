"""Summing up a conversation: what the model reads of it, in pieces that fit, and what it is to write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bub.agent.models.parts import name_part
from bub.agent.models.request import calls_in, name_in
from bub.agent.window.measure import tokens_of_text

PROMPT = Path(__file__).parents[1] / "prompting" / "shipped" / "summary.md"
"""What the model is asked to write, for people to read."""

MOST_PIECES = 16
"""How many requests a summary takes at most; of what is longer, the oldest is not read."""

_LONGEST_WORDS, _LONGEST_RESULT, _LONGEST_CALL = 8_000, 1_600, 800
"""How many characters are read of what somebody said, of a tool's result, and of a call."""

_LETTERS = 4
"""The characters of a token, about."""

Message = Mapping[str, Any]


class Room(msgspec.Struct, frozen=True):
    """How many tokens a piece of the conversation may have, and the summary."""

    piece: int
    summary: int

    @classmethod
    def within(cls, window: int, correction: float) -> Room:
        """The room in a window of so many tokens; a quarter of it is kept for the answer."""
        summary = min(max(window // 8, 128), 4_000)
        around = tokens_of_text(read_prompt()) + summary + 100
        return cls(max(int((window * 3 // 4) / correction) - around, 256), summary)


def read_prompt() -> str:
    """What the model is asked to write."""
    return PROMPT.read_text(encoding="utf-8").strip()


def request_for(piece: str, before: str, room: Room, hint: str) -> list[dict[str, Any]]:
    """The messages that ask for a summary of a `piece`, behind the summary of what came `before` it, if there is one.

    `hint` is what the person wants it to look at above all.
    """
    told = [f"<earlier_summary>\n{before}\n</earlier_summary>"] if before else []
    told.append(f"<conversation>\n{piece}\n</conversation>")
    if hint:
        told.append(f"The person asks you to keep above all: {hint}")
    told.append(f"Write the summary of all of it now, in at most {room.summary * 3 // 4:,} words.")
    return [{"role": "system", "content": read_prompt()}, {"role": "user", "content": "\n\n".join(told)}]


def pieces_of(messages: Sequence[Message], room: Room) -> list[str]:
    """The conversation as a text, cut into pieces that fit. Of more than `MOST_PIECES`, the newest are taken."""
    longest = room.piece * _LETTERS
    pieces: list[str] = []
    for line in _lines_of(messages, longest):
        if pieces and len((pieces[-1] + line).encode("utf-8", "surrogatepass")) + 2 <= longest:
            pieces[-1] += f"\n\n{line}"
        else:
            pieces.append(line)
    left_out = len(pieces) - MOST_PIECES
    if left_out > 0:
        pieces = pieces[left_out:]
        pieces[0] = f"[What came before this was too long to be read.]\n\n{pieces[0]}"
    return pieces


def fit_summary(text: str, room: Room) -> str:
    """A summary that is not much longer than it was to be."""
    return _cut(text.strip(), room.summary * 2 * _LETTERS)


def _lines_of(messages: Sequence[Message], longest: int) -> Iterator[str]:
    names = {call.get("id"): name_in(call) for message in messages for call in calls_in(message)}
    words = min(_LONGEST_WORDS, longest // 2)
    for message in messages:
        role, said = str(message.get("role") or "?"), _words_of(message.get("content"))
        if role == "tool":
            name = names.get(message.get("tool_call_id"), "a tool")
            yield f"[result of {name}] {_cut(said, min(_LONGEST_RESULT, words))}"
            continue
        if said.strip():
            yield f"[{role}] {_cut(said, words)}"
        for call in calls_in(message):
            function = call.get("function")
            arguments = function.get("arguments") if isinstance(function, Mapping) else ""
            yield f"[call] {name_in(call)} {_cut(str(arguments or ''), min(_LONGEST_CALL, words))}"


def _words_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "\n".join(
        str(part.get("text") or "") if part.get("type") == "text" else name_part(part)
        for part in parts
        if isinstance(part, Mapping)
    )


def _cut(text: str, longest: int) -> str:
    """A text with its middle left out if it is too long: how it begins and how it ends tells most."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end]} [… {len(text) - longest:,} characters left out …] {text[-end:]}"
