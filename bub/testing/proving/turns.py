"""Taking turns: one after another on the one graph that was loaded, each as its script says."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
import trio

from bub.base.failures import flatten_error
from bub.framework import TurnResult
from bub.streaming import StreamEvent
from bub.testing.clock import VirtualClock
from bub.testing.proving.director import Director, Script
from bub.testing.proving.seen import Seen
from bub.testing.rehearsal import Rehearsal


class Stage(msgspec.Struct, frozen=True, eq=False):
    """The stage on which turns take place: a rehearsal that runs, its director, and their clock."""

    rehearsal: Rehearsal
    director: Director
    clock: VirtualClock
    numbers: itertools.count[int] = msgspec.field(default_factory=itertools.count)

    async def take(self, message: Mapping[str, Any], script: Script, *, known: bool = False) -> Seen:
        """Take one turn of a message, in a chat of its own; with `known`, in a session that had a turn before."""
        chat = f"{message.get('chat_id') or 'prove'}{next(self.numbers) if 'chat_id' not in message else ''}"
        given = {"channel": "cli", "sender_id": "prove", "content": "hello", **message, "chat_id": chat}
        if known:
            await self._run(given, Script(mocked=script.mocked, silent=script.silent))
        seen = await self._run(given, script)
        seen.chat = chat
        return seen

    async def _run(self, message: Mapping[str, Any], script: Script) -> Seen:
        rehearsal, director = self.rehearsal, self.director
        seen = director.begin(script)
        rehearsal.told.clear()
        began, real = self.clock.current_time(), self.clock.real

        def hear(event: StreamEvent, of: Any) -> None:
            if event.kind == "text":
                seen.shown.append(str(event.data.get("delta") or ""))

        rehearsal.forget_result()
        try:
            with director.scope:
                await rehearsal.process_inbound(dict(message), on_event=hear)
        except BaseExceptionGroup as error:
            seen.error = next(flatten_error(error))
            if not isinstance(seen.error, Exception):
                raise
        except Exception as error:  # noqa: BLE001 (a turn may fail)
            seen.error = error
        seen.took, seen.real = self.clock.current_time() - began, self.clock.real - real
        seen.result = rehearsal.last_result or TurnResult()
        seen.told = list(rehearsal.told)
        await trio.lowlevel.checkpoint()
        return seen
