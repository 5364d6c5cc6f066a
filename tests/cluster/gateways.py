"""A `bub gateway` with a folder and a home of its own, as on a machine of its own, that is killed and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError

from fakes.command_line import SOURCES

PATIENCE = 60.0

_COUNT = re.compile(r"^(bub_\w+?)(?:\{([^}]*)\})? ([0-9.e+-]+)$", re.MULTILINE)


@dataclass
class Gateway:
    """A gateway called `name`; `within` is put before its command, such as `ip netns exec NAME`.

    `starts`, `kills` and `exits` are what befell it; `counted` what its processes had counted when they ended.
    """

    name: str
    folder: Path
    environment: Mapping[str, str]
    options: Sequence[str] = ()
    within: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    kills: int = 0
    exits: list[int] = field(default_factory=list)
    counted: Counter[str] = field(default_factory=Counter)
    _begun_at: int = 0

    def start(self) -> None:
        assert self.process is None, f"{self.name} runs"
        self.starts += 1
        self._begun_at = self.log_file.stat().st_size if self.log_file.exists() else 0
        command = [*self.within, sys.executable, "-m", "bub", "gateway", "--listen", "127.0.0.1:0", *self.options]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=self.whole_environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def whole_environment(self) -> dict[str, str]:
        """All variables that its commands have; nothing of ours that could say something to Bub."""
        known = ("PATH", "LANG", "SYSTEMROOT", "TMPDIR")
        home = str(self.folder / "home")
        said = {name: os.environ[name] for name in known if name in os.environ}
        own = {"HOME": home, "BUB_HOME": home, "BUB_TRUST_WORKSPACE": "1", "PYTHONPATH": SOURCES}
        return {**said, **own, **self.environment}

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log_file(self) -> Path:
        return self.folder / "gateway.log"

    @property
    def log(self) -> str:
        """What all its processes have written."""
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    @property
    def newest_log(self) -> str:
        """What its newest process has written."""
        with self.log_file.open("rb") as file:
            file.seek(self._begun_at)
            return file.read().decode("utf-8", "replace")

    def wait_for_log(self, words: str, times: int = 1) -> None:
        """Wait until its newest process has said this so many times."""
        self.wait_until(lambda: self.newest_log.count(words) >= times, words)

    def wait_until(self, found: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not found():
            assert self.is_running, f"{self.name} has ended\n{self.newest_log[-4000:]}"
            assert time.monotonic() < deadline, f"{self.name}: this did not happen: {what}\n{self.newest_log[-4000:]}"
            time.sleep(0.05)

    def wait_until_ready(self) -> None:
        """Wait until it says that it works."""
        self.wait_for_log("monitor.listening")
        self.wait_until(lambda: '"status":"ok"' in self.ask("/healthz").replace(" ", ""), "it is healthy")

    def ask(self, path: str) -> str:
        """What it serves to whoever watches it; "" if it does not answer."""
        found = re.search(r"127\.0\.0\.1:(\d+)", self.newest_log)
        if found is None or not self.is_running:
            return ""
        url = f"http://127.0.0.1:{found[1]}{path}"
        if not self.within:
            return read_page(url)
        # Its 127.0.0.1 is another one than ours.
        command = [*self.within, sys.executable, __file__, url]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def metrics(self) -> Counter[str]:
        """What its newest process has counted so far, by name, labels left out."""
        counts: Counter[str] = Counter()
        for name, _, value in _COUNT.findall(self.ask("/metrics")):
            if name.endswith("_total"):
                counts[name] += float(value)  # type: ignore[assignment]  (a counter of floats)
        return counts

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as `kill -9` does; what it has counted is asked for first."""
        self.counted += self.metrics()
        self.kills += 1
        self._end(signal.SIGKILL)

    def end(self) -> int:
        """Let it end as it wants to; its exit code."""
        self.counted += self.metrics()
        code = self._end(signal.SIGTERM)
        self.exits.append(code)
        return code

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def reload(self) -> None:
        """Let it load its file again, which is another one by a remark."""
        file = self.folder / "pipelines.yaml"
        file.write_text(f"{file.read_text(encoding='utf-8')}# another remark\n", encoding="utf-8")
        times = self.newest_log.count("pipeline.reloaded")
        self.signal(signal.SIGHUP)
        self.wait_for_log("pipeline.reloaded", times + 1)

    def stop(self) -> None:
        """End it if it still runs, whatever became of the plan."""
        if self.process is not None:
            self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        try:
            return self.process.wait(PATIENCE)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.process = None


def read_page(url: str) -> str:
    """What is served there, be it well or not; "" if nobody answers."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        return str(error.read().decode())
    except OSError:
        return ""


if __name__ == "__main__":
    print(read_page(sys.argv[1]))
