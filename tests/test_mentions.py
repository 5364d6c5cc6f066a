"""`@path` in `bub chat`: which words name a file, which are just words, and how a name is completed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bub.channels.terminal.mentions import complete_mention, mention_of, names_a_file, read_mentions

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "node_modules").mkdir()
    for name in ("a.txt", "my notes.txt", 'odd"name', ".hidden", "src/engine.py", "src/deep/enter.py", "x.", "ü.txt"):
        (folder / name).write_text("text", "utf-8")
    (folder / "node_modules" / "engine.js").write_text("", "utf-8")
    (folder / "cat 1.png").write_bytes(PNG)
    (tmp_path / "home.txt").write_text("mine", "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


@pytest.mark.parametrize(
    ("line", "files", "unknown"),
    [
        ("@a.txt", ["a.txt"], []),
        ("look at @a.txt, please", ["a.txt"], []),
        ("(see @a.txt)", ["a.txt"], []),
        ("end @x. ", ["x."], []),
        ('@"my notes.txt" and @my\\ notes.txt', ["my notes.txt"], []),
        ('@odd\\"name', ['odd"name'], []),
        ("@ü.txt\n@src/engine.py", ["ü.txt", "src/engine.py"], []),
        ("@~/home.txt @../home.txt", ["~/home.txt", "../home.txt"], []),
        ("@.hidden", [".hidden"], []),
        ("mail me@a.txt", [], []),
        ("@alice, @property", [], []),
        ("what is in @src?", [], []),
        ("@src/none.py", [], ["src/none.py"]),
        ("@", [], []),
        ("@\0 @a/\0b", [], ["a/\0b"]),
    ],
)
def test_which_words_name_files(line: str, files: list[str], unknown: list[str], folder: Path) -> None:
    typed = read_mentions(line, folder)
    assert (list(typed.files), list(typed.unknown), typed.text) == (files, unknown, line)


def test_an_escaped_at_sign_is_one(folder: Path) -> None:
    typed = read_mentions(r"\@a.txt and \@b, not c\@d", folder)
    assert (typed.text, typed.files) == (r"@a.txt and @b, not c\@d", ())
    assert names_a_file(r"\@a", folder) and names_a_file("@a.txt", folder) and not names_a_file("@b @src", folder)


@pytest.mark.parametrize(
    ("before", "offered"),
    [
        ("@a", ["@a.txt"]),
        ("see @sr", ["@src/"]),
        ("@src/", ["@src/deep/", "@src/engine.py"]),
        ("@en", ["@src/engine.py", "@src/deep/enter.py"]),
        ("@my", ['@"my notes.txt"']),
        ('@"my n', ['@"my notes.txt"']),
        ("@odd", [r"@odd\"name"]),
        ("@.h", ["@.hidden"]),
        ("@~/ho", ["@~/home.txt"]),
        ("me@a", []),
        ("a", []),
        ("@none/x", []),
    ],
)
def test_how_a_name_goes_on(before: str, offered: list[str], folder: Path) -> None:
    found = list(complete_mention(before, folder))
    assert [text for text, _ in found] == offered
    assert all(before[len(before) - replaced] == "@" for _, replaced in found)


def test_what_is_offered_names_the_file(folder: Path) -> None:
    for text, _ in complete_mention("@", folder):
        if not text.endswith("/"):
            assert len(read_mentions(text, folder).files) == 1


def test_a_dropped_picture_is_named_however_the_terminal_writes_its_path(folder: Path) -> None:
    path = folder / "cat 1.png"
    for pasted in (str(path), f"'{path}'", str(path).replace(" ", r"\ "), f"file://{folder}/cat%201.png", f"{path}\n"):
        assert mention_of(pasted, folder) == '@"cat 1.png"'
    assert mention_of(str(path), folder / "src") == f'@"{path}"'
    for pasted in (str(folder / "a.txt"), "cat 1.png", str(folder), "none", "", f"{path}\n{path}", "it's"):
        assert mention_of(pasted, folder) is None


@given(st.text())
def test_any_line_can_be_read(line: str) -> None:
    read_mentions(line, Path("/nowhere"))
    list(complete_mention(line, Path("/nowhere")))
    mention_of(line, Path("/nowhere"))
