"""An agent with a name has the same tapes and messages in every folder; only the real environment gives it one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bub.base.locate import memory_of
from bub.errors import UsageError
from bub.inbox.sqlite import SqliteInbox
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
