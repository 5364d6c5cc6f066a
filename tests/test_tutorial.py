"""The tutorial, followed word for word: its files, its commands, what it shows at each step, and its links."""

from __future__ import annotations

import re
from pathlib import Path

import installs
import pytest
from fakes.telegram import serving_bots
from fakes.tutorial import Reader, is_shown

from bub.agent.local import parts

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial"
if not TUTORIAL.is_dir():
    pytest.skip("the tutorial is part of a checkout only", allow_module_level=True)

STEPS = sorted(page for page in TUTORIAL.glob("[1-9]-*.md") if not page.name.endswith(".zh.md"))


@pytest.mark.model
@pytest.mark.skipif(
    not parts.status(Path("/dev/null")).ready, reason="the small model is not in this environment: `make test`"
)
@pytest.mark.timeout(180)  # eight pages
def test_who_follows_each_step_sees_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "reader"
    home.mkdir()
    monkeypatch.delenv("BUB_HOME")
    monkeypatch.setenv("HOME", str(home))
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "rita@example.org")  # what git asks for, as step 7 says
    with serving_bots(tmp_path / "bots.db") as bots:
        reader = Reader(home, bots)
        for page in STEPS:
            reader.follow(page)
    said = " ".join(reader.typed)
    assert [command for command in ("validate", "test", "prove", "diff", "trust") if f"bub {command}" not in said] == []
    assert set(installs.lines_of_readme()) & set(reader.typed) == {"pip install ."}


def test_what_differs_from_a_page_is_noticed() -> None:
    assert is_shown("7 passed in 1 file\n", "7 passed in 1 file")
    assert is_shown("one\ntwo\nthree\n", "one\n…\nthr…")
    assert not is_shown("6 passed in 1 file\n", "7 passed in 1 file")
    assert not is_shown("7 passed in 1 file\nand more\n", "7 passed in 1 file")
    assert not is_shown("something\n", "")


def test_each_step_leads_back_and_on() -> None:
    contents = (TUTORIAL / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[.*?\]\((.*?)\)", contents, re.MULTILINE) == [page.name for page in STEPS]
    for number, page in enumerate(STEPS):
        title, _, ways = page.read_text(encoding="utf-8").splitlines()[:3]
        assert title.startswith(f"# {number + 1}. ")
        assert f"[{title.removeprefix('# ')}]({page.name})" in contents
        wanted = ["README.md", *(one.name for one in STEPS[max(number - 1, 0) : number + 2] if one != page)]
        wanted += [f"{page.stem}.zh.md"]
        assert re.findall(r"\]\((.*?)\)", ways) == wanted
        assert "**Does it look different?**" in page.read_text(encoding="utf-8")


def test_the_steps_take_half_an_hour() -> None:
    contents = (TUTORIAL / "README.md").read_text(encoding="utf-8")
    assert sum(map(int, re.findall(r"\| (\d+) \|$", contents, re.MULTILINE))) <= 30
