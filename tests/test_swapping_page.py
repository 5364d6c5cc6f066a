"""Every swap of `docs/swapping.md`, followed word for word in a fresh folder: it validates, its tests pass, it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_docs import BLOCK, DOCS, matches, run

PAGE = DOCS / "swapping.md"
SECTIONS = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
SWAPS = {section.partition("\n")[0]: section for section in SECTIONS if "<!-- file: pipelines.yaml -->" in section}


def shown(section: str) -> Iterator[tuple[str, str]]:
    """The commands of a section, each with what it prints."""
    for block in BLOCK.finditer(section):
        if block[2] == "console":
            yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block[3], re.MULTILINE)


@pytest.mark.parametrize("section", SWAPS.values(), ids=SWAPS)
def test_a_swap_can_be_followed_word_for_word(section: str, tmp_path: Path) -> None:
    for block in BLOCK.finditer(section):
        if block[1] is not None:
            (tmp_path / block[1]).write_text(block[3], encoding="utf-8")
    commands = list(shown(section))
    assert {command.split()[1] for command, _ in commands if "--profile" not in command} >= {"validate", "test"}
    assert [command for command, _ in commands if " run " in command]
    for command, output in commands:
        printed = run(command, tmp_path)
        assert matches(printed, output.rstrip("\n")), f"{command}\n{printed}"


def test_every_kind_of_swap_has_its_section() -> None:
    kinds = {"Another hook", "Another kind", "Several stages instead of one", "No stage", "A whole file of your own"}
    assert kinds <= SWAPS.keys()
