"""From a tape to the messages that a model is sent: paired calls and results, and nothing a provider would refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bub.tape.entry import THOUGHTS, TapeEntry
from bub.tape.frames import FRAME, OUTSIDE, put_in_frame
from bub.tape.query import LAST_ANCHOR, AnchorSelector, TapeQuery

LOST = "outcome unknown: the process ended during it, or it was cancelled"
"""What stands in for the result of a call that has none, because providers refuse a call without one."""

NOW = "now"
"""The key of `meta` under which a message keeps when and where it came: a model reads it below the message."""

MEDIA = "media"
"""The key of `meta`, and then of the message, under which it says which of its parts lie beside the tape."""

ANCHOR_CREATED = "[Anchor created: "
"""How the message of an anchor begins, behind which a model reads what it took along."""

Select = Callable[[Sequence[TapeEntry], "TapeContext"], Iterable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class TapeContext:
    """How a tape becomes messages: from which anchor on, chosen by whom (BEHAVIOURS P12).

    `anchor` is `LAST_ANCHOR`, the name of one, or None for the whole tape. `select` makes messages of the entries;
    left out, `messages_of` does. `state` is for `select`.
    """

    anchor: AnchorSelector = LAST_ANCHOR
    select: Select | None = None
    state: dict[str, Any] = field(default_factory=dict)

    def build_query(self, query: TapeQuery) -> TapeQuery:
        """Return the query for the entries of this context."""
        if isinstance(self.anchor, str):
            return query.after_anchor(self.anchor)
        return query if self.anchor is None else query.last_anchor()

    def messages(self, entries: Sequence[TapeEntry]) -> list[dict[str, Any]]:
        """Return the messages of some entries, without those whose `meta` says `context: False`."""
        wanted = [entry for entry in entries if entry.meta.get("context") is not False]
        return [dict(message) for message in (self.select(wanted, self) if self.select else messages_of(wanted))]


def messages_of(entries: Iterable[TapeEntry]) -> list[dict[str, Any]]:
    """Return messages as OpenAI's chat format has them (BEHAVIOURS P13, P14).

    A result belongs to the call whose id it names, wherever it is; a call without a result gets one that says so,
    and a result without a call is left out. System prompts, events and errors are not part of a conversation, and
    neither is a message that was never answered, because its turn failed before the model said or did anything.
    """
    entries = _without_failed(entries)
    results = _results(entries)
    messages: list[dict[str, Any]] = []
    for entry in entries:
        if entry.kind == "message":
            message = tell_now(entry.payload, entry.meta.get(NOW))
            kept = entry.meta.get(MEDIA)
            messages.append({**message, MEDIA: kept} if kept else message)
        elif entry.kind == "anchor":
            messages += _of_anchor(entry)
        elif entry.kind == "tool_call":
            messages += _of_calls(entry, results)
    return messages


def tell_now(message: Mapping[str, Any], now: Any) -> dict[str, Any]:
    """Return a message as a model reads it: with what it keeps of its moment below it."""
    if not isinstance(now, str) or not now:
        return dict(message)
    content, said = message.get("content"), f"<now>{now}</now>"
    if isinstance(content, list):
        return {**message, "content": [*content, {"type": "text", "text": said}]}
    return {**message, "content": f"{content}\n\n{said}"}


def entry_of_step(message: Mapping[str, Any], **meta: Any) -> TapeEntry:
    """Return a message with calls, or the result of one, as the entry that becomes this message again."""
    if message.get("role") == "tool":
        result = {"id": message.get("tool_call_id"), "content": message.get("content")}
        return TapeEntry.tool_result([result], **meta)
    calls = [
        {**{name: value for name, value in call.items() if name not in ("type", "function")}, **call["function"]}
        for call in message["tool_calls"]
    ]
    entry = TapeEntry.tool_call(calls, content=message.get("content"), **meta)
    if message.get(THOUGHTS):
        entry.payload[THOUGHTS] = message[THOUGHTS]
    return entry


def _without_failed(entries: Iterable[TapeEntry]) -> list[TapeEntry]:
    """Leave out what began a turn that failed before the model said or did anything."""
    kept: list[TapeEntry] = []
    unanswered: int | None = None
    for entry in entries:
        if entry.begins_turn:
            unanswered = len(kept)
        elif entry.kind == "error" and unanswered is not None:
            del kept[unanswered]
            unanswered = None
        elif entry.kind in ("message", "tool_call"):
            unanswered = None
        kept.append(entry)
    return kept


def _of_anchor(entry: TapeEntry) -> list[dict[str, Any]]:
    state = entry.payload.get("state")
    if not state:
        return []
    summary = state.get("summary") if isinstance(state, Mapping) else None
    is_long = isinstance(summary, str) and "\n" in summary  # a text of several lines is told as one
    told = {name: value for name, value in state.items() if name != "summary"} if is_long else state
    said = json.dumps(told, ensure_ascii=False, default=str)
    below = f"\n\n{summary}" if is_long else ""
    return [{"role": "assistant", "content": f"{ANCHOR_CREATED}{entry.payload.get('name')}]: {said}{below}"}]


def _results(entries: Iterable[TapeEntry]) -> dict[str, Mapping[str, Any]]:
    """What came of each call, by its id; the first result counts, since a call runs once."""
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if entry.kind != "tool_result":
            continue
        for result in _items_of(entry.payload.get("results")):
            if isinstance(result, Mapping) and isinstance(result.get("id"), str):
                found.setdefault(result["id"], result)
    return found


def _content_of(result: Mapping[str, Any]) -> Any:
    """The content of a result as a model reads it."""
    content, source, frame = result.get("content"), result.get(OUTSIDE), result.get(FRAME)
    if isinstance(source, str) and isinstance(frame, str):
        return put_in_frame(_text(content), source, frame)
    return content


def _of_calls(entry: TapeEntry, results: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    calls = [call for call in _items_of(entry.payload.get("calls")) if isinstance(call, Mapping) and call.get("id")]
    content = entry.payload.get("content")
    thoughts = {THOUGHTS: entry.payload[THOUGHTS]} if entry.payload.get(THOUGHTS) else {}
    if not calls:
        return [{"role": "assistant", "content": content, **thoughts}] if content else []
    asked = [
        {
            "id": str(call["id"]),
            "type": "function",
            "function": {"name": str(call.get("name") or ""), "arguments": _text(call.get("arguments") or {})},
            **({"extra_content": call["extra_content"]} if call.get("extra_content") else {}),
        }
        for call in calls
    ]
    answers = [_of_result(str(call["id"]), results) for call in calls]
    return [{"role": "assistant", "content": content, "tool_calls": asked, **thoughts}, *answers]


def _of_result(key: str, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The message that answers a call; where pictures belong behind its text, it says where they lie."""
    result = results.get(key, {"content": LOST})
    text, kept = _text(_content_of(result)), result.get(MEDIA)
    answer = {"role": "tool", "tool_call_id": key, "content": text}
    if not kept:
        return answer
    lines = [{"type": "text", "text": line} for line in (text, *(str(one.get("line")) for one in kept))]
    return {**answer, "content": lines, MEDIA: kept}


def _items_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
