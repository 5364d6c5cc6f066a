"""How long an editor waits for findings: a key in a file of 200 lines, over standard input and output."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KEYS = 60
STAGES = 31


def measure() -> None:
    """Print the milliseconds from each key to the findings that it makes, the first one apart."""
    with tempfile.TemporaryDirectory() as folder:
        uri = (Path(folder) / "pipelines.yaml").as_uri()
        text = _pipeline()
        with subprocess.Popen(
            [sys.executable, "-m", "bub", "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server:
            _send(server, "initialize", {"capabilities": {}}, number=1)
            _receive(server)
            document: dict[str, Any] = {"uri": uri, "version": 0}
            started = time.perf_counter()
            _send(server, "textDocument/didOpen", {"textDocument": {**document, "languageId": "yaml", "text": text}})
            _receive(server)
            first = time.perf_counter() - started
            times = []
            line = {"line": len(text.splitlines()), "character": 0}
            for key in range(1, KEYS + 1):
                started = time.perf_counter()
                change = {"range": {"start": line, "end": line}, "text": "#"}
                _send(
                    server,
                    "textDocument/didChange",
                    {"textDocument": {**document, "version": key}, "contentChanges": [change]},
                )
                while _receive(server)["params"]["version"] != key:
                    pass
                times.append(time.perf_counter() - started)
            _send(server, "shutdown", {}, number=2)
            _receive(server)
            _send(server, "exit", {})
    lines = len(text.splitlines())
    print(f"findings after a key, {lines} lines, {KEYS} keys (ms; wanted: 25 after the first)")
    print(f"  first {first * 1e3:.1f}   median {statistics.median(times) * 1e3:.1f}   worst {max(times) * 1e3:.1f}")


def _pipeline() -> str:
    stages = "".join(
        f"  step_{number}:\n    kind: void\n    hook: message_received\n    after: load_state\n    timeout: 5s\n"
        f"    when: {{channel: cli}}\n"
        for number in range(STAGES)
    )
    profiles = "profiles:\n  default: {plugins: [local_model]}\n  guests: {plugins: []}\n"
    return f"version: 1\nextends: bub:default\nstages:\n{stages}{profiles}"


def _send(server: subprocess.Popen[bytes], method: str, params: object, number: int | None = None) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": number} if number is not None else {})
    body = json.dumps(message).encode()
    assert server.stdin is not None
    server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    server.stdin.flush()


def _receive(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert server.stdout is not None
    length = 0
    while line := server.stdout.readline().strip():
        length = int(line.partition(b":")[2])
    answer: dict[str, Any] = json.loads(server.stdout.read(length))
    return answer


if __name__ == "__main__":
    measure()
