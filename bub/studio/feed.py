"""What one browser gets as it happens: a batch is made when it can take one, of the state as it is then.

So a browser that does not read costs what it got last, and no queue. Batches are fewer if they are dear: making
them takes a fifth of a hundredth of a processor, however many browsers look, as long as one comes every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from time import thread_time
from typing import Any, TypeVar

import msgspec
import trio
from starlette.types import Receive, Scope, Send

from bub.studio.live import Look, Sample
from bub.studio.rows import row_of_live, row_of_past
from bub.studio.studio import Studio

_T = TypeVar("_T")

MOST_ROWS = 60
_MOST_STAGES = 64
"""How many turns and stages there are in a batch; what has changed beside them is in the next one."""

_FASTEST = 0.25
_SLOWEST = 5.0
_SHARE = 500
"""How long, in seconds, there is no batch after another: at least, at most, and how many times as long as that took."""

_LOOKS = 3
"""In how many batches the stores are asked for questions, once other turns ask: a question is kept a moment later."""

_KEPT_OPEN = 15.0
"""After how many seconds without a batch a line without a meaning is sent."""


class Reader:
    """One browser: what it knows by now."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._looks: dict[str, Look] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._ended = max(0, studio.recorder.ended - MOST_ROWS)
        self._chat = studio.chats.end
        self._told: Mapping[str, Any] = {}
        self._next = 0
        self._asking: frozenset[str] = frozenset()
        self._looks_left = 0

    def make_batch(self) -> dict[str, Any] | None:
        """Return what this browser does not know yet; None if there is nothing."""
        studio = self._studio
        sample = studio.live.look()
        self._notice(sample)
        state = {"running": sample.running, "live": len(sample.looks), **studio.pulse.describe()}
        self._next += MOST_ROWS
        chat = studio.chats.since(self._chat)
        self._chat = studio.chats.end
        changed, gone = self._find_turns()
        numbers = self._find_numbers()
        if not (chat or changed or gone or numbers) and state == self._told:
            return None
        self._told = state
        turns = {"changed": changed, "gone": gone}
        return {"at": time.time(), **state, "numbers": numbers, "turns": turns, "chat": chat}

    def _notice(self, sample: Sample) -> None:
        """Have the questions looked at, now and a moment later, if other turns ask than before."""
        if sample.asking != self._asking:
            self._asking, self._looks_left = sample.asking, _LOOKS
        if self._looks_left:
            self._looks_left -= 1
            self._studio.pulse.look_at_questions()

    def _find_turns(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the rows of turns that have changed, and the ids of those that are over and not remembered."""
        studio = self._studio
        sample, mask, recorder = studio.live.look(), studio.framework.mask, studio.recorder
        ended = {one.facts.id: one for one in recorder.since(self._ended)[:MOST_ROWS]}
        self._ended = recorder.ended
        for name in ended:
            self._looks.pop(name, None)
        gone = []
        for name in [name for name in self._looks if name not in sample.looks]:
            past = recorder.find(name)
            if past is None:
                gone.append(name)
            elif len(ended) < MOST_ROWS:
                ended[name] = past
            else:
                continue  # it is told of in the next batch
            del self._looks[name]
        changed = [row_of_past(one, mask) for one in reversed(ended.values())]
        others = [name for name, look in sample.looks.items() if self._looks.get(name) != look and name not in ended]
        for name in _some(others, MOST_ROWS - len(changed), self._next):
            self._looks[name] = sample.looks[name]
            if sample.turns[name].phase != "over":
                changed.append(row_of_live(sample.turns[name], mask))
        return changed, gone

    def _find_numbers(self) -> dict[str, dict[str, Any]]:
        stages, found = self._studio.recorder.stages, dict[str, dict[str, Any]]()
        others = [name for name, numbers in stages.items() if self._counts.get(name, 0) != numbers.count]
        for profile, stage in _some(others, _MOST_STAGES, self._next):
            numbers = stages[profile, stage]
            self._counts[profile, stage] = numbers.count
            found.setdefault(profile, {})[stage] = numbers.summary()
        return found


def _some(names: Sequence[_T], most: int, first: int) -> Sequence[_T]:
    """Return some of many, from another place on each time, so that each has its turn if all are changing."""
    if len(names) <= most:
        return names
    first %= len(names)
    return [*names[first:], *names[:first]][:most]


def pause_after(took: float, browsers: int) -> float:
    """Return for how many seconds there is no batch after one that took a processor so many seconds."""
    return min(max(_FASTEST, took * _SHARE * browsers), _SLOWEST)


class Feed:
    """Serves the feed as server-sent events, each to one browser until that has gone, or its session is over."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def serve(self, cookie: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Send batches until the browser goes, its session ends, or the server does."""
        headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with trio.open_nursery() as tasks:
            tasks.start_soon(_watch, receive, tasks.cancel_scope)
            ending = scope.get("state", {}).get("ending")
            if ending is not None:
                tasks.start_soon(_end_with, ending, tasks.cancel_scope)
            try:
                with self._studio.pulse.looking():
                    await self._send_batches(cookie, send)
            finally:
                if not self._studio.pulse.browsers:
                    self._studio.live.forget()
            tasks.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_batches(self, cookie: str, send: Send) -> None:
        reader, last = Reader(self._studio), trio.current_time()
        while self._studio.access.knows(cookie):
            began = thread_time()
            batch = reader.make_batch()
            text = b""
            if batch is not None:
                text = b"event: batch\ndata: " + msgspec.json.encode(batch, enc_hook=str) + b"\n\n"
            elif trio.current_time() - last >= _KEPT_OPEN:
                text = b": \n\n"
            pause = pause_after(thread_time() - began, self._studio.pulse.browsers)
            if text:
                await send({"type": "http.response.body", "body": text, "more_body": True})
                last = trio.current_time()
            await trio.sleep(pause)


async def _watch(receive: Receive, scope: trio.CancelScope) -> None:
    """End the feed of a browser that has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _end_with(ending: trio.Event, scope: trio.CancelScope) -> None:
    await ending.wait()
    scope.cancel()
