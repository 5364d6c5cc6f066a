"""The checker of plain English finds what it was made for, and leaves code and places alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plain_english import check_module, check_page, check_text

PLAIN = "If nobody answers, it is no. The folder where the file is stays. `stands` is quoted; `x` stands for a name."


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Where nobody answers, it ends.", ["Where"]),
        ("It ends. Where there is no file, it makes one.", ["Where", "Where there is"]),
        ("The key stands in the file.", ["stands"]),
        ("The model is told so.", ["is told"]),
        ("The answers come to stand in a file.", ["come to"]),
        ("A remark and two texts", ["remark", "texts"]),
    ],
)
def test_a_word_that_makes_a_reader_stop_is_found(sentence: str, words: list[str]) -> None:
    assert {find.words for find in check_text(sentence, "a page")} >= set(words)


def test_plain_sentences_are_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{PLAIN}\n```text\nit stands in a block\n```\n", encoding="utf-8")
    assert list(check_page(page, "page.md")) == []


def test_a_find_in_a_page_has_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("one\n\n```text\nit stands in a block\n```\nit stands here\n", encoding="utf-8")
    assert [(find.line, find.words) for find in check_page(page, "page.md")] == [(6, "stands")]


def test_help_and_messages_are_checked_and_remarks_of_the_code_are_not(tmp_path: Path) -> None:
    module = tmp_path / "command.py"
    module.write_text(
        '"""It stands."""\n\ndef show():\n    """A key stands here."""\n    print("it stands")\n\n'
        'def _hide():\n    """It stands."""\n',
        encoding="utf-8",
    )
    assert [find.line for find in check_module(module, "command.py")] == [4, 5]
