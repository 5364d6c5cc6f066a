"""The examples of `docs/examples/` do what their pages say: checked, tested, shown as they are, and run for real."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml
from fakes.command_line import SOURCES, bub
from fakes.gateway import gateway
from fakes.toys import Workshop

from bub import BubFramework, hookimpl
from bub.streaming import StreamEvent

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("the examples are part of a checkout only", allow_module_level=True)

NAMES = sorted(page.parent.name for page in EXAMPLES.glob("*/README.md"))
SHOWN = re.compile(r"^```(?:yaml|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ONE_SCREEN = 60

pytestmark = pytest.mark.anyio


Copy = Callable[[str], Path]


def copied(example: Path, to: Path) -> Path:
    """A copy of an example, or of all, without what trying it in place has left there."""
    left = shutil.ignore_patterns("__pycache__", "*.db", "*.jsonl")
    return shutil.copytree(example, to, dirs_exist_ok=True, ignore=left)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All examples, as somebody has them who has copied them."""
    return copied(EXAMPLES, tmp_path_factory.mktemp("examples"))


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """Gives the folder of one example, for this test alone."""
    return lambda name: copied(EXAMPLES / name, tmp_path / name)


# All of them


def test_every_example_is_sound_and_its_plugins_load(copies: Path) -> None:
    done = bub(copies, "validate", "--strict", "--plugins", ".")
    assert (done.stdout.strip(), done.stderr, done.returncode) == (f"{len(NAMES)} files are fine", "", 0)


@pytest.fixture(scope="module")
def tested(copies: Path) -> dict[str, list[dict[str, Any]]]:
    """What came of the tests of each example."""
    report = json.loads(bub(copies, "test", "--format", "json", ".").stdout)
    assert report["diagnostics"] == []
    found: dict[str, list[dict[str, Any]]] = {}
    for test in report["tests"]:
        found.setdefault(Path(test["file"]).parent.name, []).append(test)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_example_has_tests_and_they_pass(name: str, tested: dict[str, list[dict[str, Any]]]) -> None:
    assert tested[name]
    assert [test for test in tested[name] if not test["passed"]] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_one_screen_and_shows_what_stands_in_its_files(name: str) -> None:
    text = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= ONE_SCREEN
    files = [path for path in (EXAMPLES / name).rglob("*") if path.suffix in (".py", ".yaml")]
    written = [path.read_text(encoding="utf-8") for path in files]
    assert [shown for shown in SHOWN.findall(text) if not any(shown in file for file in written)] == []


