"""Toy plugins in real pipeline files: loaded as any plugin with a path is, made of functions that the test holds."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import trio

from bub import BubFramework, hookimpl
from bub.hooks.admission import Admission
from bub.streaming import AsyncStreamEvents, StreamEvent

HELLO = {"channel": "cli", "chat_id": "local", "content": "hello"}


class Toy:
    """A plugin made of the functions it is given, each for the hook that its keyword names."""

    def __init__(self, **hooks: Callable[..., Any]) -> None:
        for name, function in hooks.items():
            setattr(self, name, function if hasattr(function, "bub_impl") else hookimpl(function))


class Workshop:
    """Writes pipeline files with their plugins to a folder and loads them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._box = ModuleType("toy_box")
        monkeypatch.setitem(sys.modules, "toy_box", self._box)

    def plugin(self, name: str, toy: object) -> None:
        """Write the file of one plugin; `toy` is the object, class or function that is the plugin."""
        setattr(self._box, name, toy)
        (self.folder / f"{name}.py").write_text(f"from toy_box import {name} as plugin\n", encoding="utf-8")

    def __call__(self, pipeline: str = "extends: bub:default", /, **toys: object) -> BubFramework:
        """A framework with the pipeline loaded; toys are its plugins, lowest priority first.

        A text without `plugins:` and `profiles:` gets those that list the toys.
        """
        text = dedent(pipeline).strip()
        for name, toy in toys.items():
            self.plugin(name, toy)
        if not re.search("^plugins:", text, re.MULTILINE):
            text += "\nplugins: {" + ", ".join(f"{name}: {{path: {name}.py}}" for name in toys) + "}"
        if not re.search("^profiles:", text, re.MULTILINE):
            text += f"\nprofiles: {{default: {{plugins: [{', '.join(toys)}]}}}}"
        file = self.folder / "pipelines.yaml"
        file.write_text(f"version: 1\n{text}\n", encoding="utf-8")
        framework = BubFramework(file, workspace=self.folder)
        framework.load_hooks()
        return framework


class Errors:
    """What `on_error` was told, as (stage, error); give its `told` to a toy as `on_error`."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Exception]] = []

        def told(stage: str, error: Exception) -> None:
            self.all.append((stage, error))

        self.told = told

    @property
    def stages(self) -> list[str]:
        return [stage for stage, _ in self.all]


async def session_of(framework: BubFramework, message: Any) -> str:
    """The session of a message that arrives, and then is dropped."""
    turn = framework.begin(message)
    try:
        await turn.arrive()
        return turn.session_id
    finally:
        await turn.close()


async def admission_of(framework: BubFramework, message: Any, busy: Admission) -> str | None:
    """What plugins say becomes of a message that arrives, and then is dropped."""
    turn = framework.begin(message)
    try:
        await turn.arrive()
        return await turn.admit(busy)
    finally:
        await turn.close()


def a_stream(*script: str | float | Exception | StreamEvent) -> AsyncStreamEvents:
    """A model stream that follows a script: a text is a piece of the answer, a number a pause in seconds."""

    async def follow() -> AsyncIterator[StreamEvent]:
        for step in script:
            if isinstance(step, str):
                yield StreamEvent.text(step)
            elif isinstance(step, StreamEvent):
                yield step
            elif isinstance(step, Exception):
                raise step
            else:
                await trio.sleep(step)

    return AsyncStreamEvents(follow())


def outcomes(result: Any) -> dict[str, str]:
    """What became of each stage of a turn."""
    return {record.stage: record.outcome for record in result.trace}


def note(seen: list[Any], what: Any, answer: Any = None) -> Any:
    """Note something; gives the answer, so that a lambda can do both."""
    seen.append(what)
    return answer


def noting(seen: list[Any], what: Any, answer: Any = None) -> Callable[[], Any]:
    """An implementation that notes that it was called, and answers."""

    def implement() -> Any:
        return note(seen, what, answer)

    return implement


def raising(error: BaseException) -> Callable[[], Any]:
    """An implementation that fails."""

    def fail() -> None:
        raise error

    return fail


def empty() -> dict[str, Any]:
    """An implementation that answers with an empty mapping."""
    return {}
