"""A server with the answers of the studio, all of them made up, to look at the page in any state.

In `tests/`, `python -m fakes.studio_page` prints its address.
It sends the page with the studio's own headers, so that what its policy forbids fails here, too. Each text that a
stranger controls has markup, a script and characters that nobody sees in it.
"""

from __future__ import annotations

import argparse
import http.cookies
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from bub.pipeline.plan.plan import make_plan
from bub.pipeline.show.drawing import drawing_of
from bub.pipeline.show.svg import svg
from bub.pipeline.source.merge import load_shipped

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "bub" / "studio" / "page"
TOKEN = "let-me-in"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202egnp.exe"


def drawing(name: str) -> str:
    """Return the drawing of a shipped pipeline as the studio sends it."""
    return svg(drawing_of(make_plan(load_shipped(name), "default")), live=True)


def stages_of(picture: str) -> list[str]:
    """The ids of the stages of a drawing, from top to bottom."""
    return re.findall(r'data-stage="([^"]+)"', picture)


class World:
    """Turns that go on and on: how many run at once, and how many change a second, is what the caller wants."""

    def __init__(self, live: int, pace: float, quiet: bool) -> None:
        self.lock = Lock()
        self.random = random.Random(7)
        self.quiet = quiet
        self.live = live
        self.pace = pace
        self.drawings = {"default": drawing("default"), "ethos": drawing("ethos")}
        self.numbers: dict[str, dict[str, list[float]]] = {name: {} for name in self.drawings}
        self.turns: dict[str, dict[str, Any]] = {}
        self.changed: dict[str, dict[str, Any]] = {}
        self.gone: list[str] = []
        self.told: set[tuple[str, str]] = set()
        self.chat: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = []
        self.approvals = approvals()
        self.dead = 2
        self.made = 0
        self.write = True
        for _ in range(40):
            self.begin()
            self.step_all()
        while sum(row["phase"] != "over" for row in self.turns.values()) < live:
            self.begin()

    def begin(self) -> None:
        self.made += 1
        name = self.random.choice(["default", "default", "ethos"])
        channel = self.random.choice(["telegram", "cli", "http", "studio"])
        row = {
            "id": f"{self.made:016x}",
            "at": time.time() - self.random.random() * 4,
            "session": f"{channel}:{self.random.randint(1, 40)}",
            "channel": channel,
            "chat": str(self.random.randint(1, 40)),
            "sender": self.random.choice(["ada", "grace", "linus"]),
            "profile": name,
            "phase": "answering",
            "outcome": "",
            "stages_now": [stages_of(self.drawings[name])[0]],
            "done": 0,
            "seconds": 0.2,
            "tokens": [self.random.randint(200, 30000), 0],
            "tools": 0,
            "text": self.random.choice([*TEXTS, EVIL]),
        }
        self.turns[row["id"]] = row
        self.changed[row["id"]] = row

    def step(self, row: dict[str, Any]) -> None:
        order = stages_of(self.drawings[row["profile"]])
        left = row["stages_now"][0]
        seconds = abs(self.random.gauss(0.4, 0.3))
        known = self.numbers[row["profile"]].setdefault(left, [0, 0, 0.02, 0.4, 0.9])
        self.told.add((row["profile"], left))
        known[0] += 1
        known[2:] = [seconds * 0.4, seconds * 1.2, seconds * 2]
        row = {**row, "done": row["done"] + 1, "seconds": row["seconds"] + seconds}
        row["tokens"] = [row["tokens"][0], row["tokens"][1] + self.random.randint(0, 300)]
        row["tools"] += self.random.random() < 0.2
        at = order.index(left) + 1
        if at >= len(order) or self.random.random() < 0.03:
            outcome = self.random.choice(["ok"] * 8 + ["failed", "denied", "claimed"])
            known[1] += outcome == "failed"
            row |= {"phase": "over", "outcome": outcome, "stages_now": []}
        else:
            row["stages_now"] = [order[at]]
        self.turns[row["id"]] = self.changed[row["id"]] = row

    def step_all(self) -> None:
        for row in [row for row in self.turns.values() if row["phase"] != "over"]:
            self.step(row)

    def run(self, over: Event) -> None:
        """Move turns, a few each quarter of a second."""
        while not over.wait(0.25):
            with self.lock:
                running = [row for row in self.turns.values() if row["phase"] != "over"]
                for row in self.random.sample(running, min(len(running), max(1, int(self.pace / 4)))):
                    self.step(row)
                running = [row for row in self.turns.values() if row["phase"] != "over"]
                for _ in range(min(self.live - len(running), max(1, int(self.pace / 4)))):
                    self.begin()
                ended = [row["id"] for row in self.turns.values() if row["phase"] == "over"]
                for turn in ended[:-200]:
                    del self.turns[turn]
                    self.gone.append(turn)

    def batch(self, first: bool) -> dict[str, Any] | None:
        """What has changed since the last batch."""
        with self.lock:
            changed, self.changed = list(self.changed.values())[:60], {}
            gone, self.gone = self.gone, []
            chat, self.chat = self.chat, []
            if not (changed or gone or chat or first):
                return None
            numbers: dict[str, dict[str, list[float]]] = {}
            for name, stage in self.told:
                numbers.setdefault(name, {})[stage] = self.numbers[name][stage]
            if first:
                numbers = self.numbers
            self.told = set()
            running: dict[str, dict[str, int]] = {name: {} for name in self.drawings}
            for row in self.turns.values():
                for stage in row["stages_now"]:
                    running[row["profile"]][stage] = running[row["profile"]].get(stage, 0) + 1
            return {
                "at": time.time(),
                "running": running,
                "numbers": numbers,
                "turns": {"changed": changed, "gone": gone},
                "live": sum(row["phase"] != "over" for row in self.turns.values()),
                "approvals": len(self.approvals),
                "inbox": {"waiting": 1, "outgoing": 1, "dead": self.dead},
                "health": "ok",
                "reload": 1,
                "chat": chat,
            }

    def answer(self, chat: str, content: str) -> str:
        """Answer in a chat, word by word, with a tool in between."""
        self.made += 1
        message = f"{self.made}"

        def tell(kind: str, **data: Any) -> None:
            with self.lock:
                event = {"kind": kind, "data": data}
                self.chat.append({"chat": chat, "message_id": message, "events": [event]})

        def run() -> None:
            for word in ["I ", "**run**", " the tests of ", "`parser`", ", then I look.\n\n"]:
                tell("text", delta=word)
                time.sleep(0.1)
            tell("tool_call", id="1", name="bash", arguments={"command": "make test"}, raw="")
            time.sleep(0.8)
            tell("tool_result", id="1", content="2 failed, 40 passed")
            steps = [{"step": "run the tests", "state": "done"}, {"step": "mend the parser", "state": "doing"}]
            tell("plan", steps=[*steps, {"step": "say so", "state": "left"}])
            text = "Two tests fail:\n\n- `test_empty_file`\n- `test_a_line`\n\n```python\nassert parse('') == []\n```\n"
            for word in re.split(r"(?<= )", f"{text}\nSee https://example.org/a(b).\nYou said: {content}"):
                tell("text", delta=word)
                time.sleep(0.03)
            tell("final", finish_reason="stop", ok=True)
            tell("message", kind="normal", content=text)
            tell("over")

        Thread(target=run, daemon=True).start()
        return message


