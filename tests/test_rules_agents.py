"""Whose memory a folder has: agents with names share it between folders; B251 finds names that are unclear."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bub.base.diagnostics import Diagnostic
from bub.base.identity.agents import Agent, find_agent, memory_of
from bub.errors import UsageError
from bub.framework import BubFramework
from bub.inbox.sqlite import SqliteInbox
from bub.pipeline.check.outline import outline_of
from bub.pipeline.check.validate import check_document, check_outline
from bub.pipeline.source.merge import load_document
from bub.tape.tape import tape_name


def test_an_agent_with_a_name_has_the_same_tapes_and_inbox_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    before = tape_name(here, "s"), SqliteInbox(None, here).workspace
    assert before != (tape_name(there, "s"), SqliteInbox(None, there).workspace)
    monkeypatch.setenv("BUB_AGENT", "rex")
    assert tape_name(here, "s") == tape_name(there, "s") != before[0]
    assert SqliteInbox(None, here).workspace == SqliteInbox(None, there).workspace != before[1]
    monkeypatch.setenv("BUB_AGENT", "max")
    assert tape_name(here, "s") != before[0]


@pytest.mark.parametrize("name", ["", "rex", "a" * 64, "R2-D2_x.y"])
def test_a_name_is_taken(name: str, tmp_path: Path) -> None:
    assert memory_of(tmp_path, {"BUB_AGENT": name}).endswith(name)


@pytest.mark.parametrize("name", ["no way", "a" * 65, "../x", "-x", "{x}", "x\n", "ä"])
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be the name of an agent"):
        memory_of(tmp_path, {"BUB_AGENT": name})


# `agents` in a person's own file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("BUB_HOME", str(home))
    monkeypatch.delenv("BUB_AGENT", raising=False)
    return home


def write_agents(folder: Path, said: str) -> Path:
    (folder / "pipelines.yaml").write_text(f"version: 1\nextends: bub:default\n{said}\n", encoding="utf-8")
    return folder


def findings_in(folder: Path) -> list[Diagnostic]:
    document = load_document(folder / "pipelines.yaml")
    return [*check_document(document), *check_outline(outline_of(document))]


def codes_in(folder: Path) -> list[str]:
    return [one.code for one in findings_in(folder) if one.severity == "error"]


def test_a_persons_own_file_gives_folders_the_memory_of_one_agent(home: Path, tmp_path: Path) -> None:
    for name in ("here", "there", "below", "here/below"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    write_agents(home, f"agents: {{rex: [{tmp_path}/here, {tmp_path}/there]}}")
    whose = {name: memory_of(tmp_path / name, os.environ) for name in ("here", "there", "link", "below", "here/below")}
    assert {name for name, memory in whose.items() if memory == "agent:rex"} == {"here", "there", "link"}
    assert whose["here/below"] == str(tmp_path / "here" / "below")
    assert tape_name(tmp_path / "here", "s") == tape_name(tmp_path / "there", "s")
    assert codes_in(home) == []


def test_a_name_in_the_environment_beats_the_file(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_agents(home, f"agents: {{rex: [{tmp_path}]}}")
    monkeypatch.setenv("BUB_AGENT", "max")
    assert find_agent(tmp_path, os.environ) == Agent("max", "BUB_AGENT")
    monkeypatch.delenv("BUB_AGENT")
    assert find_agent(tmp_path, os.environ) == Agent("rex", str(home / "pipelines.yaml"))


def test_an_agent_does_not_change_while_it_works(home: Path, tmp_path: Path) -> None:
    write_agents(home, f"agents: {{rex: [{tmp_path}]}}")
    before = memory_of(tmp_path, os.environ)
    write_agents(home, f"agents: {{max: [{tmp_path}]}}")
    assert memory_of(tmp_path, os.environ) == before == "agent:rex"


@pytest.mark.parametrize("said", ["agents: {rex: [HERE]}", "agents: {}", "agents: {rex: []}"])
def test_the_file_of_a_folder_names_no_agent(home: Path, tmp_path: Path, said: str) -> None:
    (tmp_path / "work").mkdir()
    work = write_agents(tmp_path / "work", said.replace("HERE", str(tmp_path / "work")))
    assert memory_of(work, os.environ) == str(work)
    (found,) = [one for one in findings_in(work) if one.code == "B251"]
    assert found.severity == "error"
    assert str(home / "pipelines.yaml") in (found.help or "")


def test_no_parent_of_a_file_names_an_agent_either(home: Path, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(f"version: 1\nextends: bub:default\nagents: {{rex: [{tmp_path}]}}\n")
    (tmp_path / "work").mkdir()
    for folder in (tmp_path / "work", home):
        (folder / "pipelines.yaml").write_text("version: 1\nextends: ../base.yaml\n", encoding="utf-8")
        assert "B251" in codes_in(folder)
    assert memory_of(tmp_path, os.environ) == str(tmp_path)


def test_a_name_in_a_dotenv_is_ignored_and_reported(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    work = write_agents(tmp_path / "work", "")
    (work / ".env").write_text("BUB_AGENT=rex\n", encoding="utf-8")
    monkeypatch.chdir(work)
    framework = BubFramework(work / "pipelines.yaml", workspace=work)
    framework.load_hooks()
    assert memory_of(work, os.environ) == str(work)
    (found,) = [one for one in framework.findings if "BUB_AGENT" in one.message]
    assert found.severity == "warning"
    assert found.file is not None
    assert found.file.endswith(".env")


def test_a_folder_has_one_name(home: Path, tmp_path: Path) -> None:
    write_agents(home, f"agents: {{rex: [{tmp_path}], max: [{tmp_path}/home/..]}}")
    assert codes_in(home) == ["B251"]
    with pytest.raises(UsageError, match="two names: rex, max"):
        memory_of(tmp_path, os.environ)


def test_a_folder_that_is_another_one_everywhere_is_found(home: Path) -> None:
    write_agents(home, "agents: {rex: [work, ~/work]}")
    assert codes_in(home) == ["B251"]


@pytest.mark.parametrize("text", ["agents: [", "agents: rex", "agents: {rex: /work}", "agents: {rex: [[x]]}"])
def test_nobody_goes_on_with_another_memory_since_a_file_is_broken(home: Path, tmp_path: Path, text: str) -> None:
    (home / "pipelines.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="nobody knows which agent works here"):
        memory_of(tmp_path, os.environ)


def test_a_name_that_is_none_is_refused(home: Path, tmp_path: Path) -> None:
    write_agents(home, f"agents: {{../x: [{tmp_path}]}}")
    assert codes_in(home)
    with pytest.raises(UsageError, match="cannot be the name of an agent"):
        memory_of(tmp_path, os.environ)
