"""A `bub studio` of its own process, and browsers that ask it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx

_T = TypeVar("_T")
_PATIENCE = 25.0


class Browser:
    """What the script of the page does: it enters with the token, and says where it is from.

    Then it asks with the cookie, and with what it was given beside that.
    """

    def __init__(self, url: str) -> None:
        self.origin, _, self.token = url.partition("/#")
        self.http = httpx.Client(base_url=self.origin, timeout=20, headers={"X-Bub": "1"})

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.http.close()

    def enter(self) -> Browser:
        self.post("enter", token=self.token)
        return self

    @contextmanager
    def feed(self) -> Iterator[Feed]:
        with self.http.stream("GET", "/api/feed") as answer:
            assert answer.status_code == 200
            yield Feed(answer)

    def ask(self, path: str, **query: Any) -> httpx.Response:
        return self.http.get(f"/api/{path}", params=query or None)

    def get(self, path: str, **query: Any) -> Any:
        answer = self.ask(path, **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, path: str, **body: Any) -> httpx.Response:
        answer = self.http.post(f"/api/{path}", json=body, headers={"Origin": self.origin})
        self.http.headers["X-Bub"] = answer.headers.get("X-Bub") or self.http.headers["X-Bub"]
        return answer

    def post(self, path: str, **body: Any) -> Any:
        answer = self.send(path, **body)
        assert answer.status_code in (200, 204), answer.text
        return answer.json() if answer.content else None


class Feed:
    """What a browser is told as it happens, batch by batch."""

    def __init__(self, answer: httpx.Response) -> None:
        self.batches: list[dict[str, Any]] = []
        self._lines = answer.iter_lines()

    def until(self, look: Callable[[dict[str, Any]], _T]) -> _T:
        """What `look` gives of a batch, as soon as that is something."""
        deadline = time.monotonic() + _PATIENCE
        for line in self._lines:
            assert time.monotonic() < deadline, f"this was not told: {self.batches[-3:]}"
            if line.startswith("data: "):
                self.batches.append(json.loads(line.removeprefix("data: ")))
                if found := look(self.batches[-1]):
                    return found
        raise AssertionError(f"the feed has ended: {self.batches[-3:]}")

    def events(self, chat: str, message_id: str, last: str = "over") -> list[tuple[str, Any]]:
        """What was told of the answer to a message, up to the `last` event."""
        found: list[tuple[str, Any]] = []

        def look(batch: dict[str, Any]) -> bool:
            for one in batch["chat"]:
                if (one["chat"], one["message_id"]) == (chat, message_id):
                    found.extend((event["kind"], event["data"]) for event in one["events"])
            return any(kind == last for kind, _ in found)

        self.until(look)
        return found


class StudioProcess:
    """A process that serves the page at `url`, which has the token."""

    def __init__(self, process: subprocess.Popen[str], url: str, home: Path) -> None:
        self.process = process
        self.url = url
        self.home = home

    @property
    def port(self) -> int:
        return int(self.url.partition("/#")[0].rpartition(":")[2])

    def browser(self) -> Browser:
        """A browser that has entered."""
        return Browser(self.url).enter()


@contextmanager
def bub_studio(
    folder: Path, *options: str, environ: Mapping[str, str] | None = None, write: bool = False
) -> Iterator[StudioProcess]:
    """Run `bub studio` in a folder until the block is left; its home is `home` there."""
    home = folder / "home"
    command = [sys.executable, "-m", "bub", *options, "studio", *(["--write"] if write else [])]
    environment = {**os.environ, "BUB_HOME": str(home), **(environ or {})}
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, (folder / "stderr").read_text()
        yield StudioProcess(process, url, home)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        process.communicate(timeout=20)
