"""A gateway at work for a while: it holds no more open, and needs hardly more memory, than soon after its start.

`make load` lets it work for ten minutes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
from fakes.scripted import serving
from fakes.telegram import TOKEN, private, serving_bots

SECONDS = float(os.environ.get("SECONDS_AT_WORK", "8"))
CHATS = 10

PIPELINE = """
version: 1
extends: bub:default
profiles: {{default: {{plugins: [telegram]}}}}
settings:
  model: "test:leaks"
  providers: {{test: {{api: openai, api_base: "{model}/v1", api_key: no-key}}}}
  telegram: {{token: "{token}", allow_users: ["*"], base_url: "{bots}"}}
  gateway: {{debounce: 50ms}}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.timeout(180 + 2 * SECONDS)  # `make load` takes ten minutes
def test_a_gateway_at_work_leaks_neither_files_nor_memory(tmp_path: Path) -> None:
    people = [{"id": 100 + number, "is_bot": False, "first_name": f"P{number}"} for number in range(CHATS)]
    with serving_bots(tmp_path / "telegram.json") as bots, serving() as model:
        file = tmp_path / "pipelines.yaml"
        file.write_text(dedent(PIPELINE).format(model=model, token=TOKEN, bots=bots.address), encoding="utf-8")
        with (tmp_path / "gateway.log").open("wb") as log:
            gateway = subprocess.Popen(
                [sys.executable, "-m", "bub", "--config", str(file), "gateway"], cwd=tmp_path, stdout=log, stderr=log
            )
        try:
            said = 0

            def talk(seconds: float) -> None:
                nonlocal said
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    person = people[said % CHATS]
                    bots.say(f"number {said}", chat=private(person), user=person)
                    said += 1
                    time.sleep(0.2)
                deadline = time.monotonic() + 60
                while sum(text.count("number") for p in people for text in bots.said(p["id"])) < said:
                    assert time.monotonic() < deadline, (tmp_path / "gateway.log").read_text()[-3000:]
                    time.sleep(0.2)

            talk(max(2.0, SECONDS / 5))
            files, memory = open_files(gateway.pid), resident(gateway.pid)
            talk(SECONDS)
            files_after, memory_after = open_files(gateway.pid), resident(gateway.pid)
        finally:
            gateway.send_signal(signal.SIGTERM)
            gateway.wait(30)
    print(f"{said} messages: {files} -> {files_after} open files, {memory:.1f} -> {memory_after:.1f} MB")
    assert files_after <= files + 4  # connections that are just being used
    assert memory_after < memory + 20


def open_files(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208 (entries vanish while they are looked at)


def resident(process: int) -> float:
    """The memory of a process, in MB."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(process)
