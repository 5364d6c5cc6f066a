"""The checker of plain English finds what it was made for, and leaves code and places alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plain_english import (
    ALLOWED,
    MOST_WORDS,
    NOT_YET,
    ROOT,
    check_module,
    check_page,
    check_schema,
    check_text,
    pages_of,
)

PLAIN = (
    "If nobody answers, it is no. The folder where the file is stays. `stands` is quoted; `x` stands for a name. "
    "Each plugin, all of which are listed, is asked, and so is Bub. It can be itself. Nothing is lost but one word."
)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Where nobody answers, it ends.", ["Where"]),
        ("It ends. Where there is no file, it makes one.", ["Where", "Where there is"]),
        ("The key stands in the file.", ["stands"]),
        ("The model is told so.", ["is told"]),
        ("The answers come to stand in a file.", ["come to"]),
        ("A remark and two texts", ["remark", "texts"]),
        ("It ends. Left out are folders. Known is one.", ["Left out are"]),
        ("The log is cut, and so is what it quotes.", ["so is what"]),
        ("It is cut; so is the log. As does the page.", ["so is", "As does the"]),
        ("It is tried in whichever thread, anew.", ["whichever", "anew"]),
        ("There are two, of which one is enough.", ["of which"]),
        ("It changes nothing but\nthe value, the latter too.", ["nothing but", "the latter"]),
        ("It is the same but for one name, and hence fine.", ["but for", "hence"]),
        ("Write a name, e.g. x, or one's own.", ["e.g"]),
        ("It is allowed in vain, and merely read.", ["in vain", "merely"]),
    ],
)
def test_a_word_that_makes_a_reader_stop_is_found(sentence: str, words: list[str]) -> None:
    assert {find.words for find in check_text(sentence, "a page")} >= set(words)


def test_plain_sentences_are_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{PLAIN}\n```text\nit stands in a block\n```\n", encoding="utf-8")
    assert list(check_page(page, "page.md")) == []


def test_a_sentence_of_a_page_that_is_too_long_is_found_and_a_long_list_is_not(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    item = "word " * (MOST_WORDS - 5)
    page.write_text(f"One. Two\nwords.\n\n{item}\n{item}.\n\n- {item}\n- {item}\n\n| {item} | {item} |\n", "utf-8")
    assert [(find.line, find.words) for find in check_page(page, "page.md")] == [(4, "word word word word word word …")]


def test_of_a_changelog_the_newest_part_is_read(tmp_path: Path) -> None:
    page = tmp_path / "CHANGELOG.md"
    page.write_text("# Changelog\n\n## [2]\n\nIt stands.\n\n## [1]\n\nIt stood.\n", "utf-8")
    assert [find.words for find in check_page(page, "page.md")] == ["stands"]


def test_examples_of_what_is_not_plain_are_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not plain: examples -->\n| It stands. |\n\nIt stood.\n", "utf-8")
    assert [(find.line, find.words) for find in check_page(page, "page.md")] == [(4, "stood")]


def test_every_page_in_english_is_read() -> None:
    pages = set(pages_of(ROOT))
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/index.md", "docs/pipelines/ethos.md"} <= pages
    assert "docs/hooks.zh.md" not in pages
    assert set(NOT_YET) <= pages


def test_docstrings_of_public_names_are_read(tmp_path: Path) -> None:
    module = tmp_path / "names.py"
    anew = '"""Made anew."""'
    module.write_text(
        f'"""Some, of which one."""\n\nclass Some:\n    {anew}\n\n    def read(self):\n        {anew}\n\n'
        f"    def _read(self):\n        {anew}\n\nclass _Other:\n    {anew}\n    def read(self):\n        {anew}\n",
        encoding="utf-8",
    )
    assert [find.line for find in check_module(module, "names.py")] == [1, 4, 7]


def test_a_find_in_a_page_has_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("one\n\n```text\nit stands in a block\n```\nit stands here\n", encoding="utf-8")
    assert [(find.line, find.words) for find in check_page(page, "page.md")] == [(6, "stands")]


def test_docstrings_and_messages_are_checked_by_every_rule_and_what_only_a_programmer_reads_is_not(
    tmp_path: Path,
) -> None:
    module = tmp_path / "names.py"
    module.write_text(
        '"""It stands."""\n\nKEY = 1\n"""Where it is."""\n\ndef show():\n    """Is told its texts."""\n'
        '    print("it stands")\n\ndef _hide():\n    """It stands."""\n',
        encoding="utf-8",
    )
    found = [(find.line, find.words) for find in check_module(module, "names.py")]
    assert found == [(1, "stands"), (4, "Where"), (7, "Is told"), (7, "texts"), (8, "stands")]


def test_a_docstring_is_found_by_how_it_begins(tmp_path: Path) -> None:
    module = tmp_path / "names.py"
    module.write_text('"""Where it is."""\n', encoding="utf-8")
    assert [find.words for find in check_module(module, "names.py")] == ["Where"]


def test_a_message_is_read_over_its_values_and_a_question_to_a_database_is_not_read(tmp_path: Path) -> None:
    module = tmp_path / "messages.py"
    module.write_text(
        'say(f"it {did} come to {nothing}")\nsay(f"update {table} set x = ? where id = ?")\n', encoding="utf-8"
    )
    assert [(find.line, find.words) for find in check_module(module, "messages.py")] == [(1, "come to")]


def test_a_name_of_one_word_and_a_phrase_that_is_allowed_are_left_alone(tmp_path: Path) -> None:
    module = tmp_path / "names.py"
    module.write_text(
        "".join(f"say({words!r})\n" for words in ("where", *ALLOWED, "where nobody goes")), encoding="utf-8"
    )
    assert {find.line for find in check_module(module, "names.py")} == {len(ALLOWED) + 2}


def test_a_description_of_a_key_is_checked_once_and_a_name_is_not(tmp_path: Path) -> None:
    schema = tmp_path / "some.schema.json"
    schema.write_text('{\n "texts": {\n  "description": "It stands.",\n  "markdownDescription": "It stands."\n}}\n')
    assert [(find.line, find.words) for find in check_schema(schema, "some.schema.json")] == [(3, "stands")]
