"""Holding back what a stream says until the stages below have judged it, and what of it is shown then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bub.envelope import Envelope, content_of, field_of, unpack_batch
from bub.hooks.facts import OUTBOUNDS
from bub.pipeline.plan.checks import checks_of, shows_at_once
from bub.pipeline.plan.plan import Plan
from bub.pipeline.plan.scalars import text_of
from bub.pipeline.run.graph import GraphNode, Hold
from bub.streaming import StreamEvent

MOST_THOUGHTS = 100_000
"""How many characters of its thoughts are held for a stream. What it says is held whole: the turn keeps it anyway."""

MOST_OTHERS = 1_000
"""How many events of kinds that Bub does not know are held."""

_AT_ONCE = frozenset({"waiting", "compaction", "notice", "tool_call", "tool_result", "usage", "error"})
_END = ("finish_reason", "steps", "ok", "usage", "cost", "cut", "compaction")
"""What the end of an answer says of it beside its words."""


def lay_out_holds(
    plan: Plan,
    nodes: Sequence[GraphNode],
    index_of: Mapping[str, int],
    left: Sequence[Mapping[str, int]],
    nothing: int,
) -> dict[str, Hold]:
    """Return what the words of each stream wait for, by its stage; nothing for one that nobody below judges.

    `index_of` is the node of each stage; `left` says for each node in which slots the values are when it is over.
    """
    holds: dict[str, Hold] = {}
    for stream in plan.stages:
        checks = [] if shows_at_once(stream) else checks_of(plan, stream)
        if not checks:
            continue
        steps = {step.id: step for node in nodes for step in node.steps}
        last = left[max(index_of[check.id] for check in checks)]
        holds[stream.id] = Hold(
            tuple((steps[check.id], check.each is not None) for check in checks),
            said=last.get(text_of(stream.node.get("into")) or "", nothing),
            replies=last.get(OUTBOUNDS) if any(OUTBOUNDS in check.taken for check in checks) else None,
        )
    return holds


class Held:
    """What one stream has said that nobody has judged yet; `waiting` are the stages that still have to speak."""

    __slots__ = ("_end", "_events", "_hold", "_others", "_thoughts", "message", "waiting")

    def __init__(self, hold: Hold, waiting: set[str], message: Envelope) -> None:
        self._hold = hold
        self._events: list[tuple[str, Any]] = []
        self._end: StreamEvent | None = None
        self._thoughts = self._others = 0
        self.message = message
        self.waiting = waiting

    def keep(self, event: StreamEvent) -> bool:
        """Keep an event that has to wait; false for one that does not."""
        kind = event.kind
        if kind in _AT_ONCE:
            return False
        if kind == "final":
            self._end = event
        elif kind == "text":
            self._add("text", str(event.data.get("delta") or ""))
        elif kind == "reasoning":
            delta = str(event.data.get("delta") or "")[: MOST_THOUGHTS - self._thoughts]
            self._thoughts += len(delta)
            self._add("reasoning", delta)
        elif self._others < MOST_OTHERS:
            self._others += 1
            self._events.append((kind, event))
        return True

    def as_judged(self, values: list[Any]) -> Iterator[StreamEvent]:
        """Yield what may be shown now that all have spoken: what came, if that is what is left, else what is."""
        said = str(values[self._hold.said] or "")
        replies = self._replies(values)
        text = "".join("".join(parts) for kind, parts in self._events if kind == "text").strip()
        if said.strip() == text and (replies is None or text in [reply.strip() for reply in replies]):
            for kind, held in self._events:
                yield held if isinstance(held, StreamEvent) else StreamEvent(kind, {"delta": "".join(held)})
            if self._end is not None:
                yield self._end
            return
        left = [said] if replies is None else replies
        if len(left) == 1 and left[0].strip():
            yield StreamEvent.text(left[0])
        yield from self.without_words()

    def without_words(self) -> Iterator[StreamEvent]:
        """Yield what may be shown though its words may not: that the answer has ended."""
        if self._end is not None:
            yield StreamEvent("final", {name: self._end.data[name] for name in _END if name in self._end.data})

    def _add(self, kind: str, delta: str) -> None:
        if not delta:
            return
        if self._events and self._events[-1][0] == kind:
            self._events[-1][1].append(delta)
        else:
            self._events.append((kind, [delta]))

    def _replies(self, values: list[Any]) -> list[str] | None:
        """Return the texts of the replies to who wrote; None if nobody judges replies."""
        if self._hold.replies is None:
            return None
        batch = unpack_batch(values[self._hold.replies])
        return [content_of(reply) for reply in batch if _answers(reply, self.message)]


def _answers(reply: Envelope, message: Envelope) -> bool:
    """Return whether a reply goes where a message came from."""
    channel = field_of(reply, "output_channel") or field_of(reply, "channel")
    went = {"channel": channel, "chat_id": field_of(reply, "chat_id")}
    return all(value in (None, field_of(message, name)) for name, value in went.items())
