"""The collector as a test sees it: a process that runs, a path of its own there, and what came to it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from fakes.collector import requests_in, spans_in

COLLECTOR = Path(__file__).parent / "collector.py"


@dataclass
class Collector:
    """A collector as one test sees it: a path of its own, and what came there."""

    file: Path
    port: int
    path: str

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def spans(self) -> list[dict[str, Any]]:
        return spans_in(self.file, self.path)

    def text(self) -> str:
        """All that came, as text."""
        return json.dumps([one["body"] for one in requests_in(self.file, self.path)])

    async def until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The spans, once they are what is waited for."""
        with trio.fail_after(20):
            while not holds(self.spans()):  # noqa: ASYNC110 (of another process's file nobody hears)
                await trio.sleep(0.02)
        return self.spans()

    async def ended(self, turns: int = 1) -> list[dict[str, Any]]:
        """The spans of so many turns."""
        return await self.until(lambda spans: len([one for one in spans if is_turn(one)]) >= turns)


def is_turn(span: dict[str, Any]) -> bool:
    return str(span["name"]).startswith("invoke_agent")


def named(spans: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (one for one in spans if one["name"] == name)
    return found


@contextmanager
def collecting(folder: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], Path, int]]:
    file = folder / f"{uuid.uuid4().hex}.jsonl"
    command = [sys.executable, str(COLLECTOR), str(file), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, file, int(process.stdout.readline())
        finally:
            process.kill()


def send_to(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
