"""An agent's turn, and what its first request holds and costs, beside an earlier Bub: in turns, in the same run.

`BEFORE=COMMIT python -m tests.bench.before` compares with another commit than the one where the agent's work began.
Both run from source with the packages that are here now, so only Bub itself differs.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx

from bub.agent.local import parts
from tests.bench._answers import HEAD, ROOT, answer_of

BEFORE = os.environ.get("BEFORE", "286077e")
PAIRS, WARM, TOKENS = 150, 10, 20
PRICE = 3.0
"""Dollars for a million tokens, such as a large model costs."""

MESSAGE = "how is the weather in the mountains today"
PIPELINE = "version: 1\nextends: bub:default\nprofiles: {default: {plugins: []}}\n"
TURNS = """
import json, sys
from pathlib import Path
from time import perf_counter, process_time
from loguru import logger
logger.remove()
import trio
from bub import BubFramework

async def main():
    framework = BubFramework(Path("pipelines.yaml"), workspace=Path.cwd())
    framework.load_hooks()
    async with framework.running():
        for line in sys.stdin:
            message = {"channel": "bench", "chat_id": line.strip(), "content": MESSAGE}
            wall, cpu = perf_counter(), process_time()
            result = await framework.process_inbound(message)
            took = (process_time() - cpu) * 1000, (perf_counter() - wall) * 1000
            assert result.model_output.startswith(" word0"), result
            print(json.dumps(took), flush=True)

trio.run(main)
""".replace("MESSAGE", repr(MESSAGE))

Take = Callable[[int], list[float]]


def measure() -> None:
    """Print milliseconds of CPU and clock for each of the two, the difference within pairs, and the first requests."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not _check_out(folder / "source"):
            print(f"left out: git has no commit {BEFORE} here")
            return
        bodies: dict[str, dict[str, Any]] = {}
        address = stack.enter_context(_answering(bodies))
        takers = [
            stack.enter_context(_taking_turns(source, folder / name, f"{address}/{name}"))
            for name, source in (("before", folder / "source"), ("now", ROOT))
        ]
        for number in range(WARM):
            for take in takers:
                take(-number - 1)
        pairs = [[take(number) for take in (takers if number % 2 else takers[::-1])] for number in range(PAIRS)]
        pairs = [pair if number % 2 else pair[::-1] for number, pair in enumerate(pairs)]
        _print_turns(pairs)
        _print_requests(bodies)


def _print_turns(pairs: Sequence[Sequence[Sequence[float]]]) -> None:
    print(f"an agent's turn of {TOKENS} tokens in a session of its own, in milliseconds; median of {PAIRS} pairs")
    print(f"{'':<10}{'before':>10}{'now':>10}{'more, with its quartiles':>32}")
    for at, name in enumerate(("CPU", "clock")):
        before, now = ([pair[side][at] for pair in pairs] for side in (0, 1))
        low, middle, high = statistics.quantiles([two - one for one, two in zip(before, now, strict=True)], n=4)
        both = f"{statistics.median(before):10.2f}{statistics.median(now):10.2f}"
        print(f"{name:<10}{both}{f'{middle:+.2f} ({low:+.2f} to {high:+.2f})':>32}")


def _print_requests(bodies: Mapping[str, Mapping[str, Any]]) -> None:
    with _tokenizer() as (count, by):
        sizes = {name: _sizes(body, count) for name, body in bodies.items()}
    before, now = sizes["before"], sizes["now"]
    print(f"\nthe first request of a session, in tokens {by}")
    print(f"{'':<16}{'before':>10}{'now':>10}{'more':>10}")
    for what in before:
        print(f"{what:<16}{before[what]:10,}{now[what]:10,}{now[what] - before[what]:+10,}")
    read = [size["system prompt"] + size["tools"] + size["message"] for size in (before, now)]
    cost = [tokens * PRICE / 10_000 for tokens in read]
    print(f"{'cents':<16}{cost[0]:10.3f}{cost[1]:10.3f}{cost[1] - cost[0]:+10.3f}   at ${PRICE:g} a million")


def _sizes(body: Mapping[str, Any], count: Callable[[str], int]) -> dict[str, int]:
    said = {message["role"]: str(message["content"]) for message in body["messages"]}
    tools = [json.dumps(tool) for tool in body.get("tools", ())]
    return {
        "system prompt": count(said.get("system", "")),
        "tools": count("\n".join(tools)),
        "message": count(said["user"]),
        "number of tools": len(tools),
        "bytes": len(json.dumps(body)),
    }


@contextmanager
def _tokenizer() -> Iterator[tuple[Callable[[str], int], str]]:
    """What counts the tokens of a text: the small local model's own tokenizer, else four letters are one."""
    found = parts.status(Path(os.devnull))
    if not found.ready:
        yield lambda text: len(text) // 4, "(four letters are one)"
        return
    server = [sys.executable, str(ROOT / "tests" / "fakes" / "local_server.py"), str(found.weights)]
    with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"{process.stdout.readline().strip()}/tokenize"
        try:
            yield lambda text: len(httpx.post(url, json={"content": text}).json()["tokens"]), "of SmolLM2"
        finally:
            process.kill()


def _check_out(folder: Path) -> bool:
    """Put the files of the earlier commit into a folder; false if git does not have it."""
    made = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=False)
    if made.returncode != 0:
        return False
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return True


@contextmanager
def _taking_turns(source: Path, folder: Path, address: str) -> Iterator[Take]:
    """A process with the Bub of a folder, which takes a turn for each number it is given and says what that took."""
    folder.mkdir()
    (folder / "pipelines.yaml").write_text(PIPELINE)
    told = {name: value for name, value in os.environ.items() if not name.startswith("BUB_")}
    told |= {"PYTHONPATH": f"{source}{os.pathsep}{source / 'plugins'}", "BUB_HOME": str(folder / "home")}
    told |= {"BUB_MODEL": "openai:any", "BUB_API_KEY": "no-key-at-all", "BUB_API_BASE": f"{address}/v1"}
    command = [sys.executable, "-c", TURNS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=told
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def take(number: int) -> list[float]:
            print(number, file=process.stdin, flush=True)
            took: list[float] = json.loads(process.stdout.readline())
            return took

        yield take
        process.stdin.close()


@contextmanager
def _answering(bodies: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The address of a server that keeps the first request to each path, and gives every one the same answer."""
    answer = HEAD + b"".join(answer_of(TOKENS))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            bodies.setdefault(self.path.split("/")[1], json.loads(body))
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


if __name__ == "__main__":
    measure()
