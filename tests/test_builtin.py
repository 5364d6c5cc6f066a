"""What the builtin plugin takes from the workspace: only a file that is really the workspace's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from bub.agent.builtin import BuiltinPlugin
from bub.agent.prompting.instructions import SMALL_TEMPLATE
from bub.plugins.view import ProfileView
from bub.tools import ToolBox, ToolPolicy

DEFAULT_SYSTEM_PROMPT = SMALL_TEMPLATE.read_text(encoding="utf-8").strip()


class Workspace:
    """The part of a framework that the system prompt is made from."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder
        self.home = folder.parent / "home"
        self.settings: dict[str, Any] = {}
        self.tools = ToolBox({}, ToolPolicy())


def system_prompt_in(folder: Path) -> str:
    prompt: Any = BuiltinPlugin(cast("ProfileView", Workspace(folder))).system_prompt()
    return str(prompt)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


def test_instructions_that_lie_outside_the_workspace_are_not_read(folder: Path, tmp_path: Path, log: list[str]) -> None:
    (tmp_path / "diary.txt").write_text("a secret of the user")
    for target in (tmp_path / "diary.txt", Path("../diary.txt")):
        (folder / "AGENTS.md").symlink_to(target)
        assert system_prompt_in(folder) == DEFAULT_SYSTEM_PROMPT
        (folder / "AGENTS.md").unlink()
    assert [line.split()[0] for line in log] == ["workspace.instructions_elsewhere"] * 2
    assert "a secret" not in "".join(log)


def test_instructions_that_are_a_link_to_keys_are_not_read(
    folder: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's project would send them to a model."""
    monkeypatch.setenv("BUB_HOME", str(folder / ".bub"))
    (folder / ".bub" / "tapes").mkdir(parents=True)
    (folder / ".bub" / "tapes" / "t.jsonl").write_text("a secret of the user")
    (folder / ".env").write_text("KEY=a secret of the user")
    for target in (".env", ".bub/tapes/t.jsonl"):
        (folder / "AGENTS.md").symlink_to(target)
        assert system_prompt_in(folder) == DEFAULT_SYSTEM_PROMPT
        (folder / "AGENTS.md").unlink()
    assert [line.split()[0] for line in log] == ["workspace.instructions_elsewhere"] * 2
    assert "a secret" not in "".join(log)


def test_a_link_within_the_workspace_is_followed_however_the_workspace_is_reached(
    folder: Path, tmp_path: Path, log: list[str]
) -> None:
    (folder / "docs").mkdir()
    (folder / "docs" / "agents.md").write_text("Speak softly.")
    (folder / "AGENTS.md").symlink_to("docs/agents.md")
    (tmp_path / "link").symlink_to(folder)
    assert "Speak softly." in system_prompt_in(folder)
    assert "Speak softly." in system_prompt_in(tmp_path / "link")
    assert log == []


def test_instructions_that_are_no_file_are_not_waited_for(folder: Path, log: list[str]) -> None:
    os.mkfifo(folder / "AGENTS.md")
    assert system_prompt_in(folder) == DEFAULT_SYSTEM_PROMPT
    assert "not a regular file" in log[0]


def test_links_that_lead_nowhere_do_no_harm(folder: Path) -> None:
    (folder / "AGENTS.md").symlink_to("AGENTS.md")
    assert system_prompt_in(folder) == DEFAULT_SYSTEM_PROMPT
    (folder / "AGENTS.md").unlink()
    (folder / "AGENTS.md").symlink_to("nowhere")
    assert system_prompt_in(folder) == DEFAULT_SYSTEM_PROMPT
