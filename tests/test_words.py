"""Words of Bub on the pages: the glossary explains each, and a page leads there where it first uses a rarer one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GLOSSARY = DOCS / "words.md"

if not GLOSSARY.is_file():
    pytest.skip("the pages are only in a checkout", allow_module_level=True)

WITHOUT_LINKS = ("index.md", "decisions.md", "compat.md", "words.md", "tutorial/")
"""Pages that list others, that nobody reads from the beginning, or that explain each word themselves."""

ALSO_ENGLISH = {
    *("agent", "anchor", "finding", "graph", "handler", "implementation", "kind", "lock", "schedule", "setting"),
    *("skill", "stranger", "trust", "value", "window"),
}
"""Words that pages also use in their usual sense, or that readers know, so no test can say if a use needs a link."""

_ENTRY = re.compile(r"^### (.+)\n\n((?:.+\n)+)", re.MULTILINE)
_NO_PROSE = re.compile(
    r"^ *```.*?^ *```$|^#[^\n]*$|<!--.*?-->|<[^>\n]+>|``.+?``|`[^`]+`|\[[^\]]*\]\([^)]*\)", re.DOTALL | re.MULTILINE
)
_LEADS_TO = re.compile(r"\]\(([^)#]+)")


def read_glossary() -> dict[str, str]:
    """Return the meaning of each word."""
    return dict(_ENTRY.findall(GLOSSARY.read_text(encoding="utf-8")))


def first(pattern: str, text: str) -> float:
    """Return the place of the first match, or infinity."""
    found = re.search(pattern, text, re.IGNORECASE)
    return found.start() if found else float("inf")


def words_without_link(page: str, text: str, known: str) -> Iterator[tuple[str, int]]:
    """Yield each rarer word, with its line, that a page uses before it explains it or leads to what explains it."""
    prose = _NO_PROSE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    for word, meaning in read_glossary().items():
        one = rf"{re.escape(word)}(?:s|es)?\b"
        italic = rf"(?<!\*)\*(?:an? |the )?{one}\*"
        if word in ALSO_ENGLISH or page in _LEADS_TO.findall(meaning) or first(italic, known) < len(known):
            continue
        used = first(rf"(?<![\w*-]){one}(?![*-])", prose)
        explained = min(first(italic, text), first(rf"\[(?:[^\]]*[^\w\]])?{one}[^\]]*\]\(", text))
        if used < explained and used < len(prose):
            yield word, prose.count("\n", 0, int(used)) + 1


PAGES = sorted(
    page.relative_to(DOCS).as_posix()
    for page in DOCS.rglob("*.md")
    if not page.name.endswith(".zh.md") and not page.relative_to(DOCS).as_posix().startswith(WITHOUT_LINKS)
)


@pytest.mark.parametrize("page", PAGES)
def test_the_first_use_of_a_rarer_word_leads_to_its_meaning(page: str) -> None:
    known = (ROOT / "README.md").read_text(encoding="utf-8")
    assert list(words_without_link(page, (DOCS / page).read_text(encoding="utf-8"), known)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("An inbox.", [("inbox", 1)]),
        ("# The inbox\n\nIt waits in the inbox.", [("inbox", 3)]),
        ("The [inbox](words.md#inbox), and an inbox.", []),
        ("The *inbox* keeps it. Inboxes are files.", []),
        ("An inbox, and an [inbox](words.md#inbox).", [("inbox", 1)]),
        ("Type `bub inbox list`.", []),
        ("```\ninbox\n```", []),
    ],
)
def test_a_link_or_an_explanation_has_to_come_first(text: str, found: list[tuple[str, int]]) -> None:
    assert list(words_without_link("page.md", text, "")) == found