def test_every_example_is_in_the_index() -> None:
    listed = re.findall(r"^\| \[.*\]\(([\w-]+)/README\.md\)", (EXAMPLES / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == NAMES
    assert sorted(path.parent.name for path in EXAMPLES.glob("*/pipelines.yaml")) == NAMES


# One by one, with a model that does as it is told


class Clerk:
    """Stands in for a model: calls the tool that `do TOOL {…}` names, else says "fine"; keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @hookimpl
    def call_model(self, request: dict[str, Any]) -> Any:
        self.told.append(str(request["messages"][0]["content"]))
        return self.answer(str(request["messages"][-1]["content"]))

    async def answer(self, said: str) -> Any:
        if order := re.fullmatch(r"do (\S+) (.*)", said):
            yield StreamEvent("tool_call", {"id": "1", "name": order[1], "arguments": json.loads(order[2])})
        else:
            yield StreamEvent.text("fine")
        yield StreamEvent("usage", {"total_tokens": 30_000})


Answering = Callable[[str, str], tuple[BubFramework, Clerk]]


@pytest.fixture
def answering(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Loads an example with a clerk in place of a model, its profiles being these."""

    def load(name: str, profiles: str) -> tuple[BubFramework, Clerk]:
        folder, clerk = copy(name), Clerk()
        workshop = Workshop(folder, monkeypatch)
        workshop.plugin("clerk", clerk)
        (folder / "pipelines.yaml").rename(folder / "example.yaml")
        text = f"extends: example.yaml\nplugins: {{clerk: {{path: clerk.py}}}}\nprofiles: {profiles}"
        return workshop(text), clerk

    return load


async def said(framework: BubFramework, content: str, **message: Any) -> str:
    """What is answered to a message."""
    result = await framework.process_inbound({"channel": "cli", "chat_id": "local", "content": content, **message})
    return "\n".join(reply["content"] for reply in result.outbounds or ())


async def test_the_memory_tells_the_model_what_it_was_told_to_keep(answering: Answering) -> None:
    framework, clerk = answering("memory", "{default: {plugins: [clerk, memory]}}")
    assert await said(framework, 'do memory.keep {"fact": "The cat is called Otto."}') == "fine"
    again = BubFramework(framework.config_file, workspace=framework.workspace)
    assert await said(again, "hello") == "fine"
    assert await said(again, "hello", chat_id="other") == "fine"
    assert ["Otto" in system for system in clerk.told] == [False, False, True, False]


async def test_the_house_rules_are_told_in_their_group_only(answering: Answering) -> None:
    profiles = "{default: {plugins: [clerk]}, allotment: {plugins: [clerk, house_rules]}}"
    framework, clerk = answering("house-rules", profiles)
    for chat_id in ("-1001234567890", "4711"):
        assert await said(framework, "Slugs!", channel="telegram", chat_id=chat_id) == "fine"
    assert ["Speak of gardens only." in system for system in clerk.told] == [True, False]


async def test_the_spending_limit_counts_for_each_person(answering: Answering) -> None:
    framework, clerk = answering("spending-limit", "{default: {plugins: [clerk, allowance]}}")
    answers = [await said(framework, "hello", sender_id=sender) for sender in ("ada", "ada", "ada", "bob")]
    assert answers == ["fine", "fine", "Your 50,000 tokens for today are used up. Until tomorrow!", "fine"]
    assert len(clerk.told) == 3


async def test_the_audit_log_has_every_side_of_a_turn_and_no_secret(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "q8w7e6r5t4z3")
    framework, _ = answering("audit-log", "{default: {plugins: [clerk, audit]}}")
    await said(framework, 'do fs.read {"path": "q8w7e6r5t4z3.txt"}')
    text = (framework.workspace / "audit.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["what"], line["session"]) for line in lines] == [
        (what, "cli:local") for what in ("message", "tool", "reply")
    ]
    assert lines[1]["failed"]
    assert lines[1]["args"]["path"] == "***.txt"
    assert "q8w7e6r5t4z3" not in text


async def test_the_swapped_model_goes_before_the_agent_where_both_are_asked(answering: Answering) -> None:
    profiles = (
        "{default: {plugins: [clerk, faq]}, both: {extends: default, stages: {run_model: {only: [faq, builtin]}}}}"
    )
    framework, clerk = answering("swap-the-model", f"{profiles}\nroutes: [{{match: {{channel: both}}, profile: both}}]")
    assert await said(framework, "Who are you?") == "I do not know. Ann at the desk does: 030 1234."
    assert await said(framework, "Where are you?", channel="both") == "Mill Lane 7, the green door."
    assert clerk.told == []
    assert await said(framework, "Who are you?", channel="both") == "fine"


# The channel, in a gateway


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_the_channel_answers_a_line_at_a_time_and_keeps_what_nobody_is_there_to_read(copy: Copy) -> None:
    folder, port = copy("own-channel"), free_port()
    (folder / "slow.py").write_text(
        dedent("""\
            import trio
            from bub import hookimpl


            @hookimpl
            async def run_model(prompt, workspace):
                while prompt == "wait" and not (workspace / "go").exists():
                    await trio.sleep(0.01)
                return f"you said {prompt}"
        """),
        encoding="utf-8",
    )
    file = folder / "slow.yaml"
    file.write_text(
        dedent(f"""\
            version: 1
            extends: pipelines.yaml
            plugins: {{slow: {{path: slow.py}}}}
            profiles: {{default: {{plugins: [slow, line]}}}}
            settings: {{line: {{port: {port}}}}}
        """),
        encoding="utf-8",
    )
    with gateway(folder, "--config", str(file), "--enable-channel", "line") as running:
        with socket.create_connection(("127.0.0.1", port), 30) as ada, ada.makefile("rw") as lines:
            ada.sendall(b"ada\nhel")
            ada.sendall(b"lo\nagain\n")
            assert [lines.readline(), lines.readline()] == ["you said hello\n", "you said again\n"]
            ada.sendall(b"wait\n")
        running.until(lambda: "wait" in bub(folder, "inbox", "list", "--all").stdout, "the message is kept")
        (folder / "go").touch()
        running.until(lambda: "you said wait" in bub(folder, "inbox", "list", "--all").stdout, "the reply waits")
        with socket.create_connection(("127.0.0.1", port), 30) as ada, ada.makefile("rw") as lines:
            ada.sendall(b"ada\n")
            assert lines.readline() == "you said wait\n"
        assert running.end() == 0


# The CI set-up, as a workflow runs it


def test_the_steps_of_the_workflow_pass_and_tell_what_changes(copy: Copy, tmp_path: Path) -> None:
    folder = copy("ci")
    tools, summary = tmp_path / "bin", tmp_path / "summary"
    tools.mkdir()
    (tools / "bub").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bub "$@"\n', encoding="utf-8")
    (tools / "bub").chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = {
        **own,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": SOURCES,
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }

    def shell(line: str) -> subprocess.CompletedProcess[str]:
        # As a workflow runs its steps.
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line]
        return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)

    committed = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm a"
    assert shell(f"{committed} && git update-ref refs/remotes/origin/main HEAD").returncode == 0
    workflow = yaml.safe_load((folder / ".github" / "workflows" / "pipelines.yaml").read_text(encoding="utf-8"))
    steps = {step["name"]: step["run"] for step in workflow["jobs"]["pipelines"]["steps"] if "run" in step}
    check, test, tell = (steps[name] for name in list(steps)[1:])
    assert shell(tell).returncode == 0

    file = folder / "pipelines.yaml"
    file.write_text(file.read_text("utf-8").replace(", guard]", "]"), encoding="utf-8")
    assert [shell(step).returncode for step in (check, test, tell)] == [1, 1, 0]
    told = summary.read_text(encoding="utf-8")
    shown = re.findall(r"^```text\n(.*?)^```$", (folder / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert shown[0] in told.replace("git:origin/main:", "git:HEAD:")


def test_the_hooks_for_pre_commit_are_those_that_are_offered() -> None:
    offered = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    (repository,) = yaml.safe_load((EXAMPLES / "ci" / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert {hook["id"] for hook in repository["hooks"]} == offered
