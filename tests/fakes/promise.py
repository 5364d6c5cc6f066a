"""Running generated pipelines: what their toy plugins do in a turn, and what is seen of it from outside."""

from __future__ import annotations

import os
import sys
from ast import literal_eval
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import trio
from fakes.toy_files import PipelineCase

from bub import BubFramework
from bub.base.diagnostics import Diagnostic
from bub.cli.proof import prove
from bub.pipeline.check.validate import check_files
from bub.pipeline.source.discovery import resolve_file
from bub.streaming import AsyncStreamEvents, StreamEvent
from bub.testing import VirtualClock

SECRET = ("the secret ", "is hunter2")
"""What the model says, piece by piece."""

REDACTED = "[redacted]"
"""What a toy puts in the place of all that it may change."""

LATE = 60.0
"""How long, in seconds, takes what comes too late; every time-out of a generated gate is shorter."""

JUNK: tuple[Any, ...] = (True, False, "no", 0, [], {}, {"allow": True}, {"deny": "no", "why": "more"}, {"deny": 1})
"""Verdicts that are none."""

Message = dict[str, Any]


class SkippingClock(trio.abc.Clock):
    """The clock for tests, which a plain function can also let go forward while it runs."""

    def __init__(self) -> None:
        self._inner, self._skipped = VirtualClock(), 0.0

    def skip(self, seconds: float) -> None:
        """Let time pass that nobody can interrupt."""
        self._skipped += seconds

    def start_clock(self) -> None:
        self._inner.start_clock()

    def current_time(self) -> float:
        return self._inner.current_time() + self._skipped

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return self._inner.deadline_to_sleep_time(deadline - self._skipped)


@dataclass
class Call:
    """One call of a toy, with the message it was given, if it asked for one."""

    plugin: str
    hook: str
    message: Mapping[str, Any]


