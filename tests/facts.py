"""The facts that the documentation names: `python -m tests.facts REVISION` prints those that are named no more.

A fact is what a reader looks up and types: quoted code, a block of code, the first cell of a row of a table, a number
with its unit. Prose can be written anew as one likes; a fact may go only if what it speaks of has gone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "docs")

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"``(.+?)``|`([^`]+)`", re.DOTALL)
_ROW = re.compile(r"^\| *(.*?) *\|", re.MULTILINE)
_UNIT = r"(?:%|ms|µs|s|seconds?|minutes?|hours?|days?|bytes|KB|MB|GB|KiB|MiB|tokens|characters|lines|messages|turns)"
_NUMBER = re.compile(rf"(?<![\w.])(\d[\d,.]*) ?({_UNIT})(?!\w)")


def facts_of(text: str) -> set[str]:
    """Return the facts that a page names, each on one line."""
    return {" ".join(fact.split()) for fact in _find(text)} - {""}


def _is_english(name: str) -> bool:
    """Return whether a page has facts of its own; those in Chinese have those of their English pages."""
    return not name.endswith(".zh.md")


def _find(text: str) -> Iterator[str]:
    for block in _BLOCK.finditer(text):
        yield f"```{block[1]} {block[2]}"
    prose = _BLOCK.sub("", text)
    for code in _CODE.finditer(prose):
        yield f"`{code[1] or code[2]}`"
    for row in _ROW.finditer(prose):
        if not set(row[1]) <= set("-: "):
            yield f"| {row[1]}"
    for number in _NUMBER.finditer(_CODE.sub("", prose)):
        yield f"{number[1]} {number[2]}"


def facts_now(root: Path = ROOT) -> Mapping[str, set[str]]:
    """Return the facts of each page of a checkout, by the page's path."""
    found = [root / name for name in PAGES]
    pages = [page for one in found for page in ([one] if one.is_file() else sorted(one.rglob("*.md")))]
    texts = {
        page.relative_to(root).as_posix(): page.read_text(encoding="utf-8") for page in pages if _is_english(page.name)
    }
    return {name: facts_of(text) for name, text in texts.items()}


def facts_at(revision: str, root: Path = ROOT) -> Mapping[str, set[str]]:
    """Return the facts that each page named at a revision of git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout

    names = git("ls-tree", "-r", "--name-only", revision, *PAGES).split("\n")
    return {
        name: facts_of(git("show", f"{revision}:{name}"))
        for name in names
        if name.endswith(".md") and _is_english(name)
    }


def missing(before: Mapping[str, set[str]], now: Mapping[str, set[str]]) -> Iterator[tuple[str, str, str]]:
    """Yield each fact that its page names no more, with the page that names it instead, if any does."""
    for page, facts in before.items():
        for fact in sorted(facts - now.get(page, set())):
            yield page, fact, next((other for other, there in now.items() if fact in there), "")


def main(revision: str, *pages: str) -> int:
    """Print the facts of a revision that are gone, of all pages or of some; 1 if there are any."""
    gone = [(page, fact) for page, fact, other in missing(facts_at(revision), facts_now()) if not other]
    for page, fact in gone:
        if not pages or page in pages:
            print(f"{page}: {fact}")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
