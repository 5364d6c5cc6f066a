"""One answer as a person sees it come: its events as pieces to print for good, and what is still in the making."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeAlias

from bub.channels.plan import MOST_ROWS, LivePlan
from bub.channels.terminal.blocks import Blocks
from bub.channels.terminal.escaping import escape_controls
from bub.streaming import StreamEvent
from bub.tape.plan import PLAN

_LONGEST_VALUE = 60
_LONGEST_LABEL = 300

Look: TypeAlias = Literal[
    "markdown", "plain", "thought", "tool", "failed", "error", "note", "said", "asked", "edit", "step", "plan"
]
"""How a piece is shown. What a command did is `plain`: it was not written as Markdown. What is `asked` about is for a
person to judge, and shown letter by letter, and so an `edit`, whose lines that go and come have a colour. A `step` is
what has changed of a plan, for those who do not draw the plan; a `plan` is all of it, at the end."""


class Printout(NamedTuple):
    """Something that is printed once and stays."""

    look: Look
    text: str


class RunningCall(NamedTuple):
    """A tool that runs: what it was called with, in short, and since when; None while a person is asked about it."""

    label: str
    since: float | None


class LiveAnswer:
    """The answer that one turn makes; `of_command` if it is what a comma command did."""

    def __init__(self, *, of_command: bool = False) -> None:
        self.since = time.monotonic()
        self.calls: dict[str, RunningCall] = {}
        self.of_command = of_command
        self.plan = LivePlan()
        self._pause: tuple[str, float] | None = None
        self._working_since: dict[str, float | None] = {}
        self._blocks = Blocks()
        self._thoughts = Blocks()

    @property
    def unfinished(self) -> str:
        """The text that is not part of a finished block yet."""
        return self._blocks.rest

    @property
    def thinking(self) -> str:
        """The reasoning that is not finished yet."""
        return self._thoughts.rest

    @contextmanager
    def asking(self, call_id: str) -> Iterator[None]:
        """Show no time for a call while a person thinks about it; it takes its time from then on."""
        self._working_since[call_id] = None
        try:
            yield
        finally:
            self._working_since[call_id] = time.monotonic()

    def running(self) -> list[RunningCall]:
        """Return the tools that run, or wait for a person."""
        calls = list(self.calls.items())
        return [RunningCall(call.label, self._working_since.get(id, call.since)) for id, call in calls]  # noqa: A001

    def pause(self, now: float) -> str:
        """Return for how long the model is not asked, and why; "" if it is at work."""
        if self._pause is None or now >= self._pause[1]:
            return ""
        reason, end = self._pause
        return f"waiting {duration_in_words(end - now)}: {reason}"

    def take(self, event: StreamEvent) -> Iterator[Printout]:
        """Yield what is finished by an event."""
        data = event.data
        self._pause = None
        match event.kind:
            case "waiting":
                reason = " ".join(escape_controls(str(data.get("reason") or "")).split())
                self._pause = reason, time.monotonic() + float(data.get("seconds") or 0)
            case "compaction" | "notice":
                yield from self._finish_text()
                yield Printout("note", escape_controls(str(data.get("text") or "")))
            case "text":
                yield from self._finish_thought()
                yield from self._print_blocks(self._blocks.feed(str(data.get("delta") or "")))
            case "reasoning":
                for thought in self._thoughts.feed(str(data.get("delta") or "")):
                    yield Printout("thought", thought)
            case "tool_call":
                yield from self._finish_text()
                name, arguments = str(data.get("name") or "?"), data.get("arguments")
                shown = arguments if isinstance(arguments, Mapping) else {"": str(data.get("raw") or "")}
                self.calls[str(data.get("id"))] = RunningCall(label_of(name, shown), time.monotonic())
            case "tool_result":
                yield from self._finish_text()
                result = self._result(data)
                if result.look == "failed" or data.get("name") != PLAN:  # what a plan has come to is seen
                    yield result
            case "plan":
                if rows := self.plan.take(event):
                    yield Printout("step", "\n".join(rows))
            case "final":
                yield from self._finish_text()
                if cut := event.explain_cut():
                    yield Printout("note", cut)

    def end(self) -> Iterator[Printout]:
        """Yield what is left when the turn is over, however it ended."""
        yield from self._finish_text()
        for call in self.calls.values():
            yield Printout("failed", f"{call.label} · not finished")
        self.calls.clear()
        if rows := self.plan.rows(MOST_ROWS):
            yield Printout("plan", "\n".join(rows))

    def _finish_text(self) -> Iterator[Printout]:
        yield from self._finish_thought()
        yield from self._print_blocks([self._blocks.finish()])

    def _finish_thought(self) -> Iterator[Printout]:
        if thought := self._thoughts.finish().strip():
            yield Printout("thought", thought)

    def _print_blocks(self, blocks: Iterator[str] | list[str]) -> Iterator[Printout]:
        for block in blocks:
            if block.strip():
                yield Printout("plain" if self.of_command else "markdown", block)

    def _result(self, data: Mapping[str, Any]) -> Printout:
        call = self.calls.pop(str(data.get("id")), None)
        self._working_since.pop(str(data.get("id")), None)
        label = call.label if call is not None else str(data.get("name") or "?")
        took = data.get("took")
        line = f"{label} · {duration_in_words(took)}" if isinstance(took, int | float) else label
        if not data.get("is_error"):
            return Printout("tool", line)
        reason = " ".join(escape_controls(str(data.get("content") or "")).split())
        return Printout("failed", f"{line} · {reason[:_LONGEST_LABEL]}")


def label_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a call in one line: the tool, and its arguments in short."""
    values = [(name, _in_short(value)) for name, value in arguments.items()]
    words = [value if len(values) == 1 else f"{name}={value}" for name, value in values]
    return escape_controls(" ".join([tool, *words])).replace("\n", " ")[:_LONGEST_LABEL].rstrip()


def duration_in_words(seconds: float) -> str:
    """Return a time as a person reads it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02} min"


def _in_short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    beginning = text[: _LONGEST_VALUE * 4]
    words = " ".join(beginning.split())
    if len(words) <= _LONGEST_VALUE and beginning == text:
        return words
    return f"{words[:_LONGEST_VALUE].rstrip()}…"