TEXTS = [
    "Which tests fail?",
    "Write a commit message for this, in one line if you can, and say why the parser was changed at all.",
    "Is the build green?",
    "Summarise the incident of last night",
    ",help",
    "日本語のメッセージ",
]


def approvals() -> list[dict[str, Any]]:
    """Two questions: one with hidden characters, one too long to be shown at once."""
    now = time.time()
    common = {"session": "telegram:7", "profile": "default", "channel": "telegram", "chat": "7", "at": now - 40}
    common |= {"until": now + 900, "again": False, "approvers": [["telegram", "42"]], "asker": "", "form": None}
    short = {"command": f"rm -r build {EVIL}", "timeout": 30, "cwd": ".", "background": False}
    long = {"path": "parser.py", "old": "x" * 50, "new": "line of code\n" * 900}
    return [
        {"id": "a1", "tool": "bash", "text": "the agent wants to call bash", "arguments": short, "why": "", **common},
        {"id": "a2", "tool": "fs.write", "text": "", "arguments": long, "why": "Strangers wrote part of it.", **common},
    ]


class Handler(BaseHTTPRequestHandler):
    """The routes of the studio."""

    protocol_version = "HTTP/1.1"
    world: World

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if not path.startswith("/api/"):
            return self.send_file(path)
        if not self.is_known():
            return self.send(403, {"error": "You are not signed in.", "help": "Open the address that Bub printed."})
        if path == "/api/feed":
            return self.feed()
        query = {name: values[-1] for name, values in parse_qs(urlsplit(self.path).query).items()}
        return self.answer(GETS, path, query)

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        is_right = self.headers.get("X-Bub") == "1" and self.headers.get("Content-Type") == "application/json"
        if not is_right or self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            return self.send(403, {"error": "Another page asked.", "help": ""})
        if path == "/api/enter":
            if body.get("token") != TOKEN:
                return self.send(403, {"error": "The token is not valid.", "help": ""})
            return self.send(204, None, {"Set-Cookie": f"bub={TOKEN}; HttpOnly; SameSite=Strict; Path=/"})
        if not self.is_known():
            return self.send(403, {"error": "You are not signed in.", "help": ""})
        return self.answer(POSTS, path, body)

    def is_known(self) -> bool:
        kept = http.cookies.SimpleCookie(self.headers.get("Cookie", "")).get("bub")
        return kept is not None and kept.value == TOKEN

    def answer(self, routes: dict[str, Callable[..., Any]], path: str, given: dict[str, Any]) -> None:
        for pattern, make in routes.items():
            if found := re.fullmatch(f"/api/{pattern}", path):
                return self.send(200, make(self.world, given, *found.groups()))
        return self.send(404, {"error": f"There is no {path}.", "help": ""})

    def send_file(self, path: str) -> None:
        file = PAGE / (path.lstrip("/") or "index.html")
        if not file.is_file() or PAGE not in file.resolve().parents:
            return self.send(404, {"error": "There is no such file.", "help": ""})
        return self.send_bytes(200, file.read_bytes(), _TYPES[file.suffix], {})

    def send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        content = b"" if value is None else json.dumps(value).encode()
        self.send_bytes(status, content, "application/json", headers or {})

    def send_bytes(self, status: int, content: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def feed(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        first = True
        try:
            while True:
                batch = self.world.batch(first)
                if batch is not None and not (self.world.quiet and not first and not batch["chat"]):
                    self.wfile.write(f"event: batch\ndata: {json.dumps(batch)}\n\n".encode())
                    self.wfile.flush()
                first = False
                time.sleep(0.25)
        except OSError:
            return


def state(world: World, _: Any) -> Any:
    profiles = [
        {"name": "default", "description": "What answers people", "is_start": True},
        {"name": "ethos", "description": "Careful", "is_start": False},
    ]
    return {
        "version": "0.1.0",
        "workspace": "/home/ada/engine",
        "file": "pipelines.yaml",
        "profile": "default",
        "profiles": profiles,
        "channels": ["telegram", "cli", "http"],
        "routes": [{"match": {"channel": "telegram"}, "profile": "ethos"}, {"match": {}, "profile": "default"}],
        "write": world.write,
        "writable_why": None,
        "gateway": True,
        "started": time.time() - 7000,
    }


def graph(world: World, query: Any) -> Any:
    profile = query.get("profile", "default")
    ids = stages_of(world.drawings[profile])
    stages = [
        {"id": name, "kind": "", "hook": name, "enabled": True, "file": "pipelines.yaml", "line": 4} for name in ids
    ]
    return {
        "profile": profile,
        "generation": 1,
        "svg": world.drawings[profile],
        "stages": stages,
        "bound": "At most 40 m.",
    }


def stage(world: World, query: Any) -> Any:
    lines = ["  run_model:", "    kind: stream   # the answer", '    needs: [prompt, "session"]', "    timeout: 30m"]
    errors = [{"at": time.time() - 70, "text": f"ValueError: {EVIL}", "turn": "0000000000000003"}]
    keys = [
        {"name": "timeout", "value": "30m", "file": "pipelines.yaml", "line": 15, "meaning": "How long it may take"}
    ]
    return {
        "id": query["stage"],
        "explain": f"{query['stage']} asks the model.\n\nIt runs after `build_prompt`, and its value is `answer`.",
        "source": {"file": f"pipelines{EVIL}.yaml", "first": 12, "lines": lines},
        "implementers": [{"plugin": "agent", "hook": "run_model", "file": "bub/agent/plugin.py", "line": 88}],
        "errors": errors,
        "numbers": {"count": 412, "failed": 3, "running": 2, "p50": 0.8, "p95": 3.1, "p99": 7.4},
        "keys": keys,
    }


def way(world: World, body: Any) -> Any:
    ids = stages_of(world.drawings["default"])
    runs = ["yes" if index % 5 else "depends" if index % 2 else "no" for index in range(len(ids))]
    stages = [
        {"id": name, "runs": run, "why": "its condition is false" * (run == "no")}
        for name, run in zip(ids, runs, strict=True)
    ]
    gates = [{"stage": ids[1], "point": "tool_gate", "implementers": ["trust"], "asked": "yes", "why": "each call"}]
    gates.append(
        {"stage": ids[3], "point": ids[3], "implementers": [], "asked": "depends", "why": "if a tool is called"}
    )
    return {"profile": "default", "route": 1, "session_id": "cli:local", "stages": stages, "gates": gates}


def turns(world: World, query: Any) -> Any:
    with world.lock:
        rows = sorted(world.turns.values(), key=lambda row: -row["at"])
    rows = [row for row in rows if not query.get("outcome") or row["outcome"] == query["outcome"]]
    return {"turns": rows[:100]}


def tape_rows(number: int = 5) -> Iterator[dict[str, Any]]:
    at = time.time() - 60
    yield {
        "id": 1,
        "at": at,
        "kind": "message",
        "role": "user",
        "text": f"which tests fail? {EVIL}",
        "name": "",
        "data": None,
    }
    call = {"command": "make test"}
    yield {"id": 2, "at": at, "kind": "tool_call", "role": "", "text": "", "name": "bash", "data": call}
    yield {
        "id": 3,
        "at": at,
        "kind": "tool_result",
        "role": "",
        "text": "2 failed " * 300,
        "name": "bash",
        "data": None,
    }
    yield {
        "id": 4,
        "at": at,
        "kind": "message",
        "role": "assistant",
        "text": "Two tests fail.",
        "name": "",
        "data": None,
    }
    yield {"id": 5, "at": at, "kind": "error", "role": "", "text": "TimeoutError", "name": "", "data": None}


def turn(world: World, _: Any, name: str) -> Any:
    row = world.turns.get(name) or next(iter(world.turns.values()))
    order, at, stages, found = stages_of(world.drawings[row["profile"]]), 0.0, [], []
    for stage_id in order:
        seconds = 4.2 if stage_id == "run_model" else 0.08
        stages.append({"id": stage_id, "who": "agent", "start": at, "seconds": seconds, "outcome": "ok"})
        at += seconds
    model = next(stage for stage in stages if stage["id"] == "run_model")
    start, common = model["start"], {"stage": "run_model", "parent": None}
    tokens = {"input_tokens": 1840, "output_tokens": 212, "provider": "openai"}
    found.append(
        {
            **common,
            "id": "b1",
            "kind": "model",
            "name": "gpt-5",
            "start": start,
            "seconds": 1.4,
            "outcome": "ok",
            "data": tokens,
        }
    )
    found.append(
        {
            **common,
            "id": "b2",
            "kind": "tool",
            "name": "bash",
            "start": start + 1.5,
            "seconds": 1.8,
            "outcome": "ok",
            "data": {"call": "1"},
        }
    )
    found.append(
        {
            **common,
            "id": "b3",
            "kind": "gate",
            "name": "tool_gate",
            "parent": "b2",
            "start": start + 1.5,
            "seconds": 0.01,
            "outcome": "denied",
            "data": {"reason": EVIL},
        }
    )
    found.append(
        {
            **common,
            "id": "b4",
            "kind": "model",
            "name": "gpt-5",
            "start": start + 3.4,
            "seconds": None,
            "outcome": "",
            "data": {},
        }
    )
    more = {"stages": stages, "activities": found, "error": f"Boom {EVIL}", "above": None, "tape": list(tape_rows())}
    return {**row, "seconds": at, **more}


def health(world: World, _: Any) -> Any:
    finding = "pipelines.yaml:13:13: error[B120] stage `prompt` needs `sesion`, which does not exist"
    reloads = [
        {
            "at": time.time() - 300,
            "outcome": "refused",
            "findings": [f"{finding}\n   |\n13 |     needs: [sesion]\n   |             ^^^^^^"],
        }
    ]
    servers = [
        {"name": "docs", "state": "connected", "tools": 4, "problem": ""},
        {"name": "db", "state": "failed", "tools": 0, "problem": EVIL},
    ]
    return {
        "status": "ok",
        "channels": {"telegram": "running", "http": "running", "cli": "stopped"},
        "plugins": {"agent": "loaded", "telegram": "loaded"},
        "reloads": [*reloads, {"at": time.time() - 900, "outcome": "ok", "findings": []}],
        "schedules": {"morning": {"next": time.time() + 8000, "last": time.time() - 70000, "cron": "0 8 * * *"}},
        "servers": servers,
        "workers": [{"name": "bub-1", "state": "running", "seen": time.time() - 2, "sessions": 14}],
        "turns": {"running": 4, "done": 812},
        "inbox": {"waiting": 1, "dead": 2},
        "outbox": 1,
    }


def plots(world: World, _: Any) -> Any:
    dice = random.Random(3)
    wave = [max(0, int(14 + 10 * dice.gauss(0, 0.4) + (index % 60) / 5)) for index in range(200)]
    turns = {
        "ok": wave,
        "failed": [int(dice.random() < 0.2) for _ in wave],
        "denied": [int(dice.random() < 0.3) * 2 for _ in wave],
    }
    tokens = {
        "input": [n * dice.randint(900, 1600) for n in wave],
        "output": [n * dice.randint(100, 400) for n in wave],
    }
    p50 = [None if n < 8 else 0.8 + n / 40 for n in wave]
    p95 = [None if n < 8 else 2 + n / 9 + dice.random() for n in wave]
    return {"step": 60, "from": time.time() - 200 * 60, "turns": turns, "tokens": tokens, "p50": p50, "p95": p95}


def inbox(world: World, _: Any) -> Any:
    def row(name: str, **more: Any) -> dict[str, Any]:
        return {
            "id": name,
            "kind": "normal",
            "channel": "telegram",
            "chat": "7",
            "at": time.time() - 90,
            "attempts": 1,
            "reason": "",
            "text": "Is the build green?",
            **more,
        }

    dead = [
        row(f"m{index}", attempts=5, reason=f"ConnectError: {EVIL}", text=f"Look at this {EVIL}")
        for index in range(world.dead)
    ]
    return {
        "waiting": [row("m7")],
        "outgoing": [row("r9", reason="Telegram wants to be left alone for 12 s")],
        "dead": dead,
    }


def drop(world: World, _: Any, name: str, what: str) -> Any:
    world.dead = max(0, world.dead - 1)
    return {"done": True}


def decide(world: World, body: Any, name: str) -> Any:
    world.approvals = [row for row in world.approvals if row["id"] != name]
    world.changed |= dict(list(world.turns.items())[:1])
    return {
        "words": "bash may be called, once." if body["yes"] else "bash is not called.",
        "counts": True,
        "over": True,
    }


def file(world: World, _: Any) -> Any:
    text = (ROOT / "pipelines" / "default.yaml").read_text(encoding="utf-8")
    return {
        "name": "pipelines.yaml",
        "path": "/home/ada/engine/pipelines.yaml",
        "text": text,
        "digest": "d1",
        "parents": [{"name": "bub:classic", "text": "version: 1\nstages: {}\n"}],
        "write": world.write,
        "why": "",
    }


def check(world: World, body: Any) -> Any:
    findings = []
    for number, line in enumerate(body["text"].splitlines(), 1):
        if found := re.search("sesion|tiemout", line):
            place = {
                "start": {"line": number, "column": found.start() + 1},
                "end": {"line": number, "column": found.end() + 1},
            }
            fix = {"title": "Write session", "text": "session"}
            findings.append(
                {
                    "code": "B120",
                    "severity": "error",
                    "message": f"stage `prompt` needs `{found[0]}`, which does not exist",
                    "help": "did you mean `session`?",
                    "range": place,
                    "fix": fix,
                    "page": "docs/diagnostics.md",
                }
            )
    return {"findings": findings, "ms": 4, "is_old": False}


def diff(world: World, body: Any) -> Any:
    groups = [{"title": "limits", "danger": False, "changes": ["run_model: timeout 30m → 20m"]}]
    groups.append({"title": "gates", "danger": True, "changes": [f"tool_gate is asked no more {EVIL}"]})
    return {"groups": groups, "text": "- timeout: 30m\n+ timeout: 20m\n"}


def load(world: World, body: Any) -> Any:
    return {"outcome": "ok", "findings": [], "words": "Loaded. Turns that run end as they began."}


def tape(world: World, query: Any) -> Any:
    return {"entries": list(tape_rows()), "more": "before" not in query}


GETS: dict[str, Callable[..., Any]] = {
    "state": state,
    "graph": graph,
    "stage": stage,
    "turns": turns,
    "turns/([^/]+)": turn,
    "sessions": lambda world, _: {
        "sessions": [
            {"session": f"telegram:{n}", "at": time.time() - n * 900, "turns": n, "text": EVIL} for n in range(1, 6)
        ]
    },
    "tape": tape,
    "search": lambda world, _: {"found": [{**row, "session": "telegram:7"} for row in tape_rows()]},
    "approvals": lambda world, _: {"open": world.approvals},
    "chat": lambda world, _: {"entries": list(tape_rows()), "running": False},
    "inbox": inbox,
    "health": health,
    "plots": plots,
    "file": file,
    "file/code": lambda world, query: {"code": query["code"], "text": "A stage waits for a stage that is not there."},
}
POSTS: dict[str, Callable[..., Any]] = {
    "way": way,
    "leave": lambda world, _: {},
    "approvals/([^/]+)": decide,
    "chat": lambda world, body: {"message_id": world.answer(body["chat"], body["content"])},
    "chat/stop": lambda world, _: {"stopped": True},
    "inbox/([^/]+)/(retry|drop)": drop,
    "file/check": check,
    "file/diff": diff,
    "file/prove": load,
    "file/load": load,
}


def serve(port: int = 0, live: int = 6, pace: float = 6, quiet: bool = False) -> ThreadingHTTPServer:
    """Serve on loopback, with turns that go on in a thread; the caller shuts the server down."""
    world = World(live, pace, quiet)
    server = ThreadingHTTPServer(("127.0.0.1", port), type("Known", (Handler,), {"world": world}))
    server.daemon_threads = True
    over = Event()
    Thread(target=world.run, args=(over,), daemon=True).start()
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8377)
    parser.add_argument("--live", type=int, default=6, help="turns at once")
    parser.add_argument("--pace", type=float, default=6, help="changes of turns a second")
    given = parser.parse_args()
    server = serve(given.port, given.live, given.pace)
    print(f"http://127.0.0.1:{server.server_port}/#{TOKEN}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
