"""`bub onboard` with servers in the file: what they offer is told, and which tools are allowed is asked."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from fakes.onboarding import ENTER, Person, Somebody, onboard

from bub.agent.mcp import program
from bub.framework import load_pipeline
from bub.pipeline.source.merge import load_document
from bub.setup.prompter import Prompter
from bub.setup.served_tools import ServedTools

LIAR = Path(__file__).parent / "fakes" / "mcp_liar.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a server whose lies are what `lies` holds, and one that is not there."""
    (tmp_path / "lies").write_text("")
    text = f"""version: 1
extends: bub:default
mcp:
  liar: {{command: [{sys.executable}, -S, -E, {LIAR}, from-file]}}
  gone: {{command: [/no/such/program]}}
profiles:
  default:
    tools:
      allow:
        - fs.*  # to read
        - help
"""
    (tmp_path / "pipelines.yaml").write_text(text)
    return tmp_path / "pipelines.yaml"


def test_a_person_sees_what_each_server_offers_and_allows_some_tools(file: Path) -> None:
    before = file.read_text()
    (file.parent / "lies").write_text("rug-pull")
    person = Person(file.parent, "--config", str(file), "onboard")
    person.answers("type to narrow", ENTER)
    person.answers("Ask it for a word now", "n")
    for question in ("Which plugins may run", "Which channels", "without asking you first"):
        person.answers(question, ENTER)
    person.answers("The server `liar` offers 2 tools.")
    person.answers("Which tools of the server `liar` may the agent use", " ", ENTER)
    person.answers("The server `gone`: `/no/such/program` cannot be started: no such file or directory.")
    person.answers("Write this to", "y")
    assert person.end()[0] == 0
    assert file.read_text() == before.replace("        - help\n", "        - help\n        - mcp.liar.ping\n")
    assert len((file.parent / "pids").read_text().split()) == 1


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_goes_on_without_a_server_that_does_not_start_and_nobody_waits_twice(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "GRACE", 0.2)
    folder, person, document = file.parent, Somebody(), load_document(file)
    (folder / "lies").write_text("hang-at-start")

    def press_ctrl_c() -> None:
        while not (folder / "pids").exists():
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    snapshot = load_pipeline(document, profile="default", workspace=folder, environ={})
    profile, ask, served = snapshot.profiles["default"], Prompter(person, {}, folder), ServedTools(folder)
    finger = threading.Thread(target=press_ctrl_c)
    finger.start()
    assert served.ask(ask, profile, document) is None
    finger.join()
    assert served.ask(ask, profile, document) is None
    assert person.heard == ["The server `liar` was not waited for.", "The server `gone` was not waited for."] * 2


def test_a_script_starts_no_server(file: Path) -> None:
    assert onboard("--config", file, "onboard", "--non-interactive", "--dry-run") == 0
    assert not (file.parent / "pids").exists()