@dataclass
class World:
    """What the toys of a file share: what each is to do (`script`, by plugin and hook), and what they saw."""

    clock: SkippingClock = field(default_factory=SkippingClock)
    script: dict[tuple[str, str], str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    fired: list[tuple[str, Any]] = field(default_factory=list)

    def play(self, plugin: str, hook: str, kind: str, given: Mapping[str, Any]) -> Any:
        """Do what a plain function does."""
        what = self._begin(plugin, hook, given)
        if what in ("late", "busy"):
            self.clock.skip(LATE)
        return self._answer(what, hook, kind, given)

    async def play_later(self, plugin: str, hook: str, kind: str, given: Mapping[str, Any]) -> Any:
        """Do what an async function does."""
        what = self._begin(plugin, hook, given)
        if what == "hang":
            await trio.sleep_forever()
        if what == "late":
            with trio.CancelScope(shield=True):
                await trio.sleep(LATE)
        if what == "busy":  # it waits for nothing, so nothing can interrupt it
            self.clock.skip(LATE)
        else:  # who judges takes longer than what might run beside it
            await trio.sleep(0.05 if kind in ("gate", "claiming") else 0.01)
        return self._answer(what, hook, kind, given)

    def _begin(self, plugin: str, hook: str, given: Mapping[str, Any]) -> str:
        self.calls.append(Call(plugin, hook, dict(given.get("message") or {})))
        return self.script.get((plugin, hook), "")

    def _answer(self, what: str, hook: str, kind: str, given: Mapping[str, Any]) -> Any:
        if what == "crash":
            raise RuntimeError("broken")
        if what == "exit":
            raise SystemExit(3)
        if what == "claim":
            return {"handled": True}
        if what.startswith("junk "):
            return literal_eval(what.removeprefix("junk "))
        if what == "deny":
            return {"deny": "no"}
        if what == "redact":
            return {
                name: {**value, "content": REDACTED} if name == "message" else REDACTED for name, value in given.items()
            }
        match hook:
            case "load_state":
                return {"mood": "calm"}
            case "render_outbound":
                return [{"content": "".join(SECRET), **_address(given)}, {"content": "more", **_address(given)}]
            case "gather":
                return {"content": "something"}
            case "run_model":
                return "".join(SECRET)
            case "run_model_stream":
                return AsyncStreamEvents(_tell_secret())
        return "something" if hook == "ponder" else None

    def hear(self, gate: str, verdict: Any) -> None:
        """Note what a gate said that was fired; its plugin does what it guards if that is None."""
        self.fired.append((gate, verdict))

    def call_model(self, request: Mapping[str, Any]) -> AsyncStreamEvents:
        """Call a tool, and answer when it is over."""
        if request["messages"][-1]["role"] == "tool":
            return AsyncStreamEvents(_tell_secret())
        return AsyncStreamEvents(_call_tool())


def _address(given: Mapping[str, Any]) -> Message:
    return {name: given["message"][name] for name in ("channel", "chat_id")}


async def _tell_secret() -> AsyncIterator[StreamEvent]:
    for piece in SECRET:
        yield StreamEvent.text(piece)
        await trio.sleep(0.01)


async def _call_tool() -> AsyncIterator[StreamEvent]:
    yield StreamEvent("tool_call", {"id": "1", "name": "erase", "arguments": {}})


class Folder:
    """Where generated files lie; only one of them at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.world = World()
        self.file = path / "pipelines.yaml"

    def write(self, case: PipelineCase) -> None:
        """Put the files of a case in the place of those of the one before."""
        for old in self.path.glob("*.*"):
            if old.is_file():
                old.unlink()
        for name, text in case.texts().items():
            (self.path / name).write_text(text, encoding="utf-8")

    def begin(self) -> World:
        """Make a world that nothing has happened in, which the plugins find when they are imported."""
        self.world = World()
        box = ModuleType("toy_box")
        box.world = self.world  # type: ignore[attr-defined]
        sys.modules["toy_box"] = box
        return self.world

    def check(self, *, plugins: bool) -> tuple[Diagnostic, ...]:
        """What `bub validate` finds, or `bub validate --plugins`."""
        self.begin()

        def further(file: Any, profiles: Sequence[str]) -> list[Diagnostic]:
            return prove(self.file, self.path, profiles)

        found = check_files([resolve_file(str(self.file))], environ=os.environ, further=further if plugins else None)
        return found.diagnostics

    def start(self, profile: str) -> BubFramework:
        """Start as `bub run` does; raises `PipelineError`."""
        framework = BubFramework(self.file, profile=profile, workspace=self.path)
        framework.load_hooks()
        return framework


@dataclass
class Seen:
    """What a turn came to, as whoever started it saw it; `result` is None if it failed."""

    calls: list[Call]
    result: Any
    error: BaseException | None
    told: str
    fired: list[tuple[str, Any]]


def take_turns(
    folder: Folder, profile: str, turns: Sequence[tuple[Message, Mapping[tuple[str, str], str]]]
) -> list[Seen]:
    """Start with a profile and take turns, each with a script for the toys, on virtual time."""
    world = folder.begin()
    framework = folder.start(profile)
    seen: list[Seen] = []

    async def take(message: Message, script: Mapping[tuple[str, str], str]) -> None:
        world.script = dict(script)
        world.calls, world.fired = [], []
        told: list[str] = []

        def hear(event: StreamEvent, message: Any) -> None:
            if event.kind in ("text", "reasoning"):
                told.append(event.data["delta"])

        result, failed = None, None
        try:
            with trio.fail_after(10_000):
                result = await framework.process_inbound(message, on_event=hear)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a turn may fail; what was seen of it counts)
            failed = error
        seen.append(Seen(world.calls, result, failed, "".join(told), world.fired))

    async def main() -> None:
        async with framework.running():
            for message, script in turns:
                await take(message, script)

    trio.run(main, clock=world.clock)
    return seen
