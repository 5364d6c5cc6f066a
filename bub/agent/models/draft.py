"""An answer as it grows: the pieces that come over any API, and the events they make."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

from bub.agent.models import faults
from bub.agent.models.calls import PartialCall, PartialCalls, arguments_of, new_id
from bub.agent.models.endpoint import Endpoint
from bub.agent.models.faults import AttemptError
from bub.agent.models.names import ToolNames
from bub.agent.models.overflow import is_overflow
from bub.agent.models.thoughts import Blocks, ThoughtSplitter
from bub.agent.models.wire import Joiner
from bub.streaming import StreamEvent, StreamState

_CUT_SHORT = ("length", "content_filter")


class Draft:
    """What has been said so far. A dialect tells it what came; `ready` holds the events that are due.

    `finish_reason` is set once the server has said how the answer ended; only counts may follow. `ended` says that all
    is in `ready`. A character that was split over pieces is made whole. Calls are in `ready` at the end only, so none
    is ever given out of an answer that broke off.
    """

    __slots__ = (
        "_blank",
        "_calls",
        "_endpoint",
        "_has_text",
        "_joiners",
        "_names",
        "_splitter",
        "_taken",
        "_thoughts",
        "ended",
        "finish_reason",
        "ready",
        "state",
    )

    def __init__(self, endpoint: Endpoint, names: ToolNames, taken: Collection[str]) -> None:
        self.ready: deque[StreamEvent] = deque()
        self.state = StreamState()
        self.finish_reason: str | None = None
        self.ended = False
        self._endpoint = endpoint
        self._names = names
        self._taken = set(taken)
        self._joiners = {"text": Joiner(), "reasoning": Joiner()}
        self._calls: PartialCalls | None = None
        self._has_text = False
        self._blank = ""
        self._splitter = ThoughtSplitter()
        self._thoughts: Blocks = []

    def text(self, delta: str) -> None:
        """A piece of the answer."""
        self._say(self._joiners["text"].feed(delta))

    def reasoning(self, delta: str) -> None:
        """A piece of what the model thinks before it answers."""
        self._add("reasoning", self._joiners["reasoning"].feed(delta))

    def thought(self, block: dict[str, Any]) -> None:
        """A thought that goes back to the provider as it is; a dialect may add to the block until the answer ends."""
        calls = len(self._calls.list_calls()) if self._calls is not None else 0
        self._thoughts.append({"at": self._has_text + calls, "block": block})

    def call(self, index: object, call_id: object, name: object, arguments: object, extra: Any = None) -> None:
        """A piece of a tool call, or a whole one; see `PartialCalls.add`."""
        if self._calls is None:
            self._calls = PartialCalls(self._names.offered)
        self._calls.add(index, call_id, name, arguments, extra)

    def usage(self, counts: dict[str, Any]) -> None:
        """What the provider counted; later counts go over earlier ones."""
        known = {key: value for key, value in counts.items() if value is not None}
        if known:
            self.state.usage = {**(self.state.usage or {}), **known}

    def end(self) -> None:
        """Nothing more comes: tell what is left. Raises AttemptError when the answer says nothing."""
        self.ended = True
        self._say(self._joiners["text"].rest())
        for kind, held in self._splitter.rest():
            self._add(kind, held)
        self._add("reasoning", self._joiners["reasoning"].rest())
        calls = self._calls.list_calls() if self._calls is not None and self._names.offered else []
        if not self._has_text and not calls:
            raise self._nothing_said()
        for call in calls:
            self._tell(call, is_last=call is calls[-1])
        if calls and self.finish_reason not in _CUT_SHORT:
            self.finish_reason = "tool_calls"
        if self.state.usage is not None:
            self.ready.append(StreamEvent("usage", self.state.usage))
        thoughts = {"thoughts": self._thoughts} if self._thoughts else {}
        self.ready.append(StreamEvent("final", {"finish_reason": self.finish_reason, **thoughts}))

    def _say(self, text: str) -> None:
        if self._splitter.is_settled:
            self._add("text", text)
            return
        for kind, part in self._splitter.feed(text):
            self._add(kind, part)

    def _add(self, kind: str, delta: str) -> None:
        if kind == "text" and not self._has_text:
            # Blanks are no answer yet: they wait for the first word.
            delta = self._blank + delta
            self._has_text = bool(delta.strip())
            self._blank = "" if self._has_text else delta
            if not self._has_text:
                return
        if delta:
            self.ready.append(StreamEvent(kind, {"delta": delta}))

    def _tell(self, call: PartialCall, *, is_last: bool) -> None:
        raw = call.raw
        arguments = arguments_of(raw)
        if not raw and is_last and self.finish_reason == "length":
            arguments = None  # the answer was cut before they came
        call_id = call.id if call.id and call.id not in self._taken else new_id()
        self._taken.add(call_id)
        data = {"id": call_id, "name": self._names.own(call.name), "arguments": arguments, "raw": raw}
        if call.extra:
            data["extra_content"] = call.extra
        self.ready.append(StreamEvent("tool_call", data))

    def _nothing_said(self) -> AttemptError:
        reason = self.finish_reason
        if reason is not None and is_overflow(None, reason):
            return faults.overflow(self._endpoint, "")
        # What ended by itself without a word may say one if it is asked again; a limit and a filter stay the same.
        error = faults.empty(self._endpoint, reason, called_tools=self._calls is not None)
        return AttemptError(error, again=reason not in _CUT_SHORT)
