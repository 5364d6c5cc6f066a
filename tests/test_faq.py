"""`docs/faq.md`: each answer is short, and leads on to the page that says more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes.command_line import ROOT
from fakes.reader import typed_here

PAGE = ROOT / "docs" / "faq.md"
if not PAGE.is_file():
    pytest.skip("the source archive carries no docs/ but one page", allow_module_level=True)

ANSWERS = [
    part.strip().partition("\n")
    for part in re.split(r"^### ", re.sub(r"(?m)^## .*\n", "", PAGE.read_text(encoding="utf-8")), flags=re.MULTILINE)
]
MOST_LINES = 5


def test_each_question_has_a_short_answer_with_a_link() -> None:
    assert len(ANSWERS) > 20
    for question, _, answer in ANSWERS[1:]:
        assert question.endswith("?")
        lines = answer.strip().splitlines()
        assert 0 < len(lines) <= MOST_LINES, question
        assert re.search(r"\]\([^)]+\)", answer), question


BASE = "version: 1\nextends: bub:default\n"


@pytest.mark.parametrize(
    ("said", "words", "code", "printed"),
    [
        ("stages:\n", "validate", 1, "B"),
        ("stages: {}\n", "validate", 0, "fine"),
        ('profiles: {default: {plugins: [], tools: {allow: ["*"], ask: []}}}\n', "run|,bash echo", 1, "not allowed"),
        ('profiles: {default: {plugins: [], tools: {allow: ["*", bash]}}}\n', "run|,bash cmd=x", 1, "no argument"),
        ('profiles: {default: {plugins: []}}\nsettings: {api_key: "${env:NOBODY_SET_IT}"}\n', "validate", 0, "fine"),
        ("profiles: {default: {plugins: []}}\n", "plugins", 0, "telegram     not listed"),
    ],
)
def test_what_an_answer_says_of_the_file_is_so(said: str, words: str, code: int, printed: str, tmp_path: Path) -> None:
    (tmp_path / "pipelines.yaml").write_text(BASE + said, encoding="utf-8")
    environment = {"BUB_HOME": str(tmp_path / "home"), "BUB_TRUST_WORKSPACE": "1"}
    ended, seen = typed_here(words.split("|"), tmp_path, environment)
    assert (ended, printed in seen) == (code, True), seen
