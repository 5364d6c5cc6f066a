"""`bub prove`: what it lets fail, which laws it holds a turn against, and what it says of a gate's own code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from fakes.command_line import bub

from bub.pipeline.source.merge import load_document, load_shipped
from bub.testing.proving.proof import Proof, prove

ROOT = Path(__file__).parent.parent
PLANTED = Path(__file__).parent / "planted"

Write = Callable[[str, str], Path]

GUARDED = """
version: 1
extends: bub:default
hooks:
  moderate: {kind: gate, takes: [prompt]}
stages:
  moderate: {before: run_model, timeout: 5s}
plugins:
  guard: {path: guard.py}
profiles:
  default: {plugins: [guard]}
"""


def proved(file: Path, **options: object) -> Proof:
    return prove(load_document(file), workspace=file.parent, **options)  # type: ignore[arg-type]  # as the test says


def guarded(write: Write, gate: str, pipeline: str = GUARDED) -> Proof:
    """What is found of a pipeline with one gate."""
    write(
        "guard.py",
        f"import json\nfrom contextlib import suppress\nimport trio\nfrom bub import hookimpl\n{dedent(gate)}",
    )
    return proved(write("pipelines.yaml", pipeline.strip() + "\n"))


# What is sound


@pytest.mark.parametrize("name", ["default", "ethos", "classic"])
def test_the_shipped_pipelines_are_proved(name: str, tmp_path: Path) -> None:
    proof = prove(load_shipped(name), workspace=tmp_path)
    assert (proof.ran, proof.findings, proof.unreached) == (True, (), [])
    assert proof.faults > 25


@pytest.mark.parametrize(
    "file", sorted((ROOT / "docs/examples").glob("*/pipelines.yaml")), ids=lambda it: it.parent.name
)
def test_the_examples_are_proved(file: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(file.parent, tmp_path / "example")
    proof = proved(folder / file.name)
    assert (proof.ran, proof.findings, proof.unreached) == (True, (), [])


@pytest.mark.parametrize("file", ["pipelines.yaml", "beside.yaml"])
@pytest.mark.parametrize("is_mocked", [False, True])
def test_a_turn_with_all_kinds_of_stages_is_proved(file: str, is_mocked: bool) -> None:
    proof = proved(PLANTED / file, is_mocked=is_mocked, pairs="none")
    assert (proof.ran, proof.findings, proof.unreached) == (True, (), [])


def test_pairs_are_tried_if_a_guard_or_a_policy_is_among_them(write: Write) -> None:
    gate = "@hookimpl\ndef moderate(prompt): return None\n"
    write("guard.py", f"from bub import hookimpl\n{gate}")
    file = write("pipelines.yaml", GUARDED.strip() + "\n")
    singles, guards, every = (proved(file, pairs=pairs).faults for pairs in ("none", "guards", "all"))
    assert singles < guards <= every


# What is not


@pytest.mark.timeout(120)
@pytest.mark.parametrize("words", ["a gate whose time is up allows", "an item that was denied is sent"])
def test_a_fault_of_the_engine_is_found_with_a_test_that_fails_on_it(words: str) -> None:
    command = [sys.executable, "-m", "tests.planted", "--once", words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 planted faults were found" in done.stdout
    assert "0 of" not in done.stdout


def test_a_stage_without_a_time_out_is_unbounded_and_fails_only_if_strict(write: Write) -> None:
    write("guard.py", "from bub import hookimpl\n@hookimpl\ndef moderate(prompt): return None\n")
    file = write("pipelines.yaml", GUARDED.replace(", timeout: 5s", "").strip() + "\n")
    (finding,) = proved(file).findings
    assert (finding.code, finding.severity, finding.path) == ("B229", "warning", "stages.moderate")
    assert "unbounded" in finding.message
    loose, strict = (bub(file.parent, "prove", *more, "pipelines.yaml") for more in ((), ("--strict",)))
    assert (loose.returncode, strict.returncode) == (0, 1)
    assert loose.stdout.splitlines()[-1].startswith("proved: ")


SWALLOWING = {
    "an await in a try": (
        """
        async def ask(text):
            await trio.sleep(1)
            return False

        @hookimpl
        async def moderate(prompt):
            try:
                is_bad = await ask(prompt)
            except Exception:
                return None
            return {"deny": "bad"} if is_bad else None
        """,
        13,
    ),
    "an imported name in a try": (
        """
        @hookimpl
        def moderate(prompt):
            try:
                words = json.loads('["password"]')
            except ValueError:
                words = []
            return {"deny": "no"} if any(word in prompt for word in words) else None
        """,
        9,
    ),
    "a name that is suppressed, on one line": (
        """
        @hookimpl
        def moderate(prompt):
            with suppress(ValueError): json.loads(prompt and "1")
        """,
        8,
    ),
    "a file that cannot be read": (
        """
        @hookimpl
        def moderate(prompt, workspace):
            try:
                words = open(workspace / "words.txt").read().split()
            except OSError:
                return None
            return {"deny": "no"} if prompt in words else None
        """,
        9,
    ),
    "a time-out of its own": (
        """
        @hookimpl
        async def moderate(prompt):
            with trio.move_on_after(2):
                await trio.sleep(0.1)
                if "password" in prompt:
                    return {"deny": "no"}
        """,
        9,
    ),
    "a finally that returns": (
        """
        @hookimpl
        async def moderate(prompt):
            try:
                await trio.sleep(0.1)
            finally:
                return None
        """,
        9,
    ),
    "a network that is not there": (
        """
        import socket

        @hookimpl
        def moderate(prompt):
            try:
                return _ask(prompt)
            except OSError:
                return None

        def _ask(prompt):
            with socket.create_connection(("127.0.0.1", 9)) as service:
                return {"deny": "no"} if service.recv(1) else None
        """,
        16,
    ),
}


@pytest.mark.parametrize("name", SWALLOWING)
def test_a_gate_that_catches_its_own_error_is_found_with_its_line(name: str, write: Write) -> None:
    gate, line = SWALLOWING[name]
    proof = guarded(write, gate)
    found = [finding for finding in proof.findings if finding.code == "B228"]
    assert line in [finding.range.start.line for finding in found], proof.findings
    assert {finding.file.rpartition("/")[2] for finding in found} == {"guard.py"}
    assert not proof.ok


SOUND = {
    "it lets its failure out": """
        @hookimpl
        async def moderate(prompt):
            await trio.sleep(0.1)
            if json.loads('["password"]')[0] in prompt:
                return {"deny": "no"}
    """,
    "it denies if it fails": """
        @hookimpl
        async def moderate(prompt):
            try:
                with trio.fail_after(3):
                    await trio.sleep(0.1)
            except Exception:
                return {"deny": "this could not be checked"}
    """,
    "it tries again, and then denies": """
        async def ask(prompt):
            await trio.sleep(0.1)
            return False

        @hookimpl
        async def moderate(prompt):
            for attempt in range(3):
                try:
                    is_bad = await ask(prompt)
                    break
                except OSError:
                    await trio.sleep(0.1)
            else:
                return {"deny": "this could not be checked"}
            return {"deny": "no"} if is_bad else None
    """,
    "it waits for a thread": """
        @hookimpl
        async def moderate(prompt):
            return await trio.to_thread.run_sync(lambda: None)
    """,
}


@pytest.mark.parametrize("name", SOUND)
def test_a_gate_that_fails_closed_is_no_finding(name: str, write: Write) -> None:
    assert guarded(write, SOUND[name]).findings == ()


# What implementations can reach


def test_implementations_run_in_a_copy_with_a_home_of_its_own_and_reach_nothing_else(write: Write) -> None:
    folder = write("seen.txt", "as it was").parent
    proof = guarded(
        write,
        f"""
        import os, socket, subprocess
        from pathlib import Path

        def refuses(work):
            try:
                work()
            except OSError:
                return True
            return False

        @hookimpl
        def moderate(prompt, workspace):
            (workspace / "seen.txt").write_text("changed")
            Path("made.txt").write_text("made")
            (Path.home() / "made.txt").write_text("made")
            outside = Path({str(folder)!r})
            assert (outside / "seen.txt").read_text() == "as it was"
            assert workspace != outside and os.environ["BUB_HOME"].startswith(os.environ["HOME"])
            assert refuses(lambda: (outside / "seen.txt").write_text("changed"))
            assert refuses(lambda: (outside / "seen.txt").unlink())
            assert refuses(lambda: subprocess.run(["true"]))
            assert refuses(lambda: socket.create_connection(("127.0.0.1", 9)))
            return None
        """,
    )
    assert proof.unreached == []
    assert not any("failed" in finding.message for finding in proof.findings if finding.code == "B227"), proof.findings
    assert sorted(path.name for path in folder.glob("*.txt")) == ["seen.txt"]
    assert (folder / "seen.txt").read_text() == "as it was"
    subprocess.run(["true"], check=True)  # all is open again


def test_mocked_calls_no_implementation(write: Write) -> None:
    called = write("called.txt", "")
    gate = f"@hookimpl\ndef moderate(prompt):\n    raise SystemExit(open({str(called)!r}, 'w'))\n"
    write("guard.py", f"from bub import hookimpl\n{gate}")
    proof = proved(write("pipelines.yaml", GUARDED), is_mocked=True)
    assert (proof.ran, proof.findings) == (True, ())


def test_a_workspace_that_may_not_run_by_itself_is_not_proved(write: Write) -> None:
    write("guard.py", "raise SystemExit('it was imported')\n")
    folder = write("pipelines.yaml", GUARDED).parent
    done = bub(folder, "prove")
    assert done.returncode != 0
    assert "bub trust" in done.stderr
    assert "it was imported" not in done.stderr


# What is printed


def test_each_format_tells_of_a_leak_and_the_exit_code_is_1(write: Write) -> None:
    guarded(write, SWALLOWING["an imported name in a try"][0])
    folder = write("seen.txt", "").parent
    shown = {
        form: bub(folder, "prove", "--format", form, "pipelines.yaml") for form in ("text", "json", "github", "sarif")
    }
    assert {form: done.returncode for form, done in shown.items()} == dict.fromkeys(shown, 1)
    assert (
        "guard.py:9:9: error[B228] the gate `moderate` of plugin `guard` allows if `json` fails" in shown["text"].stdout
    )
    assert "not proved: 1 error in 1 file" in shown["text"].stdout
    report = json.loads(shown["json"].stdout)
    assert (report["ok"], report["proof"]["proved"], report["proof"]["laws"]) == (False, False, 8)
    assert "::error file=guard.py,line=9" in shown["github"].stdout
    (result,) = json.loads(shown["sarif"].stdout)["runs"][0]["results"]
    assert result["ruleId"] == "B228"


def test_a_file_with_an_error_is_not_tried(write: Write) -> None:
    file = write("pipelines.yaml", "version: 1\nextends: bub:default\nstages:\n  run_modle: {timeout: 2m}\n")
    done = bub(file.parent, "prove", "pipelines.yaml")
    assert done.returncode == 1
    assert "did you mean `run_model`?" in done.stdout
    assert "proved" not in done.stdout
